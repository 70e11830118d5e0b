/* H1: every thread of a crowd forks, all at once, between its allocations. Each child allocates in
 * every size, and frees what its parent's thread had.
 *
 * Usage: fork_crowd THREADS FORKS, of which each thread does its share. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

enum { BLOCKS = 16 };

static unsigned long forks;

static void fork_once(void *blocks[BLOCKS])
{
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		for (size_t size = 1; size < (size_t)1 << 20; size += size / 2 + 1) {
			char *block = malloc(size);
			CHECK(block);
			block[0] = block[size - 1] = 1;
			free(block);
		}
		_exit(0);
	}
	int status;
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	void *blocks[BLOCKS] = {0};
	for (unsigned long done = 0; done < forks; done++) {
		for (int i = 0; i < 200; i++) {
			void **block = &blocks[next_random(&random) % BLOCKS];
			free(*block);
			*block = malloc(1 + random_size(&random, 16));
			CHECK(*block);
		}
		fork_once(blocks);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	uintptr_t threads = strtoul(argv[1], NULL, 10);
	forks = strtoul(argv[2], NULL, 10) / threads;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 * 1024);
	require_freehold();
	pthread_t *all = calloc(threads, sizeof *all);
	CHECK(all && forks > 0);
	for (uintptr_t i = 0; i < threads; i++)
		CHECK(pthread_create(&all[i], &attributes, work, (void *)i) == 0);
	for (uintptr_t i = 0; i < threads; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
	free(all);
	printf("forks: %lu\n", threads * forks);
	return 0;
}
