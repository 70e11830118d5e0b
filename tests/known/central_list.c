/* Threads that hand each other's blocks back: tcmalloc moves them through its central lists, each
   of which has a lock that is spun for, and slept for then.
   Allocator: tcmalloc
   Verdict: allocator_contention */
#include "known.h"

#include <stdatomic.h>

enum { THREADS = 24, BLOCKS = 20000, BYTES = 200 };

/* It reads this when it is loaded: how much all threads may keep at their hand, which is little. */
static const char variable[] = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES";

static _Atomic(void **) batches[THREADS];

__attribute__((noinline)) static void **fill(void) {
    void **batch = malloc(BLOCKS * sizeof *batch);
    for (int i = 0; i < BLOCKS; i++) batch[i] = malloc(BYTES);
    return batch;
}

__attribute__((noinline)) static void drop(void **batch) {
    if (!batch) return;
    for (int i = 0; i < BLOCKS; i++) free(batch[i]);
    free(batch);
}

static void *work(void *number) {
    long next = ((long)number + 1) % THREADS;
    while (!is_over()) drop(atomic_exchange(&batches[next], fill()));
    return NULL;
}

int main(int words, char **word) {
    if (!getenv(variable)) {
        setenv(variable, "524288", 1);
        execv("/proc/self/exe", word);
        return 1;
    }
    begin(words, word);
    in_threads(THREADS, work);
}
