/* H9: a program that brings a malloc of its own and exports it, as redis, browsers and data bases do:
 * the loader finds the program's before any preloaded one, and everything must keep to it. */
#include "check.h"
#include <stdatomic.h>

static char room[(size_t)8 << 20] __attribute__((aligned(64)));
static atomic_size_t used;

struct header {
	size_t size, unused;
};

void *malloc(size_t size)
{
	size_t bytes = (sizeof(struct header) + size + 15) & ~(size_t)15;
	size_t at = atomic_fetch_add(&used, bytes);
	if (at + bytes > sizeof room)
		return NULL;
	struct header *header = (struct header *)(room + at);
	header->size = size;
	return header + 1;
}

void free(void *object)
{
	CHECK(!object || ((char *)object > room && (char *)object < room + sizeof room));
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size);
}

void *realloc(void *object, size_t size)
{
	void *other = malloc(size);
	if (object && other) {
		size_t had = ((struct header *)object)[-1].size;
		memcpy(other, object, had < size ? had : size);
	}
	free(object);
	return other;
}

int main(void)
{
	char *line = NULL, *text;
	size_t bytes = 0;
	CHECK(asprintf(&text, "%d", 7) == 1);
	free(text);
	FILE *file = fopen("/proc/self/cmdline", "re");
	CHECK(file && getline(&line, &bytes, file) > 0);
	fclose(file);
	free(line);
	free(realpath("/", NULL));
	free(strdup("text"));
	CHECK(!freehold_owns || !freehold_owns(malloc(10)));
	puts("done");
	return 0;
}
