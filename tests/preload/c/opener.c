/* Opens a library that is a program otherwise, for itself alone as plugins are opened, and runs it: the
 * C++ library comes with it, long after Freehold.
 *
 * Usage: opener LIBRARY [ARGUMENT]... */
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
	CHECK(argc > 1 && !dlsym(RTLD_DEFAULT, "__cxa_throw"));
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	int (*run)(int, char **) = (int (*)(int, char **))dlsym(library, "main");
	CHECK(run);
	return run(argc - 1, argv + 1);
}
