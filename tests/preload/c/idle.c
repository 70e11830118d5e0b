/* H23: what happens after a burst, when every thread sleeps: memory goes back, by a thread of the
 * library's own that nobody notices and that ends.
 *
 * Usage: idle CASE. */
#include "check.h"
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREADS = 4, OBJECTS = 20000, MIB = 1 << 20 };

static pthread_barrier_t barrier;

/* The figure after `field` in the status of the process, without allocating. */
static size_t status_figure(const char *field)
{
	char text[4096];
	int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(file, text, sizeof text - 1);
	CHECK(file >= 0 && n > 0);
	close(file);
	text[n] = 0;
	const char *found = strstr(text, field);
	CHECK(found);
	return strtoul(found + strlen(field), NULL, 10);
}

static size_t resident(void)
{
	return status_figure("VmRSS:") * 1024;
}

static size_t threads(void)
{
	return status_figure("Threads:");
}

/* Some 50 MiB of all sizes, allocated and freed. */
static void burst(uint64_t seed)
{
	static __thread char *objects[OBJECTS];
	for (int i = 0; i < OBJECTS; i++) {
		size_t size = random_size(&seed, 14);
		objects[i] = malloc(size);
		CHECK(objects[i]);
		memset(objects[i], 1, size);
	}
	for (int i = 0; i < OBJECTS; i++)
		free(objects[i]);
}

enum { SIZE = 1000, STAYS = 50 };

/* 20 MiB of objects, of which one in so many stays in use, each with contents of its own. */
static char **scatter(void)
{
	char **objects = calloc(OBJECTS, sizeof *objects);
	for (int i = 0; i < OBJECTS; i++) {
		objects[i] = malloc(SIZE);
		CHECK(objects[i]);
		memset(objects[i], i % 251, SIZE);
	}
	for (int i = 0; i < OBJECTS; i++)
		if (i % STAYS != 0)
			free(objects[i]);
	return objects;
}

static void gather(char **objects)
{
	for (int i = 0; i < OBJECTS; i += STAYS) {
		for (int byte = 0; byte < SIZE; byte++)
			CHECK(objects[i][byte] == (char)(i % 251));
		free(objects[i]);
	}
	free(objects);
}

static void *scatter_and_sleep(void *unused)
{
	char **objects = scatter();
	pthread_barrier_wait(&barrier); /* most is freed */
	pthread_barrier_wait(&barrier); /* all has been looked at */
	gather(scatter());
	gather(objects);
	return unused;
}

static pid_t numbers[THREADS];

static void *burst_and_sleep(void *seed)
{
	numbers[(uintptr_t)seed - 1] = gettid();
	burst((uintptr_t)seed);
	pthread_barrier_wait(&barrier); /* all have freed */
	pthread_barrier_wait(&barrier); /* all has been looked at */
	return NULL;
}

static pthread_t sleepers[THREADS];

/* Threads that do something, and sleep. */
static void start(void *(*work)(void *))
{
	CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&sleepers[i], NULL, work, (void *)(i + 1)) == 0);
	pthread_barrier_wait(&barrier);
}

/* Threads that have had a burst, freed everything, and sleep. */
static void start_sleepers(void)
{
	start(burst_and_sleep);
}

static void end_sleepers(void)
{
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(sleepers[i], NULL) == 0);
}

static void pause_shortly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* Waits for a condition that comes by itself, if it comes at all. */
#define AWAIT(condition) \
	do { \
		int patience = 3000; \
		while (!(condition) && patience-- > 0) \
			pause_shortly(); \
		CHECK(condition); \
	} while (0)

/* A burst after which at most so much stays: what threads keep at hand, the program, stacks. */
static void settles_at(size_t bytes)
{
	start_sleepers();
	AWAIT(resident() < bytes);
	AWAIT(threads() == THREADS + 1);
	end_sleepers();
}

static void memory_returns(void)
{
	settles_at(32 * MIB);
}

/* So do what threads have at hand, 12 MiB here, and they go on with what they need. Says whether that
 * can be had on this system at all. */
static void at_hand(void)
{
	long barriers = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	if (prctl(PR_GET_SECCOMP) != 0 || barriers < 0
		|| !(barriers & MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
		puts("no barrier");
		return;
	}
	settles_at(9 * MIB);
	settles_at(9 * MIB);
}

enum { WORKERS = 24, KEPT = 5000, REPLACED = 20 * KEPT, REQUEST = 300 };

static int over;

/* Replaces objects in no order, 5 MiB of them, frees them all, and then does little now and then. */
static void *work_and_linger(void *number)
{
	uint64_t seed = (uintptr_t)number;
	char **objects = calloc(KEPT, sizeof *objects);
	for (int i = 0; i < REPLACED; i++) {
		char **place = &objects[next_random(&seed) % KEPT];
		size_t size = next_random(&seed) % 2048 + 1;
		free(*place);
		*place = malloc(size);
		CHECK(*place);
		memset(*place, 1, size);
	}
	for (int i = 0; i < KEPT; i++)
		free(objects[i]);
	free(objects);
	pthread_barrier_wait(&barrier); /* all have freed */
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		char *some[REQUEST];
		for (int i = 0; i < REQUEST; i++) {
			some[i] = malloc(next_random(&seed) % 200 + 100);
			CHECK(some[i]);
			some[i][0] = 1;
		}
		for (int i = 0; i < REQUEST; i++)
			free(some[i]);
		pause_shortly();
	}
	return NULL;
}

/* Threads that have hardly anything to do keep what that takes: of 36 MiB 10, for as many seconds as are asked
 * for in the environment. */
static void lingering(void)
{
	const char *seconds = getenv("LINGERING");
	pthread_t workers[WORKERS];
	CHECK(pthread_barrier_init(&barrier, NULL, WORKERS + 1) == 0);
	for (uintptr_t i = 0; i < WORKERS; i++)
		CHECK(pthread_create(&workers[i], NULL, work_and_linger, (void *)(i + 1)) == 0);
	pthread_barrier_wait(&barrier);
	AWAIT(resident() < 20 * MIB);
	for (int i = 0; seconds && i < atoi(seconds); i++) {
		sleep(1);
		CHECK(resident() < 20 * MIB);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < WORKERS; i++)
		CHECK(pthread_join(workers[i], NULL) == 0);
}

/* Of the 80 MiB half is in slabs with an object in use: but not half of their pages. */
static void scattered(void)
{
	start(scatter_and_sleep);
	AWAIT(resident() < 24 * MIB);
	AWAIT(threads() == THREADS + 1);
	end_sleepers();
}

static void forbidden(void)
{
	start_sleepers();
	for (int i = 0; i < 30; i++) {
		CHECK(threads() == THREADS + 1);
		pause_shortly();
	}
	end_sleepers();
}

static void one_thread(void)
{
	for (int i = 0; i < 5; i++) {
		burst(i + 1);
		CHECK(threads() == 1);
	}
}

static void after_all_others(void)
{
	for (int i = 0; i < 5; i++) {
		start_sleepers();
		end_sleepers();
		AWAIT(threads() == 1);
	}
	CHECK(resident() < 16 * MIB);
	start_sleepers();
	end_sleepers();
	for (int i = 1; threads() != 1; i++)
		burst(i); /* also if the last thread is busy */
}

/* To stop sharing memory, which needs no privilege, a process must have one thread. */
static void entering(void)
{
	for (int i = 0; i < 20; i++) {
		start_sleepers();
		end_sleepers();
		/* The kernel counts a thread for a moment after others can join it. */
		for (int n = 0; n < THREADS; n++)
			AWAIT(tgkill(getpid(), numbers[n], 0) != 0);
		CHECK(unshare(CLONE_VM) == 0 && threads() == 1);
		errno = 0;
		CHECK(unshare(-1) == -1 && errno == EINVAL);
		CHECK(setns(-1, 0) == -1 && errno == EBADF);
	}
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
	(void)number;
	handled = 1;
}

static void signals_are_the_programs(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	struct sigaction action = {.sa_handler = handle};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	start_sleepers();
	AWAIT(threads() == THREADS + 2 || resident() < 32 * MIB);
	CHECK(kill(getpid(), SIGUSR1) == 0);
	AWAIT(threads() == THREADS + 1);
	CHECK(!handled && sigpending(&set) == 0 && sigismember(&set, SIGUSR1));
	end_sleepers();
}

static void children_have_their_own(void)
{
	start_sleepers();
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(threads() == 1);
		/* With what the threads had at hand that do not exist here. */
		settles_at(40 * MIB);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	AWAIT(threads() == THREADS + 1);
	end_sleepers();
}

static void *last_thread(void *unused)
{
	burst(9);
	return unused;
}

static void ends_with_the_program(void)
{
	start_sleepers();
	end_sleepers();
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, last_thread, NULL) == 0);
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"memory returns", memory_returns},
		{"at hand", at_hand},
		{"lingering", lingering},
		{"scattered", scattered},
		{"forbidden", forbidden},
		{"one thread", one_thread},
		{"after all others", after_all_others},
		{"entering", entering},
		{"signals", signals_are_the_programs},
		{"children", children_have_their_own},
		{"end", ends_with_the_program},
	};
	require_freehold();
	return RUN_CASE(cases, argc, argv);
}
