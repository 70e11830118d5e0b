/* H1: a fork while one thread has the loader's lock and opens a stream, and another, which allocates where
 * stacks are remembered, waits for that lock: all three go on. */
#include "check.h"
#include <link.h>
#include <pthread.h>
#include <sys/wait.h>

static volatile int has_lock;

static void sleep_for_steps(int steps)
{
	struct timespec step = {.tv_nsec = 100 * 1000 * 1000};
	while (steps-- > 0)
		nanosleep(&step, NULL);
}

static void allocate(void)
{
	enum { MANY = 300 };
	void *objects[MANY];
	for (int i = 0; i < MANY; i++)
		CHECK((objects[i] = malloc(4000)));
	for (int i = 0; i < MANY; i++)
		free(objects[i]);
}

static int open_a_stream(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)info, (void)size, (void)data;
	has_lock = 1;
	sleep_for_steps(4);
	FILE *stream = fopen("/dev/null", "r");
	CHECK(stream);
	fclose(stream);
	return 1;
}

static void *hold_lock(void *unused)
{
	allocate();
	dl_iterate_phdr(open_a_stream, NULL);
	return unused;
}

static void *ask(void *unused)
{
	allocate();
	while (!has_lock)
		sleep_for_steps(1);
	allocate();
	return unused;
}

int main(void)
{
	pthread_t asker, holder;
	CHECK(pthread_create(&asker, NULL, ask, NULL) == 0);
	CHECK(pthread_create(&holder, NULL, hold_lock, NULL) == 0);
	while (!has_lock)
		sleep_for_steps(1);
	sleep_for_steps(2);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		allocate();
		_exit(0);
	}
	int status = -1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(pthread_join(asker, NULL) == 0 && pthread_join(holder, NULL) == 0);
	return 0;
}
