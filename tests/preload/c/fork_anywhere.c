/* H1: a process forks while another thread of it stands before an instruction of the library: before
 * each that the thread comes to, when it comes there for the first time. That thread runs with the
 * processor's trap flag (x86-64), and waits in the handler of SIGTRAP until the process has forked.
 * The child, in which it is not, finds all blocks as they were, allocates in all sizes, starts a
 * thread, frees everything, and trims.
 *
 * What goes wrong is said with the place where the thread stood:
 * `addr2line -e libfreehold.so PLACE` tells the line.
 *
 * Usage: fork_anywhere CASE [SECONDS [VISITS]], with FREEHOLD_BACKGROUND=0, since who starts the
 * library's own thread blocks all signals, and the trap is one. A case ends with what it has when its
 * time is up, but not before it has forked a few times. VISITS is how often it forks before an
 * instruction. */
#include "check.h"
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

enum {
	/* Forks that are made however long they take. */
	FEWEST = 200,
	/* Seconds that a fork and its child may take, of which they need thousandths. */
	PATIENCE = 20,
	/* Nanoseconds after which a fork is taken to wait for a lock that the thread has. */
	FORK_WAITS = 3000000,
	/* Failures after which a case gives up. */
	MOST_FAILURES = 20,
	TRAP_FLAG = 0x100,
};

static double seconds = 4;
static int visits = 1;
static uint64_t deadline;
static long steps, places, forks, waited, lost, failures;

/* The code of the library: where it stands, and how often a fork came before each byte of it. */
static uintptr_t loaded_at, code, code_end;
static unsigned char *visited;

static int find_library(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	if (!strstr(info->dlpi_name, "/libfreehold"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
			loaded_at = info->dlpi_addr;
			code = loaded_at + header->p_vaddr;
			code_end = code + header->p_memsz;
		}
	}
	return 1;
}

/* ---- Blocks ---- */

enum { SLOTS = 500, LIVING = 6 };

struct block {
	char *_Atomic start;
	size_t size;
};

static const size_t SIZES[] = {16, 64, 320, 1024, 2048, 2500, 4096, 9000, 16000, 30000, 40000,
	100000, 300000};
enum { KINDS = sizeof SIZES / sizeof SIZES[0], KINDS_THAT_LIVE = 11 };

/* What the thread has all the time, and what it takes and gives back as it is stepped. A block is
 * in its slot whenever it is whole and its free has not begun, so that the child knows those. */
static struct block living[KINDS_THAT_LIVE * LIVING], slots[SLOTS];

/* The first word and the last one: pages take the child its time, and words the thread, step by step. */
static volatile uintptr_t *last_word(const char *start, size_t size)
{
	return (volatile uintptr_t *)(start + (size - sizeof(uintptr_t)) / 16 * 16);
}

static void mark(char *start, size_t size)
{
	if (size > 0)
		*(volatile uintptr_t *)start = *last_word(start, size) = (uintptr_t)start ^ size;
}

static int is_marked(const char *start, size_t size)
{
	uintptr_t expected = (uintptr_t)start ^ size;
	return size == 0 ||
		(*(volatile uintptr_t *)start == expected && *last_word(start, size) == expected);
}

static void put(struct block *block, char *start, size_t size)
{
	CHECK(start);
	mark(start, size);
	block->size = size;
	block->start = start;
}

static void take(struct block *block, size_t size)
{
	put(block, malloc(size), size);
}

/* Its size stays. */
static char *take_out(struct block *block)
{
	char *start = block->start;
	block->start = NULL;
	return start;
}

static void give_back(struct block *block)
{
	free(take_out(block));
}

static void check_blocks(struct block *blocks, int count)
{
	for (int i = 0; i < count; i++)
		CHECK(!blocks[i].start || is_marked(blocks[i].start, blocks[i].size));
}

static void give_all_back(struct block *blocks, int count)
{
	for (int i = 0; i < count; i++)
		give_back(&blocks[i]);
}

#define COUNT(blocks) ((int)(sizeof(blocks) / sizeof(blocks)[0]))

/* ---- The child ---- */

enum { OF_EACH = 3, TAKEN_AGAIN = 150 };

static void take_every_size(struct block *blocks)
{
	for (int i = 0; i < OF_EACH * KINDS; i++)
		take(&blocks[i], SIZES[i % KINDS]);
}

static void *live_in_new_thread(void *unused)
{
	static struct block blocks[OF_EACH * KINDS];
	take_every_size(blocks);
	check_blocks(blocks, COUNT(blocks));
	give_all_back(blocks, COUNT(blocks));
	return unused;
}

static int is_child;

static void live_on_as_child(void)
{
	static struct block blocks[OF_EACH * KINDS], again[TAKEN_AGAIN];
	is_child = 1;
	take_every_size(blocks);
	check_blocks(living, COUNT(living));
	check_blocks(slots, COUNT(slots));
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, live_in_new_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	/* As many as the other thread may have at hand, lest one of them be given out twice. */
	for (int i = 0; i < TAKEN_AGAIN; i++)
		if (slots[i].size)
			take(&again[i], slots[i].size);
	check_blocks(living, COUNT(living));
	check_blocks(slots, COUNT(slots));
	give_all_back(slots, COUNT(slots));
	give_all_back(living, COUNT(living));
	check_blocks(again, COUNT(again));
	check_blocks(blocks, COUNT(blocks));
	give_all_back(again, COUNT(again));
	malloc_trim(0);
	for (int i = 0; i < KINDS; i++)
		take(&again[i], SIZES[i]);
	check_blocks(blocks, COUNT(blocks));
	check_blocks(again, COUNT(again));
}

/* ---- The thread that is stepped, and the one that forks ---- */

/* What the two are about. The thread asks for a fork, and does not ask again before its child has
 * ended. */
enum { IDLE, ASKED, CHILD_LIVES, ENDED };
static _Atomic int state;
/* Where the thread stands, and whether it did not wait for the fork. */
static _Atomic uintptr_t standing;
static _Atomic int went_on;

static void await_change(int from, long at_most)
{
	struct timespec time = {0, at_most};
	syscall(SYS_futex, &state, FUTEX_WAIT, from, at_most ? &time : NULL, NULL, 0);
}

static void change(int to)
{
	state = to;
	syscall(SYS_futex, &state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void await_idle(void)
{
	for (int seen; (seen = state) != IDLE;)
		await_change(seen, 0);
}

static int is_over(void)
{
	return failures >= MOST_FAILURES ||
		((forks >= FEWEST || failures > 0) && nanoseconds() > deadline);
}

/* A fork waits for locks that the thread has; then it has to go on, and is not there any more when
 * the fork comes. */
static void trapped(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t at = registers[REG_RIP];
	if (++steps % 256 == 0 && is_over())
		registers[REG_EFL] &= ~TRAP_FLAG;
	if (at < code || at >= code_end)
		return;
	standing = at - loaded_at;
	if (visited[at - code] >= visits || state == ASKED || is_over())
		return;
	int error = errno;
	await_idle();
	visited[at - code]++;
	went_on = 0;
	change(ASKED);
	uint64_t end = nanoseconds() + FORK_WAITS;
	for (uint64_t now; state == ASKED && (now = nanoseconds()) < end;)
		await_change(ASKED, end - now);
	if (state == ASKED) {
		went_on = 1;
		waited++;
	} else
		places++;
	errno = error;
}

/* What is below the stack's end is the caller's, if it calls nobody. */
static void set_stepping(int on)
{
	if (on)
		__asm__ volatile("sub $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; add $128, %%rsp"
				 ::: "memory", "cc");
	else
		__asm__ volatile("sub $128, %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; add $128, %%rsp"
				 ::: "memory", "cc");
}

static void start_stepping(void)
{
	if (!is_over())
		set_stepping(1);
}

/* Afterwards nobody forks, so that what is not stepped is not forked either. */
static void stop_stepping(void)
{
	set_stepping(0);
	await_idle();
}

/* Waits for a child to end, and says how it did. */
static int end_of(pid_t child)
{
	static const struct timespec MOMENT = {0, 100000000};
	uint64_t end = nanoseconds() + (uint64_t)PATIENCE * 1000000000;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	int status;
	pid_t ended;
	while ((ended = waitpid(child, &status, WNOHANG)) == 0 && nanoseconds() < end)
		sigtimedwait(&set, NULL, &MOMENT);
	if (ended == 0) {
		fprintf(stderr, "the child hangs\n");
		kill(child, SIGKILL);
		CHECK(waitpid(child, &status, 0) == child);
		return SIGALRM;
	}
	CHECK(ended == child);
	return status;
}

static void fork_and_wait(void)
{
	alarm(PATIENCE);
	pid_t child = fork();
	if (child == 0) {
		live_on_as_child();
		_exit(0);
	}
	alarm(0);
	uintptr_t place = standing;
	int gone = went_on;
	forks++;
	change(CHILD_LIVES);
	int status = child > 0 ? end_of(child) : SIGKILL;
	/* Nothing of the library's kills: there was not enough memory. */
	if (status == SIGKILL)
		lost++;
	else if (status != 0) {
		fprintf(stderr, "place 0x%zx%s: the child ended with status 0x%x\n", place,
			gone ? " or after it" : "", status);
		failures++;
	}
	change(IDLE);
}

static void fork_hangs(int signal)
{
	(void)signal;
	char text[100];
	int length = snprintf(text, sizeof text, "place 0x%zx: the fork hangs\n", (size_t)standing);
	_exit(write(2, text, length) == length ? 1 : 2);
}

/* Forks as long as a new thread asks for it. */
static void fork_during(void (*work)(void))
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, (void *(*)(void *))(void *)work, NULL) == 0);
	while (state != ENDED)
		if (state == ASKED)
			fork_and_wait();
		else
			await_change(IDLE, 0);
	CHECK(pthread_join(thread, NULL) == 0);
	state = IDLE;
	give_all_back(living, COUNT(living));
	give_all_back(slots, COUNT(slots));
}

/* It asks for no more. */
static void end_stepping(void)
{
	stop_stepping();
	change(ENDED);
}

static void prepare(void)
{
	for (int i = 0; i < COUNT(living); i++)
		take(&living[i], SIZES[i % KINDS_THAT_LIVE]);
}

enum order { FIRST_FIRST, LAST_FIRST, SCATTERED, ORDERS };

static void come_and_go(size_t size, int count, enum order order)
{
	for (int i = 0; i < count; i++)
		take(&slots[i], size);
	/* 7919 has no divisor in common with any count: each comes once. */
	for (int i = 0; i < count; i++)
		give_back(&slots[order == FIRST_FIRST ? i :
			order == LAST_FIRST ? count - 1 - i : i * 7919 % count]);
}

/* ---- A third thread, which is not stepped, but asked to do something in between ---- */

static sem_t asked, done;
static void (*task)(void);
static size_t handed_size;
static int handed;

static void *help(void *unused)
{
	for (;;) {
		while (sem_wait(&asked) != 0)
			;
		task();
		sem_post(&done);
	}
	return unused;
}

static void let_help(void (*what)(void))
{
	task = what;
	sem_post(&asked);
	while (sem_wait(&done) != 0)
		;
}

static void start_helper(void)
{
	pthread_t thread;
	sem_init(&asked, 0, 0);
	sem_init(&done, 0, 0);
	CHECK(pthread_create(&thread, NULL, help, NULL) == 0);
}

static void take_handed(void)
{
	for (int i = 0; i < handed; i++)
		take(&slots[i], handed_size);
}

static void give_handed(void)
{
	give_all_back(slots, handed);
}

static void hand_over(size_t size, int count)
{
	handed_size = size;
	handed = count;
	start_stepping();
	take_handed();
	stop_stepping();
	let_help(give_handed);
	start_stepping();
	come_and_go(size, count, FIRST_FIRST);
	stop_stepping();
	let_help(take_handed);
	start_stepping();
	give_handed();
	stop_stepping();
}

/* ---- The cases ---- */

static void step_small(void)
{
	prepare();
	start_stepping();
	for (int order = 0; order < ORDERS; order++)
		for (size_t size = 64; size <= 2048; size = size * 4 + 64)
			come_and_go(size, 130, order);
	end_stepping();
}

static void small(void)
{
	fork_during(step_small);
}

static void step_medium(void)
{
	prepare();
	start_stepping();
	for (int order = 0; order < ORDERS; order++)
		for (int i = 5; i < 10; i++)
			come_and_go(SIZES[i], 60, order);
	end_stepping();
}

static void medium(void)
{
	fork_during(step_medium);
}

static void step_runs(void)
{
	prepare();
	start_stepping();
	for (int order = 0; order < ORDERS; order++)
		for (int i = 10; i < KINDS; i++)
			come_and_go(SIZES[i] + 4096 * order, 10 + 8 * order, order);
	end_stepping();
}

static void runs(void)
{
	fork_during(step_runs);
}

static void step_small_handed_over(void)
{
	prepare();
	for (size_t size = 64; size <= 2048; size = size * 4 + 64)
		hand_over(size, 200);
	end_stepping();
}

static void small_handed_over(void)
{
	start_helper();
	fork_during(step_small_handed_over);
}

static void step_large_handed_over(void)
{
	prepare();
	for (int i = 6; i < 11; i += 2)
		hand_over(SIZES[i], 120);
	end_stepping();
}

static void large_handed_over(void)
{
	start_helper();
	fork_during(step_large_handed_over);
}

static void step_phases(void)
{
	prepare();
	start_stepping();
	for (int phase = 0; phase < ORDERS; phase++) {
		come_and_go(112, SLOTS, phase);
		come_and_go(3000, 150, phase);
	}
	end_stepping();
}

static void phases(void)
{
	fork_during(step_phases);
}

static void resize(struct block *block, size_t size)
{
	put(block, realloc(take_out(block), size), size);
}

/* The largest are moved without being copied, which is by the byte, step by step. */
static void step_resized(void)
{
	static const size_t LARGEST[] = {4 << 20, 8 << 20, 14 << 20, 6 << 20, 5 << 20, 20000};
	prepare();
	start_stepping();
	for (size_t size = 10; size < 40000; size = size * 2 + 7)
		resize(&slots[0], size);
	for (int i = 0; i < COUNT(LARGEST); i++)
		resize(&slots[0], LARGEST[i]);
	for (size_t size = 20000; size > 10; size /= 3)
		resize(&slots[0], size);
	give_back(&slots[0]);
	for (int i = 1; i < 20; i += 3) {
		size_t size = i * 4000 + 100;
		put(&slots[0], calloc(1, size), size);
		put(&slots[1], aligned_alloc(4096, i * 8192), i * 8192);
		put(&slots[2], aligned_alloc(128, i * 128), i * 128);
		give_all_back(slots, 3);
	}
	come_and_go(0, 40, FIRST_FIRST);
	malloc_trim(0);
	end_stepping();
}

static void resized(void)
{
	fork_during(step_resized);
}

static void step_first(void)
{
	start_stepping();
	for (int i = 0; i < KINDS; i++)
		come_and_go(SIZES[i], 3, LAST_FIRST);
	end_stepping();
}

static void thread_begins(void)
{
	fork_during(step_first);
}

/* The destructors of a thread run in rounds, and in each the library's come before this one, which
 * is younger. It stops in the last: the C library blocks all signals before the thread is gone.
 * A new thread of the child may have its stack, and what the key had there. */
static pthread_key_t key;

static void *const ROUNDS[] = {(void *)1, (void *)2, (void *)3, (void *)4};
_Static_assert(COUNT(ROUNDS) == PTHREAD_DESTRUCTOR_ITERATIONS, "one a round");

static void thread_ends_round(void *round)
{
	if (is_child)
		return;
	if ((uintptr_t)round < COUNT(ROUNDS))
		CHECK(pthread_setspecific(key, ROUNDS[(uintptr_t)round]) == 0);
	else
		end_stepping();
}

/* Ends with objects of others that it has freed, others' frees of its own that wait for it, and all
 * that it has at hand. Hardly any wait for who has not taken many before. */
static void step_end(void)
{
	prepare();
	handed = 90;
	for (int i = 1; i < 11; i += 3) {
		handed_size = SIZES[i];
		let_help(take_handed);
		give_handed();
		come_and_go(SIZES[i], 100, SCATTERED);
	}
	handed = SLOTS;
	handed_size = 1024;
	for (int i = 0; i < 20; i++) {
		take_handed();
		let_help(give_handed);
	}
	CHECK(pthread_setspecific(key, ROUNDS[0]) == 0);
	start_stepping();
}

static void thread_ends(void)
{
	CHECK(pthread_key_create(&key, thread_ends_round) == 0);
	start_helper();
	fork_during(step_end);
}

static const struct test_case CASES[] = {
	{"small", small},
	{"medium", medium},
	{"runs", runs},
	{"small_handed_over", small_handed_over},
	{"large_handed_over", large_handed_over},
	{"phases", phases},
	{"resized", resized},
	{"thread_begins", thread_begins},
	{"thread_ends", thread_ends},
};

int main(int argc, char **argv)
{
	if (argc > 2)
		seconds = atof(argv[2]);
	if (argc > 3)
		visits = atoi(argv[3]);
	require_freehold();
	CHECK(dl_iterate_phdr(find_library, NULL) == 1 && code);
	visited = mmap(NULL, code_end - code, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		0);
	CHECK(visited != MAP_FAILED);
	struct sigaction trap = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
	struct sigaction late = {.sa_handler = fork_hangs};
	CHECK(sigaction(SIGTRAP, &trap, NULL) == 0 && sigaction(SIGALRM, &late, NULL) == 0);
	/* It is waited for. Blocked in all threads, lest one of them take it. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	deadline = nanoseconds() + (uint64_t)(seconds * 1e9);
	int status = RUN_CASE(CASES, argc, argv);
	printf("steps: %ld\nplaces: %ld\nforks: %ld\n", steps, places, forks);
	printf("the thread had to go on: %ld\nnot enough memory: %ld\n", waited, lost);
	fflush(stdout);
	CHECK(failures == 0);
	return status;
}
