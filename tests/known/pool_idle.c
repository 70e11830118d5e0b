/* A pool of threads that wait on a condition variable, with next to nothing to do.
   Verdict: idle */
#include "known.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_work = PTHREAD_COND_INITIALIZER;
static int jobs, stop;

__attribute__((noinline)) static void *serve(void *unused) {
    pthread_mutex_lock(&lock);
    while (!stop) {
        while (jobs > 0) {
            jobs--;
            compute(1000);
        }
        if (!stop) pthread_cond_wait(&has_work, &lock);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *feed(void *unused) {
    while (!is_over()) {
        nap(0.02);
        pthread_mutex_lock(&lock);
        jobs++;
        pthread_cond_signal(&has_work);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    stop = 1;
    pthread_cond_broadcast(&has_work);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *work(void *number) { return number ? serve(NULL) : feed(NULL); }

int main(int words, char **word) {
    begin(words, word);
    in_threads(9, work);
}
