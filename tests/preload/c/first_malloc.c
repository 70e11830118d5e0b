/* Says how many calls of read(2) the first malloc makes, by what the kernel counts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls of read so far, this one not counted; -1 where nobody counts. Does not allocate. */
static long reads(void)
{
	char text[512];
	int file = open("/proc/self/io", O_RDONLY);
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
	if (length < 0)
		return -1;
	close(file);
	text[length] = 0;
	const char *found = strstr(text, "syscr: ");
	return found ? atol(found + strlen("syscr: ")) : -1;
}

int main(void)
{
	long before = reads();
	void *volatile object = malloc(1);
	long after = reads();
	free(object);
	if (before < 0 || after < 0)
		puts("not counted");
	else
		printf("reads: %ld\n", after - before - 1);
	return 0;
}
