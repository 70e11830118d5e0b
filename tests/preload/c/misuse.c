/* H8: frees of what is no object, and frees that come twice. Each case says which address it is
 * going to misuse, and must be ended by a report that names it.
 *
 * Usage: misuse CASE [FUNCTION], where FUNCTION is free, realloc or malloc_usable_size. */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

/* What is done to the address. */
static void (*misuse)(void *);

static void by_free(void *address)
{
	free(address);
}

static void by_realloc(void *address)
{
	CHECK(realloc(address, 100));
}

static void by_usable_size(void *address)
{
	CHECK(malloc_usable_size(address));
}

static void use_wrongly(void *address)
{
	dprintf(1, "address: %p\n", address);
	misuse(address);
	dprintf(1, "survived: 1\n");
}

static void stack(void)
{
	long local[8] = {0};
	use_wrongly(local);
}

static void data(void)
{
	static long array[8] = {1};
	use_wrongly(array);
}

static void code(void)
{
	use_wrongly((void *)(uintptr_t)code);
}

static void mapping(void)
{
	use_wrongly(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void mapping_without_rights(void)
{
	use_wrongly(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void small_number(void)
{
	use_wrongly((void *)16);
}

static void not_an_address(void)
{
	use_wrongly((void *)0xdeadbeefdeadbee0);
}

static char *object_of(size_t size)
{
	char *object = malloc(size);
	memset(object, 1, size);
	printf("object: %p\n", (void *)object);
	fflush(stdout);
	return object;
}

static void inside_small(void)
{
	use_wrongly(object_of(100) + 48);
}

static void inside_medium(void)
{
	use_wrongly(object_of(10000) + 4096);
}

static void inside_large(void)
{
	use_wrongly(object_of(1 << 20) + 65536);
}

static void inside_huge(void)
{
	use_wrongly(object_of(300 << 20) + (100 << 20));
}

static void misaligned_small(void)
{
	use_wrongly(object_of(100) + 1);
}

static void misaligned_large(void)
{
	use_wrongly(object_of(1 << 20) + 8);
}

/* Memory of Freehold's that was never given out. */
static void never_given_out(void)
{
	char *object = object_of(100);
	use_wrongly((char *)((uintptr_t)object & ~(((uintptr_t)2 << 20) - 1)) + (2 << 20) - 65536);
}

static void twice(size_t size)
{
	char *object = object_of(size);
	free(object);
	use_wrongly(object);
}

static void medium_twice(void)
{
	twice(10000);
}

static void large_twice(void)
{
	twice(1 << 20);
}

static void huge_twice(void)
{
	twice(300 << 20);
}

static void small_twice(void)
{
	twice(100);
}

/* Another object was freed in between. */
static void small_twice_interleaved(void)
{
	char *object = object_of(100), *other = malloc(100);
	free(object);
	free(other);
	use_wrongly(object);
}

/* Where an object of the slab could be, but none has been yet. */
static void small_never_given_out(void)
{
	use_wrongly(object_of(128) + 64 * 128);
}

/* Touches memory that must not be accessible. */
static void touch(volatile char *address)
{
	dprintf(1, "address: %p\n", (void *)address);
	*address = 1;
	dprintf(1, "survived: 1\n");
}

static void write_to_nothing(void)
{
	touch(malloc(0));
}

/* The first object of the process lies where its memory begins. */
static void before_the_first(void)
{
	touch((char *)malloc(1) - 1);
}

static void far_before_the_first(void)
{
	touch((char *)malloc(1) - (1 << 20));
}

/* After its first frees a thread keeps small objects without a look at anything but their address.
 * That they were freed twice is noticed when they go back to where they came from, at the latest
 * when the thread ends. */
static void *free_twice_and_end(void *object)
{
	free(object);
	use_wrongly(object);
	return NULL;
}

static void run_in_thread(void *(*work)(void *), void *argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, work, argument) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void *allocate_and_free_twice_and_end(void *unused)
{
	(void)unused;
	for (int i = 0; i < 100; i++)
		free(malloc(100));
	return free_twice_and_end(object_of(100));
}

static void small_twice_in_thread(void)
{
	run_in_thread(allocate_and_free_twice_and_end, NULL);
}

enum { MANY = 2000 };

static void *free_all_twice_and_end(void *objects)
{
	void **all = objects;
	for (int i = 0; i < MANY; i++)
		free(all[i]);
	for (int i = 0; i < MANY; i++)
		free(all[i]);
	return NULL;
}

static void small_twice_by_another_thread(void)
{
	static void *all[MANY];
	for (int i = 0; i < MANY; i++)
		all[i] = malloc(100);
	run_in_thread(free_all_twice_and_end, all);
	dprintf(1, "survived: 1\n");
}

/* What comes and goes by the thousand stays at hand, until something else is wanted: then malloc
 * sends it home, and finds out. */
static void small_twice_in_phases(void)
{
	enum { COUNT = 10000 };
	static void *all[COUNT];
	void *volatile other;
	for (int phase = 0; phase < 20; phase++) {
		for (int i = 0; i < COUNT; i++)
			all[i] = malloc(250);
		if (phase == 19)
			free(all[COUNT / 2]);
		for (int i = 0; i < COUNT; i++)
			free(all[i]);
	}
	dprintf(1, "address: %p\n", all[COUNT / 2]);
	for (int i = 0; i < 100000; i++)
		CHECK(other = malloc(500));
	dprintf(1, "survived: 1\n");
}

/* Each of two threads has the object at hand; the second that ends sends it home again. */
static pthread_barrier_t freed_by_both;

static void *free_and_end(void *object)
{
	free(object);
	pthread_barrier_wait(&freed_by_both);
	return NULL;
}

static void medium_twice_by_two_threads(void)
{
	pthread_t threads[2];
	void *object = malloc(5000);
	dprintf(1, "address: %p\n", object);
	CHECK(pthread_barrier_init(&freed_by_both, NULL, 2) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, free_and_end, object) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	dprintf(1, "survived: 1\n");
}

static const struct test_case CASES[] = {
	{"small_twice_in_phases", small_twice_in_phases},
	{"medium_twice_by_two_threads", medium_twice_by_two_threads},
	{"small_twice_in_thread", small_twice_in_thread},
	{"small_twice_by_another_thread", small_twice_by_another_thread},
	{"stack", stack},
	{"data", data},
	{"code", code},
	{"mapping", mapping},
	{"mapping_without_rights", mapping_without_rights},
	{"small_number", small_number},
	{"not_an_address", not_an_address},
	{"inside_small", inside_small},
	{"inside_medium", inside_medium},
	{"inside_large", inside_large},
	{"inside_huge", inside_huge},
	{"misaligned_small", misaligned_small},
	{"misaligned_large", misaligned_large},
	{"never_given_out", never_given_out},
	{"small_twice", small_twice},
	{"small_twice_interleaved", small_twice_interleaved},
	{"small_never_given_out", small_never_given_out},
	{"write_to_nothing", write_to_nothing},
	{"before_the_first", before_the_first},
	{"far_before_the_first", far_before_the_first},
	{"medium_twice", medium_twice},
	{"large_twice", large_twice},
	{"huge_twice", huge_twice},
};

int main(int argc, char **argv)
{
	const char *function = argc > 2 ? argv[2] : "free";
	misuse = strcmp(function, "realloc") == 0 ? by_realloc
		: strcmp(function, "malloc_usable_size") == 0 ? by_usable_size : by_free;
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
