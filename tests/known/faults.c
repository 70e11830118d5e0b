/* Touches large memory for the first time, gives it back, and begins anew.
   Verdict: page_faults */
#include "known.h"

#include <sys/mman.h>

enum { BYTES = 32 << 20, PAGE = 4096 };

int main(int words, char **word) {
    begin(words, word);
    while (!is_over()) {
        char *memory =
            mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return 1;
        madvise(memory, BYTES, MADV_NOHUGEPAGE);
        for (size_t i = 0; i < BYTES; i += PAGE) memory[i] = 1;
        munmap(memory, BYTES);
    }
}
