/* A program without C++ that calls operator new with more than there is. */
#include "check.h"

void *_Znwm(size_t size) __attribute__((weak));

int main(void)
{
	require_freehold();
	CHECK(_Znwm);
	free(_Znwm(100));
	return !_Znwm(PTRDIFF_MAX);
}
