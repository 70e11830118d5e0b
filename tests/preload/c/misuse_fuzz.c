/* H8: random addresses, most of them of no object. Freehold may refuse one by its report and
 * SIGABRT, but must not crash over any.
 *
 * Usage: misuse_fuzz measure|free COUNT SEED. */
#include "check.h"
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

enum { OBJECTS = 3000 };
static char *objects[OBJECTS];
static uint64_t state;
static sigjmp_buf refused;

static void on_abort(int signal)
{
	(void)signal;
	siglongjmp(refused, 1);
}

/* Objects of all sizes; every third is freed again. */
static void allocate(void)
{
	for (int i = 0; i < OBJECTS; i++) {
		size_t size = random_size(&state, i % 20 ? 15 : 22);
		objects[i] = malloc(size);
		CHECK(objects[i]);
	}
	for (int i = 0; i < OBJECTS; i += 3)
		free(objects[i]);
}

/* Near one of the objects, up to two to the power of `bits` away. */
static char *near_object(unsigned bits)
{
	uintptr_t object = (uintptr_t)objects[next_random(&state) % OBJECTS];
	uintptr_t distance = random_size(&state, bits);
	return (char *)(next_random(&state) % 2 ? object + distance : object - distance);
}

static char *any_address(void)
{
	switch (next_random(&state) % 64) {
	case 0:
		return (char *)next_random(&state);
	case 1:
		return (char *)(next_random(&state) % ((uintptr_t)1 << 47));
	case 2:
		return (char *)&state + next_random(&state) % 8192;
	case 3:
		return near_object(40);
	default:
		return near_object(24);
	}
}

static void measure(size_t count)
{
	/* Changed between the jump and its target. */
	volatile size_t measured = 0, aborted = 0;
	struct sigaction action = {.sa_handler = on_abort};
	sigaction(SIGABRT, &action, NULL);
	for (volatile size_t i = 0; i < count; i++) {
		char *volatile address = any_address();
		if (sigsetjmp(refused, 1)) {
			aborted++;
			continue;
		}
		size_t usable = malloc_usable_size(address);
		if ((uintptr_t)address % 16 != 0 && usable != 0) {
			printf("no object starts at %p\n", address);
			_exit(1);
		}
		measured++;
	}
	printf("measured: %zu\nrefused: %zu\n", measured, aborted);
}

/* Not the start of any object, so that it must be refused: inside one that is in use, or not even
 * at a multiple of 16. */
static char *wrong_address(void)
{
	size_t i = next_random(&state) % OBJECTS;
	size_t usable = i % 3 == 0 ? 0 : malloc_usable_size(objects[i]);
	if (usable > 16)
		return objects[i] + 1 + next_random(&state) % (usable - 1);
	char *address = any_address();
	return (uintptr_t)address % 16 ? address : address + 1;
}

static void free_in_children(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *address = wrong_address();
		pid_t child = fork();
		if (child == 0) {
			free(address);
			_exit(0);
		}
		int status;
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) {
			printf("free(%p) ended with status %#x\n", address, status);
			_exit(1);
		}
	}
	printf("refused: %zu\n", count);
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	require_freehold();
	size_t count = strtoul(argv[2], NULL, 10);
	state = strtoul(argv[3], NULL, 10) | 1;
	allocate();
	/* A million reports are of no interest. */
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CHECK(nowhere >= 0 && dup2(nowhere, 2) == 2);
	if (strcmp(argv[1], "measure") == 0)
		measure(count);
	else
		free_in_children(count);
	return 0;
}
