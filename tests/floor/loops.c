/* Three loops of malloc and free of 16 bytes: pairs, batches of 32, and 1,024 objects of which one
 * chosen at random is replaced. Prints the nanoseconds of processor time that a pair takes in each,
 * the least of 40 rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIZE = 16, ROUNDS = 40, PAIRS = 100000, BATCH = 32, BATCHES = 4000, OBJECTS = 1024 };

static void *objects[OBJECTS];

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void pairs(void)
{
	for (int i = 0; i < PAIRS; i++) {
		void *object = malloc(SIZE);
		__asm__ volatile("" : : "r"(object) : "memory");
		free(object);
	}
}

static void batches(void)
{
	for (int i = 0; i < BATCHES; i++) {
		for (int j = 0; j < BATCH; j++)
			objects[j] = malloc(SIZE);
		__asm__ volatile("" : : "r"(objects) : "memory");
		for (int j = 0; j < BATCH; j++)
			free(objects[j]);
	}
}

static void replacements(void)
{
	unsigned random = 12345;
	for (int i = 0; i < PAIRS; i++) {
		random = random * 1664525 + 1013904223;
		void **object = &objects[random >> 22];
		free(*object);
		*object = malloc(SIZE);
	}
}

static double timed(void (*loop)(void), double pairs)
{
	double before = now();
	loop();
	return (now() - before) / pairs;
}

int main(void)
{
	double least[3] = { 1e9, 1e9, 1e9 };
	for (int round = 0; round < ROUNDS; round++) {
		double took[3];
		took[0] = timed(pairs, PAIRS);
		took[1] = timed(batches, (double)BATCHES * BATCH);
		for (int i = 0; i < OBJECTS; i++)
			objects[i] = malloc(SIZE);
		took[2] = timed(replacements, PAIRS);
		for (int i = 0; i < OBJECTS; i++)
			free(objects[i]);
		for (int i = 0; i < 3; i++)
			least[i] = took[i] < least[i] ? took[i] : least[i];
	}
	/* Not printf, which would allocate. */
	char text[80];
	int length = snprintf(text, sizeof text, "%.3f %.3f %.3f\n", least[0], least[1], least[2]);
	return fwrite(text, 1, length, stderr) == (size_t)length ? 0 : 1;
}
