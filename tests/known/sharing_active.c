/* Two threads count in words that the allocator gave them out of one cache line.
   Verdict: false_sharing */
#include "known.h"

static volatile long *counters[2];

__attribute__((noinline)) static void count(volatile long *counter) {
    for (int i = 0; i < 100000; i++) *counter += 1;
}

static void *work(void *number) {
    while (!is_over()) count(counters[(long)number]);
    return NULL;
}

int main(int words, char **word) {
    begin(words, word);
    long *line = aligned_alloc(64, 64);
    counters[0] = &line[1];
    counters[1] = &line[4];
    in_threads(2, work);
}
