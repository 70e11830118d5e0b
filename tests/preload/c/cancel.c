/* H21: threads that are cancelled, or jump away, in the middle of work that allocates. What such a
 * thread had may be lost, but all others must go on.
 *
 * As POSIX says, malloc itself is entered only where neither can happen: with any allocator that has
 * locks, a thread that vanishes inside it may take one along.
 *
 * Usage: cancel CASE COUNT. */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum { OTHERS = 4 };

static size_t count;
static volatile int stop;
static atomic_long steps[OTHERS];

static void step(uint64_t *random, void **blocks)
{
	void **block = &blocks[next_random(random) % 64];
	free(*block);
	*block = malloc(random_size(random, next_random(random) % 50 ? 12 : 18));
	CHECK(*block);
}

/* One of the threads that must go on. */
static void *go_on(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	void *blocks[64] = {0};
	/* On few processors the victims would mostly wait for their turn. */
	setpriority(PRIO_PROCESS, 0, 19);
	while (!stop) {
		step(&random, blocks);
		atomic_fetch_add(&steps[(uintptr_t)number], 1);
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

static void run(void *(*victim)(void *), void (*end)(pthread_t))
{
	pthread_t others[OTHERS];
	for (uintptr_t i = 0; i < OTHERS; i++)
		CHECK(pthread_create(&others[i], NULL, go_on, (void *)i) == 0);
	for (size_t i = 0; i < count; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, victim, (void *)i) == 0);
		end(thread);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	/* All of them still make progress. */
	for (int i = 0; i < OTHERS; i++) {
		long before = atomic_load(&steps[i]);
		while (atomic_load(&steps[i]) < before + 1000)
			sched_yield();
	}
	stop = 1;
	for (int i = 0; i < OTHERS; i++)
		CHECK(pthread_join(others[i], NULL) == 0);
	puts("done");
}

static atomic_int started;

static void cancel(pthread_t thread)
{
	/* At some moment in its loop. */
	while (!atomic_exchange(&started, 0))
		sched_yield();
	CHECK(pthread_cancel(thread) == 0);
}

static void free_block(void *block)
{
	free(*(void **)block);
}

static void *cancelled_at_a_point(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	void *blocks[64] = {0}, *own = malloc(500);
	pthread_cleanup_push(free_block, &own);
	atomic_store(&started, 1);
	for (;;) {
		step(&random, blocks);
		pthread_testcancel();
	}
	pthread_cleanup_pop(1);
	return NULL;
}

static void deferred(void)
{
	run(cancelled_at_a_point, cancel);
}

/* Something that takes a while and is no allocation. */
static void compute(uint64_t *random)
{
	for (int i = next_random(random) % 2000; i > 0; i--)
		next_random(random);
}

static void *cancelled_anywhere(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	void *blocks[64] = {0};
	atomic_store(&started, 1);
	for (;;) {
		step(&random, blocks);
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
		compute(&random);
		pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	}
	return NULL;
}

static void asynchronous(void)
{
	run(cancelled_anywhere, cancel);
}

static __thread sigjmp_buf escape;

static void jump(int signal)
{
	(void)signal;
	siglongjmp(escape, 1);
}

static void *jumps_out(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	void *blocks[64] = {0};
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	if (sigsetjmp(escape, 1) == 0) {
		atomic_store(&started, 1);
		for (;;) {
			pthread_sigmask(SIG_BLOCK, &signals, NULL);
			step(&random, blocks);
			pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
			compute(&random);
		}
	}
	/* The thread itself can still allocate. */
	for (int i = 0; i < 20; i++)
		free(malloc(100 * i));
	return NULL;
}

static void send_signal(pthread_t thread)
{
	while (!atomic_exchange(&started, 0))
		sched_yield();
	CHECK(pthread_kill(thread, SIGUSR1) == 0);
}

static void jumps(void)
{
	struct sigaction action = {.sa_handler = jump};
	sigaction(SIGUSR1, &action, NULL);
	run(jumps_out, send_signal);
}

static const struct test_case CASES[] = {
	{"deferred", deferred},
	{"asynchronous", asynchronous},
	{"jumps", jumps},
};

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	count = strtoul(argv[2], NULL, 10);
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
