/* Threads that share two arenas of the C library: they wait for the locks of both.
   Verdict: allocator_contention */
#include "arenas.h"

int main(int words, char **word) {
    begin(words, word);
    contend(2, 12);
}
