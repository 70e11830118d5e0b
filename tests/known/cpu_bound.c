/* One thread that computes, and allocates nothing.
   Verdict: computing */
#include "known.h"

__attribute__((noinline)) static void simulate(void) { compute(1000000); }

int main(int words, char **word) {
    begin(words, word);
    while (!is_over()) simulate();
}
