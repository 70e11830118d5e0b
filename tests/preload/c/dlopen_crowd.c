/* H4: opens all libraries named, one after the other, as far as there is room for their thread-local
 * storage, and says how many that were, and the reason why the last one refused was refused. */
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
	int opened = 0;
	char *reason = NULL;
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		if (!library) {
			free(reason);
			reason = strdup(dlerror());
			continue;
		}
		opened++;
		void *(*their_malloc)(size_t) = dlsym(library, "malloc");
		int (*owns)(const void *) = dlsym(library, "freehold_owns");
		if (owns) {
			CHECK(owns(their_malloc(100)));
			printf("freehold: opened\n");
		}
	}
	printf("opened: %d\n", opened);
	printf("reason: %s\n", reason ? reason : "none was refused");
	free(reason);
	return 0;
}
