/* Two threads that wait for a page that never comes: one to run it, and one to read it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static const size_t page = 4096;

static void *run(void *page) {
    pthread_setname_np(pthread_self(), "runs");
    ((void (*)(void))page)();
    return NULL;
}

static void *read_it(void *page) {
    pthread_setname_np(pthread_self(), "reads");
    return *(void *volatile *)page;
}

int main(void) {
    int fault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    if (fault < 0 || ioctl(fault, UFFDIO_API, &api)) return 77;
    int access = PROT_READ | PROT_WRITE | PROT_EXEC;
    char *pages = mmap(NULL, 2 * page, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register both = {
        .range = {.start = (unsigned long)pages, .len = 2 * page},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    if (pages == MAP_FAILED || ioctl(fault, UFFDIO_REGISTER, &both)) return 77;
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, run, pages);
    pthread_create(&threads[1], NULL, read_it, pages + page);
    sleep(1);
    /* The threads do not come back. */
    _exit(0);
}
