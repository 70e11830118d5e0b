/* Tells the system again and again that a few pages are not needed, and touches them again.
   Verdict: advice_storm */
#include "known.h"

#include <sys/mman.h>

enum { BYTES = 1 << 20, PIECE = 16 << 10, PAGE = 4096 };

__attribute__((noinline)) static void clear(char *piece) {
    madvise(piece, PIECE, MADV_DONTNEED);
    for (int i = 0; i < PIECE; i += PAGE) piece[i] = 1;
}

int main(int words, char **word) {
    begin(words, word);
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    madvise(memory, BYTES, MADV_NOHUGEPAGE);
    while (!is_over()) {
        for (int i = 0; i < BYTES; i += PIECE) clear(memory + i);
    }
}
