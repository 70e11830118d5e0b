/* Huge pages of which one byte each is written to, and threads of which one never rests; then it
   says so, and ends with its input. */
#include "known.h"

#include <sys/mman.h>

enum { HUGE_BYTES = 2 << 20, PAGES = 8 };

static void *run(void *unused) {
    for (;;) compute(1000000);
    return unused;
}

int main(void) {
    char *memory = aligned_alloc(HUGE_BYTES, PAGES * HUGE_BYTES);
    if (!memory || madvise(memory, PAGES * HUGE_BYTES, MADV_HUGEPAGE)) return 1;
    for (int i = 0; i < PAGES; i++) memory[(size_t)i * HUGE_BYTES] = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        fputs(line, stdout);
        fflush(stdout);
    }
}
