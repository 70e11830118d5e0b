/* H1: a process forks while its threads are busy in malloc and free. The child allocates in all
 * sizes, frees what other threads had, and forks again.
 *
 * Usage: fork_busy THREADS FORKS. Says how long a fork took. */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { PLACES = 2048 };

/* Blocks that nobody in particular has: threads put theirs in and free what they find, so that
 * everything is freed by other threads, and after a fork by other processes. */
static void *_Atomic shelf[PLACES];
static volatile int stop;

static void exchange(uint64_t *random)
{
	size_t size = random_size(random, next_random(random) % 64 ? 12 : 20);
	char *block = malloc(size + 1);
	CHECK(block);
	block[0] = block[size] = 1;
	void *found = __atomic_exchange_n(&shelf[next_random(random) % PLACES], block,
		__ATOMIC_ACQ_REL);
	free(found);
}

static void *work(void *number)
{
	uint64_t random = 88172645463325252 + (uintptr_t)number;
	/* On few processors the one that forks would mostly wait for its turn. */
	setpriority(PRIO_PROCESS, 0, 19);
	while (!stop)
		exchange(&random);
	return NULL;
}

static void allocate_every_size(void)
{
	void *all[64];
	int count = 0;
	for (size_t size = 1; size < (size_t)2 << 20; size += size / 3 + 1) {
		all[count] = malloc(size);
		CHECK(all[count]);
		memset(all[count++], 1, size);
	}
	while (count > 0)
		free(all[--count]);
}

static uint64_t fork_child(int generations);

static void live_on_as_child(int generations)
{
	uint64_t random = getpid();
	allocate_every_size();
	for (int i = 0; i < PLACES; i += 2) {
		free(shelf[i]);
		shelf[i] = NULL;
	}
	for (int i = 0; i < 200; i++)
		exchange(&random);
	if (generations > 1)
		fork_child(generations - 1);
}

/* Forks a child, and waits for it to end well. Returns how long the fork took. */
static uint64_t fork_child(int generations)
{
	uint64_t start = nanoseconds();
	pid_t child = fork();
	if (child == 0) {
		live_on_as_child(generations);
		_exit(0);
	}
	uint64_t took = nanoseconds() - start;
	int status;
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	return took;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	uintptr_t threads = strtoul(argv[1], NULL, 10);
	size_t forks = strtoul(argv[2], NULL, 10);
	pthread_t all[512];
	CHECK(threads <= 512);
	uint64_t *took = calloc(forks, sizeof *took);
	require_freehold();
	for (uintptr_t i = 0; i < threads; i++)
		CHECK(pthread_create(&all[i], NULL, work, (void *)i) == 0);
	for (size_t i = 0; i < forks; i++)
		took[i] = fork_child(2);
	stop = 1;
	for (uintptr_t i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	qsort(took, forks, sizeof *took, compare);
	printf("median microseconds: %zu\n", (size_t)took[forks / 2] / 1000);
	printf("longest microseconds: %zu\n", (size_t)took[forks - 1] / 1000);
	for (int i = 0; i < PLACES; i++)
		free(shelf[i]);
	free(took);
	return 0;
}
