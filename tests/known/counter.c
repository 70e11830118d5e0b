/* Threads that do next to nothing each, and count all together what they did.
   Verdict: spinning */
#include "known.h"

#include <stdatomic.h>

static atomic_ulong done;

static void *work(void *number) {
    unsigned state = (unsigned)(long)number + 1;
    for (unsigned n = 0; n % 4096 || !is_over(); n++) {
        state = state * 1103515245 + 12345;
        atomic_fetch_add(&done, state & 1);
    }
    return NULL;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(2, work);
}
