/* Fills memory with small blocks, frees all but every fiftieth, and goes on without it: what is
   left holds nearly all of the memory.
   Verdict: memory_held */
#include "known.h"

enum { COUNT = 400000, KEEP = 50, BLOCK = 200 };

static void *blocks[COUNT];

__attribute__((noinline)) static void fill(void) {
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = malloc(BLOCK);
        memset(blocks[i], 1, BLOCK);
    }
}

__attribute__((noinline)) static void thin_out(void) {
    for (int i = 0; i < COUNT; i++) {
        if (i % KEEP) free(blocks[i]);
    }
}

int main(int words, char **word) {
    begin(words, word);
    fill();
    thin_out();
    while (!is_over()) {
        compute(100000);
        nap(0.01);
    }
}
