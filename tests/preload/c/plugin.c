/* H7: a plugin that is loaded with RTLD_DEEPBIND: it finds the C library's malloc and not the
 * program's. */
#include "check.h"
#include <pthread.h>

void *plugin_malloc(size_t size)
{
	return malloc(size);
}

char *plugin_strdup(const char *text)
{
	return strdup(text);
}

void plugin_free(void *object)
{
	free(object);
}

static void *allocate(void *size)
{
	return malloc((size_t)size);
}

void *plugin_malloc_in_thread(size_t size)
{
	pthread_t thread;
	void *object;
	CHECK(pthread_create(&thread, NULL, allocate, (void *)size) == 0);
	CHECK(pthread_join(thread, &object) == 0);
	return object;
}
