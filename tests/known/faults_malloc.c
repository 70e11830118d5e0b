/* Allocates blocks so large that the C library maps each, touches and frees them.
   Verdict: page_faults */
#include "known.h"

enum { BYTES = 40 << 20, PAGE = 4096 };

__attribute__((noinline)) static void process_frame(void) {
    volatile char *frame = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i += PAGE) frame[i] = 1;
    free((void *)frame);
}

int main(int words, char **word) {
    begin(words, word);
    while (!is_over()) process_frame();
}
