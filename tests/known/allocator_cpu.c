/* One thread that does little else than allocate and free.
   Verdict: allocator_cpu */
#include "known.h"

enum { BLOCKS = 512 };

__attribute__((noinline)) static void parse(void **blocks) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(16 + (size_t)(i * 37 % 900));
    for (int i = 0; i < BLOCKS; i++) free(blocks[i * 101 % BLOCKS]);
}

int main(int words, char **word) {
    static void *blocks[BLOCKS];
    begin(words, word);
    while (!is_over()) parse(blocks);
}
