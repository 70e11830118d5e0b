/* Memory that a program of several threads allocates and never writes to: it is not to become
 * resident by way of what is populated ahead for programs that write.
 *
 * Usage: unwritten CASE. */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 2, BYTES_EACH = 512 << 20, SIZE = 100 };

/* So that the compiler leaves the calls of malloc alone. */
static void *volatile allocated;

static void *allocate(void *unused)
{
	(void)unused;
	for (int n = 0; n < BYTES_EACH / SIZE; n++)
		CHECK(allocated = malloc(SIZE));
	return NULL;
}

/* Says how much is resident in the end. */
static void by_threads(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, allocate, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	printf("resident: %zu\n", status_bytes("VmRSS:"));
}

/* From now on, and in what is executed, asking what is resident ends the process. */
static void let_asking_kill(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void where_asking_kills(void)
{
	let_asking_kill();
	by_threads();
}

static void a_block(void)
{
	CHECK(allocated = malloc(SIZE));
}

/* The first block is allocated where asking kills. */
static void where_asking_kills_from_the_start(void)
{
	let_asking_kill();
	execl("/proc/self/exe", "unwritten", "a block", (char *)NULL);
	CHECK(!"it was to be executed");
}

static const struct test_case CASES[] = {
	{"by threads", by_threads},
	{"where asking kills", where_asking_kills},
	{"a block", a_block},
	{"where asking kills from the start", where_asking_kills_from_the_start},
};

int main(int argc, char **argv)
{
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
