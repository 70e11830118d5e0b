/* Each thread frees a small block that the main thread allocated beside another's, allocates one of
   the same size, and gets that memory again: a cache line that two threads write.
   Verdict: false_sharing */
#include "known.h"

static char *given[2];

__attribute__((noinline)) static void count(volatile long *counter) {
    for (int i = 0; i < 100000; i++) *counter += 1;
}

static void *work(void *number) {
    free(given[(long)number]);
    long *own = malloc(sizeof *own);
    *own = 0;
    while (!is_over()) count(own);
    return NULL;
}

int main(int words, char **word) {
    begin(words, word);
    /* Blocks of 32 bytes lie in one line if the first begins one. */
    char *spent[64];
    int count = 0;
    do {
        spent[count] = malloc(8);
        given[0] = spent[count];
    } while (((unsigned long)given[0] & 63) != 0 && ++count < 64);
    given[1] = malloc(8);
    in_threads(2, work);
}
