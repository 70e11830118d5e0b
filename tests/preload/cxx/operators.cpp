// Every form of new and delete, and what the C++ standard says of them when there is no memory.
//
// Usage: operators CASE.
#include "check.h"
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

// Asking for too much is the point.
#pragma GCC diagnostic ignored "-Walloc-size-larger-than="

namespace {

const std::size_t TOO_MUCH = std::numeric_limits<std::ptrdiff_t>::max();

// Returned through here, so that the compiler cannot take pairs of new and delete away.
void *volatile sink;

template <typename T> T *used(T *object)
{
	sink = const_cast<std::remove_const_t<T> *>(object);
	CHECK(sink && freehold_owns(sink));
	return static_cast<T *>(sink);
}

void every_form()
{
	const std::align_val_t align{256};
	const std::nothrow_t &nothrow = std::nothrow;
	for (std::size_t size = 0; size < 300000; size += size / 2 + 1) {
		::operator delete(used(::operator new(size)));
		::operator delete(used(::operator new(size)), size);
		::operator delete(used(::operator new(size, nothrow)), nothrow);
		::operator delete[](used(::operator new[](size)));
		::operator delete[](used(::operator new[](size)), size);
		::operator delete[](used(::operator new[](size, nothrow)), nothrow);
		void *aligned[] = {
			::operator new(size, align),
			::operator new(size, align),
			::operator new(size, align, nothrow),
			::operator new[](size, align),
			::operator new[](size, align),
			::operator new[](size, align, nothrow),
		};
		for (void *object : aligned)
			CHECK(reinterpret_cast<std::uintptr_t>(used(object)) % 256 == 0);
		::operator delete(aligned[0], align);
		::operator delete(aligned[1], size, align);
		::operator delete(aligned[2], align, nothrow);
		::operator delete[](aligned[3], align);
		::operator delete[](aligned[4], size, align);
		::operator delete[](aligned[5], align, nothrow);
	}
	::operator delete(nullptr);
	::operator delete[](nullptr, align);
}

template <typename F> bool throws_bad_alloc(F allocate)
{
	try {
		sink = allocate();
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

void no_memory()
{
	const std::align_val_t align{64};
	CHECK(throws_bad_alloc([] { return ::operator new(TOO_MUCH); }));
	CHECK(throws_bad_alloc([] { return ::operator new[](TOO_MUCH); }));
	CHECK(throws_bad_alloc([&] { return ::operator new(TOO_MUCH, align); }));
	CHECK(throws_bad_alloc([&] { return ::operator new[](TOO_MUCH, align); }));
	CHECK(!::operator new(TOO_MUCH, std::nothrow));
	CHECK(!::operator new[](TOO_MUCH, std::nothrow));
	CHECK(!::operator new(TOO_MUCH, align, std::nothrow));
	CHECK(!::operator new[](TOO_MUCH, align, std::nothrow));
	CHECK(throws_bad_alloc([] { return new std::string(TOO_MUCH / 2, 'x'); }));
	// And all is well afterwards.
	std::vector<std::string> words(1000, std::string(100, 'y'));
	CHECK(words[999].size() == 100);
}

int handled;

void give_up_after_three()
{
	if (++handled == 3)
		std::set_new_handler(nullptr);
}

[[noreturn]] void throw_at_once()
{
	handled++;
	throw std::bad_alloc();
}

// The handler is asked as long as there is one, and may throw.
void new_handler()
{
	std::set_new_handler(give_up_after_three);
	CHECK(throws_bad_alloc([] { return ::operator new(TOO_MUCH); }));
	CHECK(handled == 3);
	handled = 0;
	std::set_new_handler(give_up_after_three);
	CHECK(!::operator new(TOO_MUCH, std::nothrow));
	CHECK(handled == 3);
	handled = 0;
	std::set_new_handler(throw_at_once);
	CHECK(throws_bad_alloc([] { return ::operator new[](TOO_MUCH); }));
	CHECK(handled == 1);
	std::set_new_handler(nullptr);
}

// What does not throw returns null also where the handler throws.
void throwing_handler()
{
	const std::align_val_t align{64};
	std::set_new_handler(throw_at_once);
	CHECK(!::operator new(TOO_MUCH, std::nothrow));
	CHECK(!::operator new[](TOO_MUCH, std::nothrow));
	CHECK(!::operator new(TOO_MUCH, align, std::nothrow));
	CHECK(!::operator new[](TOO_MUCH, align, std::nothrow));
	CHECK(handled == 4);
	::operator delete(used(::operator new(100, std::nothrow)));
	std::set_new_handler(nullptr);
}

struct alignas(128) Wide {
	char bytes[300];
};

struct Base {
	virtual ~Base() = default;
	int number = 1;
};

struct Derived : Base {
	std::string text = std::string(100, 'z');
	char more[500] = {};
};

// H31: programs pass wrong sizes and mix the forms. None of it matters here.
void mismatches()
{
	for (int i = 0; i < 1000; i++) {
		::operator delete(used(::operator new(1000)), 1);
		::operator delete(used(::operator new(16)), 100000);
		::operator delete[](used(::operator new(100)));
		::operator delete(used(::operator new[](100)));
		::operator delete(used(::operator new(100, std::align_val_t{64})));
		::operator delete(used(::operator new(100)), std::align_val_t{64});
		std::free(used(::operator new(100)));
		::operator delete(used(std::malloc(100)));
	}
}

void objects()
{
	for (int i = 0; i < 1000; i++) {
		std::unique_ptr<Base> base(new Derived);
		std::unique_ptr<Wide[]> wide(new Wide[1 + i % 50]);
		CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 128 == 0);
		auto shared = std::make_shared<Derived>();
		CHECK(shared->text.size() == 100 && freehold_owns(shared.get()));
	}
}

const test_case CASES[] = {
	{"every_form", every_form},
	{"no_memory", no_memory},
	{"new_handler", new_handler},
	{"throwing_handler", throwing_handler},
	{"mismatches", mismatches},
	{"objects", objects},
};

} // namespace

int main(int argc, char **argv)
{
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
