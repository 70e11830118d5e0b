/* H5: what happens to the memory of threads that end: their destructors allocate in every round, and
 * there are many of them, one after the other.
 *
 * Usage: thread_exit CASE COUNT. */
#include "check.h"
#include <limits.h>
#include <malloc.h>
#include <pthread.h>

static size_t count;

/* Before Freehold has made its own key, or after: destructors run in the order of the keys. */
static pthread_key_t early_key, late_key;
static long rounds_run;

static void allocate_some(void)
{
	static const size_t SIZES[] = {16, 200, 1000, 3000, 20000, 50000};
	for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
		char *block = malloc(SIZES[i]);
		CHECK(block);
		memset(block, 1, SIZES[i]);
		free(block);
	}
}

struct rounds {
	pthread_key_t key;
	int left;
};

static void set_rounds(pthread_key_t key, int left)
{
	struct rounds *rounds = malloc(sizeof *rounds);
	CHECK(rounds);
	*rounds = (struct rounds){key, left};
	CHECK(pthread_setspecific(key, rounds) == 0);
}

/* Frees its value, allocates, and asks for another round, as often as the C library grants one. */
static void destroy(void *value)
{
	struct rounds old = *(struct rounds *)value;
	free(value);
	allocate_some();
	__atomic_add_fetch(&rounds_run, 1, __ATOMIC_RELAXED);
	if (old.left > 1)
		set_rounds(old.key, old.left - 1);
}

static void *use_keys(void *unused)
{
	(void)unused;
	set_rounds(early_key, PTHREAD_DESTRUCTOR_ITERATIONS);
	set_rounds(late_key, PTHREAD_DESTRUCTOR_ITERATIONS);
	allocate_some();
	return NULL;
}

static void *allocate_a_little(void *unused)
{
	(void)unused;
	free(malloc(24));
	allocate_some();
	return strdup("result");
}

static void run_thread(void *(*work)(void *))
{
	pthread_t thread;
	void *result;
	CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
	CHECK(pthread_join(thread, &result) == 0);
	free(result);
}

/* Objects that heaps keep for the next thread count as used. How many that are is a matter of which
 * heaps the threads had: 0.1 to 0.4 MB here, however many threads there were. */
#define KEPT (512 << 10)

/* Runs threads one after the other. What they leave behind must not grow. */
static void run_many(void *(*work)(void *))
{
	size_t warm_up = count / 10 + 1;
	for (size_t i = 0; i < warm_up; i++)
		run_thread(work);
	size_t resident = status_bytes("VmRSS:"), used = mallinfo2().uordblks;
	for (size_t i = 0; i < count; i++)
		run_thread(work);
	size_t now = status_bytes("VmRSS:"), used_now = mallinfo2().uordblks;
	printf("resident: %zu, then %zu; used: %zu, then %zu\n", resident, now, used, used_now);
	CHECK(now < resident + (1 << 20));
	CHECK(used_now < used + KEPT);
}

static void destructors_that_allocate(void)
{
	CHECK(pthread_key_create(&late_key, destroy) == 0);
	run_many(use_keys);
	size_t threads = count + count / 10 + 1;
	CHECK((size_t)rounds_run == threads * 2 * PTHREAD_DESTRUCTOR_ITERATIONS);
}

static void many_threads(void)
{
	run_many(allocate_a_little);
}

/* More keys than glibc has room for in a thread's own block: setting the value of a later one, like
 * Freehold's if it comes late, allocates. */
static void many_keys(void)
{
	for (int i = 0; i < 100; i++)
		CHECK(pthread_key_create(&late_key, destroy) == 0);
	run_many(use_keys);
}

/* The memory of threads that have ended is used by those that come. */
static void *leave_blocks(void *unused)
{
	void *first = NULL;
	(void)unused;
	for (int i = 0; i < 1000; i++) {
		void **block = malloc(100);
		CHECK(block);
		*block = first;
		first = block;
	}
	return first;
}

static void blocks_that_outlive_their_thread(void)
{
	size_t most = 0, start = status_bytes("VmRSS:");
	for (size_t i = 0; i < count; i++) {
		pthread_t thread;
		void *blocks;
		CHECK(pthread_create(&thread, NULL, leave_blocks, NULL) == 0);
		CHECK(pthread_join(thread, &blocks) == 0);
		for (int n = 0; n < 1000; n++) {
			void *next = *(void **)blocks;
			free(blocks);
			blocks = next;
		}
		CHECK(!blocks);
		if (i % 64 == 0) {
			size_t resident = status_bytes("VmRSS:");
			most = resident > most ? resident : most;
		}
	}
	printf("resident: %zu, at most %zu\n", start, most);
	CHECK(most < start + (4 << 20));
}

static const struct test_case CASES[] = {
	{"destructors_that_allocate", destructors_that_allocate},
	{"many_threads", many_threads},
	{"many_keys", many_keys},
	{"blocks_that_outlive_their_thread", blocks_that_outlive_their_thread},
};

/* Runs before any library's constructor. */
static void make_early_key(void)
{
	CHECK(pthread_key_create(&early_key, destroy) == 0);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinits[])(void) = {
	make_early_key,
};

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	count = strtoul(argv[2], NULL, 10);
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
