/* Readers and writers of a table, under a lock of the C++ library.
   Verdict: other_lock */
#include "known.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

static std::shared_mutex door;
static std::map<int, std::string> table;

__attribute__((noinline)) static size_t look_up(unsigned from) {
    std::shared_lock<std::shared_mutex> guard(door);
    size_t sum = 0;
    for (unsigned i = 0; i < 20; i++) sum += table.find((from + i) % 2000)->second.size();
    return sum;
}

__attribute__((noinline)) static void change(unsigned from) {
    std::unique_lock<std::shared_mutex> guard(door);
    for (unsigned i = 0; i < 40; i++) table[(from + i) % 2000][0]++;
}

static void *work(void *number) {
    unsigned state = static_cast<unsigned>(reinterpret_cast<unsigned long>(number));
    size_t sum = 0;
    while (!is_over()) {
        state = state * 1103515245 + 12345;
        if (state >> 16 & 3) sum += look_up(state >> 8);
        else change(state >> 8);
    }
    return reinterpret_cast<void *>(sum);
}

int main(int words, char **word) {
    begin(words, word);
    for (int i = 0; i < 2000; i++) table[i] = "a";
    in_threads(8, work);
}
