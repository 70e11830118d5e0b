/* Threads that allocate in every way, hand objects to each other and free what others made. Ends by
 * the way that its second argument names. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 512 };
static _Atomic(void *) slots[SLOTS];
static int rounds;

static void *make(unsigned *seed, size_t size) {
    void *object = NULL;
    switch (rand_r(seed) % 8) {
    case 0: return calloc(3, size / 3 + 1);
    case 1: return aligned_alloc(64, size);
    case 2: return posix_memalign(&object, 256, size) ? NULL : object;
    case 3: return memalign(32, size);
    case 4: return realloc(NULL, size);
    case 5: return reallocarray(malloc(1), 2, size);
    case 6: return rand_r(seed) % 64 ? malloc(size) : valloc(size);
    default: return malloc(size);
    }
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        size_t size = (size_t)rand_r(&seed) % (rand_r(&seed) % 100 ? 600 : 200000);
        void *object = make(&seed, size);
        if (rand_r(&seed) % 4 == 0) object = realloc(object, size * 2 + 1);
        memset(object, 1, size ? 1 : 0);
        free(atomic_exchange(&slots[rand_r(&seed) % SLOTS], object));
    }
    free(realloc(malloc(10), 0));
    /* No allocator has so much. */
    volatile size_t huge = PTRDIFF_MAX;
    if (malloc(huge) || calloc(huge, 4) || realloc(NULL, huge)) abort();
    return NULL;
}

static void on_alarm(int signal) {
    (void)signal;
    int saved = errno;
    free(malloc(40));
    errno = saved;
}

static void work_in_threads(int threads) {
    pthread_t thread[64];
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int threads = atoi(argv[1]);
    const char *end = argv[2];
    rounds = atoi(argv[3]);
    if (!strcmp(end, "many")) {
        for (int i = 0; i < threads; i += 50) work_in_threads(50);
        return 0;
    }
    if (!strcmp(end, "signals")) {
        struct sigaction action = {.sa_handler = on_alarm};
        sigaction(SIGALRM, &action, NULL);
        for (int i = 0; i < 1000; i++) {
            free(malloc(100));
            raise(SIGALRM);
        }
        return 0;
    }
    if (threads) work_in_threads(threads);
    else work((void *)1);
    if (!strcmp(end, "fork")) {
        if (fork() == 0) {
            work_in_threads(2);
            /* What the parent has made. */
            for (int i = 0; i < SLOTS; i++) free(atomic_exchange(&slots[i], NULL));
            _exit(0);
        }
        work((void *)9);
        wait(NULL);
    }
    if (!strcmp(end, "exec")) execl("/proc/self/exe", argv[0], "1", "return", argv[3], NULL);
    if (!strcmp(end, "kill")) raise(SIGKILL);
    return 0;
}
