/* Threads that wait for time to pass and for a pipe that nobody writes to.
   Verdict: idle */
#include "known.h"

#include <poll.h>

static int ends[2];

static void *work(void *number) {
    while (!is_over()) {
        struct pollfd waited = {.fd = ends[0], .events = POLLIN};
        if ((long)number % 2) poll(&waited, 1, 20);
        else nap(0.02);
    }
    return NULL;
}

int main(int words, char **word) {
    begin(words, word);
    if (pipe(ends)) return 1;
    in_threads(8, work);
}
