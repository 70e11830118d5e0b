/* H29, H30: results, alignments, errno and usable sizes as the manual pages of malloc(3),
 * posix_memalign(3) and malloc_usable_size(3) say. */
#include "check.h"
#include <malloc.h>

/* Asking for too much is the point. */
#pragma GCC diagnostic ignored "-Walloc-size-larger-than="

static const size_t TOO_LARGE[] = {
	(size_t)PTRDIFF_MAX + 1, SIZE_MAX / 2 + 4096, SIZE_MAX - 4096, SIZE_MAX - 16, SIZE_MAX,
};

/* Sizes of all kinds: around the powers of two, and so around most classes' ends. */
#define FOR_EACH_SIZE(size) \
	for (size_t power = 1, size = 0; power <= (size_t)4 << 20; power *= 2) \
		for (size = power - 1; size <= power + 1; size++)

#define FAILS_WITH(error, expression) \
	(errno = 0, CHECK((expression) == NULL), CHECK(errno == (error)))

static void sizes_beyond_ptrdiff_max(void)
{
	char *kept = malloc(100);
	void *result = kept;
	strcpy(kept, "kept");
	for (size_t i = 0; i < sizeof TOO_LARGE / sizeof TOO_LARGE[0]; i++) {
		size_t size = TOO_LARGE[i];
		FAILS_WITH(ENOMEM, malloc(size));
		FAILS_WITH(ENOMEM, calloc(1, size));
		FAILS_WITH(ENOMEM, calloc(size, 1));
		FAILS_WITH(ENOMEM, realloc(NULL, size));
		FAILS_WITH(ENOMEM, realloc(kept, size));
		FAILS_WITH(ENOMEM, reallocarray(kept, 1, size));
		FAILS_WITH(ENOMEM, aligned_alloc(64, size));
		FAILS_WITH(ENOMEM, memalign(4096, size));
		FAILS_WITH(ENOMEM, valloc(size));
		FAILS_WITH(ENOMEM, pvalloc(size));
		CHECK(posix_memalign(&result, 64, size) == ENOMEM && result == kept);
	}
	CHECK(strcmp(kept, "kept") == 0);
	free(kept);
}

static void products_that_overflow(void)
{
	char *kept = malloc(100);
	strcpy(kept, "kept");
	FAILS_WITH(ENOMEM, calloc(SIZE_MAX / 2, 3));
	FAILS_WITH(ENOMEM, calloc(3, SIZE_MAX / 2));
	FAILS_WITH(ENOMEM, calloc((size_t)1 << 32, (size_t)1 << 32));
	FAILS_WITH(ENOMEM, reallocarray(kept, SIZE_MAX / 2, 3));
	FAILS_WITH(ENOMEM, reallocarray(kept, (size_t)1 << 32, (size_t)1 << 32));
	CHECK(strcmp(kept, "kept") == 0);
	free(kept);
}

static void alignments_that_are_none(void)
{
	static const size_t WRONG[] = {0, 3, 24, 48, 4097, SIZE_MAX};
	void *result = &result;
	for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
		FAILS_WITH(EINVAL, aligned_alloc(WRONG[i], 100));
		FAILS_WITH(EINVAL, memalign(WRONG[i], 100));
		CHECK(posix_memalign(&result, WRONG[i], 100) == EINVAL && result == &result);
	}
	/* Powers of two, but not multiples of a pointer's size. */
	CHECK(posix_memalign(&result, 1, 100) == EINVAL);
	CHECK(posix_memalign(&result, 4, 100) == EINVAL);
	CHECK(result == &result);
}

static void posix_memalign_and_errno(void)
{
	void *result = &result;
	errno = 77;
	CHECK(posix_memalign(&result, 3, 100) == EINVAL && errno == 77);
	CHECK(posix_memalign(&result, 64, SIZE_MAX - 64) == ENOMEM && errno == 77);
	CHECK(result == &result);
	CHECK(posix_memalign(&result, 64, 100) == 0 && errno == 77);
	CHECK(result != &result && (uintptr_t)result % 64 == 0);
	free(result);
}

static int by_address(const void *a, const void *b)
{
	uintptr_t left = *(const uintptr_t *)a, right = *(const uintptr_t *)b;
	return (left > right) - (left < right);
}

static void nothing_asked_for(void)
{
	enum { COUNT = 4000 };
	static void *all[COUNT];
	for (int i = 0; i < COUNT; i++) {
		switch (i % 5) {
		case 0: all[i] = malloc(0); break;
		case 1: all[i] = calloc(0, 8); break;
		case 2: all[i] = realloc(NULL, 0); break;
		case 3: all[i] = aligned_alloc(64, 0); break;
		case 4: CHECK(posix_memalign(&all[i], 64, 0) == 0); break;
		}
		CHECK(all[i]);
		memset(all[i], 0, malloc_usable_size(all[i]));
	}
	qsort(all, COUNT, sizeof *all, by_address);
	for (int i = 1; i < COUNT; i++)
		CHECK(all[i] != all[i - 1]);
	for (int i = 0; i < COUNT; i++)
		free(all[i]);
}

static void realloc_to_nothing(void)
{
	size_t before = mallinfo2().uordblks;
	for (int i = 0; i < 10000; i++) {
		void *object = malloc(100 * 1024);
		errno = 0;
		CHECK(object && realloc(object, 0) == NULL && errno == 0);
		CHECK(reallocarray(malloc(100 * 1024), 10, 0) == NULL);
	}
	/* They were freed: 2 GB would be in use otherwise. */
	CHECK(mallinfo2().uordblks < before + (1 << 20));
}

static void free_and_errno(void)
{
	static const size_t SIZES[] = {0, 16, 1000, 5000, 30000, 100000, 3 << 20, 200 << 20};
	errno = 77;
	for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
		void *object = malloc(SIZES[i]);
		CHECK(object && errno == 77);
		memset(object, 1, SIZES[i]);
		free(object);
		CHECK(errno == 77);
	}
	free(NULL);
	CHECK(errno == 77);
}

static void every_alignment(void)
{
	void *all[16];
	for (size_t align = 8; align <= (size_t)8 << 20; align *= 2)
		for (size_t size = 0; size <= (size_t)1 << 20; size = size * 3 + 1) {
			for (int i = 0; i < 16; i++) {
				switch (i % 3) {
				case 0: all[i] = aligned_alloc(align, size); break;
				case 1: all[i] = memalign(align, size); break;
				case 2: CHECK(posix_memalign(&all[i], align, size) == 0);
				}
				CHECK(all[i] && (uintptr_t)all[i] % align == 0);
				CHECK((uintptr_t)all[i] % 16 == 0);
				CHECK(malloc_usable_size(all[i]) >= size);
				memset(all[i], i, size);
			}
			for (int i = 0; i < 16; i++) {
				CHECK(holds_only(all[i], i, size));
				free(all[i]);
			}
		}
}

static void max_align_of_every_size(void)
{
	FOR_EACH_SIZE(size) {
		void *object = malloc(size), *zeroed = calloc(1, size);
		CHECK((uintptr_t)object % 16 == 0 && (uintptr_t)zeroed % 16 == 0);
		object = realloc(object, size / 2 + 1);
		CHECK((uintptr_t)object % 16 == 0);
		free(object);
		free(zeroed);
	}
}

static void pages(void)
{
	size_t page = sysconf(_SC_PAGESIZE);
	for (size_t size = 0; size < 10 * page; size += 97) {
		void *any = valloc(size), *whole = pvalloc(size);
		CHECK((uintptr_t)any % page == 0 && malloc_usable_size(any) >= size);
		CHECK((uintptr_t)whole % page == 0);
		size_t rounded = size == 0 ? page : (size + page - 1) / page * page;
		CHECK(malloc_usable_size(whole) >= rounded);
		memset(whole, 1, rounded);
		free(any);
		free(whole);
	}
}

static void calloc_of_used_memory(void)
{
	enum { COUNT = 16 };
	void *all[COUNT];
	FOR_EACH_SIZE(size)
		for (int round = 0; round < 3; round++) {
			for (int i = 0; i < COUNT; i++) {
				all[i] = round % 2 ? calloc(size, 1) : calloc(1, size);
				CHECK(holds_only(all[i], 0, size));
				memset(all[i], 0xa5, malloc_usable_size(all[i]));
			}
			for (int i = 0; i < COUNT; i++)
				free(all[i]);
		}
}

static void usable_size(void)
{
	CHECK(malloc_usable_size(NULL) == 0);
	FOR_EACH_SIZE(size) {
		unsigned char *object = malloc(size), *neighbour = malloc(size);
		size_t usable = malloc_usable_size(object);
		CHECK(usable >= size);
		memset(neighbour, 2, malloc_usable_size(neighbour));
		memset(object, 1, usable);
		CHECK(holds_only(neighbour, 2, malloc_usable_size(neighbour)));
		CHECK(malloc_usable_size(object) == usable);
		/* H30: programs use the whole of it, and expect realloc to keep it. */
		object = realloc(object, usable + 1);
		CHECK(malloc_usable_size(object) > usable && holds_only(object, 1, usable));
		object = realloc(object, size / 2 + 1);
		CHECK(holds_only(object, 1, size / 2 < usable ? size / 2 : usable));
		free(object);
		free(neighbour);
	}
}

static void realloc_keeps_contents(void)
{
	uint64_t random = 88172645463325252;
	enum { COUNT = 64 };
	unsigned char *all[COUNT] = {0};
	size_t sizes[COUNT] = {0};
	for (int i = 0; i < 40000; i++) {
		int n = next_random(&random) % COUNT;
		size_t size = 1 + random_size(&random, i % 50 ? 14 : 22);
		unsigned char *moved = realloc(all[n], size);
		CHECK(moved);
		CHECK(holds_only(moved, n, sizes[n] < size ? sizes[n] : size));
		memset(moved, n, size);
		all[n] = moved;
		sizes[n] = size;
	}
	for (int n = 0; n < COUNT; n++)
		free(all[n]);
}

static const struct test_case CASES[] = {
	{"sizes_beyond_ptrdiff_max", sizes_beyond_ptrdiff_max},
	{"products_that_overflow", products_that_overflow},
	{"alignments_that_are_none", alignments_that_are_none},
	{"posix_memalign_and_errno", posix_memalign_and_errno},
	{"nothing_asked_for", nothing_asked_for},
	{"realloc_to_nothing", realloc_to_nothing},
	{"free_and_errno", free_and_errno},
	{"every_alignment", every_alignment},
	{"max_align_of_every_size", max_align_of_every_size},
	{"pages", pages},
	{"calloc_of_used_memory", calloc_of_used_memory},
	{"usable_size", usable_size},
	{"realloc_keeps_contents", realloc_keeps_contents},
};

int main(int argc, char **argv)
{
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
