/* A stress test that knows that memory may be refused: threads get blocks of all sizes in every
 * way, check them, resize them, and free each other's. What is refused must be refused with NULL
 * and ENOMEM, and everything else must hold as ever. Halfway the program says, by a system call
 * that means nothing, that calls fail no longer: from then on nothing may be refused, or, if the
 * address space is limited, not when everything has been freed.
 *
 * Everything that the program needs for itself is static: it must go on when malloc does not.
 *
 * Usage: faults STEPS SEED STEADY LIMITED: the steps of each thread; the mebibytes that stay in use
 * meanwhile; 1 if the address space is limited. Says how often memory was refused. */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

enum { THREADS = 4, PLACES = 512, BURST = 24, MOST_STEADY = 1000 };

/* The option of prctl(2) by which the tracer knows that the faults are to end. */
enum { FAULTS_END = 0x46454e44 };

static const size_t KIB = 1 << 10, MIB = 1 << 20;

/* What a block begins with; the rest of it is filled with a byte that depends on these. */
struct head {
	size_t size;
	uint64_t tag;
};

static _Atomic(struct head *) shelf[PLACES];
static atomic_ulong given, refused;
static int may_be_refused;
static size_t steps, steady;
static uint64_t seed;

static unsigned char filling(const struct head *head)
{
	return (unsigned char)(head->tag % 255 + 1);
}

/* Fills or checks a block behind its head: small ones as a whole, large ones in every page. */
static void each_stretch(struct head *head, size_t size, int fill)
{
	unsigned char *bytes = (unsigned char *)head, expected = filling(head);
	size_t step = size <= 64 * KIB ? size : 4096;
	for (size_t start = sizeof *head; start < size; start += step) {
		size_t left = size - start, length = step == size || left < 64 ? left : 64;
		if (fill) {
			memset(bytes + start, expected, length);
			continue;
		}
		CHECK(holds_only(bytes + start, expected, length));
	}
}

static struct head *filled(void *block, size_t size, uint64_t tag)
{
	struct head *head = block;
	CHECK((uintptr_t)block % 16 == 0 && malloc_usable_size(block) >= size);
	*head = (struct head){size, tag};
	each_stretch(head, size, 1);
	return head;
}

/* Counts what was refused, and checks how. */
static int is_refused(void *block)
{
	if (block) {
		given++;
		return 0;
	}
	CHECK(errno == ENOMEM);
	CHECK(may_be_refused);
	refused++;
	return 1;
}

static void *zeroed(size_t size)
{
	char *block = calloc(1, size);
	CHECK(!block || holds_only(block, 0, size));
	return block;
}

static void *aligned(size_t size, uint64_t *random)
{
	size_t align = (size_t)16 << next_random(random) % 12;
	void *block = NULL;
	int error = posix_memalign(&block, align, size);
	CHECK(error == 0 || (error == ENOMEM && !block));
	CHECK((uintptr_t)block % align == 0);
	/* It must leave errno alone, so that is_refused finds what this sets. */
	errno = error;
	return block;
}

static size_t any_size(uint64_t *random)
{
	uint64_t kind = next_random(random) % 400;
	unsigned bits = kind < 320 ? 10 : kind < 380 ? 15 : kind < 398 ? 20 : 23;
	return sizeof(struct head) + random_size(random, bits);
}

static struct head *any_block(uint64_t *random)
{
	size_t size = any_size(random);
	uint64_t way = next_random(random) % 8;
	errno = 0;
	void *block = way == 0 ? zeroed(size) : way == 1 ? aligned(size, random) : malloc(size);
	return is_refused(block) ? NULL : filled(block, size, next_random(random));
}

static void give_back(struct head *head)
{
	if (!head)
		return;
	each_stretch(head, head->size, 0);
	errno = 77;
	free(head);
	CHECK(errno == 77);
}

static struct head *resized(struct head *head, uint64_t *random)
{
	size_t size = any_size(random), old = head->size;
	each_stretch(head, old, 0);
	errno = 0;
	struct head *moved = realloc(head, size);
	if (is_refused(moved)) {
		/* What is to become smaller can stay, and the rest must be as it was. */
		CHECK(size > old);
		each_stretch(head, old, 0);
		return head;
	}
	size_t kept = size < old ? size : old;
	CHECK(moved->size == old);
	if (kept <= 64 * KIB && old <= 64 * KIB)
		each_stretch(moved, kept, 0);
	return filled(moved, size, next_random(random));
}

/* One large block after another, so that there is something to give back, and all at once. */
static void burst(uint64_t *random)
{
	struct head *all[BURST];
	for (int i = 0; i < BURST; i++) {
		size_t size = 200 * KIB + next_random(random) % MIB;
		errno = 0;
		void *block = malloc(size);
		all[i] = is_refused(block) ? NULL : filled(block, size, next_random(random));
	}
	for (int i = 0; i < BURST; i++)
		give_back(all[i]);
}

/* Blocks so large that their pages are moved rather than copied, when they grow. */
static void grow(uint64_t *random)
{
	size_t size = 5 * MIB;
	errno = 0;
	struct head *block = malloc(size);
	if (is_refused(block))
		return;
	filled(block, size, next_random(random));
	/* What stands behind it keeps it from growing where it is. */
	void *behind = malloc(4 * MIB);
	while (size < 20 * MIB) {
		size_t larger = size + 4 * MIB;
		errno = 0;
		struct head *moved = realloc(block, larger);
		if (is_refused(moved))
			break;
		each_stretch(moved, size, 0);
		block = filled(moved, larger, next_random(random));
		size = larger;
	}
	give_back(block);
	free(behind);
}

static void *work(void *number)
{
	uint64_t random = seed + (uintptr_t)number * 0x9e3779b97f4a7c15;
	for (size_t i = 0; i < steps; i++) {
		struct head *block = any_block(&random);
		if (block && next_random(&random) % 4 == 0)
			block = resized(block, &random);
		give_back(atomic_exchange(&shelf[next_random(&random) % PLACES], block));
		if (i % 128 == 127)
			burst(&random);
		if (i % 256 == 200)
			grow(&random);
		if (i % 256 == 255)
			malloc_trim(0);
	}
	return NULL;
}

/* Where not even a thread can be had, its work is done all the same. */
static void run_threads(void)
{
	pthread_t all[THREADS];
	int started[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++) {
		started[i] = pthread_create(&all[i], NULL, work, (void *)i) == 0;
		CHECK(started[i] || may_be_refused);
		if (!started[i])
			work((void *)i);
	}
	for (int i = 0; i < THREADS; i++)
		if (started[i])
			pthread_join(all[i], NULL);
}

/* Many blocks that stay and are not touched: the heap is a large one, and grows. */
static void with_steady_blocks(size_t count, void (*run)(void))
{
	static void *blocks[MOST_STEADY];
	for (size_t i = 0; i < count; i++) {
		errno = 0;
		blocks[i] = malloc(MIB);
		is_refused(blocks[i]);
	}
	run();
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
}

static void free_all(void)
{
	for (int i = 0; i < PLACES; i++)
		give_back(atomic_exchange(&shelf[i], NULL));
}

static size_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

int main(int argc, char **argv)
{
	CHECK(argc == 5);
	steps = strtoul(argv[1], NULL, 10);
	seed = strtoul(argv[2], NULL, 10) | 1;
	steady = strtoul(argv[3], NULL, 10);
	CHECK(steady <= MOST_STEADY);
	int limited = strtoul(argv[4], NULL, 10) != 0;
	may_be_refused = 1;
	with_steady_blocks(steady, run_threads);
	prctl(FAULTS_END, 0, 0, 0, 0);
	unsigned long refused_before = refused;
	may_be_refused = limited;
	with_steady_blocks(steady, run_threads);
	free_all();
	may_be_refused = 0;
	with_steady_blocks(steady / 2, free_all);
	malloc_trim(0);
	require_freehold();
	/* Attempts that failed must not have used up what there is a limited number of. */
	pthread_key_t key;
	CHECK(pthread_key_create(&key, NULL) == 0);
	dprintf(1, "given: %lu\nrefused: %lu\n", given, refused_before);
	dprintf(1, "in use: %zu\nresident: %zu\n", in_use(), status_bytes("VmRSS:"));
	dprintf(1, "address space: %zu\n", status_bytes("VmSize:"));
	return 0;
}
