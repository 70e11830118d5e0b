/* Two threads that make a known number of system calls: 3000 and 1000 calls of getppid that
   succeed, and 500 of close that fail. */
#include "known.h"

#include <sys/syscall.h>

static void *work(void *number) {
    if (number) {
        pthread_setname_np(pthread_self(), "failing");
        for (int i = 0; i < 500; i++) close(-1);
    }
    for (int i = 0; i < (number ? 1000 : 3000); i++) syscall(SYS_getppid);
    return NULL;
}

int main(void) {
    in_threads(2, work);
    return 7;
}
