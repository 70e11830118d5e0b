// A program that replaces the operators by which the standard defines the others, each with a header of
// its own before its objects. What it leaves to the library must come to these, whatever the form.
//
// With ARRAYS it replaces those for arrays as well. Usage: replaced CASE.
#include "check.h"
#include <new>

namespace {

enum kind : std::size_t { SINGLE = 1, ARRAY, ALIGNED, ALIGNED_ARRAY };

int live[ALIGNED_ARRAY + 1];

// What stands before an object: as large as the widest alignment asked for.
struct alignas(64) header {
	kind made_by;
};

void *make(kind kind, std::size_t size)
{
	void *room = size <= PTRDIFF_MAX / 2 ? std::aligned_alloc(64, (sizeof(header) + size + 63) & -64) : nullptr;
	if (!room)
		throw std::bad_alloc();
	live[kind]++;
	return new (room) header{kind} + 1;
}

void unmake(kind kind, void *object)
{
	if (!object)
		return;
	header *before = static_cast<header *>(object) - 1;
	CHECK(before->made_by == kind);
	live[kind]--;
	std::free(before);
}

} // namespace

void *operator new(std::size_t size)
{
	return make(SINGLE, size);
}

void operator delete(void *object) noexcept
{
	unmake(SINGLE, object);
}

void *operator new(std::size_t size, std::align_val_t)
{
	return make(ALIGNED, size);
}

void operator delete(void *object, std::align_val_t) noexcept
{
	unmake(ALIGNED, object);
}

#ifdef ARRAYS
void *operator new[](std::size_t size)
{
	return make(ARRAY, size);
}

void operator delete[](void *object) noexcept
{
	unmake(ARRAY, object);
}

void *operator new[](std::size_t size, std::align_val_t)
{
	return make(ALIGNED_ARRAY, size);
}

void operator delete[](void *object, std::align_val_t) noexcept
{
	unmake(ALIGNED_ARRAY, object);
}

constexpr kind ARRAY_KIND = ARRAY, ALIGNED_ARRAY_KIND = ALIGNED_ARRAY;
#else
constexpr kind ARRAY_KIND = SINGLE, ALIGNED_ARRAY_KIND = ALIGNED;
#endif

namespace {

const std::align_val_t align{64};

void *counted(kind kind, void *object)
{
	CHECK(object && live[kind] == 1);
	return object;
}

void gone(kind kind)
{
	CHECK(live[kind] == 0);
}

void deletes()
{
	::operator delete(counted(SINGLE, ::operator new(40)), 40);
	gone(SINGLE);
	::operator delete(counted(SINGLE, ::operator new(40)), std::nothrow);
	gone(SINGLE);
	::operator delete[](counted(ARRAY_KIND, ::operator new[](40)));
	gone(ARRAY_KIND);
	::operator delete[](counted(ARRAY_KIND, ::operator new[](40)), 40);
	gone(ARRAY_KIND);
	::operator delete[](counted(ARRAY_KIND, ::operator new[](40)), std::nothrow);
	gone(ARRAY_KIND);
	::operator delete(counted(ALIGNED, ::operator new(40, align)), 40, align);
	gone(ALIGNED);
	::operator delete(counted(ALIGNED, ::operator new(40, align)), align, std::nothrow);
	gone(ALIGNED);
	::operator delete[](counted(ALIGNED_ARRAY_KIND, ::operator new[](40, align)), align);
	gone(ALIGNED_ARRAY_KIND);
	::operator delete[](counted(ALIGNED_ARRAY_KIND, ::operator new[](40, align)), 40, align);
	gone(ALIGNED_ARRAY_KIND);
	::operator delete[](counted(ALIGNED_ARRAY_KIND, ::operator new[](40, align)), align, std::nothrow);
	gone(ALIGNED_ARRAY_KIND);
}

void nothrow()
{
	for (int i = 0; i < 100; i++) {
		::operator delete(counted(SINGLE, ::operator new(40, std::nothrow)));
		::operator delete[](counted(ARRAY_KIND, ::operator new[](40, std::nothrow)));
		::operator delete(counted(ALIGNED, ::operator new(40, align, std::nothrow)), align);
		::operator delete[](counted(ALIGNED_ARRAY_KIND, ::operator new[](40, align, std::nothrow)), align);
	}
	const std::size_t too_much = PTRDIFF_MAX;
	CHECK(!::operator new(too_much, std::nothrow));
	CHECK(!::operator new[](too_much, std::nothrow));
	CHECK(!::operator new(too_much, align, std::nothrow));
	CHECK(!::operator new[](too_much, align, std::nothrow));
}

const test_case CASES[] = {
	{"deletes", deletes},
	{"nothrow", nothrow},
};

} // namespace

int main(int argc, char **argv)
{
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
