/* H24, H27, H34: what the system lets a process do changes under malloc's feet: it enters a namespace
 * of its own, may make hardly any system call, or has all its memory locked.
 *
 * Usage: confined CASE. */
#include "check.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	void *blocks[64] = {0};
	for (int i = 0; i < 5000; i++) {
		size_t size = random_size(&random, i % 50 ? 14 : 21);
		void **block = &blocks[next_random(&random) % 64];
		*block = i % 3 ? realloc(*block, size + 1) : (free(*block), malloc(size + 1));
		CHECK(*block);
		memset(*block, 1, size + 1);
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

static void work_in_threads(void)
{
	pthread_t threads[4];
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* A user namespace can be entered by a process of one thread only: a helper thread of the
 * allocator's would make the kernel refuse it. Says what came of it. */
static void user_namespace(void)
{
	work_in_threads();
	int error = unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
	printf("error: %d\n", error);
	work_in_threads();
}

/* The system calls that sandboxes of programs which compute leave to them. */
static const unsigned ALLOWED[] = {
	SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_brk, SYS_futex, SYS_read,
	SYS_write, SYS_exit, SYS_exit_group, SYS_clock_gettime,
};

/* From here on any other call kills the process. */
static void allow_few_calls(void)
{
	enum { COUNT = sizeof ALLOWED / sizeof ALLOWED[0] };
	struct sock_filter filter[COUNT + 3];
	filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < COUNT; i++)
		filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED[i],
			COUNT - i, 0);
	filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
		SECCOMP_RET_KILL_PROCESS);
	filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {COUNT + 3, filter};
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void few_calls(void)
{
	allow_few_calls();
	for (uintptr_t i = 0; i < 8; i++)
		work((void *)i);
	char *large = malloc((size_t)64 << 20);
	CHECK(large);
	memset(large, 1, (size_t)64 << 20);
	free(large);
	/* A heap of small objects that grows is populated ahead, if there are huge pages. */
	enum { MANY = 64 * 1024 };
	static void *many[MANY];
	for (int i = 0; i < MANY; i++)
		CHECK(many[i] = malloc(1000));
	for (int i = 0; i < MANY; i++)
		free(many[i]);
	CHECK(!malloc(PTRDIFF_MAX));
	write(1, "done\n", 5);
}

/* In the mode called strict there are four calls: what malloc has at hand must do, and when that
 * has come to its end the process is killed for asking. It says first that it came so far. */
static void strict(void)
{
	void *blocks[100];
	for (int i = 0; i < 100; i++)
		blocks[i] = malloc(1 + i % 500);
	for (int i = 0; i < 100; i++)
		free(blocks[i]);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
	for (int round = 0; round < 10000; round++) {
		void *block = malloc(1 + round % 500);
		CHECK(block);
		free(block);
	}
	write(1, "done\n", 5);
	syscall(SYS_exit, 0);
}

/* Says what came of locking everything, now and from now on. */
static void locked(void)
{
	work_in_threads();
	int error = mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? 0 : errno;
	printf("error: %d\n", error);
	printf("resident: %zu\n", status_bytes("VmRSS:"));
	work_in_threads();
	size_t bytes = (size_t)32 << 20;
	char *block = malloc(bytes);
	CHECK(block);
	memset(block, 1, bytes);
	block = realloc(block, 2 * bytes);
	CHECK(block && holds_only(block, 1, bytes));
	free(block);
}

/* Says how much is resident of locked memory that was in use, and when it was freed. */
static void locked_and_freed(void)
{
	enum { ADVICE = 24 /* MADV_DONTNEED_LOCKED */, BLOCKS = 256, BYTES = 1 << 20 };
	int error = mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? 0 : errno;
	printf("error: %d\n", error);
	/* Of nothing: whether the kernel knows the advice. */
	printf("advice: %d\n", madvise(NULL, 0, ADVICE) == 0 ? 0 : errno);
	static char *large[BLOCKS], *small[BLOCKS * 1000];
	for (int i = 0; i < BLOCKS; i++) {
		large[i] = malloc(BYTES);
		CHECK(large[i]);
		memset(large[i], 1, BYTES);
	}
	for (int i = 0; i < BLOCKS * 1000; i++) {
		small[i] = malloc(500);
		CHECK(small[i]);
		memset(small[i], 1, 500);
	}
	printf("full: %zu\n", status_bytes("VmRSS:"));
	for (int i = 0; i < BLOCKS; i++)
		free(large[i]);
	for (int i = 0; i < BLOCKS * 1000; i++)
		free(small[i]);
	malloc_trim(0);
	printf("freed: %zu\n", status_bytes("VmRSS:"));
	char *zeros = calloc(BLOCKS, BYTES);
	CHECK(zeros && holds_only(zeros, 0, (size_t)BLOCKS * BYTES));
	free(zeros);
}

static const struct test_case CASES[] = {
	{"user_namespace", user_namespace},
	{"few_calls", few_calls},
	{"strict", strict},
	{"locked", locked},
	{"locked_and_freed", locked_and_freed},
};

int main(int argc, char **argv)
{
	require_freehold();
	setvbuf(stdout, NULL, _IONBF, 0);
	return RUN_CASE(CASES, argc, argv);
}
