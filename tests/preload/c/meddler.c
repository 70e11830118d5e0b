/* H3: a second preloaded library that takes the place of functions which an allocator might use
 * while it sets itself up or asks for memory, and that allocates inside them. */
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void meddle(void)
{
	int error = errno;
	char *small = malloc(40), *large = malloc(70000);
	CHECK(small && large);
	small[39] = large[69999] = 1;
	free(large);
	free(small);
	errno = error;
}

static mode_t mode_of(int flags, va_list more)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list more; \
		va_start(more, flags); \
		mode_t mode = mode_of(flags, more); \
		va_end(more); \
		meddle(); \
		return syscall(SYS_openat, AT_FDCWD, path, flags, mode); \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
	int name(int directory, const char *path, int flags, ...) \
	{ \
		va_list more; \
		va_start(more, flags); \
		mode_t mode = mode_of(flags, more); \
		va_end(more); \
		meddle(); \
		return syscall(SYS_openat, directory, path, flags, mode); \
	}
OPENAT(openat)
OPENAT(openat64)

ssize_t read(int file, void *buffer, size_t bytes)
{
	meddle();
	return syscall(SYS_read, file, buffer, bytes);
}

void *mmap(void *at, size_t bytes, int rights, int flags, int file, off_t offset)
{
	meddle();
	return (void *)syscall(SYS_mmap, at, bytes, rights, flags, file, offset);
}

int munmap(void *at, size_t bytes)
{
	meddle();
	return syscall(SYS_munmap, at, bytes);
}

int madvise(void *at, size_t bytes, int advice)
{
	meddle();
	return syscall(SYS_madvise, at, bytes, advice);
}

ssize_t getrandom(void *buffer, size_t bytes, unsigned flags)
{
	meddle();
	return syscall(SYS_getrandom, buffer, bytes, flags);
}

/* The rest can only be done by the C library. */
#define FORWARD(result, name, parameters, arguments) \
	result name parameters \
	{ \
		meddle(); \
		result (*real) parameters = dlsym(RTLD_NEXT, #name); \
		return real arguments; \
	}
FORWARD(int, pthread_create,
	(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
	(thread, attributes, start, argument))
FORWARD(int, pthread_key_create, (pthread_key_t *key, void (*destructor)(void *)), (key, destructor))
FORWARD(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value))
FORWARD(char *, getenv, (const char *name), (name))
FORWARD(char *, secure_getenv, (const char *name), (name))
FORWARD(long, sysconf, (int name), (name))
