/* The C library maps every block, since its threshold is fixed: mapping by way of malloc.
   Verdict: mapping_storm */
#include "known.h"

enum { BYTES = 200 << 10 };

__attribute__((noinline)) static void use_buffer(void) {
    volatile char *buffer = malloc(BYTES);
    buffer[0] = buffer[BYTES / 2] = 1;
    free((void *)buffer);
}

int main(int words, char **word) {
    begin(words, word);
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    while (!is_over()) use_buffer();
}
