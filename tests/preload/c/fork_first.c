/* H1: a fork in the middle of the very first allocation. This library is preloaded before Freehold
 * and takes the place of pthread_key_create, which Freehold calls while it sets itself up. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

/* Exits with 0 in the child when malloc works there. */
static void allocate_in_child(void)
{
	pid_t child = fork();
	if (child == 0) {
		for (size_t size = 1; size < 200000; size += size / 2 + 1) {
			char *object = malloc(size);
			CHECK(object);
			memset(object, 1, size);
			free(object);
		}
		_exit(0);
	}
	int status;
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	static int forked;
	if (!forked) {
		forked = 1;
		allocate_in_child();
		dprintf(1, "forked: 1\n");
	}
	int (*real)(pthread_key_t *, void (*)(void *)) = dlsym(RTLD_NEXT, "pthread_key_create");
	return real(key, destructor);
}
