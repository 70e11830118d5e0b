/* A queue without locks between two threads: each moves its own end, and reads the other's, which lies
   beside it.
   Verdict: false_sharing */
#include "known.h"

#include <atomic>

static const unsigned SLOTS = 1024;

static struct {
    std::atomic<unsigned> head, tail;
    alignas(64) unsigned slots[SLOTS];
} queue;

static void *put(void *) {
    for (unsigned n = 0; n % 4096 || !is_over(); n++) {
        const unsigned tail = queue.tail.load(std::memory_order_relaxed);
        if (tail - queue.head.load(std::memory_order_acquire) == SLOTS) continue;
        queue.slots[tail % SLOTS] = n;
        queue.tail.store(tail + 1, std::memory_order_release);
    }
    return nullptr;
}

static void *take(void *) {
    unsigned long sum = 0;
    for (unsigned n = 0; n % 4096 || !is_over(); n++) {
        const unsigned head = queue.head.load(std::memory_order_relaxed);
        if (queue.tail.load(std::memory_order_acquire) == head) continue;
        sum += queue.slots[head % SLOTS];
        queue.head.store(head + 1, std::memory_order_release);
    }
    return reinterpret_cast<void *>(sum);
}

static void *either(void *number) { return number ? put(nullptr) : take(nullptr); }

int main(int words, char **word) {
    begin(words, word);
    in_threads(2, either);
}
