/* H1: posix_spawn, vfork and exec, system and popen from a process whose threads are busy in malloc.
 *
 * Usage: spawn TIMES. */
#include "check.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

static volatile int stop;
extern char **environ;

static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	void *blocks[64] = {0};
	while (!stop) {
		void **block = &blocks[next_random(&random) % 64];
		free(*block);
		*block = malloc(random_size(&random, 17));
		CHECK(*block);
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

static void wait_for(pid_t child)
{
	int status;
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;
	char *program[] = {"true", NULL};
	pthread_t threads[8];
	require_freehold();
	for (uintptr_t i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < times; i++) {
		pid_t child;
		CHECK(posix_spawnp(&child, "true", NULL, NULL, program, environ) == 0);
		wait_for(child);
		child = vfork();
		if (child == 0) {
			execvp("true", program);
			_exit(127);
		}
		wait_for(child);
		CHECK(system("true") == 0);
		FILE *pipe = popen("echo text", "re");
		char line[16] = "";
		CHECK(pipe && fgets(line, sizeof line, pipe) && strcmp(line, "text\n") == 0);
		CHECK(pclose(pipe) == 0);
	}
	stop = 1;
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
