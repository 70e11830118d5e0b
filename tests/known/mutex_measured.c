/* Threads that hold a lock asleep, and measure how long they wait for it. Prints that, and for how
   long they were runnable without a processor, in seconds of all threads.
   Verdict: other_lock */
#include "known.h"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static double waited, starved;

static double run_queue_delay(void) {
    unsigned long long run = 0, delay = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file && fscanf(file, "%llu %llu", &run, &delay) != 2) delay = 0;
    if (file) fclose(file);
    return (double)delay / 1e9;
}

__attribute__((noinline)) static void take_turn(double *own) {
    double before = now();
    pthread_mutex_lock(&turn);
    *own += now() - before;
    nap(0.002);
    pthread_mutex_unlock(&turn);
}

static void *work(void *unused) {
    double own = 0;
    while (!is_over()) {
        take_turn(&own);
        nap(0.004);
    }
    pthread_mutex_lock(&turn);
    waited += own;
    starved += run_queue_delay();
    pthread_mutex_unlock(&turn);
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(4, work);
    printf("%f %f\n", waited, starved);
}
