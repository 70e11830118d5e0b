/* H7: a plugin in a namespace of its own (dlmopen), which has a C library of its own: its memory is
 * freed there, and what the program does is not disturbed.
 *
 * Usage: namespace PLUGIN. */
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	require_freehold();
	for (int round = 0; round < 5; round++) {
		void *plugin = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW | RTLD_LOCAL);
		if (!plugin) {
			dprintf(2, "%s\n", dlerror());
			return 1;
		}
		void *(*allocate)(size_t) = dlsym(plugin, "plugin_malloc");
		char *(*duplicate)(const char *) = dlsym(plugin, "plugin_strdup");
		void (*release)(void *) = dlsym(plugin, "plugin_free");
		CHECK(allocate && duplicate && release);
		void *ours[100], *theirs[100];
		for (int i = 0; i < 100; i++) {
			ours[i] = malloc(1 + i * 97);
			theirs[i] = i % 2 ? allocate(1 + i * 97) : duplicate("text");
			CHECK(freehold_owns(ours[i]) && theirs[i] && !freehold_owns(theirs[i]));
			memset(ours[i], 1, 1 + i * 97);
		}
		for (int i = 0; i < 100; i++) {
			CHECK(holds_only(ours[i], 1, 1 + i * 97));
			free(ours[i]);
			release(theirs[i]);
		}
		CHECK(dlclose(plugin) == 0);
	}
	puts("done");
	return 0;
}
