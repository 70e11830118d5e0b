// Threads that spin for a lock that the program made of an atomic flag.
// Verdict: spinning
#include "known.h"

#include <atomic>

static std::atomic<int> flag{0};

__attribute__((noinline)) static void enter() {
    while (flag.exchange(1, std::memory_order_acquire)) {
    }
    compute(2000);
    flag.store(0, std::memory_order_release);
}

static void *work(void *unused) {
    while (!is_over()) enter();
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(4, work);
}
