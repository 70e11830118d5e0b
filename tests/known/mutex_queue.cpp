// Producers that never wait for anything but the std::mutex of a queue, which is mostly full, and
// consumers: threads meet at the mutex more often than they sleep for it.
// Verdict: other_lock
#include "known.h"

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

using Message = std::unique_ptr<std::vector<int>>;

static std::mutex queue_lock;
static std::deque<Message> queue;

static void *produce(void *unused) {
    while (!is_over()) {
        auto message = std::make_unique<std::vector<int>>(8, 1);
        std::lock_guard<std::mutex> guard(queue_lock);
        if (queue.size() < 1000) queue.push_back(std::move(message));
    }
    return unused;
}

static void *consume(void *unused) {
    while (!is_over()) {
        Message message;
        {
            std::lock_guard<std::mutex> guard(queue_lock);
            if (queue.empty()) continue;
            message = std::move(queue.front());
            queue.pop_front();
        }
        compute((int)message->size());
    }
    return unused;
}

int main(int words, char **word) {
    begin(words, word);
    in_threads(6, [](void *number) { return (long)number % 2 ? consume(number) : produce(number); });
}
