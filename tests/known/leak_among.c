/* Threads that compute, and one among them that keeps all it is given.
   Verdict: memory_grows */
#include "known.h"

enum { THREADS = 3, BLOCKS = 200, BYTES = 1000 };

static void *work(void *number) {
    while (!is_over()) {
        if (number) {
            compute(100000);
            continue;
        }
        for (int i = 0; i < BLOCKS; i++) memset(malloc(BYTES), 1, BYTES);
        nap(0.005);
    }
    return NULL;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(THREADS, work);
}
