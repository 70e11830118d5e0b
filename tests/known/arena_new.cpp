// Threads that make and drop strings from the C library's one arena: they wait for its lock.
// Verdict: allocator_contention
#include "known.h"

#include <string>
#include <vector>

__attribute__((noinline)) static void fill(std::vector<std::string> &strings) {
    for (int i = 0; i < 64; i++) strings.emplace_back(1500 + i * 16, 'x');
    strings.clear();
}

static void *work(void *unused) {
    std::vector<std::string> strings;
    strings.reserve(64);
    while (!is_over()) fill(strings);
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    mallopt(M_ARENA_MAX, 1);
    in_threads(8, work);
}
