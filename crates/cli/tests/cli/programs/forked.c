/* Memory that a copy of the process frees, and the process itself does not. */
#include "known.h"

#include <sys/wait.h>

enum { BLOCKS = 20000, BYTES = 1000 };

int main(void) {
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(BYTES), 1, BYTES);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    nap(1);
}
