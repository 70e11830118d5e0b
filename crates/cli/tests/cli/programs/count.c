/* Counts the calls to malloc and its family, independently of the recorder: preloaded behind it, it
 * sees every call that the recorder passes on. The counters are in a file that all processes share,
 * named by COUNTS, so that they are there whatever becomes of a process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* In the order in which the test reads them. */
enum { MALLOC, CALLOC, REALLOC, ALIGNED, FREE, FREE_NULL, FAILED, KINDS };

static _Atomic uint64_t unshared[KINDS];
static _Atomic uint64_t *counts = unshared;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static void *(*next_aligned_alloc)(size_t, size_t);
static void *(*next_memalign)(size_t, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_valloc)(size_t);
static void *(*next_pvalloc)(size_t);

static void prepare(void) {
    if (next_pvalloc) return;
    next_malloc = dlsym(RTLD_NEXT, "malloc");
    next_calloc = dlsym(RTLD_NEXT, "calloc");
    next_realloc = dlsym(RTLD_NEXT, "realloc");
    next_free = dlsym(RTLD_NEXT, "free");
    next_aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    next_memalign = dlsym(RTLD_NEXT, "memalign");
    next_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    next_valloc = dlsym(RTLD_NEXT, "valloc");
    /* environ is not set up this early. */
    static char text[65536];
    int environment = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    ssize_t length = read(environment, text, sizeof text - 1);
    close(environment);
    const char *path = NULL;
    for (char *entry = text; entry < text + length; entry += strlen(entry) + 1)
        if (!strncmp(entry, "COUNTS=", 7)) path = entry + 7;
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *shared = mmap(NULL, sizeof unshared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) counts = shared;
        close(file);
    }
    next_pvalloc = dlsym(RTLD_NEXT, "pvalloc");
}

static void *counted(int kind, void *object) {
    counts[object ? kind : FAILED]++;
    return object;
}

void *malloc(size_t size) {
    prepare();
    return counted(MALLOC, next_malloc(size));
}

void *calloc(size_t count, size_t size) {
    prepare();
    return counted(CALLOC, next_calloc(count, size));
}

void *realloc(void *object, size_t size) {
    prepare();
    void *moved = next_realloc(object, size);
    counts[moved || (object && !size) ? REALLOC : FAILED]++;
    return moved;
}

void free(void *object) {
    prepare();
    counts[object ? FREE : FREE_NULL]++;
    int saved = errno;
    next_free(object);
    errno = saved;
}

void *aligned_alloc(size_t align, size_t size) {
    prepare();
    return counted(ALIGNED, next_aligned_alloc(align, size));
}

void *memalign(size_t align, size_t size) {
    prepare();
    return counted(ALIGNED, next_memalign(align, size));
}

int posix_memalign(void **result, size_t align, size_t size) {
    prepare();
    int error = next_posix_memalign(result, align, size);
    counts[error ? FAILED : ALIGNED]++;
    return error;
}

void *valloc(size_t size) {
    prepare();
    return counted(ALIGNED, next_valloc(size));
}

void *pvalloc(size_t size) {
    prepare();
    return counted(ALIGNED, next_pvalloc(size));
}
