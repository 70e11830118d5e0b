/* H10: functions of the C library that return memory which the program frees. Were the set of
 * replaced functions incomplete, one of these would return memory of another malloc. */
#include "check.h"
#include <dirent.h>
#include <glob.h>
#include <netdb.h>
#include <regex.h>
#include <sys/stat.h>
#include <wchar.h>

/* Freehold's, usable and freed. */
static void take(void *object)
{
	CHECK(object && freehold_owns(object));
	free(object);
}

static void strings(void)
{
	char *text;
	take(strdup("text"));
	take(strndup("text", 2));
	take(wcsdup(L"text"));
	CHECK(asprintf(&text, "%s %d", "text", 1) == 6);
	take(text);
}

static void lines(void)
{
	char *line = malloc(1);
	size_t room = 1;
	FILE *file = fopen("/proc/self/maps", "re");
	/* getline resizes what malloc gave us. */
	CHECK(file && getline(&line, &room, file) > 1 && room > 1);
	take(line);
	line = NULL;
	CHECK(getdelim(&line, &room, ' ', file) > 0);
	take(line);
	fclose(file);
}

static void paths(void)
{
	take(realpath("/proc/self", NULL));
	take(getcwd(NULL, 0));
	take(getcwd(NULL, 4096));
	take(get_current_dir_name());
	struct dirent **names;
	int count = scandir("/", &names, NULL, alphasort);
	CHECK(count > 0);
	while (count > 0)
		take(names[--count]);
	take(names);
	glob_t found;
	CHECK(glob("/proc/self/*", 0, NULL, &found) == 0);
	CHECK(freehold_owns(found.gl_pathv));
	globfree(&found);
	DIR *directory = opendir("/");
	CHECK(directory && freehold_owns(directory) && readdir(directory));
	closedir(directory);
}

static void streams(void)
{
	char *text;
	size_t length;
	FILE *stream = open_memstream(&text, &length);
	CHECK(stream);
	for (int i = 0; i < 10000; i++)
		fprintf(stream, "%d ", i);
	fclose(stream);
	CHECK(length > 10000);
	take(text);
	CHECK(setvbuf(stdout, NULL, _IOFBF, 1 << 16) == 0);
}

static void matching(void)
{
	regex_t expression;
	regmatch_t match;
	CHECK(regcomp(&expression, "(a|b)*c+[0-9]{2,30}", REG_EXTENDED) == 0);
	CHECK(regexec(&expression, "xxababc12", 1, &match, 0) == 0 && match.rm_so == 2);
	regfree(&expression);
}

static void addresses(void)
{
	struct addrinfo *found;
	struct addrinfo wanted = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	CHECK(getaddrinfo("127.0.0.1", "80", &wanted, &found) == 0);
	CHECK(freehold_owns(found));
	freeaddrinfo(found);
}

int main(void)
{
	require_freehold();
	for (int i = 0; i < 100; i++) {
		strings();
		lines();
		paths();
		streams();
		matching();
		addresses();
	}
	return 0;
}
