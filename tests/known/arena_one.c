/* Threads that allocate from the C library's one arena: they wait for its lock.
   Verdict: allocator_contention */
#include "known.h"

enum { BLOCKS = 64 };

__attribute__((noinline)) static void grow(void **blocks) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(2000 + (size_t)i * 16);
}

__attribute__((noinline)) static void shrink(void **blocks) {
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static void *work(void *unused) {
    void *blocks[BLOCKS];
    while (!is_over()) {
        grow(blocks);
        shrink(blocks);
    }
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    mallopt(M_ARENA_MAX, 1);
    in_threads(8, work);
}
