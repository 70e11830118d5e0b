/* H18: a program that tools which replace malloc watch. With the argument "wrong" it uses memory that
 * it has freed, which they are to find. */
#include "check.h"
#include <pthread.h>

static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	for (int i = 0; i < 2000; i++) {
		size_t size = 1 + random_size(&random, 14);
		char *block = malloc(size);
		CHECK(block);
		memset(block, 1, size);
		block = realloc(block, 2 * size);
		CHECK(block && holds_only(block, 1, size));
		free(block);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[4];
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	if (argc > 1 && strcmp(argv[1], "wrong") == 0) {
		volatile char *block = malloc(10);
		free((void *)block);
		block[0] = 1;
	}
	puts("done");
	return 0;
}
