/* Mistakes, and none, under FREEHOLD_DEBUG: each case does one thing, in functions whose names are to be
 * in the report.
 *
 * Usage: debugging CASE. */
#include "check.h"
#include "calls.h"
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

int freehold_check_heap(void) __attribute__((weak));

enum { SIZE = 100 };

static APART char *object_of(size_t bytes)
{
	char *object = allocate_it(bytes);
	dprintf(1, "object: %p\n", (void *)object);
	return object;
}

static void survived(void)
{
	dprintf(1, "survived: 1\n");
}

static void overflow(void)
{
	char *object = object_of(SIZE);
	object[SIZE] = 0;
	free_it(object);
	survived();
}

static void underflow(void)
{
	char *object = object_of(SIZE);
	object[-3] = 0;
	free_it(object);
	survived();
}

static void overflow_and_resize(void)
{
	char *object = object_of(SIZE);
	object[SIZE + 7] = 0;
	CHECK(realloc(object, 2 * SIZE));
	survived();
}

static void free_twice(void)
{
	char *object = object_of(SIZE);
	free_it(object);
	for (int i = 0; i < 1000; i++)
		free(malloc(SIZE));
	free_it(object);
	survived();
}

static volatile int has_lock;

static int allocate_under_lock(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
	(void)info, (void)bytes, (void)data;
	has_lock = 1;
	nanosleep(&pause, NULL);
	free_it(allocate_it(SIZE));
	return 1;
}

static void *hold_lock_of_loader(void *unused)
{
	dl_iterate_phdr(allocate_under_lock, NULL);
	return unused;
}

/* The second free while a thread that has the loader's lock is about to allocate. */
static void free_twice_beside_the_loader(void)
{
	char *object = object_of(SIZE);
	pthread_t thread;
	free_it(object);
	CHECK(pthread_create(&thread, NULL, hold_lock_of_loader, NULL) == 0);
	while (!has_lock)
		sched_yield();
	free_it(object);
	survived();
}

static void free_inside(void)
{
	free_it(object_of(SIZE) + 16);
	survived();
}

static void measure_after_free(void)
{
	char *object = object_of(SIZE);
	free_it(object);
	malloc_usable_size(object);
	survived();
}

static void resize_after_free(void)
{
	char *object = object_of(SIZE);
	free_it(object);
	CHECK(realloc(object, 200));
	survived();
}

static void write_after_free(void)
{
	char *object = object_of(SIZE);
	free_it(object);
	object[24] = 1;
	for (int i = 0; i < 40000; i++)
		free(malloc(SIZE));
	survived();
}

static void write_after_free_and_trim(void)
{
	char *object = object_of(SIZE);
	free_it(object);
	object[0] = 1;
	malloc_trim(0);
	survived();
}

static void behind_a_firewall(void)
{
	volatile char *object = object_of(5000);
	dprintf(1, "aligned: %d\n", (uintptr_t)object % 16 == 0);
	object[5008] = 1;
	survived();
}

static void freed_behind_a_firewall(void)
{
	volatile char *object = object_of(5000);
	free_it((char *)object);
	object[100] = 1;
	survived();
}

static void patterns(void)
{
	unsigned char *object = malloc(SIZE), *cleared = calloc(1, SIZE);
	CHECK(object[0] == 0xba && object[1] == 0xdd && object[2] == 0xca && object[3] == 0xfe);
	CHECK(holds_only(cleared, 0, SIZE));
	CHECK(malloc_usable_size(object) == SIZE);
	free(object);
	CHECK(object[0] == 0xde && object[1] == 0xad && object[2] == 0xbe && object[3] == 0xef);
	CHECK(cleared[SIZE] == 0xfe || cleared[SIZE] == 0xfa);
	free(cleared);
	survived();
}

/* Two damaged objects, found by a check. */
static void check(void)
{
	CHECK(freehold_check_heap);
	char *overflown = object_of(SIZE), *freed = allocate_it(SIZE);
	dprintf(1, "before: %d\n", freehold_check_heap());
	free_it(freed);
	overflown[SIZE] = 1;
	freed[5] = 1;
	dprintf(1, "after: %d\n", freehold_check_heap());
	_exit(0);
}

static void check_by_signal(void)
{
	char *object = object_of(SIZE);
	object[SIZE] = 1;
	raise(SIGUSR1);
	free(malloc(1));
	_exit(0);
}

/* How many of many allocations fail, and that all failures are those of malloc. */
static void failures(void)
{
	int failed = 0;
	uint64_t which = 0;
	for (int i = 0; i < 10000; i++) {
		errno = 0;
		void *object = malloc(SIZE);
		CHECK(object || errno == ENOMEM);
		failed += !object;
		which = which * 31 + !object;
		free(object);
	}
	dprintf(1, "failed: %d\nwhich: %llu\n", failed, (unsigned long long)which);
}

static APART void lose(int times, size_t bytes)
{
	for (int i = 0; i < times; i++)
		allocate_it(bytes);
	AND_GO_ON;
}

static void leaks(void)
{
	lose(7, 1000);
	free_it(allocate_it(5000));
}

/* How many mebibytes there are under a limit, of so many that are wanted. */
static void room(void)
{
	int mebibytes = 0;
	while (mebibytes < 1024 && malloc(1 << 20))
		mebibytes++;
	dprintf(1, "mebibytes: %d\n", mebibytes);
	_exit(0);
}

static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	struct {
		unsigned char *start;
		size_t bytes;
	} blocks[50] = {0};
	unsigned char tag = 1 + (uintptr_t)number;
	for (int i = 0; i < 20000; i++) {
		int n = next_random(&random) % 50;
		size_t bytes = random_size(&random, next_random(&random) % 100 ? 11 : 18);
		CHECK(holds_only(blocks[n].start, tag, blocks[n].bytes));
		if (i % 3 == 0) {
			blocks[n].start = realloc(blocks[n].start, bytes + 1);
		} else {
			size_t align = (size_t)16 << next_random(&random) % 10;
			free(blocks[n].start);
			blocks[n].start = i % 3 == 1 ? malloc(bytes) : aligned_alloc(align, bytes);
			CHECK(i % 3 == 1 || (uintptr_t)blocks[n].start % align == 0);
		}
		CHECK(blocks[n].start && malloc_usable_size(blocks[n].start) >= bytes);
		memset(blocks[n].start, tag, bytes);
		blocks[n].bytes = bytes;
	}
	for (int n = 0; n < 50; n++)
		free(blocks[n].start);
	return NULL;
}

/* Threads that make no mistakes, and children of forks. */
static void good_use(void)
{
	pthread_t threads[4];
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			free(malloc(1000));
			CHECK(freehold_check_heap() <= 0);
			_exit(0);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	survived();
}

/* Memory that is zero already is not written to, and what was used before is zero again. */
static void cleared(void)
{
	enum { SIZES = 3 };
	static const size_t sizes[SIZES] = {100, 20000, 300000};
	size_t before = status_bytes("VmRSS:"), most = 256 << 20;
	unsigned char *sparse = calloc(1, most);
	CHECK(sparse && holds_only(sparse + most - 4096, 0, 4096));
	CHECK(status_bytes("VmRSS:") < before + (8 << 20));
	free(sparse);
	for (int i = 0; i < 6000; i++) {
		size_t size = sizes[i % SIZES];
		unsigned char *object = i % 2 ? malloc(size) : calloc(1, size);
		CHECK(object && (i % 2 || holds_only(object, 0, size)));
		memset(object, 1, size);
		free(object);
	}
	survived();
}

int main(int argc, char **argv)
{
	static const struct test_case CASES[] = {
	    {"overflow", overflow},
	    {"underflow", underflow},
	    {"overflow_and_resize", overflow_and_resize},
	    {"free_twice", free_twice},
	    {"free_twice_beside_the_loader", free_twice_beside_the_loader},
	    {"free_inside", free_inside},
	    {"measure_after_free", measure_after_free},
	    {"resize_after_free", resize_after_free},
	    {"write_after_free", write_after_free},
	    {"write_after_free_and_trim", write_after_free_and_trim},
	    {"behind_a_firewall", behind_a_firewall},
	    {"freed_behind_a_firewall", freed_behind_a_firewall},
	    {"patterns", patterns},
	    {"check", check},
	    {"check_by_signal", check_by_signal},
	    {"failures", failures},
	    {"leaks", leaks},
	    {"room", room},
	    {"cleared", cleared},
	    {"good_use", good_use},
	};
	return RUN_CASE(CASES, argc, argv);
}
