/* What hardened mode (FREEHOLD_HARDEN=1) finds: each case does one thing that it must not, and says
 * which object it does it to. Those that are found only when memory is used again go on until it is.
 *
 * Usage: hardened CASE SIZE [more] */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The bytes of the objects that are misused. */
static size_t size;

/* An object in the middle of others, full of ones, but not at the beginning of its slab. */
static char *object(void)
{
	void *others[64];
	for (int i = 0; i < 64; i++)
		CHECK((others[i] = malloc(size)));
	char *it = malloc(size);
	CHECK(it);
	for (int i = 0; i < 64; i++) {
		char *other = others[i];
		if ((uintptr_t)it % 32768 == 0 && (uintptr_t)other % 32768 != 0) {
			others[i] = it;
			it = other;
		}
	}
	memset(it, 1, size);
	for (int i = 0; i < 64; i++)
		free(others[i]);
	dprintf(1, "address: %p\n", (void *)it);
	return it;
}

static void use_memory(void)
{
	void *all[500];
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 500; i++)
			CHECK((all[i] = malloc(size)));
		for (int i = 0; i < 500; i++)
			free(all[i]);
	}
}

static void one_byte_after(void)
{
	char *it = object();
	it[size] ^= 1;
	free(it);
}

static void one_zero_after(void)
{
	char *it = object();
	it[size] = 0;
	free(it);
}

/* The object is the one given out last, and is not freed. */
static void after_the_last(void)
{
	char *it = malloc(size);
	/* dprintf would allocate. */
	char line[64];
	int length = snprintf(line, sizeof line, "address: %p\n", (void *)it);
	CHECK(write(1, line, (size_t)length) == length);
	((volatile char *)it)[size] ^= 1;
	void *volatile next = malloc(1);
	dprintf(1, "survived: %p\n", next);
}

static void far_after(void)
{
	char *it = object();
	it[size + 31] ^= 1;
	free(it);
}

static void one_byte_before(void)
{
	char *it = object();
	it[-1] ^= 1;
	free(it);
}

static void one_byte_after_realloc(void)
{
	char *it = object();
	it[size] ^= 1;
	CHECK(realloc(it, 3 * size));
}

static void twice(void)
{
	char *it = object();
	free(it);
	free(it);
}

static void twice_later(void)
{
	char *it = object();
	free(it);
	use_memory();
	free(it);
}

static void twice_by_realloc(void)
{
	char *it = object();
	free(it);
	CHECK(realloc(it, 3 * size));
}

static void *free_it(void *it)
{
	free(it);
	return NULL;
}

static void twice_in_two_threads(void)
{
	char *it = object();
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, free_it, it) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	free(it);
}

static void asked_for_its_size_when_free(void)
{
	char *it = object();
	free(it);
	CHECK(malloc_usable_size(it));
}

/* Where all objects are looked at when they are given out again. */
static void written_when_free(void)
{
	char *it = object();
	free(it);
	it[size > 200 ? 100 : size / 2] = 1;
	use_memory();
}

/* The same of an object that is the first to be given out again, as soon as others have made it
 * leave the place where it waits. */
static void written_when_free_and_used_again(void)
{
	char *it = object();
	free(it);
	it[100] = 1;
	for (int i = 0; i < 40; i++) {
		char *other = malloc(size);
		free(other);
	}
}

static void read_when_free(void)
{
	char *it = object();
	free(it);
	CHECK(((volatile char *)it)[size / 2] == 1);
}

/* Freed memory is clear, if it can be read at all. */
static void cleared(void)
{
	char *it = object();
	free(it);
	for (size_t i = 0; i < size; i++)
		CHECK(((volatile char *)it)[i] == 0);
}

/* Whatever was done to memory before, malloc gives it out clear. */
static void clear_at_first(void)
{
	for (int round = 0; round < 100; round++) {
		char *all[100];
		for (int i = 0; i < 100; i++) {
			CHECK((all[i] = malloc(size)));
			for (size_t k = 0; k < size; k++)
				CHECK(all[i][k] == 0);
			memset(all[i], 1, size);
		}
		for (int i = 0; i < 100; i++)
			free(all[i]);
	}
}

/* What was freed is not given out again by the next calls. */
static void not_reused_at_once(void)
{
	for (int round = 0; round < 100; round++) {
		char *it = malloc(size);
		free(it);
		char *next = malloc(size);
		CHECK(next != it);
		free(next);
	}
}

/* In which order memory is given out: the distances, and whether each is the one before. */
static void order(void)
{
	char *before = malloc(size);
	int same = 0;
	ptrdiff_t last = 0;
	for (int i = 0; i < 500; i++) {
		char *it = malloc(size);
		same += it - before == last;
		last = it - before;
		printf("%td ", last);
		before = it;
	}
	printf("\nsame: %d\n", same);
}

/* The words that stand behind objects. */
static void secrets(void)
{
	for (int i = 0; i < 8; i++) {
		char *it = malloc(24);
		uint64_t word;
		memcpy(&word, it + 24, sizeof(word));
		printf("%llx ", (unsigned long long)word);
	}
	printf("\n");
}

/* As many bytes as were asked for can be used, and no more are promised. */
static void use_all(char *it, size_t bytes)
{
	CHECK(it && malloc_usable_size(it) == bytes);
	memset(it, 1, bytes);
}

static void all_usable(void)
{
	for (size_t bytes = 0; bytes < 100000; bytes = bytes * 9 / 8 + 1) {
		for (size_t other = bytes / 3 + 1; other < 2 * bytes; other += bytes / 5 + 1) {
			char *it = malloc(bytes);
			use_all(it, bytes);
			it = realloc(it, other);
			CHECK(it && holds_only(it, 1, bytes < other ? bytes : other));
			use_all(it, other);
			free(it);
		}
		for (size_t align = 32; align <= 1 << 17; align *= 2) {
			char *it = aligned_alloc(align, bytes);
			CHECK((uintptr_t)it % align == 0);
			use_all(it, bytes);
			free(it);
		}
		char *it = calloc(1, bytes);
		CHECK(holds_only(it, 0, bytes));
		use_all(it, bytes);
		free(it);
	}
}

static size_t resident_bytes(void)
{
	long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");
	CHECK(statm && fscanf(statm, "%*s %ld", &pages) == 1);
	fclose(statm);
	return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

enum { KEEPERS = 16, KEPT = 4 };
static pthread_barrier_t in_step;

static void *keep(void *unused)
{
	char *objects[KEPT];
	pthread_barrier_wait(&in_step);
	pthread_barrier_wait(&in_step);
	for (int i = 0; i < KEPT; i++) {
		CHECK((objects[i] = malloc(size)));
		memset(objects[i], 1, size);
	}
	for (int i = 0; i < KEPT; i++)
		free(objects[i]);
	pthread_barrier_wait(&in_step);
	pthread_barrier_wait(&in_step);
	return unused;
}

/* What many threads have freed, and would each keep, is bounded for all of them together. */
static void kept_by_all(void)
{
	pthread_t threads[KEEPERS];
	pthread_barrier_init(&in_step, NULL, KEEPERS + 1);
	for (int i = 0; i < KEEPERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, keep, NULL));
	pthread_barrier_wait(&in_step);
	size_t before = resident_bytes();
	pthread_barrier_wait(&in_step);
	pthread_barrier_wait(&in_step);
	size_t grown = resident_bytes() - before;
	dprintf(1, "grown: %zu\n", grown);
	pthread_barrier_wait(&in_step);
	for (int i = 0; i < KEEPERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static long page_faults(void)
{
	struct rusage usage;
	CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
	return usage.ru_minflt;
}

static void *keep_much(void *unused)
{
	enum { MUCH = 16 };
	char *objects[MUCH];
	for (int i = 0; i < MUCH; i++) {
		CHECK((objects[i] = malloc(size)));
		memset(objects[i], 1, size);
	}
	for (int i = 0; i < MUCH; i++)
		free(objects[i]);
	pthread_barrier_wait(&in_step);
	pause();
	return unused;
}

/* The child of a fork, where those threads are not that have freed as much as may be kept, keeps what it
 * frees itself. */
static void kept_in_child(void)
{
	pthread_t thread;
	pthread_barrier_init(&in_step, NULL, 3);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&thread, NULL, keep_much, NULL));
	pthread_barrier_wait(&in_step);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		long before = page_faults();
		for (int i = 0; i < 1000; i++) {
			char *object = malloc(size);
			CHECK(object);
			object[0] = 1;
			free(object);
		}
		dprintf(1, "faults: %ld\n", page_faults() - before);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	_exit(0);
}

/* More large objects than may end at an inaccessible page, where each takes mappings of its own; and
 * one of no bytes, which is all inaccessible, is freed meanwhile. */
static void of_no_bytes(void)
{
	enum { OTHERS = 9000 };
	static void *others[OTHERS];
	void *it = memalign(65536, 0);
	CHECK(it);
	for (int i = 0; i < OTHERS; i++)
		CHECK((others[i] = malloc(40000)));
	free(it);
	for (int i = 0; i < OTHERS; i++)
		free(others[i]);
	use_memory();
}

/* More large objects have come and gone than may be inaccessible at a time, before one is written to
 * that was freed. */
static void after_many_others(void)
{
	volatile char *it = NULL;
	for (int i = 0; i < 9000; i++) {
		CHECK((it = malloc(2000000)));
		free((void *)it);
	}
	*it = 1;
}

static const struct test_case CASES[] = {
	{"after_many_others", after_many_others},
	{"after_the_last", after_the_last},
	{"all_usable", all_usable},
	{"asked_for_its_size_when_free", asked_for_its_size_when_free},
	{"clear_at_first", clear_at_first},
	{"cleared", cleared},
	{"far_after", far_after},
	{"kept_by_all", kept_by_all},
	{"kept_in_child", kept_in_child},
	{"not_reused_at_once", not_reused_at_once},
	{"of_no_bytes", of_no_bytes},
	{"one_byte_after", one_byte_after},
	{"one_byte_after_realloc", one_byte_after_realloc},
	{"one_byte_before", one_byte_before},
	{"one_zero_after", one_zero_after},
	{"order", order},
	{"read_when_free", read_when_free},
	{"secrets", secrets},
	{"twice", twice},
	{"twice_by_realloc", twice_by_realloc},
	{"twice_in_two_threads", twice_in_two_threads},
	{"twice_later", twice_later},
	{"written_when_free", written_when_free},
	{"written_when_free_and_used_again", written_when_free_and_used_again},
};

int main(int argc, char **argv)
{
	size = argc > 2 ? strtoul(argv[2], NULL, 10) : 24;
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
