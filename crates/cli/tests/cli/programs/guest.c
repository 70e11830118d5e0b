/* What a program may do that a further thread could be in the way of: it changes its user, takes
   signals, forks, and ends its first thread before the others. Writes a line for each. */
#include "known.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_t first;
static volatile sig_atomic_t elsewhere;

static void take(int number) {
    (void)number;
    if (!pthread_equal(pthread_self(), first)) elsewhere = 1;
}

static void *last(void *unused) {
    usleep(200000);
    puts("the last thread ends");
    fflush(stdout);
    return unused;
}

int main(void) {
    first = pthread_self();
    signal(SIGUSR1, take);
    for (int i = 0; i < 1000; i++) {
        kill(getpid(), SIGUSR1);
        sched_yield();
    }
    puts(elsewhere ? "signals are taken elsewhere" : "signals are taken here");
    if (setuid(getuid()) == 0) puts("the user is set");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(1000));
        exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    puts(status ? "the child failed" : "the child is done");
    fflush(stdout);
    pthread_t thread;
    pthread_create(&thread, NULL, last, NULL);
    pthread_exit(NULL);
}
