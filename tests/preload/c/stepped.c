/* H20: signal handlers that allocate, free or fork before any instruction of a call of the allocator, where
 * every object is looked at.
 *
 * Usage: stepped CASE [SIZE]. */
#include "check.h"
#include "stepping.h"
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

static size_t size = 24;
static long handled;

/* The handler does its work once in a call: before its instruction of this number. */
static long instruction, wanted;
static int has_acted;
static void (*act)(void);

static void act_once(int signal, siginfo_t *details, void *context)
{
	(void)signal, (void)details;
	int error = errno;
	if (++instruction == wanted) {
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
		has_acted = 1;
		handled++;
		act();
	}
	errno = error;
}

/* Lets `action` happen before instruction `number` of what comes next. */
static void expect(long number, void (*action)(void))
{
	instruction = 0;
	wanted = number;
	has_acted = 0;
	act = action;
}

static unsigned char *filled(unsigned char byte)
{
	unsigned char *object = malloc(size);
	CHECK(object);
	memset(object, byte, size);
	return object;
}

static void check_and_free(unsigned char *object, unsigned char byte)
{
	CHECK(holds_only(object, byte, size));
	free(object);
}

/* Takes more than there can be at hand, as far as there is any for handlers, and gives it back, the last one
 * first. */
static void take_many(void)
{
	enum { MANY = 120 };
	unsigned char *taken[MANY];
	int count = 0;
	while (count < MANY && (taken[count] = malloc(size)))
		memset(taken[count++], 0xee, size);
	CHECK(count > 60);
	while (count > 0)
		check_and_free(taken[--count], 0xee);
}

static void *call_first(void *unused)
{
	enum { MANY = 300 };
	unsigned char *volatile first, *objects[MANY];
	set_stepping(1);
	first = malloc(size);
	set_stepping(0);
	CHECK(first);
	memset(first, 1, size);
	for (int i = 0; i < MANY; i++)
		objects[i] = filled(2 + i % 100);
	for (int i = 0; i < MANY; i++)
		check_and_free(objects[i], 2 + i % 100);
	check_and_free(first, 1);
	return unused;
}

/* The first call of a thread. */
static void first_call(void)
{
	long number = 1;
	do {
		expect(number, take_many);
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, call_first, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
		number += 29;
	} while (has_acted);
}

/* The end of a thread: a handler that keeps some of what it allocates for another time. */
static pthread_key_t rounds;
enum { KEPT = 16 };
static unsigned char *kept[KEPT];
static uint64_t chance = 1;
static long next;

static void take_and_keep(int signal)
{
	(void)signal;
	int error = errno;
	if (++instruction == next) {
		next = instruction + 1 + next_random(&chance) % 97;
		handled++;
		unsigned char *one = filled(0xee), *other = filled(0xdd);
		check_and_free(one, 0xee);
		int n = next_random(&chance) % KEPT;
		if (kept[n])
			check_and_free(kept[n], 0xdd);
		kept[n] = other;
	}
	errno = error;
}

/* The last round but one is the one before the allocator's own. */
static void step_from_the_third_round(void *round)
{
	uintptr_t number = (uintptr_t)round;
	if (number < 4)
		pthread_setspecific(rounds, (void *)(number + 1));
	if (number == 3)
		set_stepping(1);
	if (number == 4)
		set_stepping(0);
}

static void *fill_and_end(void *unused)
{
	enum { MANY = 200 };
	unsigned char *objects[MANY];
	pthread_setspecific(rounds, (void *)1);
	for (int i = 0; i < MANY; i++)
		objects[i] = filled(1);
	for (int i = 0; i < MANY; i++)
		check_and_free(objects[i], 1);
	return unused;
}

static void thread_end(void)
{
	struct sigaction action = {.sa_handler = take_and_keep, .sa_flags = SA_RESTART};
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	CHECK(pthread_key_create(&rounds, step_from_the_third_round) == 0);
	for (int thread_number = 0; thread_number < 2; thread_number++) {
		pthread_t thread;
		instruction = 0;
		next = 1;
		CHECK(pthread_create(&thread, NULL, fill_and_end, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
		for (int i = 0; i < KEPT; i++) {
			if (kept[i])
				check_and_free(kept[i], 0xdd);
			kept[i] = NULL;
		}
	}
}

static void *victim;

static void free_victim(void)
{
	free(victim);
}

static void *volatile result;

static void medium(void)
{
	result = malloc(3000);
}

static void cleared(void)
{
	result = calloc(1, 3000);
}

static void resized(void)
{
	result = realloc(result, 2900);
}

/* Fills the array, and frees as many of it as leave no room for more of their size at hand. Returns how many
 * these are. */
static int fill_and_free_first(void **objects, int count)
{
	enum { AT_HAND = 500 };
	int used = 0;
	for (int i = 0; i < count; i++)
		objects[i] = filled(1);
	while (used < AT_HAND)
		free(objects[used++]);
	return used;
}

/* A handler frees one object, while a thread that has no room for more of its size is in any call. Every way
 * in and out is near the beginning. */
static void one_free(void)
{
	enum { MANY = 4000, NEAR = 250 };
	static void (*const CALLS[])(void) = {medium, cleared, resized};
	static void *objects[MANY];
	int used = fill_and_free_first(objects, MANY);
	for (int call = 0; call < 3; call++)
		for (long number = 1;; number += number < NEAR ? 1 : 13) {
			CHECK(used < MANY);
			result = malloc(3000);
			void *other = result;
			victim = objects[used++];
			expect(number, free_victim);
			set_stepping(1);
			CALLS[call]();
			set_stepping(0);
			if (result != other && CALLS[call] != resized)
				free(other);
			free(result);
			if (!has_acted)
				break;
		}
}

/* The child of a fork does nothing; the parent waits for it. */
static void end_child(pid_t child)
{
	int status;
	CHECK(child >= 0);
	if (child == 0)
		_exit(0);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void fork_child(void)
{
	end_child(fork());
}

/* A handler forks. */
static void a_fork(void)
{
	for (long number = 1;; number++) {
		void *volatile object;
		expect(number, fork_child);
		set_stepping(1);
		object = malloc(size);
		set_stepping(0);
		if (!has_acted)
			break;
		CHECK(object);
	}
}

/* A handler frees one object while the thread forks. */
static void a_free_in_a_fork(void)
{
	enum { MANY = 2000 };
	static void *objects[MANY];
	int used = fill_and_free_first(objects, MANY);
	for (long number = 1;; number += 17) {
		CHECK(used < MANY);
		victim = objects[used++];
		expect(number, free_victim);
		set_stepping(1);
		pid_t child = fork();
		set_stepping(0);
		end_child(child);
		if (!has_acted)
			break;
	}
}

/* An object that is guarded, as all are that a thread has not at hand: it has no more bytes than these. */
static unsigned char *guarded(size_t bytes)
{
	for (int i = 0; i < 1000; i++) {
		unsigned char *object = malloc(bytes);
		CHECK(object);
		if (malloc_usable_size(object) == bytes)
			return object;
	}
	CHECK(!"none is guarded");
	return NULL;
}

/* A handler frees a guarded object that is as small as can be, or small, and may be lost. */
static void a_guarded_free(void)
{
	for (long number = 1;; number += 1 + number / 8) {
		victim = guarded(1 + number % 8);
		expect(number, free_victim);
		set_stepping(1);
		medium();
		set_stepping(0);
		free(result);
		if (!has_acted)
			break;
	}
	free(victim);
}

/* The same while another one is resized. */
static void a_guarded_free_in_realloc(void)
{
	for (long number = 1; number < 400; number += 3) {
		victim = guarded(40);
		result = guarded(50);
		expect(number, free_victim);
		set_stepping(1);
		resized();
		set_stepping(0);
		CHECK(result && has_acted);
		free(result);
	}
}

static void resize_once_more(void)
{
	char *object = malloc(100);
	CHECK(object);
	memset(object, 1, 100);
	object = realloc(object, 200);
	CHECK(object && holds_only(object, 1, 100));
	free(object);
}

/* A handler resizes an object while a guarded one is resized. */
static void a_realloc_in_realloc(void)
{
	for (long number = 1; number < 400; number++) {
		result = guarded(50);
		expect(number, resize_once_more);
		set_stepping(1);
		resized();
		set_stepping(0);
		CHECK(result && has_acted);
		free(result);
	}
}

static const struct test_case CASES[] = {
	{"first_call", first_call},
	{"thread_end", thread_end},
	{"one_free", one_free},
	{"a_fork", a_fork},
	{"a_free_in_a_fork", a_free_in_a_fork},
	{"a_guarded_free", a_guarded_free},
	{"a_guarded_free_in_realloc", a_guarded_free_in_realloc},
	{"a_realloc_in_realloc", a_realloc_in_realloc},
};

int main(int argc, char **argv)
{
	if (argc > 2)
		size = strtoul(argv[2], NULL, 10);
	require_freehold();
	struct sigaction action = {.sa_sigaction = act_once, .sa_flags = SA_RESTART | SA_SIGINFO};
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	int result = RUN_CASE(CASES, argc, argv);
	printf("handled: %ld\n", handled);
	return result;
}
