/* A library with a lock of its own: neither it nor the function that takes it is exported. */
#include <pthread.h>

static pthread_mutex_t store_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long stored;

__attribute__((noinline)) static void put_locked(unsigned long value) {
    pthread_mutex_lock(&store_lock);
    for (int i = 0; i < 20000; i++) stored = stored * 31 + value;
    pthread_mutex_unlock(&store_lock);
}

void store_put(unsigned long value) {
    put_locked(value);
    stored++;
}
