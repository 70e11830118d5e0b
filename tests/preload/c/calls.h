/* Functions whose names are to be in a report. After "check.h". */
#ifndef CALLS_H
#define CALLS_H

#define APART __attribute__((noinline, noclone))

/* After a call, so that it is one, and its caller remains on the stack. */
#define AND_GO_ON __asm__ volatile("" ::: "memory")

static APART char *allocate_it(size_t bytes)
{
	char *object = malloc(bytes);
	AND_GO_ON;
	return object;
}

static APART void free_it(void *object)
{
	free(object);
	AND_GO_ON;
}

#endif
