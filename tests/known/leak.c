/* Forgets a part of what it allocates.
   Verdict: memory_grows */
#include "known.h"

__attribute__((noinline)) static void handle_request(int number) {
    volatile char *answer = malloc(8000), *scratch = malloc(2000);
    for (int i = 0; i < 8000; i += 500) answer[i] = 1;
    scratch[0] = 1;
    free((void *)scratch);
    if (number % 2) free((void *)answer);
}

int main(int words, char **word) {
    begin(words, word);
    for (int i = 0; !is_over(); i++) {
        handle_request(i);
        compute(10000);
    }
}
