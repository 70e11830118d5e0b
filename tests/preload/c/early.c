/* H2: malloc and its family before main, from the earliest places there are: a resolver that chooses
 * a function while the program is being relocated, .preinit_array, and a first constructor. What
 * they get must be good until the end. */
#include "check.h"
#include <malloc.h>

struct early {
	char *small, *zeroed, *aligned, *large, *resized;
};

static void exercise(struct early *early)
{
	free(NULL);
	free(realloc(NULL, 0));
	early->small = malloc(24);
	early->zeroed = calloc(10, 100);
	if (posix_memalign((void **)&early->aligned, 256, 1000) != 0)
		early->aligned = NULL;
	early->large = malloc(300000);
	early->resized = realloc(malloc(10), 5000);
	free(malloc(2000));
	if (malloc_usable_size(NULL) != 0)
		early->small = NULL;
}

static void check(struct early *early)
{
	CHECK(early->small && early->zeroed && early->aligned && early->large && early->resized);
	CHECK(holds_only(early->zeroed, 0, 1000));
	CHECK((uintptr_t)early->aligned % 256 == 0);
	char *all[] = {early->small, early->zeroed, early->aligned, early->large, early->resized};
	size_t sizes[] = {24, 1000, 1000, 300000, 5000};
	for (int i = 0; i < 5; i++) {
		CHECK(freehold_owns(all[i]));
		memset(all[i], i, sizes[i]);
	}
	for (int i = 0; i < 5; i++) {
		CHECK(holds_only(all[i], i, sizes[i]));
		free(all[i]);
	}
}

static struct early by_resolver, by_preinit, by_constructor;

static int chosen(void)
{
	return 42;
}

static int (*resolve(void))(void)
{
	exercise(&by_resolver);
	return chosen;
}

int answer(void) __attribute__((ifunc("resolve")));

static void preinit(void)
{
	exercise(&by_preinit);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinits[])(void) = {preinit};

__attribute__((constructor(101))) static void first_constructor(void)
{
	exercise(&by_constructor);
}

int main(void)
{
	require_freehold();
	CHECK(answer() == 42);
	check(&by_resolver);
	check(&by_preinit);
	check(&by_constructor);
	return 0;
}
