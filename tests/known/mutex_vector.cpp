// Threads that wait for a std::mutex around a vector of the program.
// Verdict: other_lock
#include "known.h"

#include <mutex>
#include <vector>

static std::mutex samples_lock;
static std::vector<int> samples(1000);

__attribute__((noinline)) static void add_sample(int value) {
    std::lock_guard<std::mutex> guard(samples_lock);
    samples[value % samples.size()] += value;
    compute(20000);
}

static void *work(void *unused) {
    for (int i = 0; !is_over(); i++) add_sample(i & 1023);
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(6, work);
}
