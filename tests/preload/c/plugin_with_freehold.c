/* H6: a plugin that libfreehold.a is linked into, so that it does not have the program's malloc. */
#include "check.h"

enum { SMALL = 1000, LARGE = 64, MIB = 1 << 20 };

/* Allocates small objects and 64 MiB of larger ones, and frees them. In a process of several
 * threads that is enough for Freehold to have one of its own. */
void plugin_work(void)
{
	char *small[SMALL], *large[LARGE];
	for (int i = 0; i < SMALL; i++) {
		small[i] = malloc((size_t)i);
		CHECK(small[i] && freehold_owns(small[i]));
		memset(small[i], 1, (size_t)i);
	}
	for (int i = 0; i < LARGE; i++) {
		large[i] = malloc(MIB);
		CHECK(large[i] && freehold_owns(large[i]));
		memset(large[i], 1, MIB);
	}
	for (int i = 0; i < SMALL; i++)
		free(small[i]);
	for (int i = 0; i < LARGE; i++)
		free(large[i]);
}
