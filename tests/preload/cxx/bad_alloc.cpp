// As little C++ as a program can have that catches std::bad_alloc: linked statically it has nothing of
// the C++ library but what it names itself.
#include "check.h"
#include <new>

int main()
{
	require_freehold();
	volatile std::size_t too_much = PTRDIFF_MAX;
	try {
		void *volatile object = ::operator new(too_much);
		CHECK(!object);
	} catch (const std::bad_alloc &error) {
		puts(error.what());
		return 0;
	}
	return 1;
}
