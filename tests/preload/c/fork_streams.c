/* H1: a fork while one thread flushes all streams and waits for another, which has a stream to
 * itself and allocates: all three go on. The thread that forks has allocated before, or has not. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

static FILE *stream;

static void sleep_for_steps(int steps)
{
	struct timespec step = {.tv_nsec = 150 * 1000 * 1000};
	while (steps-- > 0)
		nanosleep(&step, NULL);
}

/* So many sizes that some of them need what a forking thread holds. */
static void allocate_many_sizes(void)
{
	for (size_t size = 16; size < 100000; size += size / 4) {
		char *block = malloc(size);
		CHECK(block);
		block[0] = 1;
		free(block);
	}
}

static void *flush_all(void *nothing)
{
	sleep_for_steps(1);
	CHECK(fflush(NULL) == 0);
	return nothing;
}

static void *fork_child(void *allocates_before)
{
	if (allocates_before)
		allocate_many_sizes();
	sleep_for_steps(2);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		allocate_many_sizes();
		CHECK(fflush(NULL) == 0);
		_exit(0);
	}
	int status = -1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return NULL;
}

int main(void)
{
	stream = tmpfile();
	CHECK(stream);
	for (int round = 0; round < 2; round++) {
		pthread_t flusher, forker;
		CHECK(fputs("to be written", stream) >= 0);
		flockfile(stream);
		CHECK(pthread_create(&flusher, NULL, flush_all, NULL) == 0);
		CHECK(pthread_create(&forker, NULL, fork_child, round ? stream : NULL) == 0);
		/* Meanwhile the flush begins, and then the fork. */
		sleep_for_steps(4);
		allocate_many_sizes();
		funlockfile(stream);
		CHECK(pthread_join(flusher, NULL) == 0 && pthread_join(forker, NULL) == 0);
	}
	return 0;
}
