/* glibc's extensions: mallinfo(3), malloc_info(3), malloc_stats(3), mallopt(3), malloc_trim(3). */
#include "check.h"
#include <malloc.h>

/* mallinfo is deprecated, not gone. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void *blocks[100000];

static void allocate(size_t count, size_t size)
{
	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(size);
		CHECK(blocks[i]);
		memset(blocks[i], 1, size);
	}
}

static void free_all(size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
}

/* What is in use and what is free follows what the program does. */
static void mallinfo_follows(void)
{
	struct mallinfo2 before = mallinfo2();
	allocate(1000, 100 * 1024);
	struct mallinfo2 full = mallinfo2();
	size_t live = (size_t)1000 * 100 * 1024;
	CHECK(full.uordblks >= before.uordblks + live);
	CHECK(full.uordblks < before.uordblks + live + live / 2);
	CHECK(full.arena >= full.uordblks);
	struct mallinfo old = mallinfo();
	CHECK((size_t)old.uordblks == full.uordblks && (size_t)old.arena == full.arena);
	free_all(1000);
	struct mallinfo2 after = mallinfo2();
	CHECK(after.uordblks < before.uordblks + (1 << 20));
	allocate(50000, 100);
	free_all(50000);
	CHECK(mallinfo2().fordblks > 0);
}

/* What does not fit an int is cut, and does not become negative. */
static void mallinfo_of_more_than_2_gib(void)
{
	void *huge = malloc((size_t)3 << 30);
	CHECK(huge);
	struct mallinfo2 info = mallinfo2();
	CHECK(info.uordblks + info.hblkhd >= (size_t)3 << 30);
	struct mallinfo old = mallinfo();
	CHECK(old.uordblks == INT32_MAX || old.hblkhd == INT32_MAX);
	CHECK(old.uordblks >= 0 && old.arena >= 0 && old.hblkhd >= 0);
	free(huge);
}

static void malloc_info_on_stdout(void)
{
	allocate(1000, 1000);
	CHECK(malloc_info(0, stdout) == 0);
	fflush(stdout);
	errno = 0;
	CHECK(malloc_info(1, stdout) == -1 && errno == EINVAL);
}

static void malloc_stats_on_stderr(void)
{
	allocate(1000, 1000);
	malloc_stats();
}

static void mallopt_knows_its_parameters(void)
{
	static const int KNOWN[] = {
		M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_CHECK_ACTION,
		M_PERTURB, M_ARENA_TEST, M_ARENA_MAX,
	};
	for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
		CHECK(mallopt(KNOWN[i], 1) == 1);
	CHECK(mallopt(12345, 1) == 0);
	/* Whatever was set, malloc works. */
	allocate(1000, 1000);
	free_all(1000);
}

/* In hardened mode objects of more than 1 MiB give their memory back when they are freed. */
static int is_back_already(size_t size)
{
	const char *hardened = getenv("FREEHOLD_HARDEN");
	return hardened && strcmp(hardened, "1") == 0 && size > 1 << 20;
}

/* malloc_trim must be seen where users look: in the resident memory. */
static void trim_lowers_rss(void)
{
	static const size_t SIZES[] = {100, 5000, 40000, 300000, 2000000};
	for (int i = 0; i < 5; i++) {
		size_t count = ((size_t)7 << 20) / SIZES[i], before = status_bytes("VmRSS:");
		allocate(count, SIZES[i]);
		free_all(count);
		size_t freed = status_bytes("VmRSS:");
		int trimmed = malloc_trim(0);
		size_t after = status_bytes("VmRSS:");
		printf("%zu: %zu, freed %zu, trimmed %zu\n", SIZES[i], before, freed, after);
		/* So little may stay, so that there is something to trim. */
		CHECK(is_back_already(SIZES[i]) ? freed < before + (1 << 20)
						: freed > before + (4 << 20) && trimmed == 1);
		CHECK(after < before + (1 << 20));
	}
	malloc_trim(0);
	CHECK(malloc_trim(0) == 0);
	/* What is in use stays as it is. */
	allocate(10000, 500);
	for (size_t i = 0; i < 10000; i += 2)
		free(blocks[i]);
	malloc_trim(0);
	for (size_t i = 1; i < 10000; i += 2)
		CHECK(holds_only(blocks[i], 1, 500));
}

static const struct test_case CASES[] = {
	{"mallinfo_follows", mallinfo_follows},
	{"mallinfo_of_more_than_2_gib", mallinfo_of_more_than_2_gib},
	{"malloc_info_on_stdout", malloc_info_on_stdout},
	{"malloc_stats_on_stderr", malloc_stats_on_stderr},
	{"mallopt_knows_its_parameters", mallopt_knows_its_parameters},
	{"trim_lowers_rss", trim_lowers_rss},
};

int main(int argc, char **argv)
{
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
