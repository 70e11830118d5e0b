/* H22: stacks that are switched between malloc and free, and that go on in another thread than the
 * one in which they allocated; and children that share the memory of their parent.
 *
 * Usage: contexts CASE. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { COROUTINES = 32, STACK = 64 * 1024, BLOCKS = 50, ROUNDS = 200 };

struct coroutine {
	ucontext_t context;
	ucontext_t *caller;
	int number, finished;
};

static struct coroutine coroutines[COROUTINES];

/* Which coroutine to run: makecontext passes integers only. */
static void run(int number)
{
	struct coroutine *self = &coroutines[number];
	char *blocks[BLOCKS] = {0};
	uint64_t random = 1 + number;
	size_t sizes[BLOCKS] = {0};
	for (int i = 0; i < ROUNDS; i++) {
		int n = next_random(&random) % BLOCKS;
		CHECK(holds_only(blocks[n], number, sizes[n]));
		free(blocks[n]);
		sizes[n] = 1 + random_size(&random, 14);
		blocks[n] = malloc(sizes[n]);
		CHECK(blocks[n]);
		memset(blocks[n], number, sizes[n]);
		/* The thread that goes on may be another one. */
		swapcontext(&self->context, self->caller);
	}
	for (int n = 0; n < BLOCKS; n++)
		free(blocks[n]);
	self->finished = 1;
	swapcontext(&self->context, self->caller);
}

static void start(struct coroutine *coroutine, int number)
{
	char *stack = malloc(STACK);
	CHECK(stack && getcontext(&coroutine->context) == 0);
	coroutine->number = number;
	coroutine->context.uc_stack.ss_sp = stack;
	coroutine->context.uc_stack.ss_size = STACK;
	makecontext(&coroutine->context, (void (*)(void))run, 1, number);
}

/* One after the other, each for one step, in one thread. */
static void in_one_thread(void)
{
	ucontext_t here;
	for (int i = 0; i < COROUTINES; i++) {
		start(&coroutines[i], i);
		coroutines[i].caller = &here;
	}
	for (int round = 0; round <= ROUNDS; round++)
		for (int i = 0; i < COROUTINES; i++)
			swapcontext(&here, &coroutines[i].context);
	for (int i = 0; i < COROUTINES; i++) {
		CHECK(coroutines[i].finished);
		free(coroutines[i].context.uc_stack.ss_sp);
	}
}

static pthread_mutex_t in_use[COROUTINES];

static void *step_any(void *number)
{
	uint64_t random = 1 + (uintptr_t)number;
	ucontext_t here;
	for (int left = 20000; left > 0; left--) {
		int i = next_random(&random) % COROUTINES;
		if (pthread_mutex_trylock(&in_use[i]) != 0)
			continue;
		if (!coroutines[i].finished) {
			coroutines[i].caller = &here;
			swapcontext(&here, &coroutines[i].context);
		}
		pthread_mutex_unlock(&in_use[i]);
	}
	return NULL;
}

/* Each thread goes on with any coroutine that no other is running. */
static void across_threads(void)
{
	pthread_t threads[4];
	for (int i = 0; i < COROUTINES; i++) {
		pthread_mutex_init(&in_use[i], NULL);
		start(&coroutines[i], i);
	}
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, step_any, (void *)i) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < COROUTINES; i++) {
		CHECK(coroutines[i].finished);
		free(coroutines[i].context.uc_stack.ss_sp);
	}
}

static char *kept;

static int allocate_in_child(void *unused)
{
	(void)unused;
	for (size_t size = 1; size < 100000; size += size / 2 + 1) {
		char *block = malloc(size);
		CHECK(block);
		memset(block, 1, size);
		free(block);
	}
	kept = malloc(1000);
	return kept ? 0 : 1;
}

/* As vfork does it: a child in the parent's memory, with a stack of its own, while the parent waits.
 * It has the parent's thread-local storage, and so its cache. */
static void child_in_the_same_memory(void)
{
	static char stack[256 * 1024] __attribute__((aligned(16)));
	for (int i = 0; i < 200; i++) {
		pid_t child = clone(allocate_in_child, stack + sizeof stack,
			CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
		int status;
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
		memset(kept, 1, 1000);
		free(kept);
	}
}

static const struct test_case CASES[] = {
	{"in_one_thread", in_one_thread},
	{"across_threads", across_threads},
	{"child_in_the_same_memory", child_in_the_same_memory},
};

int main(int argc, char **argv)
{
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
