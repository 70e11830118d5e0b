/* Makes pages writable and read-only again, one after the other, as a compiler at run time does.
   Verdict: mapping_storm */
#include "known.h"

#include <sys/mman.h>

enum { PAGES = 256, BYTES = 4096 };

int main(int words, char **word) {
    begin(words, word);
    char *code = mmap(NULL, PAGES * BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned n = 0; n % 256 || !is_over(); n++) {
        char *page = code + n * 2 % PAGES * BYTES;
        mprotect(page, BYTES, PROT_READ | PROT_WRITE);
        page[n % BYTES] = 1;
        mprotect(page, BYTES, PROT_READ);
    }
}
