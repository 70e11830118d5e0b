/* Threads that spin for a lock of the program.
   Verdict: spinning */
#include "known.h"

static pthread_spinlock_t lock;

__attribute__((noinline)) static void take_ticket(void) {
    pthread_spin_lock(&lock);
    compute(2000);
    pthread_spin_unlock(&lock);
}

static void *work(void *unused) {
    while (!is_over()) take_ticket();
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
    in_threads(4, work);
}
