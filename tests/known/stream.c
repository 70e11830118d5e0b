/* Threads that are as fast as memory is.
   Verdict: computing */
#include "known.h"

enum { THREADS = 2, NUMBERS = 4 << 20 };

static void *work(void *unused) {
    double *from = malloc(NUMBERS * sizeof *from), *to = malloc(NUMBERS * sizeof *to);
    for (int i = 0; i < NUMBERS; i++) from[i] = to[i] = i;
    while (!is_over()) {
        for (int i = 0; i < NUMBERS; i++) to[i] = to[i] * 0.5 + from[i];
    }
    free(from);
    free(to);
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(THREADS, work);
}
