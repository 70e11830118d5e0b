/* Threads that take memory, keep a hundredth of it, all over, and sleep.
   Verdict: memory_held */
#include "known.h"

enum { THREADS = 6, BLOCKS = 40000, BYTES = 500 };

static void *work(void *unused) {
    static __thread char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BYTES);
        memset(blocks[i], 1, BYTES);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 100 != 99) free(blocks[i]);
    }
    nap(known_end - now());
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(THREADS, work);
}
