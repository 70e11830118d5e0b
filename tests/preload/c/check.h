/* What the programs of the tests share. Nothing in here allocates. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C"
#endif
int freehold_owns(const void *object) __attribute__((weak));

static inline void check_failed(const char *condition, const char *file, int line)
{
	/* Not by dprintf, which wants memory: there may be none. */
	char text[512];
	int length = snprintf(text, sizeof text, "%s:%d: not so: %s (errno %d)\n", file, line,
		condition, errno);
	if (length >= (int)sizeof text)
		length = sizeof text - 1;
	_exit(write(2, text, (size_t)length) == length ? 1 : 2);
}

/* Ends the program unless the condition holds. */
#define CHECK(condition) \
	((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

/* Ends the program unless malloc is Freehold's. */
static inline void require_freehold(void)
{
	void *object = calloc(1, 1);
	CHECK(freehold_owns && freehold_owns(object));
	free(object);
}

/* A random number: xorshift64. The state must not be 0. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A random size below two to the power of `bits`, each power of two as likely as any other. */
static inline size_t random_size(uint64_t *state, unsigned bits)
{
	return next_random(state) % ((size_t)2 << next_random(state) % bits);
}

/* Whether all bytes are the same as `byte`. */
static inline int holds_only(const void *start, unsigned char byte, size_t bytes)
{
	const unsigned char *p = (const unsigned char *)start;
	return bytes == 0 || (p[0] == byte && memcmp(p, p + 1, bytes - 1) == 0);
}

/* Bytes of memory that are resident, or the most that ever were ("VmRSS:" or "VmHWM:"). */
static inline size_t status_bytes(const char *field)
{
	char line[256];
	size_t kilobytes = 0;
	FILE *file = fopen("/proc/self/status", "re");
	CHECK(file);
	while (fgets(line, sizeof line, file))
		if (strncmp(line, field, strlen(field)) == 0)
			kilobytes = strtoul(line + strlen(field), NULL, 10);
	fclose(file);
	CHECK(kilobytes > 0);
	return kilobytes * 1024;
}

static inline uint64_t nanoseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A program's parts, of which the first argument names one. */
struct test_case {
	const char *name;
	void (*run)(void);
};

#define RUN_CASE(cases, argc, argv) \
	run_case(cases, sizeof(cases) / sizeof(cases)[0], (argc) > 1 ? (argv)[1] : "")

static inline int run_case(const struct test_case *cases, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(cases[i].name, name) == 0) {
			cases[i].run();
			return 0;
		}
	dprintf(2, "there is no case \"%s\"\n", name);
	return 2;
}

#endif
