/* Many more threads that compute than there are processors.
   Verdict: starved */
#include "known.h"

__attribute__((noinline)) static void simulate(void) { compute(1000000); }

static void *work(void *unused) {
    while (!is_over()) simulate();
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    int count = (int)sysconf(_SC_NPROCESSORS_ONLN) * 6;
    in_threads(count < THREADS_MOST ? count : THREADS_MOST, work);
}
