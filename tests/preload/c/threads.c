/* Threads that allocate, free each other's memory, and end: for tests that are about how a program
 * was loaded and not about what it does. */
#include "check.h"
#include <pthread.h>

static void *_Atomic shelf[256];

static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	for (int i = 0; i < 20000; i++) {
		size_t size = random_size(&random, i % 100 ? 12 : 18);
		char *block = malloc(size + 1);
		CHECK(block);
		block[size] = 1;
		free(__atomic_exchange_n(&shelf[next_random(&random) % 256], block,
			__ATOMIC_ACQ_REL));
	}
	return strdup("done");
}

int main(void)
{
	require_freehold();
	pthread_t threads[8];
	for (uintptr_t i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < 8; i++) {
		void *result;
		CHECK(pthread_join(threads[i], &result) == 0);
		CHECK(strcmp(result, "done") == 0);
		free(result);
	}
	for (int i = 0; i < 256; i++)
		free(shelf[i]);
	puts("done");
	return 0;
}
