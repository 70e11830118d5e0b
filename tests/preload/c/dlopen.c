/* H4: the library is loaded by dlopen into a running program, whose own malloc stays the C library's;
 * used by old and new threads; and closed.
 *
 * Usage: dlopen LIBRARY TIMES. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

static void *(*their_malloc)(size_t);
static void (*their_free)(void *);
static int (*owns)(const void *);
static pthread_barrier_t loaded;

static void *find(void *library, const char *name)
{
	void *found = dlsym(library, name);
	CHECK(found);
	return found;
}

static void use(void)
{
	void *all[200];
	for (int i = 0; i < 200; i++) {
		size_t size = (size_t)i * i + 1;
		all[i] = their_malloc(size);
		CHECK(all[i] && owns(all[i]));
		memset(all[i], i, size);
	}
	for (int i = 0; i < 200; i++) {
		CHECK(holds_only(all[i], i, (size_t)i * i + 1));
		their_free(all[i]);
	}
}

static void *work(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&loaded);
	for (int i = 0; i < 50; i++)
		use();
	return NULL;
}

int main(int argc, char **argv)
{
	CHECK(argc == 3 && !freehold_owns);
	pthread_t older[4], younger[4];
	pthread_barrier_init(&loaded, NULL, 9);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&older[i], NULL, work, NULL) == 0);
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		dprintf(2, "%s\n", dlerror());
		return 1;
	}
	their_malloc = find(library, "malloc");
	their_free = find(library, "free");
	owns = find(library, "freehold_owns");
	char *ours = malloc(100);
	CHECK(!owns(ours));
	free(ours);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&younger[i], NULL, work, NULL) == 0);
	pthread_barrier_wait(&loaded);
	char *kept = their_malloc(1000);
	memset(kept, 7, 1000);
	/* Threads have memory of it and will call it when they end: it must stay. */
	for (int i = 0; i < atoi(argv[2]); i++) {
		CHECK(dlclose(library) == 0);
		library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		CHECK(library && dlsym(library, "malloc") == (void *)their_malloc);
	}
	CHECK(dlclose(library) == 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(older[i], NULL);
		pthread_join(younger[i], NULL);
	}
	use();
	CHECK(holds_only(kept, 7, 1000));
	their_free(kept);
	puts("done");
	return 0;
}
