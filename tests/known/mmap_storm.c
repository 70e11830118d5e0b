/* Maps and unmaps small pieces of memory, of which one page is touched.
   Verdict: mapping_storm */
#include "known.h"

#include <sys/mman.h>

enum { BYTES = 64 << 10 };

__attribute__((noinline)) static void use_piece(void) {
    char *piece = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) abort();
    piece[0] = 1;
    munmap(piece, BYTES);
}

int main(int words, char **word) {
    begin(words, word);
    while (!is_over()) use_piece();
}
