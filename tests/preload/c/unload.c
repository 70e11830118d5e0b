/* H6: a plugin with Freehold in it is closed, while a thread that has used it goes on.
 *
 * Usage: unload CASE PLUGIN. */
#include "check.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static void (*work)(void);
static pthread_barrier_t used, closed;

static void *use(void *unused)
{
	(void)unused;
	work();
	pthread_barrier_wait(&used);
	pthread_barrier_wait(&closed);
	return NULL;
}

static int threads(void)
{
	int count = -2; /* `.` and `..` */
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks);
	while (readdir(tasks))
		count++;
	closedir(tasks);
	return count;
}

/* Whether Freehold's own thread comes to be there, or to be gone, within ten seconds. */
static int comes_to_have(int wanted)
{
	for (int i = 0; i < 1000 && threads() != wanted; i++)
		usleep(10000);
	return threads() == wanted;
}

int main(int argc, char **argv)
{
	CHECK(argc == 3 && !freehold_owns);
	setvbuf(stdout, NULL, _IONBF, 0);
	pthread_barrier_init(&used, NULL, 2);
	pthread_barrier_init(&closed, NULL, 2);
	void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
	if (!plugin) {
		dprintf(2, "%s\n", dlerror());
		return 1;
	}
	work = (void (*)(void))dlsym(plugin, "plugin_work");
	CHECK(work);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, use, NULL) == 0);
	pthread_barrier_wait(&used);
	int is_idle = strcmp(argv[1], "idle") == 0;
	if (is_idle) {
		work();
		CHECK(comes_to_have(3));
	}
	CHECK(dlclose(plugin) == 0);
	if (is_idle) {
		CHECK(comes_to_have(2));
	} else if (strcmp(argv[1], "fork") == 0) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(7);
		int status;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	} else {
		CHECK(strcmp(argv[1], "thread_exit") == 0);
	}
	pthread_barrier_wait(&closed);
	pthread_join(thread, NULL);
	/* As it was: opened again, it has the memory that it had. */
	plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
	CHECK(plugin && (void (*)(void))dlsym(plugin, "plugin_work") == work);
	work();
	puts("done");
	return 0;
}
