/* Memory of two threads, of which some is freed again, and a large block that nobody writes to. Says
   its number and how many bytes of blocks it has in use, those of the large one apart, and waits to be
   killed. With "busy", four threads go on allocating and freeing, and the first one forks. */
#include "known.h"

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 60000, LARGE = 64 << 20 };

static void *blocks[2][BLOCKS];
static pthread_barrier_t filled;

static void fill(void **own, size_t size) {
    for (int i = 0; i < BLOCKS; i++) {
        own[i] = malloc(size + (size_t)(i % 7) * 40);
        memset(own[i], 1, size);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3) {
            free(own[i]);
            own[i] = NULL;
        }
    pthread_barrier_wait(&filled);
}

static void *run(void *unused) {
    fill(blocks[1], 300);
    for (;;) pause();
    return unused;
}

static void *churn(void *unused) {
    void *own[200] = {0};
    for (unsigned i = 0;; i++) {
        free(own[i % 200]);
        own[i % 200] = malloc(16 + i % 5000);
    }
    return unused;
}

static size_t in_use(void) {
    size_t sum = 0;
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < BLOCKS; i++)
            if (blocks[t][i]) sum += malloc_usable_size(blocks[t][i]);
    return sum;
}

int main(int count, char **words) {
    pthread_t thread;
    pthread_barrier_init(&filled, NULL, 2);
    pthread_create(&thread, NULL, run, NULL);
    fill(blocks[0], 40);
    void *volatile large = malloc(LARGE);
    int is_busy = count > 1 && !strcmp(words[1], "busy");
    for (int i = 0; i < 4 && is_busy; i++) pthread_create(&thread, NULL, churn, NULL);
    printf("%d %zu %zu\n", getpid(), in_use(), malloc_usable_size(large));
    fflush(stdout);
    while (is_busy) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(100));
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    for (;;) pause();
}
