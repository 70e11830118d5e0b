/* The first process of a virtual machine that tests boot: it does what /plan says, line by line,
 * reports on the console, and stops the machine.
 *
 *   set FILE VALUE                      writes a setting of the kernel
 *   run NAME [VARIABLE=VALUE]... FILE [ARGUMENT]...
 *                                       runs a program; RLIMIT_AS and RLIMIT_DATA are limits in
 *                                       bytes and no variables
 *
 * A report is a line "== run NAME STATUS BYTES BYTES" with the status of waitpid, and the bytes that
 * the program wrote to its standard output and its standard error, which follow. Linked statically,
 * and without malloc of its own. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>

enum { MOST_WORDS = 64 };

static char plan[65536];

static void write_all(const char *bytes, size_t count)
{
	while (count > 0) {
		ssize_t written = write(1, bytes, count);
		CHECK(written > 0);
		bytes += written;
		count -= (size_t)written;
	}
}

/* The console becomes this process's, which gets no other, and is to change no byte. */
static void open_console(void)
{
	struct termios raw;
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	int console = open("/dev/console", O_RDWR);
	for (int i = 0; i < 3; i++)
		dup2(console, i);
	CHECK(tcgetattr(1, &raw) == 0);
	cfmakeraw(&raw);
	CHECK(tcsetattr(1, TCSANOW, &raw) == 0);
}

static void set(char **words)
{
	size_t length = strlen(words[2]);
	int file = open(words[1], O_WRONLY);
	int done = file >= 0 && write(file, words[2], length) == (ssize_t)length;
	dprintf(1, "== set %s %s: %s\n", words[1], words[2], done ? "done" : strerror(errno));
	close(file);
}

static int limit(const char *word, const char *name, int resource)
{
	size_t length = strlen(name);
	if (strncmp(word, name, length) != 0)
		return 0;
	rlim_t bytes = strtoul(word + length, NULL, 10);
	CHECK(setrlimit(resource, &(struct rlimit){bytes, bytes}) == 0);
	return 1;
}

static void become(char **words)
{
	char *variables[MOST_WORDS] = {"PATH=/", "LC_ALL=C.UTF-8"};
	int used = 2;
	for (; **words != '/'; words++)
		if (!limit(*words, "RLIMIT_AS=", RLIMIT_AS) &&
			!limit(*words, "RLIMIT_DATA=", RLIMIT_DATA))
			variables[used++] = *words;
	execve(*words, words, variables);
	dprintf(2, "%s: %s\n", *words, strerror(errno));
	_exit(127);
}

/* What comes out of a pipe. Not of a file: there may be no memory for one. */
struct output {
	struct pollfd end;
	size_t bytes;
	char text[1 << 20];
};

static struct output outputs[2];

/* Reads both outputs to their ends, which come when the last process that has them has ended. */
static void read_outputs(void)
{
	for (int open = 2; open > 0;) {
		struct pollfd ends[2] = {outputs[0].end, outputs[1].end};
		CHECK(poll(ends, 2, -1) > 0);
		for (int i = 0; i < 2; i++) {
			struct output *output = &outputs[i];
			if (ends[i].revents == 0)
				continue;
			size_t room = sizeof output->text - output->bytes;
			ssize_t got = read(output->end.fd, output->text + output->bytes, room);
			CHECK(room > 0 && got >= 0);
			output->bytes += (size_t)got;
			if (got == 0) {
				close(output->end.fd);
				output->end.fd = -1;
				open--;
			}
		}
	}
}

static void run(char **words)
{
	int status = 0, pipes[2][2];
	dprintf(1, "== started %s after %llu ms\n", words[1],
		(unsigned long long)nanoseconds() / 1000000);
	CHECK(pipe2(pipes[0], O_CLOEXEC) == 0 && pipe2(pipes[1], O_CLOEXEC) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		dup2(pipes[0][1], 1);
		dup2(pipes[1][1], 2);
		become(words + 2);
	}
	for (int i = 0; i < 2; i++) {
		close(pipes[i][1]);
		outputs[i].bytes = 0;
		outputs[i].end = (struct pollfd){.fd = pipes[i][0], .events = POLLIN};
	}
	read_outputs();
	/* Whatever is left by programs that have ended comes to this process. */
	for (pid_t ended = 0; ended != child;) {
		ended = wait(&status);
		CHECK(ended > 0);
	}
	dprintf(1, "== run %s %d %zu %zu\n", words[1], status, outputs[0].bytes, outputs[1].bytes);
	write_all(outputs[0].text, outputs[0].bytes);
	write_all(outputs[1].text, outputs[1].bytes);
}

static void follow(char *line)
{
	char *words[MOST_WORDS] = {NULL}, *rest = NULL;
	int count = 0;
	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		CHECK(count < MOST_WORDS - 1);
		words[count++] = word;
	}
	CHECK(count >= 3);
	if (strcmp(words[0], "set") == 0)
		set(words);
	else
		run(words);
}

int main(void)
{
	struct utsname system;
	char *rest = NULL;
	open_console();
	CHECK(mount("proc", "/proc", "proc", 0, NULL) == 0);
	CHECK(mount("sysfs", "/sys", "sysfs", 0, NULL) == 0);
	CHECK(mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0);
	CHECK(uname(&system) == 0);
	int file = open("/plan", O_RDONLY);
	CHECK(read(file, plan, sizeof plan - 1) > 0);
	dprintf(1, "== machine %s %ld\n", system.release, sysconf(_SC_PAGESIZE));
	for (char *line = strtok_r(plan, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		follow(line);
	dprintf(1, "== end\n");
	tcdrain(1);
	reboot(RB_AUTOBOOT);
	return 1;
}
