/* H7: memory that crosses between a program under Freehold and a plugin loaded with RTLD_DEEPBIND,
 * which has the C library's malloc.
 *
 * Usage: deepbind CASE PLUGIN. */
#include "check.h"
#include <dlfcn.h>
#include <malloc.h>

static void *(*plugin_malloc)(size_t);
static void *(*plugin_malloc_in_thread)(size_t);
static char *(*plugin_strdup)(const char *);
static void (*plugin_free)(void *);

static void open_plugin(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
	if (!plugin) {
		dprintf(2, "%s\n", dlerror());
		_exit(1);
	}
	plugin_malloc = dlsym(plugin, "plugin_malloc");
	plugin_malloc_in_thread = dlsym(plugin, "plugin_malloc_in_thread");
	plugin_strdup = dlsym(plugin, "plugin_strdup");
	plugin_free = dlsym(plugin, "plugin_free");
	CHECK(plugin_malloc && plugin_malloc_in_thread && plugin_strdup && plugin_free);
	void *object = plugin_malloc(100);
	/* Otherwise this test is about nothing. */
	CHECK(!freehold_owns(object));
	plugin_free(object);
}

static void from_plugin_freed(void)
{
	for (int i = 0; i < 1000; i++) {
		void *object = plugin_malloc(1 + i * 37);
		memset(object, 1, 1 + i * 37);
		free(object);
		free(plugin_strdup("text"));
	}
}

static void from_plugin_measured(void)
{
	for (size_t size = 1; size < 100000; size += size / 2 + 1) {
		char *object = plugin_malloc(size);
		size_t usable = malloc_usable_size(object);
		CHECK(usable >= size);
		memset(object, 1, usable);
		plugin_free(object);
	}
}

static void from_plugin_resized(void)
{
	for (size_t size = 1; size < 100000; size += size / 2 + 1) {
		char *object = plugin_malloc(size);
		memset(object, 5, size);
		object = realloc(object, 2 * size);
		CHECK(object && freehold_owns(object) && holds_only(object, 5, size));
		free(object);
	}
}

/* The C library maps such blocks one by one. */
static void large_from_plugin_freed(void)
{
	char *object = plugin_malloc(1 << 20);
	memset(object, 1, 1 << 20);
	CHECK(malloc_usable_size(object) >= 1 << 20);
	object = realloc(object, 2 << 20);
	CHECK(object && freehold_owns(object) && holds_only(object, 1, 1 << 20));
	free(object);
	free(plugin_malloc(1 << 20));
}

/* The C library gives threads arenas that lie elsewhere. */
static void from_thread_of_plugin_freed(void)
{
	for (int i = 0; i < 20; i++) {
		char *object = plugin_malloc_in_thread(1000);
		CHECK(malloc_usable_size(object) >= 1000);
		free(object);
	}
}

static void to_plugin(void)
{
	/* What stands before the second, where the C library would look for a size, is zero. */
	char *first = calloc(1, 48), *second = calloc(1, 48);
	printf("first: %p\nsecond: %p\n", first, second);
	fflush(stdout);
	plugin_free(second > first ? second : first);
	printf("survived: 1\n");
}

static const struct test_case CASES[] = {
	{"from_plugin_freed", from_plugin_freed},
	{"from_plugin_measured", from_plugin_measured},
	{"from_plugin_resized", from_plugin_resized},
	{"large_from_plugin_freed", large_from_plugin_freed},
	{"from_thread_of_plugin_freed", from_thread_of_plugin_freed},
	{"to_plugin", to_plugin},
};

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	require_freehold();
	open_plugin(argv[2]);
	return RUN_CASE(CASES, argc, argv);
}
