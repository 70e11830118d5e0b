/* Memory of two threads, of which some is freed again, and large blocks. Echoes the first line of its
   input; at each further one it says what the allocator says of all that: in use, in large blocks,
   in fast bins, free; in bytes. Ends with its input. */
#include "known.h"

enum { BLOCKS = 60000 };

static void *blocks[2][BLOCKS];
static pthread_barrier_t filled;

static void fill(void **own, size_t size) {
    for (int i = 0; i < BLOCKS; i++) {
        own[i] = malloc(size + (size_t)(i % 7) * 40);
        memset(own[i], 1, size);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3) free(own[i]);
    pthread_barrier_wait(&filled);
}

static void *run(void *unused) {
    fill(blocks[1], 300);
    for (;;) pause();
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&filled, NULL, 2);
    pthread_create(&thread, NULL, run, NULL);
    fill(blocks[0], 40);
    for (int i = 0; i < 3; i++) memset(malloc(5 << 20), 1, 5 << 20);
    char line[64];
    if (fgets(line, sizeof line, stdin)) fputs(line, stdout);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct mallinfo2 info = mallinfo2();
        printf("%zu %zu %zu %zu\n", info.uordblks, info.hblkhd, info.fsmblks, info.fordblks);
        fflush(stdout);
    }
}
