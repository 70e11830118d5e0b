/* Threads that allocate from so many arenas of the C library, and wait for their locks. */
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

static inline void contend(int arenas, int threads) {
    mallopt(M_ARENA_MAX, arenas);
    in_threads(threads, work);
}
