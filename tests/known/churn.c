/* Threads that begin, do next to nothing, and end.
   Verdict: thread_churn */
#include "known.h"

static void *task(void *unused) {
    free(malloc(100));
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    while (!is_over()) in_threads(4, task);
}
