/* Threads that wait for the C library's one arena, and count what they get done. Prints how many
   blocks they were given. */
#include "arenas.h"

static unsigned long given;

static void *counted(void *unused) {
    void *blocks[BLOCKS];
    unsigned long own = 0;
    while (!is_over()) {
        grow(blocks);
        shrink(blocks);
        own += BLOCKS;
    }
    __atomic_add_fetch(&given, own, __ATOMIC_RELAXED);
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    mallopt(M_ARENA_MAX, 1);
    in_threads(8, counted);
    printf("%lu\n", given);
}
