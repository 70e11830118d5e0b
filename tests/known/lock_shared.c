/* Processes that wait for a lock in memory which they share.
   Verdict: other_lock */
#include "known.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PROCESSES = 6 };

int main(int words, char **word) {
    begin(words, word);
    pthread_mutex_t *lock =
        mmap(NULL, sizeof *lock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(lock, &shared);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            while (!is_over()) {
                pthread_mutex_lock(lock);
                compute(20000);
                pthread_mutex_unlock(lock);
            }
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {}
}
