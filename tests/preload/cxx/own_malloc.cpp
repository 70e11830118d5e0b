// H9: a program in C++ with a malloc of its own, and no operators: the C++ library's call that malloc, and
// so must Freehold's. What comes from one can be given back by the other.
#include "check.h"
#include <memory>
#include <new>
#include <string>

namespace {

alignas(64) char room[std::size_t{8} << 20];
std::size_t used;

struct alignas(16) header {
	std::size_t size;
};

bool is_own(void *object)
{
	return object > room && object < room + sizeof room;
}

void *take(std::size_t align, std::size_t size)
{
	std::size_t bytes = sizeof(header) + size + align;
	if (size > sizeof room || bytes > sizeof room - used)
		return nullptr;
	auto place = reinterpret_cast<std::uintptr_t>(room) + used + sizeof(header) + align - 1;
	used += bytes;
	auto *object = reinterpret_cast<header *>(place & -align);
	object[-1].size = size;
	return object;
}

} // namespace

extern "C" {

void *malloc(std::size_t size)
{
	return size ? take(16, size) : nullptr;
}

void *aligned_alloc(std::size_t align, std::size_t size)
{
	return size && size % align == 0 ? take(align, size) : nullptr;
}

void free(void *object)
{
	CHECK(!object || is_own(object));
}

void *calloc(std::size_t count, std::size_t size)
{
	return malloc(count * size);
}

void *realloc(void *object, std::size_t size)
{
	void *other = malloc(size);
	if (object && other) {
		std::size_t had = static_cast<header *>(object)[-1].size;
		memcpy(other, object, had < size ? had : size);
	}
	free(object);
	return other;
}

} // extern "C"

int main()
{
	const std::align_val_t align{256};
	for (std::size_t size = 0; size < 300000; size += size / 2 + 1) {
		void *objects[] = {
			::operator new(size),
			::operator new[](size),
			::operator new(size, std::nothrow),
			::operator new(size, align),
			::operator new(size, align, std::nothrow),
		};
		for (void *object : objects)
			CHECK(is_own(object));
		CHECK(reinterpret_cast<std::uintptr_t>(objects[3]) % 256 == 0);
		::operator delete(objects[0], size);
		::operator delete[](objects[1]);
		std::free(objects[2]);
		::operator delete(objects[3], align);
		::operator delete(objects[4], size, align);
		::operator delete(std::malloc(size));
	}
	try {
		void *volatile object = ::operator new(sizeof room);
		CHECK(!object);
	} catch (const std::bad_alloc &) {
		std::puts("done");
	}
	CHECK(std::make_unique<std::string>(10, 'x')->size() == 10);
	CHECK(freehold_owns);
	return 0;
}
