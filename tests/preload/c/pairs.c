/* Pairs of malloc and free, as many as are asked for, and little else: what they cost is counted
 * from outside.
 *
 * Usage: pairs COUNT. */
#include "check.h"

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	require_freehold();
	for (size_t left = strtoul(argv[1], NULL, 10); left > 0; left--)
		free(malloc(16));
	return 0;
}
