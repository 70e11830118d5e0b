/* One thread that a timer wakes five hundred times a second, and that allocates a little each time.
   Verdict: idle */
#include "known.h"

#include <stdint.h>
#include <sys/timerfd.h>

int main(int words, char **word) {
    struct itimerspec period = {{0, 2000000}, {0, 2000000}};
    begin(words, word);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(timer, 0, &period, NULL);
    while (!is_over()) {
        uint64_t passed;
        if (read(timer, &passed, sizeof passed) != sizeof passed) return 1;
        for (int i = 0; i < 10; i++) {
            char *volatile block = malloc(200);
            memset(block, 1, 200);
            free(block);
        }
    }
}
