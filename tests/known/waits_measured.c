/* Pairs of threads that wait for each other in the way that the second argument says, and sleep in
   between. They measure how long they really wait, without the time in which they ran, or wanted
   to. Prints that and the time of all of them, in seconds. It has no verdict: it is what the LCK of
   top is compared with. */
#include "known.h"
#include <fcntl.h>
#include <semaphore.h>

enum { THREADS = 12, PAIRS = THREADS / 2, MEAN_US = 5000 };

struct pair {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    pthread_cond_t passed;
    pthread_barrier_t barrier;
    sem_t semaphores[2];
    int turn;
};

static struct pair pairs[PAIRS];
static const char *way;
static unsigned long rounds;

/* What all threads waited, and how long they were there. */
static pthread_mutex_t sums = PTHREAD_MUTEX_INITIALIZER;
static double all_waited, all_there;

static int is(const char *name) { return strcmp(way, name) == 0; }

/* As long as another time, so that pairs keep no step with each other. */
static void nap_some(unsigned *state) { nap(2e-6 * (double)(rand_r(state) % MEAN_US)); }

static void wait_for_partner(struct pair *pair, int own) {
    if (is("mutex")) pthread_mutex_lock(&pair->mutex);
    if (is("rwlock") && own) pthread_rwlock_rdlock(&pair->rwlock);
    if (is("rwlock") && !own) pthread_rwlock_wrlock(&pair->rwlock);
    if (is("semaphore")) sem_wait(&pair->semaphores[own]);
    if (is("barrier")) pthread_barrier_wait(&pair->barrier);
    if (is("condition")) {
        pthread_mutex_lock(&pair->mutex);
        while (pair->turn != own) pthread_cond_wait(&pair->passed, &pair->mutex);
        pthread_mutex_unlock(&pair->mutex);
    }
}

static void let_partner_on(struct pair *pair, int own) {
    if (is("mutex")) pthread_mutex_unlock(&pair->mutex);
    if (is("rwlock")) pthread_rwlock_unlock(&pair->rwlock);
    if (is("semaphore")) sem_post(&pair->semaphores[!own]);
    if (is("condition")) {
        pthread_mutex_lock(&pair->mutex);
        pair->turn = !own;
        pthread_cond_signal(&pair->passed);
        pthread_mutex_unlock(&pair->mutex);
    }
}

/* The time that went by for a thread in which it neither ran nor wanted to. */
static double at_rest(int schedstat) {
    struct timespec run;
    char text[64] = {0};
    unsigned long long ran = 0, delay = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &run);
    if (pread(schedstat, text, sizeof text - 1, 0) > 0) sscanf(text, "%llu %llu", &ran, &delay);
    return now() - (double)run.tv_sec - (double)run.tv_nsec / 1e9 - (double)delay / 1e9;
}

static void *work(void *numbered) {
    long number = (long)numbered;
    struct pair *pair = &pairs[number / 2];
    int own = number % 2;
    unsigned state = (unsigned)number + 1;
    int schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
    double began = now(), waited = 0;
    pthread_setname_np(pthread_self(), "waiter");
    for (unsigned long n = 0; n < rounds && (is("barrier") || !is_over()); n++) {
        double before = at_rest(schedstat);
        wait_for_partner(pair, own);
        waited += at_rest(schedstat) - before;
        nap_some(&state);
        let_partner_on(pair, own);
        if (is("mutex") || is("rwlock")) nap_some(&state);
    }
    pthread_mutex_lock(&sums);
    all_waited += waited;
    all_there += now() - began;
    pthread_mutex_unlock(&sums);
    close(schedstat);
    return NULL;
}

int main(int words, char **word) {
    begin(words, word);
    way = words > 2 ? word[2] : "mutex";
    /* Those that meet have to agree on when it is over: each round the later one decides. */
    double seconds = words > 1 ? atof(word[1]) : 1.5;
    rounds = is("barrier") ? (unsigned long)(seconds * 1e6 / (MEAN_US * 4.0 / 3)) : ~0UL;
    for (int i = 0; i < PAIRS; i++) {
        pthread_mutex_init(&pairs[i].mutex, NULL);
        pthread_rwlock_init(&pairs[i].rwlock, NULL);
        pthread_cond_init(&pairs[i].passed, NULL);
        pthread_barrier_init(&pairs[i].barrier, NULL, 2);
        sem_init(&pairs[i].semaphores[0], 0, 1);
        sem_init(&pairs[i].semaphores[1], 0, 0);
    }
    in_threads(THREADS, work);
    printf("%f %f\n", all_waited, all_there);
}
