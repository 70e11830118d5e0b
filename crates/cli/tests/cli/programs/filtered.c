/* Forbids itself every call but those that memory takes, then allocates, and has a child do so. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(number)                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1),   \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void *objects[1000];

static void work(void) {
    for (int i = 0; i < 200000; i++) {
        free(objects[i * 7 % 1000]);
        objects[i * 7 % 1000] = malloc(16 + i % 500);
    }
}

int main(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(mprotect), ALLOW(madvise), ALLOW(brk),
        ALLOW(futex), ALLOW(clock_gettime), ALLOW(clone), ALLOW(set_robust_list), ALLOW(wait4),
        ALLOW(rt_sigprocmask), ALLOW(getpid), ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    objects[0] = malloc(1);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        return 77;
    }
    work();
    int status = 1, child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        return 2;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 7 : 3;
}
