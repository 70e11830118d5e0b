/* A program that is over at once.
   Verdict: too_short */
#include "known.h"

int main(void) {
    for (int i = 0; i < 1000; i++) free(malloc(1000));
    compute(1000000);
}
