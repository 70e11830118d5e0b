/* Starts a program for which the kernel refuses system calls, as an older kernel, a sandbox or an
 * emulator does.
 *
 * Usage: refuse ERROR CALL[:LEAST] PROGRAM [ARGUMENT]...: the numbers of an error and of a system call;
 * with LEAST, only calls whose third argument is no less. */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	CHECK(argc > 3);
	char *rest;
	unsigned error = strtoul(argv[1], NULL, 10), call = strtoul(argv[2], &rest, 10);
	unsigned least = *rest == ':' ? strtoul(rest + 1, NULL, 10) : 0;
	/* The lower half of the argument, on machines that have that first. */
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, least, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	execv(argv[3], argv + 3);
	CHECK(!"the program was to start");
}
