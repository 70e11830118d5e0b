/* Threads that use the library of store.c all together. */
#include "known.h"

void store_put(unsigned long value);

static void *work(void *unused) {
    while (!is_over()) store_put(7);
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(6, work);
}
