/* Threads that allocate from the C library's one arena: they wait for its lock.
   Verdict: allocator_contention */
#include "arenas.h"

int main(int words, char **word) {
    begin(words, word);
    contend(1, 8);
}
