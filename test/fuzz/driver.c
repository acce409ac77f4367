/*
 * driver.c
 *		Runs a fuzz target without libFuzzer: a fixed number of inputs, always the
 *		same ones.
 *
 *	driver RUNS PATH...
 *
 * Each PATH is an input, or a folder of them. All are given to the target as
 * they are, and then RUNS inputs made of them by a few random changes each. An
 * input is in a block of just its size, so that the sanitizers see whoever reads
 * past its end. One that ends the program, or takes longer than 30 s, is written
 * to ./crash-NAME first.
 *
 * This finds less than libFuzzer, which looks for inputs that take new paths,
 * but it needs no more than gcc and a second, and what it finds can be repeated.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An input never grows beyond this. */
#define MAX_SIZE 65536
#define MAX_SEEDS 1024
#define PATH_SIZE 1024

/* How long one input may take, in seconds, however slow the machine. */
#define MAX_SECONDS 30

typedef struct Seed
{
	char path[PATH_SIZE];
	uint8_t *data;
	size_t size;
} Seed;

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *__asan_default_options(void);
extern const char *__ubsan_default_options(void);

static Seed seeds[MAX_SEEDS];
static int nseeds = 0;

static const uint8_t *current;
static size_t current_size;
static char crash_path[PATH_SIZE];

static uint64_t random_state = 0;

static void
fail(const char *what, const char *path)
{
	fprintf(stderr, "%s: %s: %s\n", path, what, strerror(errno));
	exit(2);
}

/* splitmix64 */
static uint64_t
random64(void)
{
	uint64_t z = (random_state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

static size_t
below(size_t n)
{
	return random64() % n;
}

static void
add_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	Seed *seed = &seeds[nseeds++];

	if (file == NULL)
		fail("cannot be opened", path);
	snprintf(seed->path, sizeof(seed->path), "%s", path);
	seed->data = malloc(MAX_SIZE);
	if (seed->data == NULL)
		abort();
	seed->size = fread(seed->data, 1, MAX_SIZE, file);
	if (ferror(file))
		fail("cannot be read", path);
	fclose(file);
}

static int
by_path(const void *a, const void *b)
{
	return strcmp(((const Seed *) a)->path, ((const Seed *) b)->path);
}

/*
 * A folder's files in the order of their names, not in that of the folder.
 */
static void
add_path(const char *path)
{
	struct stat status;
	DIR *folder;
	struct dirent *entry;
	int first = nseeds;

	if (stat(path, &status) != 0)
		fail("cannot be found", path);
	if (!S_ISDIR(status.st_mode))
	{
		add_file(path);
		return;
	}
	folder = opendir(path);
	if (folder == NULL)
		fail("cannot be opened", path);
	while ((entry = readdir(folder)) != NULL && nseeds < MAX_SEEDS - 1)
	{
		char name[PATH_SIZE];

		if (entry->d_name[0] == '.')
			continue;
		if (snprintf(name, sizeof(name), "%s/%s", path, entry->d_name) < PATH_SIZE)
			add_file(name);
	}
	closedir(folder);
	qsort(seeds + first, nseeds - first, sizeof(Seed), by_path);
}

/*
 * An input that asks for much memory at once is a finding too. A sanitizer that
 * aborts lets us save the input.
 */
const char *
__asan_default_options(void)
{
	return "max_allocation_size_mb=1024";
}

const char *
__ubsan_default_options(void)
{
	return "abort_on_error=1:print_stacktrace=1";
}

/*
 * Called when a sanitizer, abort() or the alarm ends the program.
 */
static void
save_input(void)
{
	FILE *file;

	if (current == NULL)
		return;
	file = fopen(crash_path, "wb");
	if (file != NULL)
	{
		fwrite(current, 1, current_size, file);
		fclose(file);
		fprintf(stderr, "the input is in %s, %zu bytes\n", crash_path, current_size);
	}
	current = NULL;
}

static void
on_signal(int number)
{
	fprintf(stderr, number == SIGALRM ? "an input took too long\n" : "aborted\n");
	save_input();
	_exit(1);
}

static void
run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size);

	if (copy == NULL)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	current = copy;
	current_size = size;
	alarm(MAX_SECONDS);
	LLVMFuzzerTestOneInput(copy, size);
	alarm(0);
	current = NULL;
	free(copy);
}

/*
 * Integers that lengths, counts and offsets go wrong at, in as many bytes as
 * there are, in either byte order.
 */
static void
set_integer(uint8_t *data, size_t size)
{
	static const uint64_t values[] = {
		0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x3fff, 0x4000, 0x7fff, 0x8000, 0xffff,
		0x10000, 0x7fffffff, 0x80000000, 0xffffffff, UINT64_C(0x100000000),
		UINT64_C(0x7fffffffffffffff), UINT64_C(0x8000000000000000), UINT64_MAX};
	uint64_t value = values[below(sizeof(values) / sizeof(values[0]))] - below(2);
	size_t width = (size_t) 1 << below(4);
	int big_endian = (int) below(2);
	size_t at = below(size);

	for (size_t i = 0; i < width && at + i < size; i++)
		data[at + i] = (uint8_t) (value >> (8 * (big_endian ? width - 1 - i : i)));
}

/*
 * splice moves the end of an input away, and puts a part of a seed there: the
 * same part that it had, or any.
 */
static size_t
splice(uint8_t *data, size_t size)
{
	const Seed *seed = &seeds[below(nseeds)];
	size_t at = below(size + 1);
	size_t from = below(2) && at <= seed->size ? at : below(seed->size + 1);
	size_t n = seed->size - from;

	if (n > MAX_SIZE - at)
		n = MAX_SIZE - at;
	if (n > 0)
		memcpy(data + at, seed->data + from, n);
	return at + n;
}

static size_t
remove_some(uint8_t *data, size_t size)
{
	size_t at = below(size);
	size_t n = 1 + below(below(4) == 0 ? size - at : 1);

	memmove(data + at, data + at + n, size - at - n);
	return size - n;
}

static size_t
insert_some(uint8_t *data, size_t size)
{
	size_t at = below(size + 1);
	size_t n = 1 + below(below(8) == 0 ? 256 : 8);
	int repeated = (int) below(2);
	uint8_t byte = (uint8_t) random64();

	if (n > MAX_SIZE - size)
		return size;
	memmove(data + at + n, data + at, size - at);
	for (size_t i = 0; i < n; i++)
		data[at + i] = repeated ? byte : (uint8_t) random64();
	return size + n;
}

/*
 * mutate makes one change. One in four goes to the first 32 bytes: that is
 * where headers are, of long inputs too.
 */
static size_t
mutate(uint8_t *data, size_t size)
{
	size_t at;

	if (size == 0)
		return insert_some(data, size);
	at = below(below(4) == 0 && size > 32 ? 32 : size);
	switch (below(9))
	{
		case 0:
		case 1:
			data[at] ^= (uint8_t) (1 << below(8));
			return size;
		case 2:
			data[at] = (uint8_t) random64();
			return size;
		case 3:
			data[at] = (uint8_t) (data[at] + (below(2) ? 1 : -1));
			return size;
		case 4:
			set_integer(data, size);
			return size;
		case 5:
			return below(size); /* cut */
		case 6:
			return splice(data, size);
		case 7:
			return remove_some(data, size);
		default:
			return insert_some(data, size);
	}
}

int
main(int argc, char **argv)
{
	static uint8_t input[MAX_SIZE];
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	long runs;

	if (argc < 3)
	{
		fprintf(stderr, "usage: %s RUNS PATH...\n", name);
		return 2;
	}
	runs = strtol(argv[1], NULL, 10);
	snprintf(crash_path, sizeof(crash_path), "crash-%s", name);
	__sanitizer_set_death_callback(save_input);
	signal(SIGABRT, on_signal);
	signal(SIGALRM, on_signal);
	for (int i = 2; i < argc; i++)
		add_path(argv[i]);
	if (nseeds == 0)
	{
		fprintf(stderr, "%s: there are no seeds\n", name);
		return 2;
	}

	for (int i = 0; i < nseeds; i++)
		run(seeds[i].data, seeds[i].size);
	for (long i = 0; i < runs; i++)
	{
		const Seed *seed = &seeds[below(nseeds)];
		size_t size = seed->size;
		size_t changes = 1 + below(1 + below(6));

		memcpy(input, seed->data, size);
		while (changes-- > 0)
			size = mutate(input, size);
		run(input, size);
	}
	printf("# %s: %d seeds, %ld mutations\n", name, nseeds, runs);
	for (int i = 0; i < nseeds; i++)
		free(seeds[i].data);
	return 0;
}
