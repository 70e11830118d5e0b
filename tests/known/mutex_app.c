/* Threads that wait for a lock of the program; the allocator is used, and innocent.
   Verdict: other_lock */
#include "known.h"

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void update_table(void) {
    pthread_mutex_lock(&table_lock);
    compute(20000);
    pthread_mutex_unlock(&table_lock);
}

static void *work(void *unused) {
    while (!is_over()) {
        char *volatile block = malloc(100);
        update_table();
        free(block);
    }
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(6, work);
}
