/* Threads that wait for a lock of readers and writers of the program: all of them write.
   Verdict: other_lock */
#include "known.h"

static pthread_rwlock_t map_lock = PTHREAD_RWLOCK_INITIALIZER;

__attribute__((noinline)) static void change_map(void) {
    pthread_rwlock_wrlock(&map_lock);
    compute(50000);
    pthread_rwlock_unlock(&map_lock);
}

static void *work(void *unused) {
    while (!is_over()) change_map();
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(6, work);
}
