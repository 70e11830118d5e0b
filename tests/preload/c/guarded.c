/* Misuse of guarded objects: each case does one thing wrong, in a function whose name is to be in the
 * report, after it has said with which object; or nothing wrong at all.
 *
 * Usage: guarded CASE [SIZE]. */
#include "check.h"
#include "calls.h"
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

static size_t size = 96;

static APART void write_to_it(volatile char *place)
{
	*place = 1;
	AND_GO_ON;
}

static APART char read_it(volatile char *place)
{
	char byte = *place;
	AND_GO_ON;
	return byte;
}

static void survived(void)
{
	dprintf(1, "survived: 1\n");
}

/* An object at the upper or the lower end of its slot. */
static char *object_at(int upper_end)
{
	for (int i = 0; i < 100; i++) {
		char *object = allocate_it(size);
		uintptr_t address = (uintptr_t)object;
		int up = (address + size + 15) / 16 * 16 % PAGE == 0, down = address % PAGE == 0;
		if (size % PAGE == 0 || (up != down && up == upper_end)) {
			memset(object, 2, size);
			dprintf(1, "object: %p\nthread: %d\n", (void *)object, gettid());
			return object;
		}
	}
	dprintf(2, "no object is at that end\n");
	_exit(1);
}

static void write_after_free(void)
{
	char *object = object_at(1);
	free_it(object);
	write_to_it(object);
	survived();
}

static void read_after_free(void)
{
	char *object = object_at(0);
	free_it(object);
	read_it(object + size / 2);
	survived();
}

static void overflow(void)
{
	write_to_it(object_at(1) + size);
	survived();
}

static void overflow_by_some(void)
{
	read_it(object_at(1) + size + 47);
	survived();
}

static void underflow(void)
{
	write_to_it(object_at(0) - 1);
	survived();
}

static void underflow_by_some(void)
{
	read_it(object_at(0) - 24);
	survived();
}

static void small_overflow(void)
{
	char *object = object_at(1);
	write_to_it(object + size + 3);
	free_it(object);
	survived();
}

static void small_underflow(void)
{
	char *object = object_at(1);
	write_to_it(object - 5);
	free_it(object);
	survived();
}

static void free_twice(void)
{
	char *object = object_at(0);
	free_it(object);
	free_it(object);
	survived();
}

static void free_inside(void)
{
	free_it(object_at(0) + 32);
	survived();
}

static APART void resize_it(void *object)
{
	CHECK(realloc(object, 500));
	AND_GO_ON;
}

static void resize_after_free(void)
{
	char *object = object_at(1);
	free_it(object);
	resize_it(object);
	survived();
}

static void measure_after_free(void)
{
	char *object = object_at(1);
	free_it(object);
	CHECK(malloc_usable_size(object));
	survived();
}

static void *free_in_thread(void *object)
{
	dprintf(1, "freer: %d\n", gettid());
	free_it(object);
	return NULL;
}

static void use_of_what_another_thread_freed(void)
{
	char *object = object_at(1);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, free_in_thread, object) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	write_to_it(object + 1);
	survived();
}

/* Misuse in the child of a fork, of an object from before. */
static void use_after_free_in_child(void)
{
	char *object = object_at(1);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		free_it(object);
		write_to_it(object);
		survived();
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK(holds_only(object, 2, size));
	free(object);
	survived();
}

static volatile sig_atomic_t caught;

static void catch_and_end(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	caught++;
	dprintf(1, "caught: %p\n", info->si_addr);
	_exit(0);
}

static void own_handler(void)
{
	char *object = object_at(1);
	struct sigaction action = {.sa_sigaction = catch_and_end, .sa_flags = SA_SIGINFO}, before;
	CHECK(sigaction(SIGSEGV, &action, &before) == 0);
	free_it(object);
	write_to_it(object);
	survived();
}

static struct sigaction before;

static void catch_and_pass_on(int number, siginfo_t *info, void *context)
{
	dprintf(1, "caught: %p\n", info->si_addr);
	before.sa_sigaction(number, info, context);
}

/* A handler that calls the one before it, on a stack of its own. */
static void own_handler_that_passes_on(void)
{
	char *object = object_at(1);
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
	CHECK(sigaltstack(&stack, NULL) == 0);
	struct sigaction action = {.sa_sigaction = catch_and_pass_on,
	                           .sa_flags = SA_SIGINFO | SA_ONSTACK};
	CHECK(sigaction(SIGSEGV, &action, &before) == 0);
	free_it(object);
	write_to_it(object);
	survived();
}

static void other_crash(void)
{
	write_to_it(mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	survived();
}

static void signal_that_was_sent(void)
{
	raise(SIGSEGV);
	survived();
}

static void ignored_signal(void)
{
	CHECK(signal(SIGSEGV, SIG_IGN) != SIG_ERR);
	raise(SIGSEGV);
	survived();
}

/* Whether there is a handler, and how much address space is mapped. */
static void traces(void)
{
	struct sigaction action;
	CHECK(sigaction(SIGSEGV, NULL, &action) == 0);
	dprintf(1, "handler: %d\nsize: %zu\n", action.sa_handler != SIG_DFL, status_bytes("VmSize:"));
}

static volatile int is_about_to;

static void *use_after_free(void *unused)
{
	char *object = allocate_it(size);
	free_it(object);
	is_about_to = 1;
	write_to_it(object);
	return unused;
}

/* A child is forked while another thread reports, for which there is no room on standard error. */
static void use_after_free_in_child_of_a_report(void)
{
	char filling[PAGE] = {0};
	int ends[2], standard_error = dup(2), status;
	CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, PAGE) == PAGE);
	CHECK(write(ends[1], filling, PAGE) == PAGE && dup2(ends[1], 2) == 2);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, use_after_free, NULL) == 0);
	while (!is_about_to)
		usleep(1000);
	usleep(200 * 1000);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(dup2(standard_error, 2) == 2);
		alarm(10);
		use_after_free(NULL);
		_exit(1);
	}
	CHECK(waitpid(child, &status, 0) == child);
	dprintf(1, "signal: %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	_exit(0);
}

/* Objects of all kinds keep what they hold, and guarded ones are among them. */
static void good_use(void)
{
	uint64_t random = 1;
	struct {
		unsigned char *start;
		size_t bytes;
	} blocks[100] = {0};
	long exact = 0;
	for (int i = 0; i < 50000; i++) {
		int n = next_random(&random) % 100;
		unsigned char tag = n + 1;
		size_t bytes = random_size(&random, 15), keep;
		size_t align = (size_t)16 << next_random(&random) % 9;
		CHECK(holds_only(blocks[n].start, tag, blocks[n].bytes));
		switch (next_random(&random) % 5) {
		case 0:
			keep = blocks[n].bytes < bytes ? blocks[n].bytes : bytes;
			blocks[n].start = realloc(blocks[n].start, bytes + 1);
			CHECK(holds_only(blocks[n].start, tag, keep));
			break;
		case 1:
			free(blocks[n].start);
			blocks[n].start = calloc(1, bytes + 1);
			CHECK(holds_only(blocks[n].start, 0, bytes));
			break;
		case 2:
			free(blocks[n].start);
			blocks[n].start = aligned_alloc(align, bytes);
			CHECK((uintptr_t)blocks[n].start % align == 0);
			break;
		default:
			free(blocks[n].start);
			blocks[n].start = malloc(bytes);
		}
		CHECK(blocks[n].start && (uintptr_t)blocks[n].start % 16 == 0);
		CHECK(malloc_usable_size(blocks[n].start) >= bytes);
		CHECK(freehold_owns(blocks[n].start));
		exact += bytes % 16 != 0 && malloc_usable_size(blocks[n].start) <= bytes + 1;
		memset(blocks[n].start, tag, bytes);
		blocks[n].bytes = bytes;
		if (i % 1000 == 0) {
			pid_t child = fork();
			CHECK(child >= 0);
			if (child == 0) {
				for (n = 0; n < 100; n++) {
					CHECK(holds_only(blocks[n].start, n + 1, blocks[n].bytes));
					free(blocks[n].start);
				}
				_exit(0);
			}
			int status;
			CHECK(waitpid(child, &status, 0) == child && status == 0);
		}
	}
	printf("exact: %ld\n", exact);
}

int main(int argc, char **argv)
{
	static const struct test_case CASES[] = {
	    {"write_after_free", write_after_free},
	    {"read_after_free", read_after_free},
	    {"overflow", overflow},
	    {"overflow_by_some", overflow_by_some},
	    {"underflow", underflow},
	    {"underflow_by_some", underflow_by_some},
	    {"small_overflow", small_overflow},
	    {"small_underflow", small_underflow},
	    {"free_twice", free_twice},
	    {"free_inside", free_inside},
	    {"resize_after_free", resize_after_free},
	    {"measure_after_free", measure_after_free},
	    {"use_of_what_another_thread_freed", use_of_what_another_thread_freed},
	    {"use_after_free_in_child", use_after_free_in_child},
	    {"use_after_free_in_child_of_a_report", use_after_free_in_child_of_a_report},
	    {"own_handler", own_handler},
	    {"own_handler_that_passes_on", own_handler_that_passes_on},
	    {"other_crash", other_crash},
	    {"signal_that_was_sent", signal_that_was_sent},
	    {"ignored_signal", ignored_signal},
	    {"traces", traces},
	    {"good_use", good_use},
	};
	/* What the first call fetches is not guarded. */
	free(malloc(900));
	if (argc > 2)
		size = strtoul(argv[2], NULL, 10);
	return RUN_CASE(CASES, argc, argv);
}
