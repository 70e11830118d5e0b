// H5, H36: C++ objects whose constructors and destructors allocate, at the ends of threads and of
// the process; and exceptions, which are allocated themselves.
//
// Usage: lifetimes CASE COUNT.
#include "check.h"
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

long count;

// Allocates when it is made, when it is used, and when it goes.
struct Greedy {
	std::vector<std::string> words;
	std::map<int, std::unique_ptr<char[]>> pieces;

	Greedy()
	{
		use(10);
	}

	void use(int times)
	{
		for (int i = 0; i < times; i++) {
			words.emplace_back(std::string(10 * i, 'x'));
			pieces[i].reset(new char[100 * i + 1]);
		}
	}

	~Greedy()
	{
		use(20);
		CHECK(words.size() >= 20 && pieces.size() >= 20);
	}
};

thread_local Greedy first_of_thread;
thread_local std::unique_ptr<Greedy> second_of_thread;

// Objects of the whole process, made before main and destroyed after it; the library under test
// must still work then.
Greedy of_process;
std::unique_ptr<Greedy> kept_by_process;

void work()
{
	first_of_thread.use(5);
	second_of_thread = std::make_unique<Greedy>();
}

void thread_locals()
{
	for (long i = 0; i < count / 10 + 1; i++)
		std::thread(work).join();
	std::size_t resident = status_bytes("VmRSS:");
	for (long i = 0; i < count; i++)
		std::thread(work).join();
	std::size_t now = status_bytes("VmRSS:");
	std::printf("resident: %zu, then %zu\n", resident, now);
	CHECK(now < resident + (1 << 20));
}

int fall(int depth)
{
	std::string local(depth * 10, 'y');
	auto owned = std::make_unique<Greedy>();
	if (depth == 0)
		throw std::runtime_error("the bottom is reached: " + local);
	return fall(depth - 1) + static_cast<int>(local.size());
}

void throw_and_catch()
{
	for (long i = 0; i < count / 20 + 1; i++) {
		try {
			fall(20);
			CHECK(!"reached");
		} catch (const std::runtime_error &error) {
			CHECK(std::string(error.what()).find("bottom") != std::string::npos);
		}
	}
}

void exceptions()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(throw_and_catch);
	for (std::thread &thread : threads)
		thread.join();
	// An exception that outlives its thread.
	std::exception_ptr kept;
	std::thread([&] {
		try {
			fall(3);
		} catch (...) {
			kept = std::current_exception();
		}
	}).join();
	try {
		std::rethrow_exception(kept);
	} catch (const std::runtime_error &error) {
		std::puts(error.what());
	}
}

void statics()
{
	of_process.use(100);
	kept_by_process = std::make_unique<Greedy>();
	// Threads that are never joined are somewhere in their work when the statics go.
	for (int i = 0; i < 4; i++)
		std::thread([] {
			for (;;)
				work();
		}).detach();
	for (int i = 0; i < 100; i++)
		kept_by_process->use(10);
}

const test_case CASES[] = {
	{"thread_locals", thread_locals},
	{"exceptions", exceptions},
	{"statics", statics},
};

} // namespace

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	count = std::strtol(argv[2], nullptr, 10);
	require_freehold();
	return RUN_CASE(CASES, argc, argv);
}
