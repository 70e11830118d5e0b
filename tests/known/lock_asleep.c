/* Threads that wait for a lock of the program whose holder sleeps, as one does that writes a file:
   the processors have nothing to do.
   Verdict: other_lock */
#include "known.h"

static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void write_journal(void) {
    pthread_mutex_lock(&journal_lock);
    nap(0.003);
    pthread_mutex_unlock(&journal_lock);
}

static void *work(void *unused) {
    while (!is_over()) write_journal();
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(6, work);
}
