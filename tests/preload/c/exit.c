/* H36: the end of a process whose threads are busy in malloc, by each of the ways there are, and
 * what is freed on the way out.
 *
 * Usage: exit WAY, which is return, exit, quick_exit, _exit or thread. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8 };

static char *of_main[100];

static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	void *blocks[64] = {0};
	for (;;) {
		void **block = &blocks[next_random(&random) % 64];
		free(*block);
		*block = malloc(random_size(&random, next_random(&random) % 50 ? 12 : 20));
		CHECK(*block);
	}
	return NULL;
}

static void free_and_allocate(void)
{
	for (int i = 0; i < 100; i++) {
		CHECK(!of_main[i] || holds_only(of_main[i], i, 100 * i));
		free(of_main[i]);
		of_main[i] = malloc(100 * i);
		memset(of_main[i], i, 100 * i);
	}
}

static void say(const char *text)
{
	CHECK(write(1, text, strlen(text)) > 0);
}

static void at_exit(void)
{
	free_and_allocate();
	say("at exit\n");
}

static void at_quick_exit_(void)
{
	free_and_allocate();
	say("at quick exit\n");
}

__attribute__((destructor)) static void at_unload(void)
{
	free_and_allocate();
	say("destructor\n");
}

static void *end_process(void *unused)
{
	(void)unused;
	exit(3);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	const char *way = argv[1];
	pthread_t thread;
	require_freehold();
	CHECK(atexit(at_exit) == 0 && at_quick_exit(at_quick_exit_) == 0);
	free_and_allocate();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread, NULL, work, (void *)i) == 0);
	/* Let them come to work. */
	for (int i = 0; i < 200; i++)
		free_and_allocate();
	if (strcmp(way, "exit") == 0)
		exit(3);
	if (strcmp(way, "quick_exit") == 0)
		quick_exit(3);
	if (strcmp(way, "_exit") == 0)
		_exit(3);
	if (strcmp(way, "thread") == 0) {
		CHECK(pthread_create(&thread, NULL, end_process, NULL) == 0);
		pthread_exit(NULL);
	}
	return 3;
}
