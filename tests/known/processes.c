/* Begins processes one after the other, each of which writes to a little of what it was given.
   Verdict: thread_churn */
#include "known.h"

#include <sys/wait.h>

enum { BYTES = 4 << 20 };

int main(int words, char **word) {
    begin(words, word);
    char *own = malloc(BYTES);
    memset(own, 1, BYTES);
    while (!is_over()) {
        pid_t child = fork();
        if (child == 0) {
            for (int at = 0; at < BYTES / 16; at += 4096) own[at] = 2;
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    free(own);
}
