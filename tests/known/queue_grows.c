/* A producer that is faster than its consumer: the queue between them grows.
   Verdict: memory_grows */
#include "known.h"

enum { MESSAGE = 16 << 10 };

struct message {
    struct message *next;
    char text[MESSAGE];
};

static struct message *first, *last;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void enqueue(void) {
    struct message *message = malloc(sizeof *message);
    memset(message, 1, sizeof *message);
    message->next = NULL;
    pthread_mutex_lock(&lock);
    if (last) last->next = message;
    else first = message;
    last = message;
    pthread_mutex_unlock(&lock);
}

static void *produce(void *unused) {
    while (!is_over()) {
        for (int i = 0; i < 4; i++) enqueue();
        compute(200000);
        nap(0.0005);
    }
    return unused;
}

static void *consume(void *unused) {
    while (!is_over()) {
        pthread_mutex_lock(&lock);
        struct message *message = first;
        if (message) first = message->next;
        if (!first) last = NULL;
        pthread_mutex_unlock(&lock);
        free(message);
        compute(200000);
        nap(0.001);
    }
    return unused;
}

static void *work(void *number) { return number ? consume(NULL) : produce(NULL); }

int main(int words, char **word) {
    begin(words, word);
    in_threads(2, work);
}
