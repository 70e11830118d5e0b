// One thread that builds and drops maps, node by node.
// Verdict: allocator_cpu
#include "known.h"

#include <map>
#include <string>

__attribute__((noinline)) static void index() {
    std::map<int, std::string> words;
    for (int i = 0; i < 200; i++) words[i] = std::string(40, 'a');
}

int main(int words, char **word) {
    begin(words, word);
    while (!is_over()) index();
}
