/* A buffer that is made longer page by page until it has 64 MiB, and is begun anew then.
   Verdict: page_faults */
#include "known.h"

enum { PAGE = 4096, BYTES = 64 << 20 };

int main(int words, char **word) {
    begin(words, word);
    while (!is_over()) {
        char *buffer = NULL;
        for (size_t bytes = PAGE; bytes <= BYTES; bytes += PAGE) {
            buffer = realloc(buffer, bytes);
            memset(buffer + bytes - PAGE, 1, PAGE);
        }
        free(buffer);
    }
}
