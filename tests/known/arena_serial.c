/* Threads that allocate from an allocator with one lock for everything.
   Allocator: model:serial
   Verdict: allocator_contention */
#include "known.h"

enum { BLOCKS = 64 };

__attribute__((noinline)) static void serve(void) {
    char *volatile blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(64 + (size_t)i * 16);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static void *work(void *unused) {
    while (!is_over()) serve();
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(8, work);
}
