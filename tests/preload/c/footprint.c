/* H15, H16, H17, H33: what the kernel sees of a process: its maps, its share of a control group, its
 * huge pages, its core dump.
 *
 * Usage: footprint CASE. */
#include "check.h"
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 64 };

static size_t lines_of(const char *path)
{
	char part[4096];
	size_t lines = 0, bytes;
	FILE *file = fopen(path, "re");
	CHECK(file);
	while ((bytes = fread(part, 1, sizeof part, file)) > 0)
		for (size_t i = 0; i < bytes; i++)
			lines += part[i] == '\n';
	fclose(file);
	return lines;
}

static void *_Atomic shelf[4096];
static pthread_barrier_t worked, counted;

static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	for (int i = 0; i < 3000; i++) {
		size_t size = random_size(&random, i % 20 ? 14 : 20);
		char *block = malloc(size + 1);
		CHECK(block);
		block[0] = block[size] = 1;
		free(__atomic_exchange_n(&shelf[next_random(&random) % 4096], block,
			__ATOMIC_ACQ_REL));
	}
	pthread_barrier_wait(&worked);
	pthread_barrier_wait(&counted);
	return NULL;
}

/* How many maps a process of 64 threads has that use every size: with all threads there, and when
 * every other block has been freed. */
static void maps(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&worked, NULL, THREADS + 1);
	pthread_barrier_init(&counted, NULL, THREADS + 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	pthread_barrier_wait(&worked);
	printf("with threads: %zu\n", lines_of("/proc/self/maps"));
	for (int i = 0; i < 4096; i += 2)
		free(shelf[i]);
	printf("with holes: %zu\n", lines_of("/proc/self/maps"));
	pthread_barrier_wait(&counted);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Takes 64 MiB, says how much is resident, and aborts. */
static void abort_with_64_mebibytes(void)
{
	for (int i = 0; i < 64 * 64; i++) {
		char *block = malloc(16 << 10);
		CHECK(block);
		memset(block, 1, 16 << 10);
	}
	printf("resident: %zu\n", status_bytes("VmRSS:"));
	fflush(stdout);
	abort();
}

/* What is resident of 128 MiB of blocks of a page each, of which every sixteenth is left. */
static void sparse(void)
{
	enum { BLOCKS = 32768, KEPT = 16 };
	static char *blocks[BLOCKS];
	size_t page = (size_t)sysconf(_SC_PAGESIZE), count = ((size_t)128 << 20) / page;
	CHECK(count <= BLOCKS);
	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(page);
		CHECK(blocks[i]);
		memset(blocks[i], 1, page);
	}
	printf("full: %zu\n", status_bytes("VmRSS:"));
	for (size_t i = 0; i < count; i++)
		if (i % KEPT != 0)
			free(blocks[i]);
	malloc_trim(0);
	printf("trimmed: %zu\n", status_bytes("VmRSS:"));
}

/* Bytes of this process that stand in huge pages. */
static size_t huge_bytes(void)
{
	char line[256];
	size_t kilobytes = 0;
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	CHECK(file);
	while (fgets(line, sizeof line, file))
		sscanf(line, "AnonHugePages: %zu", &kilobytes);
	fclose(file);
	return kilobytes * 1024;
}

/* What is resident before, with, and after so many mebibytes (48) of each of several sizes, one after
 * the other. Where there are more than 48, only the larger sizes are taken. */
static void comes_and_goes(void)
{
	enum { USUAL = 48 };
	static const size_t SIZES[] = {3 << 20, 200000, 30000, 6000, 700, 48};
	static void *blocks[((size_t)USUAL << 20) / 48];
	const char *asked = getenv("MEBIBYTES");
	size_t mebibytes = asked ? strtoul(asked, NULL, 10) : USUAL;
	size_t sizes = mebibytes > USUAL ? 3 : sizeof SIZES / sizeof SIZES[0];
	/* So that only what malloc does is seen below. */
	memset(blocks, 1, sizeof blocks);
	for (size_t i = 0; i < sizes; i++) {
		size_t size = SIZES[i], count = (mebibytes << 20) / size;
		printf("%zu before: %zu\n", size, status_bytes("VmRSS:"));
		for (size_t n = 0; n < count; n++) {
			blocks[n] = malloc(size);
			CHECK(blocks[n]);
			memset(blocks[n], (int)n, size);
		}
		printf("%zu with: %zu\n", size, status_bytes("VmRSS:"));
		printf("%zu huge: %zu\n", size, huge_bytes());
		for (size_t n = 0; n < count; n++) {
			CHECK(holds_only(blocks[n], (unsigned char)n, size));
			free(blocks[n]);
		}
		malloc_trim(0);
		printf("%zu after: %zu\n", size, status_bytes("VmRSS:"));
	}
	printf("sizes: %zu\n", sizes);
}

static void take_and_free(size_t bytes)
{
	size_t count = bytes >> 12;
	void **blocks = malloc(count * sizeof *blocks);
	CHECK(blocks);
	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(4000);
		CHECK(blocks[i]);
		memset(blocks[i], 1, 4000);
	}
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
	free(blocks);
}

/* Under a limit of 256 MiB: what was freed must be back before another process needs it. */
static void take_turns_with_a_child(void)
{
	for (int round = 0; round < 3; round++) {
		take_and_free((size_t)180 << 20);
		pid_t child = fork();
		if (child == 0) {
			take_and_free((size_t)180 << 20);
			_exit(0);
		}
		int status;
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	}
	puts("done");
}

static long page_faults(void)
{
	struct rusage usage;
	CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
	return usage.ru_minflt;
}

/* Page faults of writing to memory that realloc has read, when only the first byte of each block
 * had been written to. Every other block stays, and with it the slabs. */
static void resized(void)
{
	enum { BLOCKS = 800, SMALL = 6000, LARGE = 20000 };
	static char *blocks[BLOCKS];
	for (int i = 0; i < BLOCKS; i++) {
		CHECK(blocks[i] = malloc(SMALL));
		blocks[i][0] = 1;
	}
	for (int i = 1; i < BLOCKS; i += 2)
		CHECK(realloc(blocks[i], LARGE));
	for (int i = 1; i < BLOCKS; i += 2)
		CHECK(blocks[i] = malloc(SMALL));
	long before = page_faults();
	for (int i = 1; i < BLOCKS; i += 2)
		memset(blocks[i], 1, SMALL);
	printf("blocks: %d\npage faults: %ld\n", BLOCKS / 2, page_faults() - before);
}

/* What a process has written to that has printed a line. Freehold need not be there, and this and the
 * next case do nothing else. */
static void small(void)
{
	char text[4096];
	puts("a line");
	int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0);
	ssize_t bytes = read(file, text, sizeof text - 1);
	CHECK(bytes > 0);
	text[bytes] = 0;
	unsigned long kibibytes;
	const char *line = strstr(text, "Private_Dirty:");
	CHECK(line && sscanf(line, "Private_Dirty: %lu", &kibibytes) == 1);
	printf("written to: %lu\n", kibibytes);
}

/* How much of the library's code is mapped in a process that has printed a line. */
static void mapped(void)
{
	static char text[256 << 10];
	puts("a line");
	int file = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0);
	size_t bytes = 0;
	for (ssize_t more; (more = read(file, text + bytes, sizeof text - 1 - bytes)) > 0;)
		bytes += more;
	unsigned long kibibytes;
	const char *line = strstr(text, "/libfreehold");
	CHECK(line && (line = strstr(line, "\nRss:")));
	CHECK(sscanf(line, "\nRss: %lu", &kibibytes) == 1);
	printf("mapped: %lu\n", kibibytes);
}

enum { PRODUCERS = 2, SLOTS = 1 << 14, BUFFERS = 200, FREERS = 400 };

static void *_Atomic buffers[SLOTS];
static _Atomic int done;

/* Puts a buffer into each place that is empty. */
static void *produce(void *number)
{
	for (size_t i = (uintptr_t)number; !done; i++) {
		if (buffers[i % SLOTS]) {
			if (i % 2048 == 0)
				sched_yield();
			continue;
		}
		void *buffer = malloc(100000), *none = NULL;
		CHECK(buffer);
		if (!__atomic_compare_exchange_n(&buffers[i % SLOTS], &none, buffer, 0,
			    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			free(buffer);
	}
	return NULL;
}

static void *free_buffers(void *first)
{
	int left = BUFFERS;
	for (size_t i = (uintptr_t)first; left > 0; i++) {
		void *buffer = __atomic_exchange_n(&buffers[i % SLOTS], NULL, __ATOMIC_ACQ_REL);
		free(buffer);
		left -= buffer != NULL;
	}
	return NULL;
}

/* Threads that do nothing but free large buffers of others, one after the other. */
static void freers(void)
{
	pthread_t producers[PRODUCERS], freer;
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		CHECK(pthread_create(&producers[i], NULL, produce, (void *)i) == 0);
	for (uintptr_t i = 0; i < FREERS; i++) {
		CHECK(pthread_create(&freer, NULL, free_buffers, (void *)(i * 7919)) == 0);
		CHECK(pthread_join(freer, NULL) == 0);
		if (i == FREERS / 4)
			printf("before: %zu\n", status_bytes("VmRSS:"));
	}
	printf("after: %zu\n", status_bytes("VmRSS:"));
	done = 1;
	for (int i = 0; i < PRODUCERS; i++)
		CHECK(pthread_join(producers[i], NULL) == 0);
}

static const struct test_case CASES[] = {
	{"small", small},
	{"mapped", mapped},
	{"maps", maps},
	{"abort_with_64_mebibytes", abort_with_64_mebibytes},
	{"sparse", sparse},
	{"comes_and_goes", comes_and_goes},
	{"take_turns_with_a_child", take_turns_with_a_child},
	{"resized", resized},
	{"freers", freers},
};

int main(int argc, char **argv)
{
	if (argc < 2 || (strcmp(argv[1], "small") != 0 && strcmp(argv[1], "mapped") != 0))
		require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
