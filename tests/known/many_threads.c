/* 256 threads, of which half wake ten times a second: what it costs to observe so many. */
#include "known.h"

enum { COUNT = 256 };

static void *work(void *number) {
    if ((long)number % 2) {
        while (!is_over()) nap(0.1);
    } else {
        nap(known_end - now());
    }
    return NULL;
}

int main(int words, char **word) {
    pthread_t threads[COUNT];
    begin(words, word);
    for (long i = 0; i < COUNT; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < COUNT; i++) pthread_join(threads[i], NULL);
}
