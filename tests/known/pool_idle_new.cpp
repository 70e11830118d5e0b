// A pool of std::thread that waits on a condition variable, with next to nothing to do.
// Verdict: idle
#include "known.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex lock;
static std::condition_variable has_work;
static std::deque<int> jobs;
static bool stop;

static void serve() {
    std::unique_lock<std::mutex> guard(lock);
    while (!stop) {
        has_work.wait(guard, [] { return stop || !jobs.empty(); });
        if (!jobs.empty()) jobs.pop_front();
    }
}

int main(int words, char **word) {
    begin(words, word);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) threads.emplace_back(serve);
    while (!is_over()) {
        nap(0.02);
        std::lock_guard<std::mutex> guard(lock);
        jobs.push_back(1);
        has_work.notify_one();
    }
    {
        std::lock_guard<std::mutex> guard(lock);
        stop = true;
    }
    has_work.notify_all();
    for (auto &thread : threads) thread.join();
}
