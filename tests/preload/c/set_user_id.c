/* H25: a program that gets rights as it is started: who is it, and does Freehold serve it? */
#include "check.h"
#include <dlfcn.h>
#include <sys/auxv.h>

int main(void)
{
	for (size_t size = 1; size < 100000; size *= 3) {
		char *block = malloc(size);
		CHECK(block);
		memset(block, 1, size);
		free(block);
	}
	printf("secure: %lu\n", getauxval(AT_SECURE));
	printf("gained: %d\n", geteuid() == 0 && getuid() != 0);
	printf("served: %d\n", dlsym(RTLD_DEFAULT, "freehold_check_heap") != NULL);
	return 0;
}
