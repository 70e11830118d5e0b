/* What the known programs share: how long to run, clocks, and threads. */
#ifndef KNOWN_H
#define KNOWN_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MOST = 64 };

static double known_end;

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The first argument is for how many seconds to run. */
static inline void begin(int words, char **word) {
    known_end = now() + (words > 1 ? atof(word[1]) : 1.5);
}

static inline int is_over(void) { return now() >= known_end; }

static inline void nap(double seconds) {
    struct timespec time;
    time.tv_sec = (time_t)seconds;
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

/* Work that no compiler leaves out. */
static inline void compute(int steps) {
    static volatile unsigned long sink;
    unsigned long state = 1;
    for (int i = 0; i < steps; i++) state = state * 6364136223846793005UL + 1442695040888963407UL;
    if (state == 0) sink = state;
}

/* Runs a function in so many threads, and waits for them. */
static inline void in_threads(int count, void *(*work)(void *)) {
    pthread_t threads[THREADS_MOST];
    for (long i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}
#endif
