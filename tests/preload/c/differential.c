/* H29: random calls with random arguments, many of them wrong, and what comes of each: to be
 * compared with what comes of the same calls under another malloc. Nothing is said that may differ
 * from one to the next: addresses, usable sizes, and requests that some can answer and others not.
 *
 * Usage: differential CALLS SEED. */
#include "check.h"
#include <malloc.h>

/* Asking for too much is the point. */
#pragma GCC diagnostic ignored "-Walloc-size-larger-than="

enum { SLOTS = 64, UNTOUCHED = 77 };

static struct slot {
	unsigned char *block;
	size_t size;
} slots[SLOTS];
static uint64_t state;

/* The usual, the edges, and what there cannot be. What lies in between depends on the machine. */
static size_t any_size(void)
{
	static const size_t EDGES[] = {
		0, 1, 15, 16, 17, 1023, 1024, 1025, 4095, 4096, 4097, 32767, 32768, 32769, 131071,
		131072, 131073, (size_t)PTRDIFF_MAX + 1, SIZE_MAX / 2 + 4096, SIZE_MAX - 4097,
		SIZE_MAX - 4096, SIZE_MAX - 4095, SIZE_MAX - 17, SIZE_MAX - 16, SIZE_MAX - 1, SIZE_MAX,
	};
	if (next_random(&state) % 3)
		return random_size(&state, 17);
	return EDGES[next_random(&state) % (sizeof EDGES / sizeof EDGES[0])];
}

/* A factor for calloc and reallocarray: products that fit and products that overflow. */
static size_t any_factor(void)
{
	static const size_t FACTORS[] = {
		0, 1, 2, 3, 8, 24, 100, (size_t)1 << 32, ((size_t)1 << 32) + 1, SIZE_MAX / 2, SIZE_MAX / 3,
		SIZE_MAX,
	};
	return FACTORS[next_random(&state) % (sizeof FACTORS / sizeof FACTORS[0])];
}

/* Whether all are sure to be able to answer a request, or sure not to. */
static int is_certain(size_t count, size_t each)
{
	size_t product;
	return __builtin_mul_overflow(count, each, &product) || product > PTRDIFF_MAX
		|| product < (size_t)16 << 20;
}

static size_t power_of_two(unsigned from, unsigned below)
{
	return (size_t)1 << (from + next_random(&state) % (below - from));
}

/* What posix_memalign must look at. */
static size_t any_alignment(void)
{
	static const size_t WRONG[] = {0, 1, 2, 3, 4, 6, 7, 9, 24, 48, 4097, SIZE_MAX};
	if (next_random(&state) % 3 == 0)
		return WRONG[next_random(&state) % (sizeof WRONG / sizeof WRONG[0])];
	return next_random(&state) % 16 == 0 ? power_of_two(62, 64) : power_of_two(3, 16);
}

static void fill(struct slot *slot)
{
	memset(slot->block, (int)(slot->size % 251) + 1, slot->size);
}

/* Says what came of a call, and keeps it if it is a block. */
static void keep(struct slot *slot, void *block, size_t size, size_t align)
{
	int error = errno;
	printf(" -> %s, errno ", block ? "block" : "null");
	printf("%s", error == UNTOUCHED ? "untouched" : strerrorname_np(error));
	if (block) {
		printf("%s", (uintptr_t)block % align ? " misaligned" : "");
		printf("%s", malloc_usable_size(block) < size ? " short" : "");
		*slot = (struct slot){block, size};
		fill(slot);
	}
	putchar('\n');
}

static void give_back(struct slot *slot)
{
	errno = UNTOUCHED;
	free(slot->block);
	CHECK(errno == UNTOUCHED);
	*slot = (struct slot){NULL, 0};
}

/* One of the calls that give out a new block. */
static void get(struct slot *slot)
{
	size_t size = any_size(), align = power_of_two(4, 16), count, each;
	void *block = NULL;
	switch (next_random(&state) % 8) {
	case 0:
		printf("aligned_alloc(%zu, %zu)", align, size);
		errno = UNTOUCHED;
		block = aligned_alloc(align, size);
		break;
	case 1:
		printf("memalign(%zu, %zu)", align, size);
		errno = UNTOUCHED;
		block = memalign(align, size);
		break;
	case 2:
		align = any_alignment();
		printf("posix_memalign(%zu, %zu)", align, size);
		errno = UNTOUCHED;
		block = slot;
		int error = posix_memalign(&block, align, size);
		printf(" = %s", strerrorname_np(error));
		if (error != 0) {
			printf("%s", block == slot ? "" : " touched");
			block = NULL;
		}
		/* POSIX has it that the call leaves it alone, and glibc's does not always. */
		errno = UNTOUCHED;
		break;
	case 3:
		count = any_factor();
		each = any_factor();
		if (!is_certain(count, each))
			return;
		size = count * each;
		align = 16;
		printf("calloc(%zu, %zu)", count, each);
		errno = UNTOUCHED;
		block = calloc(count, each);
		CHECK(!block || holds_only(block, 0, size));
		break;
	case 4:
		align = 4096;
		printf("valloc(%zu)", size);
		errno = UNTOUCHED;
		block = valloc(size);
		break;
	case 5:
		align = 4096;
		printf("pvalloc(%zu)", size);
		errno = UNTOUCHED;
		block = pvalloc(size);
		break;
	default:
		align = 16;
		printf("malloc(%zu)", size);
		errno = UNTOUCHED;
		block = malloc(size);
	}
	keep(slot, block, size, align);
}

/* Resizes what is there, be it nothing. */
static void resize(struct slot *slot)
{
	size_t size = any_size(), count = any_factor(), each = any_factor(), old = slot->size;
	void *moved;
	if (next_random(&state) % 2) {
		printf("realloc(%s %zu, %zu)", slot->block ? "block" : "null", old, size);
		errno = UNTOUCHED;
		moved = realloc(slot->block, size);
	} else {
		if (!is_certain(count, each))
			return;
		printf("reallocarray(%s %zu, %zu, %zu)", slot->block ? "block" : "null", old, count, each);
		int overflows = __builtin_mul_overflow(count, each, &size);
		errno = UNTOUCHED;
		moved = reallocarray(slot->block, count, each);
		size = overflows ? SIZE_MAX : size;
	}
	size_t kept = size < old ? size : old;
	int error = errno;
	if (moved)
		CHECK(holds_only(moved, (unsigned char)(old % 251 + 1), kept));
	else if (size == 0)
		*slot = (struct slot){NULL, 0};
	else if (slot->block)
		CHECK(holds_only(slot->block, (unsigned char)(old % 251 + 1), old));
	errno = error;
	keep(slot, moved, size, 16);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	size_t calls = strtoul(argv[1], NULL, 10);
	state = strtoul(argv[2], NULL, 10) | 1;
	static char buffer[1 << 16];
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	printf("malloc_usable_size(null) = %zu\n", malloc_usable_size(NULL));
	for (size_t i = 0; i < calls; i++) {
		struct slot *slot = &slots[next_random(&state) % SLOTS];
		if (next_random(&state) % 3 == 0) {
			resize(slot);
		} else if (slot->block) {
			give_back(slot);
		} else {
			get(slot);
		}
	}
	return 0;
}
