/* Preloaded beside Freehold: says of every process in which it is loaded, at its start, whether
 * malloc is Freehold's there. One line a process, "<program> freehold" or "<program> other", is
 * appended to the file that FREEHOLD_WITNESS names. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int freehold_owns(const void *object) __attribute__((weak));

/* Whether both the program's malloc and what the C library calls itself give Freehold's memory. */
static int is_freeholds(void)
{
	void *direct = malloc(24);
	char *by_libc = strdup("witness");
	int is = freehold_owns && direct && by_libc
		&& freehold_owns(direct) && freehold_owns(by_libc);
	free(direct);
	free(by_libc);
	return is;
}

__attribute__((constructor)) static void testify(void)
{
	const char *path = getenv("FREEHOLD_WITNESS");
	char program[512], line[600];
	ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
	if (!path || length < 0)
		return;
	program[length] = 0;
	int used = snprintf(line, sizeof line, "%s %s\n", program,
		is_freeholds() ? "freehold" : "other");
	int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (file >= 0) {
		/* A line that is missing fails the test. */
		if (write(file, line, used) != used)
			unlink(path);
		close(file);
	}
}
