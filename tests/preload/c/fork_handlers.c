/* H1: a library whose constructor registers fork handlers that allocate, as several runtimes have.
 * Whether they run before or after Freehold's own depends on the order of loading. */
#include "check.h"
#include <pthread.h>

enum { BLOCKS = 200 };
static void *blocks[BLOCKS];

static void allocate(int from, int to)
{
	for (int i = from; i < to; i++) {
		size_t size = (size_t)(i + 1) * (i + 1);
		free(blocks[i]);
		blocks[i] = malloc(size);
		CHECK(blocks[i]);
		memset(blocks[i], i, size);
	}
}

static void before(void)
{
	allocate(0, BLOCKS);
}

static void after(void)
{
	for (int i = 0; i < BLOCKS; i++)
		CHECK(holds_only(blocks[i], i, (size_t)(i + 1) * (i + 1)));
	allocate(BLOCKS / 4, BLOCKS / 2);
	free(blocks[0]);
	blocks[0] = NULL;
}

__attribute__((constructor)) static void enlist(void)
{
	CHECK(pthread_atfork(before, after, after) == 0);
}
