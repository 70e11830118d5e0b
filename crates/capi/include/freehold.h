/* Freehold: a memory allocator whose threads own the memory they hand out.
 *
 * The library replaces malloc and its family, and the C++ operators new and delete; nothing needs to
 * be called to use it. What follows is for programs that want to know that it is there.
 *
 * To work without the library as well, declare the functions weak and test their address.
 */
#ifndef FREEHOLD_H
#define FREEHOLD_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header: major * 10000 + minor * 100 + patch. */
#define FREEHOLD_VERSION_NUMBER 100

/* The version of the library in use, such as "0.1.0". */
const char *freehold_version(void);

/* The version of the library in use, as FREEHOLD_VERSION_NUMBER counts. */
int freehold_version_number(void);

/* 1 if object points into memory of Freehold's, else 0. So freehold_owns(malloc(1)) tells whether
 * malloc is Freehold's. */
int freehold_owns(const void *object);

/* Looks at all objects, in use and freed, of a process that was started with FREEHOLD_DEBUG in its
 * environment, and reports on standard error what is damaged. Returns how many objects are; -1
 * without FREEHOLD_DEBUG, where nothing can be looked at. */
int freehold_check_heap(void);

#ifdef __cplusplus
}
#endif

#endif
