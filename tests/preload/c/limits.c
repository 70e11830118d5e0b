/* H14: the end of memory. malloc returns null with ENOMEM, nothing aborts, and what was freed can be
 * had again. Meant to be run under a limit on address space or on data (ulimit -v, ulimit -d), or where
 * the kernel commits no more than there is (vm.overcommit_memory=2). */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct rlimit limit_of(int resource)
{
	struct rlimit limit;
	CHECK(getrlimit(resource, &limit) == 0);
	return limit;
}

/* A number of the system's, in a line that begins with these words; 0 if there is none. */
static size_t number_in(const char *path, const char *words)
{
	char line[256];
	size_t number = 0, length = strlen(words);
	FILE *file = fopen(path, "re");
	CHECK(file);
	while (fgets(line, sizeof line, file))
		if (strncmp(line, words, length) == 0)
			number = strtoul(line + length, NULL, 10);
	fclose(file);
	return number;
}

/* What could still be committed when it was first asked for. */
static size_t commit_limit(void)
{
	static size_t left;
	if (left == 0 && number_in("/proc/sys/vm/overcommit_memory", "") == 2)
		left = 1024 * (number_in("/proc/meminfo", "CommitLimit:") -
			number_in("/proc/meminfo", "Committed_AS:"));
	return left;
}

/* The limit under which this program was started. */
static size_t limit(void)
{
	rlim_t space = limit_of(RLIMIT_AS).rlim_cur, data = limit_of(RLIMIT_DATA).rlim_cur;
	if (space == RLIM_INFINITY && data == RLIM_INFINITY)
		return commit_limit();
	return space < data ? space : data;
}

struct block {
	struct block *next;
};

/* Allocates blocks until there is no memory; returns how many that were. */
static size_t fill(size_t size, struct block **blocks)
{
	size_t count = 0;
	errno = 0;
	for (;;) {
		struct block *block = count % 2 ? malloc(size) : calloc(1, size);
		if (!block)
			break;
		CHECK(errno == 0);
		block->next = *blocks;
		*blocks = block;
		count++;
	}
	CHECK(errno == ENOMEM);
	/* It stays so, and nothing else comes of asking again. */
	for (int i = 0; i < 1000; i++) {
		CHECK(!malloc(size) && errno == ENOMEM);
		CHECK(!calloc(2, size / 2) && errno == ENOMEM);
	}
	void *result = &result;
	CHECK(posix_memalign(&result, 64, limit()) == ENOMEM && result == &result);
	/* What one has is kept when it cannot be resized. */
	struct block *first = *blocks, *next = first->next;
	CHECK(!realloc(first, limit()) && errno == ENOMEM && first->next == next);
	return count;
}

static void empty(struct block **blocks)
{
	while (*blocks) {
		struct block *block = *blocks;
		*blocks = block->next;
		free(block);
	}
}

static void fill_and_recover(size_t size)
{
	struct block *blocks = NULL;
	size_t first = fill(size, &blocks);
	printf("%zu bytes: %zu of %zu\n", size, first * size, limit());
	/* Most of what the limit allows can be used. */
	CHECK(first * size > limit() / 4);
	for (int round = 0; round < 3; round++) {
		empty(&blocks);
		size_t again = fill(size, &blocks);
		CHECK(again >= first - first / 10);
	}
	empty(&blocks);
}

static void mebibytes(void)
{
	fill_and_recover(1 << 20);
}

static void medium(void)
{
	fill_and_recover(10000);
}

static void small(void)
{
	fill_and_recover(100);
}

/* After one size has taken everything, another can have it. */
static void one_size_after_another(void)
{
	static const size_t SIZES[] = {100, 1 << 20, 5000, 200, 300000, 30000};
	for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
		struct block *blocks = NULL;
		size_t bytes = fill(SIZES[i], &blocks) * SIZES[i];
		printf("%zu bytes: %zu\n", SIZES[i], bytes);
		CHECK(bytes > limit() / 5);
		empty(&blocks);
	}
}

/* The most basic promise, where hardly anything fits: no abort, and ENOMEM. */
static void hardly_anything(void)
{
	struct block *blocks = NULL;
	size_t count = 0;
	for (size_t size = 16; size < (size_t)64 << 20; size *= 2) {
		struct block *block = malloc(size);
		if (!block) {
			CHECK(errno == ENOMEM);
			continue;
		}
		count++;
		block->next = blocks;
		blocks = block;
	}
	empty(&blocks);
	CHECK(!malloc((size_t)64 << 20) && errno == ENOMEM);
	printf("blocks: %zu\n", count);
}

static pthread_barrier_t all_started;

static void *fill_in_thread(void *unused)
{
	(void)unused;
	/* Once memory is short, no further thread could be made. */
	pthread_barrier_wait(&all_started);
	for (int i = 0; i < 20; i++) {
		struct block *blocks = NULL;
		for (size_t size = 100; size < 200000; size += size / 4) {
			struct block *block;
			for (int n = 0; n < 200 && (block = malloc(size)); n++) {
				memset(block, 1, size);
				block->next = blocks;
				blocks = block;
			}
		}
		empty(&blocks);
	}
	return NULL;
}

/* Threads that take from each other what there is. */
static void threads(void)
{
	pthread_t all[8];
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 * 1024);
	pthread_barrier_init(&all_started, NULL, 8);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&all[i], &attributes, fill_in_thread, NULL) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
	struct block *blocks = NULL;
	CHECK(fill(5000, &blocks) * 5000 > limit() / 5);
	empty(&blocks);
}

static pthread_barrier_t all_have;

static void *have_some(void *unused)
{
	(void)unused;
	void *all[7 * 11];
	int count = 0;
	for (size_t size = 16; size < 16384; size = size * 5 / 2)
		for (int n = 0; n < 4; n++) {
			CHECK(all[count] = malloc(size));
			memset(all[count++], 1, size);
		}
	pthread_barrier_wait(&all_have);
	for (int i = 0; i < count; i++)
		free(all[i]);
	return NULL;
}

/* As many threads at once as their stacks, in an eighth of the limit, let one expect. */
static void many_threads(void)
{
	enum { THREADS = 300 };
	pthread_t all[THREADS];
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, limit() / 8 / THREADS / 4096 * 4096);
	pthread_barrier_init(&all_have, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&all[i], &attributes, have_some, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
}

/* The child of a process that has next to nothing in use can allocate. */
static void fork_and_allocate(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		char *block = malloc(1 << 20);
		CHECK(block);
		memset(block, 1, 1 << 20);
		free(block);
		_exit(0);
	}
	CHECK(child > 0);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A fork needs as much again as is committed, and what was once usable stays committed. Where that
 * is more than is left a fork fails, and nothing else comes of it. */
static void forks(void)
{
	static const size_t SIZES[] = {100, 30000, 1 << 20};
	fork_and_allocate();
	for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
		struct block *blocks = NULL;
		size_t count = fill(SIZES[i], &blocks);
		pid_t child = fork();
		CHECK(child == -1 && errno == ENOMEM);
		empty(&blocks);
		CHECK(fill(SIZES[i], &blocks) >= count - count / 10);
		empty(&blocks);
	}
}

/* What was allocated before the process allowed itself less can be resized, or stays. */
static void own_limit(void)
{
	enum { BUFFERS = 6, MIB = 1 << 20 };
	unsigned char *buffers[BUFFERS];
	for (int i = 0; i < BUFFERS; i++) {
		buffers[i] = malloc(8 * MIB);
		CHECK(buffers[i]);
		memset(buffers[i], i + 1, 8 * MIB);
	}
	/* Room for what they are to become, without any more address space. */
	char *room = malloc(200 * MIB);
	CHECK(room);
	free(room);
	struct rlimit limit = {40 * MIB, 40 * MIB};
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	for (int i = 0; i < BUFFERS; i++) {
		unsigned char *larger = realloc(buffers[i], 12 * MIB);
		if (larger)
			memset(larger + 8 * MIB, 0, 4 * MIB);
		else
			larger = buffers[i];
		for (int n = 0; n < 8 * MIB; n++)
			CHECK(larger[n] == i + 1);
		free(larger);
	}
}

static const struct test_case CASES[] = {
	{"mebibytes", mebibytes},
	{"medium", medium},
	{"small", small},
	{"one_size_after_another", one_size_after_another},
	{"hardly_anything", hardly_anything},
	{"threads", threads},
	{"many_threads", many_threads},
	{"forks", forks},
	{"own_limit", own_limit},
};

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "hardly_anything") != 0)
		require_freehold();
	/* Made and asked for now, since a buffer and reading a file take memory. */
	static char output[BUFSIZ];
	setvbuf(stdout, output, _IOFBF, sizeof output);
	CHECK(limit() > 0);
	return RUN_CASE(CASES, argc, argv);
}
