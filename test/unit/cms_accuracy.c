/*
 * cms_accuracy.c
 *		The error of Count-Min sketches over many random streams.
 *
 *	cms_accuracy					1,000,000 items, 200 seeds
 *	cms_accuracy short				100,000 items, 4 seeds
 *	cms_accuracy ITEMS SEEDS
 *
 * Each stream draws its items from a Zipf distribution over as many items as it
 * is long. Then each of these is looked up, those that were not drawn, too. No
 * estimate may be below the truth, and at most a share of delta of them by more
 * than epsilon * N above it; the sketches have the defaults, 0.001 and 0.01.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "types/sketch/cms/cmsformat.h"
#include "types/sketch/hash.h"

#define EPSILON 0.001
#define DELTA 0.01

/* Walker's alias method: a draw takes one number and one comparison. */
typedef struct Zipf
{
	uint32_t n;
	uint32_t *alias;
	uint32_t *limit;
} Zipf;

static void
zipf_init(Zipf *zipf, uint32_t n, double exponent)
{
	double *share = malloc(n * sizeof(double));
	uint32_t *queue = malloc(n * sizeof(uint32_t));
	uint32_t low = 0;
	uint32_t high = n;
	double sum = 0;

	zipf->n = n;
	zipf->alias = malloc(n * sizeof(uint32_t));
	zipf->limit = malloc(n * sizeof(uint32_t));
	for (uint32_t i = 0; i < n; i++)
		sum += share[i] = pow(i + 1, -exponent);
	for (uint32_t i = 0; i < n; i++)
	{
		share[i] *= n / sum;
		zipf->alias[i] = i;
		zipf->limit[i] = UINT32_MAX;
		queue[share[i] < 1 ? low++ : --high] = i;
	}
	while (low > 0 && high < n)
	{
		uint32_t small = queue[--low];
		uint32_t large = queue[high];

		zipf->limit[small] = (uint32_t) (share[small] * UINT32_MAX);
		zipf->alias[small] = large;
		share[large] -= 1 - share[small];
		if (share[large] < 1)
		{
			high++;
			queue[low++] = large;
		}
	}
	free(share);
	free(queue);
}

static uint32_t
zipf_draw(const Zipf *zipf, uint64_t *random)
{
	uint64_t r = unit_random(random);
	uint32_t i = (uint32_t) (((r >> 32) * zipf->n) >> 32);

	return (uint32_t) r <= zipf->limit[i] ? i : zipf->alias[i];
}

typedef struct Result
{
	uint64_t queries;
	uint64_t below;	 /* estimates below the truth */
	uint64_t above;	 /* estimates more than epsilon * N above it */
	uint64_t errors; /* sum of all errors */
	double worst;	 /* share above of the worst stream */
} Result;

static uint64_t
hash_of(uint64_t seed, uint64_t item)
{
	char text[48];
	int len = snprintf(text, sizeof(text), "%llu of %llu", (unsigned long long) item, (unsigned long long) seed);

	return hash_redis(text, (size_t) len);
}

static void
run_stream(const Zipf *zipf, uint64_t seed, bool conservative, Result *result)
{
	uint32_t items = zipf->n;
	uint64_t *hashes = malloc(items * sizeof(uint64_t));
	uint32_t *truth = calloc(items, sizeof(uint32_t));
	uint64_t random = seed;
	uint64_t above = 0;
	CmsShape shape;
	CmsView view;
	Cms cms;
	uint8_t *block;
	size_t len;

	for (uint32_t i = 0; i < items; i++)
		hashes[i] = hash_of(seed, i);
	cms_shape(EPSILON, DELTA, conservative, &shape);
	cms_init(&cms, &shape);
	for (uint32_t i = 0; i < items; i++)
	{
		uint32_t item = zipf_draw(zipf, &random);

		truth[item]++;
		cms_add(&cms, hashes[item], 1);
	}
	if (cms_encode(&cms, 0, &block, &len) != CMS_OK || cms_check(block, len) != NULL)
		abort();
	cms_view(block, len, &view);
	for (uint32_t i = 0; i < items; i++)
	{
		int64_t error = cms_estimate(&view, hashes[i]) - truth[i];

		result->below += error < 0;
		above += (double) error > EPSILON * items;
		result->errors += (uint64_t) error;
	}
	result->queries += items;
	result->above += above;
	if ((double) above / items > result->worst)
		result->worst = (double) above / items;
	free(block);
	cms_reset(&cms);
	free(hashes);
	free(truth);
}

static void
run(uint32_t items, uint64_t seeds, double exponent, bool conservative)
{
	Result result = {0, 0, 0, 0, 0};
	Zipf zipf;
	char name[100];

	zipf_init(&zipf, items, exponent);
	for (uint64_t seed = 1; seed <= seeds; seed++)
		run_stream(&zipf, seed, conservative, &result);
	printf("# zipf %.1f%s, %u items, %d seeds: mean error %.2f, above the bound %.7f of all queries, %.7f of the worst stream's\n",
		   exponent, conservative ? ", conservative" : "", items, (int) seeds,
		   (double) result.errors / (double) result.queries,
		   (double) result.above / (double) result.queries, result.worst);
	snprintf(name, sizeof(name), "zipf %.1f%s: no estimate is below the truth", exponent, conservative ? ", conservative" : "");
	ok(result.queries > 0 && result.below == 0, name);
	snprintf(name, sizeof(name), "zipf %.1f%s: at most delta of them are off by more than epsilon N", exponent, conservative ? ", conservative" : "");
	ok((double) result.above <= DELTA * (double) result.queries, name);
	free(zipf.alias);
	free(zipf.limit);
}

/*
 * A stream that comes near the bound: nine items have all the weight, each more
 * than epsilon N, so that any one of them in an item's cell is too much. With
 * epsilon 0.1 and delta 0.05 a cell is shared with one of them in a row with a
 * probability of 0.28, in all three with 0.022.
 */
static void
run_heavy(int seeds)
{
	uint64_t queries = 0;
	uint64_t above = 0;
	CmsShape shape;
	CmsView view;
	Cms cms;
	uint8_t *block;
	size_t len;

	cms_shape(0.1, 0.05, false, &shape);
	for (int seed = 1; seed <= seeds; seed++)
	{
		cms_init(&cms, &shape);
		for (uint64_t item = 0; item < 9; item++)
			cms_add(&cms, hash_of((uint64_t) seed, item), 1000000);
		cms_start_cells(&cms);
		for (uint64_t item = 0; item < 9; item++)
			cms_add_cells(&cms, hash_of((uint64_t) seed, item), 1000000);
		if (cms_encode(&cms, 0, &block, &len) != CMS_OK)
			abort();
		cms_view(block, len, &view);
		for (uint64_t item = 100; item < 200; item++, queries++)
			above += (double) cms_estimate(&view, hash_of((uint64_t) seed, item)) > 0.1 * 9000000;
		free(block);
		cms_reset(&cms);
	}
	printf("# nine heavy items, %d seeds: above the bound %.4f of all queries\n", seeds,
		   (double) above / (double) queries);
	ok((double) above <= 0.05 * (double) queries, "nine heavy items: at most delta are off by more than epsilon N");
	ok((double) above >= 0.01 * (double) queries, "and this is a hard case");
}

int
main(int argc, char **argv)
{
	static const double exponents[] = {0.8, 1.1, 1.5};
	uint32_t items = 1000000;
	uint64_t seeds = 200;

	if (argc == 2 && strcmp(argv[1], "short") == 0)
	{
		items = 100000;
		seeds = 4;
	}
	else if (argc == 3)
	{
		items = (uint32_t) strtoul(argv[1], NULL, 10);
		seeds = strtoull(argv[2], NULL, 10);
	}
	else if (argc != 1)
	{
		fprintf(stderr, "usage: %s [short | ITEMS SEEDS]\n", argv[0]);
		return 2;
	}
	for (int i = 0; i < 3; i++)
	{
		run(items, seeds, exponents[i], false);
		run(items, (seeds + 9) / 10, exponents[i], true);
	}
	run_heavy(items / 100);
	return done_testing();
}
