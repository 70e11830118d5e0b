/* H20: signal handlers that allocate, although they must not: a program that did so without harm
 * before must not hang or crash.
 *
 * Usage: signals CASE [SECONDS]. */
#include "check.h"
#include "stepping.h"
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { THREADS = 8, MICROSECONDS = 100 };

static int seconds = 1;
static volatile int stop;
static volatile long handled;

/* Allocates and frees in all sizes, and checks that it has its blocks for itself. */
static void *work(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	unsigned char tag = 1 + (uintptr_t)number;
	struct {
		char *start;
		size_t size;
	} blocks[64] = {0}, *block;
	long steps = 0;
	while (!stop) {
		block = &blocks[next_random(&random) % 64];
		CHECK(holds_only(block->start, tag, block->size));
		free(block->start);
		block->size = random_size(&random, next_random(&random) % 50 ? 12 : 18);
		block->start = malloc(block->size);
		CHECK(block->start);
		memset(block->start, tag, block->size);
		steps++;
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i].start);
	return (void *)steps;
}

static void allocate_in_handler(int signal)
{
	static const size_t SIZES[] = {24, 100, 700, 3000, 20000, 70000};
	(void)signal;
	int error = errno;
	size_t size = SIZES[handled % 6];
	char *block = malloc(size);
	CHECK(block);
	memset(block, 0xee, size);
	block = realloc(block, size + size / 2);
	CHECK(block && holds_only(block, 0xee, size));
	free(block);
	handled++;
	errno = error;
}

static void handle(int signal, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	CHECK(sigaction(signal, &action, NULL) == 0);
}

/* Sends the signal to the process, which lets any of its threads handle it, but for this one. */
static timer_t start_timer(int signal)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
	struct itimerspec time = {{0, MICROSECONDS * 1000}, {0, MICROSECONDS * 1000}};
	timer_t timer;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &time, NULL) == 0);
	return timer;
}

/* Takes more blocks of one size than the allocator keeps at hand, and frees them all, so that what it
 * has at hand is used up and filled again and again. The first size is one of the handler's. */
static void *work_in_bursts(void *number)
{
	enum { BLOCKS = 200 };
	uint64_t *blocks[BLOCKS];
	uint64_t tag = (uintptr_t)number << 32;
	long steps = 0;
	while (!stop) {
		for (uint64_t i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(24);
			CHECK(blocks[i]);
			*blocks[i] = tag + i;
		}
		for (uint64_t i = 0; i < BLOCKS; i++)
			CHECK(*blocks[i] == tag + i);
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		steps++;
	}
	return (void *)steps;
}

static void run_under_signals(void *(*worker)(void *))
{
	pthread_t threads[THREADS];
	handle(SIGUSR1, allocate_in_handler);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
	timer_t timer = start_timer(SIGUSR1);
	uint64_t end = nanoseconds() + (uint64_t)seconds * 1000000000;
	struct timespec pause = {0, 1000000};
	while (nanoseconds() < end)
		nanosleep(&pause, NULL);
	timer_delete(timer);
	stop = 1;
	for (int i = 0; i < THREADS; i++) {
		void *steps;
		CHECK(pthread_join(threads[i], &steps) == 0 && steps);
	}
	printf("handled: %ld\n", handled);
	CHECK(handled > 0);
}

static void timer_signals(void)
{
	run_under_signals(work);
}

static void timer_signals_in_bursts(void)
{
	run_under_signals(work_in_bursts);
}

/* Interrupts malloc and free before each of their instructions. */
#ifdef __x86_64__
enum { STEPPED_SIZE = 1100, STEPPED = 400, TAKEN_OVER = 15 };

static uint64_t *stepped[STEPPED], *others[STEPPED];

/* Takes one object, two, or three, and gives them back, the last one first, at once or by way of
 * realloc. */
static void take_and_give_back(int signal)
{
	(void)signal;
	int error = errno;
	uint64_t *taken[3];
	int count = 1 + handled++ % 3;
	int moves = handled & 1;
	for (int i = 0; i < count; i++) {
		taken[i] = malloc(STEPPED_SIZE);
		CHECK(taken[i]);
		memset(taken[i], 0xee, STEPPED_SIZE);
	}
	while (count-- > 0) {
		if (moves)
			taken[count] = realloc(taken[count], 3 * STEPPED_SIZE);
		CHECK(taken[count] && holds_only(taken[count], 0xee, STEPPED_SIZE));
		free(taken[count]);
	}
	errno = error;
}

static void take(uint64_t **objects, uint64_t tag)
{
	for (uint64_t i = 0; i < STEPPED; i++)
		if (!objects[i]) {
			objects[i] = malloc(STEPPED_SIZE);
			CHECK(objects[i]);
			*objects[i] = tag + i;
		}
}

static void check_and_free(uint64_t **objects, uint64_t tag)
{
	for (uint64_t i = 0; i < STEPPED; i++)
		CHECK(!objects[i] || *objects[i] == tag + i);
	for (int i = 0; i < STEPPED; i++) {
		free(objects[i]);
		objects[i] = NULL;
	}
}

/* Frees every second object of the other thread's, which trimming sends home at once, and takes over
 * what these were in. */
static void *take_over(void *unused)
{
	for (int i = 0; i < STEPPED; i++)
		if (i % 2) {
			free(stepped[i]);
			stepped[i] = NULL;
		}
	malloc_trim(0);
	take(others, 1 << 16);
	return unused;
}

static void *free_others(void *unused)
{
	check_and_free(others, 1 << 16);
	return unused;
}

static void run_elsewhere(void *(*work)(void *))
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

/* The objects that the interrupted thread has at hand lie where another thread allocates by now, so
 * that they are not the thread's own when a handler frees them. */
static void every_instruction(void)
{
	handle(SIGTRAP, take_and_give_back);
	for (int round = 0; round < 4 * seconds; round++) {
		take(stepped, 0);
		for (int i = 0; i < TAKEN_OVER; i++) {
			free(stepped[i * 24]);
			stepped[i * 24] = NULL;
		}
		run_elsewhere(take_over);
		for (int i = 0; i < TAKEN_OVER; i++) {
			set_stepping(1);
			uint64_t *object = malloc(STEPPED_SIZE);
			set_stepping(0);
			CHECK(object);
			*object = i * 24;
			stepped[i * 24] = object;
		}
		take(stepped, 0);
		for (int i = 0; i < TAKEN_OVER; i++) {
			CHECK(*stepped[i] == (uint64_t)i);
			set_stepping(1);
			free(stepped[i]);
			set_stepping(0);
			stepped[i] = NULL;
		}
		take(stepped, 0);
		check_and_free(stepped, 0);
		run_elsewhere(free_others);
	}
	printf("handled: %ld\n", handled);
}

static int handler_resizes;

static void take_and_give_back_one(int signal)
{
	(void)signal;
	int error = errno;
	char *object = malloc(24);
	CHECK(object);
	memset(object, 0xee, 24);
	if (handler_resizes)
		object = realloc(object, 2 * 24);
	CHECK(object && holds_only(object, 0xee, 24));
	free(object);
	handled++;
	errno = error;
}

/* A handler interrupts a free that finds no room, and what it frees itself has to wait until another
 * handler comes, which interrupts malloc: for each number of frees before and in between. */
static void what_waits(void)
{
	enum { COUNT = 100, MOST = 32 };
	static uint64_t *blocks[COUNT];
	handle(SIGTRAP, take_and_give_back_one);
	for (int before = 0; before < MOST; before++)
		for (int between = 0; between < MOST; between++) {
			int freed = 0;
			for (uint64_t i = 0; i < COUNT; i++)
				CHECK((blocks[i] = malloc(24)));
			while (freed < before)
				free(blocks[freed++]);
			handler_resizes = 0;
			set_stepping(1);
			free(blocks[freed++]);
			set_stepping(0);
			for (int i = 0; i < between; i++)
				free(blocks[freed++]);
			handler_resizes = 1;
			set_stepping(1);
			blocks[--freed] = malloc(24);
			set_stepping(0);
			while (freed > 0)
				CHECK((blocks[--freed] = malloc(24)));
			for (uint64_t i = 0; i < COUNT; i++)
				*blocks[i] = i;
			for (uint64_t i = 0; i < COUNT; i++)
				CHECK(*blocks[i] == i);
			for (uint64_t i = 0; i < COUNT; i++)
				free(blocks[i]);
		}
	printf("handled: %ld\n", handled);
}

enum { SCATTERED = 2000, SCATTERED_SIZE = 256 };
static uint64_t *kept_for_handler[SCATTERED];
static int freed_by_handler;
static long next_free;

/* At random, since at a fixed distance they come to the same instruction of each free as soon as
 * all of those take as many. */
static void free_a_neighbour(int signal)
{
	(void)signal;
	static uint64_t random = 1;
	int error = errno;
	if (++handled >= next_free && freed_by_handler < SCATTERED) {
		next_free = handled + 1 + next_random(&random) % 121;
		free(kept_for_handler[freed_by_handler++]);
	}
	errno = error;
}

/* The only thread gives back what it has freed in no order, and handlers free objects of the same
 * slabs, before any of its instructions: none may get lost, but for one or two where the thread is
 * about to note that its magazine has one more, which is so before one instruction in fifty. */
static void scattered(void)
{
	long freed_by_handlers = 0;
	static uint64_t *blocks[SCATTERED];
	handle(SIGTRAP, free_a_neighbour);
	free(malloc(SCATTERED_SIZE));
	size_t before = mallinfo2().uordblks;
	for (int round = 0; round < 2 * seconds; round++) {
		for (int i = 0; i < SCATTERED; i++) {
			CHECK((blocks[i] = malloc(SCATTERED_SIZE)));
			CHECK((kept_for_handler[i] = malloc(SCATTERED_SIZE)));
			*blocks[i] = *kept_for_handler[i] = i;
		}
		freed_by_handler = 0;
		/* 677 has no divisor in common with the number: each comes once. */
		for (int i = 0; i < SCATTERED; i++) {
			uint64_t *block = blocks[i * 677 % SCATTERED];
			CHECK(*block == (uint64_t)(i * 677 % SCATTERED));
			set_stepping(1);
			free(block);
			set_stepping(0);
		}
		CHECK(freed_by_handler > SCATTERED / 2);
		freed_by_handlers += freed_by_handler;
		for (int i = freed_by_handler; i < SCATTERED; i++) {
			CHECK(*kept_for_handler[i] == (uint64_t)i);
			free(kept_for_handler[i]);
		}
	}
	malloc_trim(0);
	printf("handled: %ld\n", handled);
	CHECK(mallinfo2().uordblks < before + (64 << 10) + freed_by_handlers * SCATTERED_SIZE / 20);
}
#endif

/* What a handler frees while the allocator is busy must be freed in the end. */
static char *_Atomic handed_over;

static void free_in_handler(int signal)
{
	(void)signal;
	int error = errno;
	free(__atomic_exchange_n(&handed_over, NULL, __ATOMIC_ACQ_REL));
	handled++;
	errno = error;
}

static void frees_in_handlers(void)
{
	handle(SIGUSR1, free_in_handler);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, work, (void *)1) == 0);
	timer_t timer = start_timer(SIGUSR1);
	uint64_t end = nanoseconds() + (uint64_t)seconds * 1000000000;
	size_t before = mallinfo2().uordblks;
	while (nanoseconds() < end) {
		char *block = malloc(100 * 1024);
		CHECK(block);
		block[0] = 1;
		free(__atomic_exchange_n(&handed_over, block, __ATOMIC_ACQ_REL));
	}
	timer_delete(timer);
	stop = 1;
	pthread_join(thread, NULL);
	free(handed_over);
	printf("handled: %ld\n", handled);
	CHECK(handled > 0);
	CHECK(mallinfo2().uordblks < before + (1 << 20));
}

static sigjmp_buf rescued;

static void allocate_and_jump(int signal)
{
	(void)signal;
	char *block = malloc(1000);
	CHECK(block);
	memset(block, 1, 1000);
	free(block);
	siglongjmp(rescued, 1);
}

/* A crash handler that allocates, for a crash of the program's own. */
static void crash_in_program(void)
{
	handle(SIGSEGV, allocate_and_jump);
	for (volatile int i = 0; i < 1000; i++) {
		if (sigsetjmp(rescued, 1) == 0) {
			*(volatile char *)16 = 1;
			CHECK(!"reached");
		}
		free(malloc(i));
	}
	printf("rescued: 1000\n");
}

/* Allocates in all sizes, although its own thread is inside the allocator. */
static void report_and_exit(int signal)
{
	char *text = NULL;
	(void)signal;
	for (size_t size = 1; size < 200000; size += size / 2 + 1) {
		char *block = malloc(size);
		CHECK(block);
		memset(block, 1, size);
		block = realloc(block, 2 * size);
		CHECK(block && holds_only(block, 1, size));
		free(block);
	}
	CHECK(asprintf(&text, "handled: %d\n", 1) > 0);
	CHECK(write(1, text, strlen(text)) > 0);
	free(text);
	_exit(0);
}

/* A crash inside the allocator itself: realloc copies, but the program has taken the right to read
 * from its own block away. */
static void crash_in_realloc(void)
{
	char *block = malloc(1 << 20);
	CHECK(block && (uintptr_t)block % sysconf(_SC_PAGESIZE) == 0);
	CHECK(mprotect(block, 1 << 20, PROT_NONE) == 0);
	handle(SIGSEGV, report_and_exit);
	block = realloc(block, 100);
	CHECK(!"reached");
}

/* A program writes to memory that it has freed: nothing of the allocator's stands there. */
static void written_after_free(void)
{
	static char *blocks[1000];
	for (size_t size = 16; size < 100000; size *= 3) {
		for (int i = 0; i < 1000; i++)
			blocks[i] = malloc(size);
		for (int i = 0; i < 1000; i++) {
			free(blocks[i]);
			memset(*(char *volatile *)&blocks[i], 0xdd, 16);
		}
		for (int i = 0; i < 1000; i++) {
			blocks[i] = malloc(size);
			CHECK(blocks[i] && freehold_owns(blocks[i]));
			memset(blocks[i], i, size);
		}
		for (int i = 0; i < 1000; i++) {
			CHECK(holds_only(blocks[i], i, size));
			free(blocks[i]);
		}
	}
}

static const struct test_case CASES[] = {
	{"timer_signals", timer_signals},
	{"timer_signals_in_bursts", timer_signals_in_bursts},
#ifdef __x86_64__
	{"every_instruction", every_instruction},
	{"what_waits", what_waits},
	{"scattered", scattered},
#endif
	{"frees_in_handlers", frees_in_handlers},
	{"crash_in_program", crash_in_program},
	{"crash_in_realloc", crash_in_realloc},
	{"written_after_free", written_after_free},
};

int main(int argc, char **argv)
{
	if (argc > 2)
		seconds = atoi(argv[2]);
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
