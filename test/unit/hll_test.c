/*
 * hll_test.c
 *		dc_hll's algorithms against plain ones: states, forms, codes, estimates.
 */
#include "types/sketch/hash.h"
#include "types/sketch/hll/hll.h"
#include "types/sketch/hll/hllforeign.h"
#include "types/sketch/hll/hlljoint.h"
#include "types/sketch/hll/rankcode.h"
#include "types/sketch/memory.h"

#include <math.h>
#include <string.h>

#include "unit.h"

#define MAX_M (1 << HLL_MAX_PRECISION)

static uint64_t seed = 1;

/* The definition: one bit at a time. */
static void
naive_add(uint8_t *registers, int precision, uint64_t hash)
{
	uint32_t index = (uint32_t) (hash % ((uint64_t) 1 << precision));
	int rank = 1;

	for (int bit = precision; bit < 64 && (hash >> bit & 1) == 0; bit++)
		rank++;
	if (registers[index] < rank)
		registers[index] = (uint8_t) rank;
}

static bool
same_registers(const HllState *state, const uint8_t *registers)
{
	HllState *dense = hll_densified(hll_copy(state));
	bool same = memcmp(hll_registers(dense), registers, hll_nregisters(state->precision)) == 0;

	sketch_free(dense);
	return same;
}

static bool
same_state(const HllState *a, const HllState *b)
{
	size_t a_len;
	size_t b_len;
	uint8_t *a_bytes = hll_encode(a, &a_len);
	uint8_t *b_bytes = hll_encode(b, &b_len);
	bool same = a_len == b_len && memcmp(a_bytes, b_bytes, a_len) == 0;

	sketch_free(a_bytes);
	sketch_free(b_bytes);
	return same;
}

/* A hash of few set bits now and then, so that high ranks occur. */
static uint64_t
some_hash(void)
{
	uint64_t hash = unit_random(&seed);
	uint64_t kind = unit_random(&seed) % 16;

	if (kind == 0)
		return hash & 0xffffff;
	if (kind == 1)
		return hash & 0x3ff;
	if (kind == 2)
		return hash & (hash << 20) & (hash << 40);
	return hash;
}

static HllState *
random_state(int precision, uint32_t n)
{
	HllState *state = hll_new(precision, SKETCH_HASH_REDIS);

	for (uint32_t i = 0; i < n; i++)
		state = hll_add(state, some_hash());
	return state;
}

/* Adding, and all forms that are stored, have the registers of the definition. */
static void
test_registers(void)
{
	static uint8_t registers[MAX_M];
	bool added = true;
	bool stored = true;
	bool small = true;

	for (int precision = HLL_MIN_PRECISION; precision <= HLL_MAX_PRECISION; precision++)
	{
		HllState *state = hll_new(precision, SKETCH_HASH_REDIS);
		uint32_t next = 1;

		memset(registers, 0, sizeof(registers));
		for (uint32_t n = 1; n <= 3 * hll_nregisters(precision) && n <= 200000; n++)
		{
			uint64_t hash = some_hash();

			state = hll_add(state, hash);
			naive_add(registers, precision, hash);
			if (n == next || n + 1 == hll_max_tokens(precision))
			{
				size_t len;
				uint8_t *bytes = hll_encode(state, &len);
				HllState *read = hll_decode(bytes, len);

				added = added && same_registers(state, registers);
				stored = stored && hll_check(bytes, len) == NULL && same_registers(read, registers) &&
					same_state(read, state);
				small = small && len < 64 + (size_t) hll_nregisters(precision) * 5 / 8;
				sketch_free(read);
				sketch_free(bytes);
				next += 1 + next / 3;
			}
		}
		sketch_free(state);
	}
	ok(added, "hll: registers are what the definition says");
	ok(stored, "hll: what is stored is read, in each form");
	ok(small, "hll: no form is larger than five bits a register");
}

/* Any order, split and precision: one state. */
static void
test_merges(void)
{
	const char *wrong = NULL;
	bool orders = true;
	bool splits = true;
	bool reduced = true;
	bool values = true;

	for (int round = 0; round < 300; round++)
	{
		int precision = HLL_MIN_PRECISION + (int) (unit_random(&seed) % 5);
		int lower = HLL_MIN_PRECISION + (int) (unit_random(&seed) % (precision - HLL_MIN_PRECISION + 1));
		uint32_t n = (uint32_t) (unit_random(&seed) % (hll_nregisters(precision) / (round % 2 ? 5 : 1)));
		HllState *whole = hll_new(precision, SKETCH_HASH_REDIS);
		HllState *backwards = hll_new(precision, SKETCH_HASH_REDIS);
		HllState *low = hll_new(lower, SKETCH_HASH_REDIS);
		HllState *parts[4];
		uint64_t *hashes = sketch_alloc((n + 1) * sizeof(uint64_t));
		size_t len;
		uint8_t *bytes;

		for (int i = 0; i < 4; i++)
			parts[i] = hll_new(i == 2 ? lower : precision, SKETCH_HASH_REDIS);
		for (uint32_t i = 0; i < n; i++)
		{
			hashes[i] = some_hash();
			whole = hll_add(whole, hashes[i]);
			low = hll_add(low, hashes[i]);
			parts[hashes[i] >> 40 & 3] = hll_add(parts[hashes[i] >> 40 & 3], hashes[i]);
		}
		for (uint32_t i = n; i > 0; i--)
			backwards = hll_add(backwards, hashes[i - 1]);
		orders = orders && same_state(whole, backwards);

		/* Two merged as states, two as values. */
		parts[0] = hll_merge(parts[0], parts[1]);
		bytes = hll_encode(parts[2], &len);
		parts[3] = hll_absorb(parts[3], bytes, len, &wrong);
		sketch_free(bytes);
		bytes = hll_encode(parts[0], &len);
		parts[3] = hll_absorb(parts[3], bytes, len, &wrong);
		sketch_free(bytes);
		splits = splits && same_state(parts[3], low);
		values = values && parts[3]->precision == lower;
		whole = hll_reduce(whole, lower);
		reduced = reduced && same_state(whole, low);

		for (int i = 0; i < 4; i++)
			sketch_free(parts[i]);
		sketch_free(whole);
		sketch_free(backwards);
		sketch_free(low);
		sketch_free(hashes);
	}
	ok(orders, "hll: any order of items gives the same state");
	ok(splits, "hll: any split gives the same state, of mixed precisions as well");
	ok(values, "hll: a union has the lower precision");
	ok(reduced, "hll: a reduced state is what the lower precision would have built");
}

/*
 * A value of tokens goes into registers, and into a state of its own. Some of the
 * tokens have ranks, or crowd the end of the universe, where a table wraps.
 */
static void
test_tokens(void)
{
	const char *wrong = NULL;
	static uint8_t registers[MAX_M];
	bool raised = true;
	bool read = true;

	for (int round = 0; round < 300; round++)
	{
		int precision = HLL_MIN_PRECISION + round % 9;
		uint32_t n = (uint32_t) (unit_random(&seed) % hll_max_tokens(precision)) + 1;
		HllState *state = hll_new(precision, SKETCH_HASH_REDIS);
		HllState *into = hll_new_dense(precision, SKETCH_HASH_REDIS);
		HllState *own;
		uint64_t hashes[3000];
		size_t len;
		uint8_t *bytes;

		memset(registers, 0, sizeof(registers));
		n = n < 3000 ? n : 3000;
		for (uint32_t i = 0; i < n; i++)
		{
			uint64_t hash = some_hash();

			if (round % 3 == 1)
				hash |= 0xffff00;
			if (round % 3 == 2)
				hash &= ~(uint64_t) 0xfffc00;
			hashes[i] = hash;
			state = hll_add(state, hash);
			naive_add(registers, precision, hash);
		}
		bytes = hll_encode(state, &len);
		into = hll_absorb(into, bytes, len, &wrong);
		raised = raised && memcmp(hll_registers(into), registers, hll_nregisters(precision)) == 0;
		own = hll_decode(bytes, len);
		for (uint32_t i = 0; i < n; i++)
		{
			uint32_t cell;
			uint32_t value;

			read = read && hll_probe(own, hashes[i], &cell, &value) == HLL_SAME;
		}
		read = read && same_state(own, state);
		sketch_free(bytes);
		sketch_free(state);
		sketch_free(into);
		sketch_free(own);
	}
	ok(raised, "hll: a value of tokens raises registers");
	ok(read, "hll: a value of tokens is found again in its state");
}

/* Whether an item would change a value is known without decoding it. */
static void
test_probe(void)
{
	bool same = true;

	for (int round = 0; round < 300; round++)
	{
		int precision = HLL_MIN_PRECISION + round % 6;
		HllState *state = random_state(precision, (uint32_t) (unit_random(&seed) % (hll_nregisters(precision) / (round % 2 ? 10 : 1))));
		size_t len;
		uint8_t *bytes;

		if (round % 7 == 0)
			state = hll_densified(state);
		bytes = hll_encode(state, &len);
		for (int i = 0; i < 50; i++)
		{
			uint64_t hash = some_hash();
			uint32_t cell;
			uint32_t value;

			same = same && hll_value_would_change(bytes, len, hash) == (hll_probe(state, hash, &cell, &value) != HLL_SAME);
			state = hll_add(state, hash);
			if (i % 10 == 0)
			{
				sketch_free(bytes);
				bytes = hll_encode(state, &len);
				same = same && !hll_value_would_change(bytes, len, hash);
			}
			else
			{
				sketch_free(state);
				state = hll_decode(bytes, len);
			}
		}
		sketch_free(bytes);
		sketch_free(state);
	}
	ok(same, "hll: whether a value would change is known without its state");
}

/* Taking back what was put leaves the bytes as they were. */
static void
test_unput(void)
{
	bool same = true;

	for (int round = 0; round < 200; round++)
	{
		HllState *state = random_state(12, (uint32_t) (unit_random(&seed) % 1500));
		HllState *before = hll_copy(state);
		uint32_t cells[32];
		uint32_t old[32];
		int n = 0;

		for (int i = 0; i < 32; i++)
		{
			uint32_t value;

			if (hll_probe(state, some_hash(), &cells[n], &value) == HLL_CHANGE)
			{
				old[n] = hll_put(state, cells[n], value);
				n++;
			}
		}
		while (n-- > 0)
			hll_unput(state, cells[n], old[n]);
		same = same && memcmp(state, before, hll_size(state)) == 0;
		sketch_free(state);
		sketch_free(before);
	}
	ok(same, "hll: changes can be taken back");
}

/* The code takes any registers, and gives back the same. */
static void
test_rankcode(void)
{
	static uint8_t ranks[MAX_M];
	static uint8_t read[MAX_M];
	bool same = true;
	bool exact = true;
	bool small = true;
	bool single = true;

	for (int round = 0; round < 400; round++)
	{
		uint32_t n = UINT32_C(1) << (10 + unit_random(&seed) % 6);
		int kind = round % 5;
		int base = (int) (unit_random(&seed) % 56);
		uint8_t *bytes = sketch_alloc(rankcode_max_size(n));
		uint8_t *exactly;
		size_t len;

		for (uint32_t i = 0; i < n; i++)
		{
			uint64_t random = unit_random(&seed);

			if (kind == 0)
				ranks[i] = (uint8_t) (random % 56);
			else if (kind == 1)
				ranks[i] = (uint8_t) base;
			else if (kind == 2)
				ranks[i] = (uint8_t) (random % 100 == 0 ? random >> 32 & 31 : (uint64_t) base);
			else
			{
				/* The highest of a few ranks: what registers hold. */
				ranks[i] = 0;
				for (int j = 0; j < 1 + base % 12; j++)
				{
					uint8_t rank = (uint8_t) hll_rank(unit_random(&seed), 50);

					ranks[i] = ranks[i] < rank ? rank : ranks[i];
				}
			}
		}
		len = rankcode_encode(ranks, n, bytes);
		/* In memory that ends with it, for the sanitizer to see. */
		exactly = sketch_alloc(len);
		memcpy(exactly, bytes, len);
		same = same && rankcode_decode(exactly, len, read, n) && memcmp(ranks, read, n) == 0;
		for (int i = 0; i < 20; i++)
		{
			uint32_t index = (uint32_t) (unit_random(&seed) % n);

			single = single && rankcode_get(exactly, len, n, index) == ranks[index];
		}
		exact = exact && !rankcode_decode(exactly, len - 1, read, n) && !rankcode_decode(bytes, len + 1, read, n);
		small = small && (kind < 3 || len < n * 3 / 8 + 60);
		sketch_free(exactly);
		sketch_free(bytes);
	}
	ok(same, "rankcode: what is encoded is decoded");
	ok(single, "rankcode: a single rank is found");
	ok(exact, "rankcode: a byte less or more is refused");
	ok(small, "rankcode: registers need less than three bits each");
}

/* A changed byte is refused, or is another value; it does no harm. */
static void
test_hostile(void)
{
	bool one_form = true;
	bool whole = true;
	int refused = 0;

	for (int round = 0; round < 3000; round++)
	{
		HllState *state = random_state(10 + round % 3, (uint32_t) (unit_random(&seed) % (round % 4 ? 300 : 5000)));
		HllState *read;
		size_t len;
		uint8_t *bytes = hll_encode(state, &len);

		if (round % 2 == 0)
			bytes[unit_random(&seed) % len] ^= (uint8_t) (1 << unit_random(&seed) % 8);
		else
			len = unit_random(&seed) % len;
		if (hll_check(bytes, len) != NULL)
			refused += round % 2 == 0;
		else
		{
			size_t again_len;
			uint8_t *again;

			whole = whole && round % 2 == 0;
			read = hll_decode(bytes, len);
			again = hll_encode(read, &again_len);
			one_form = one_form && again_len == len && memcmp(again, bytes, len) == 0;
			sketch_free(again);
			sketch_free(read);
		}
		sketch_free(bytes);
		sketch_free(state);
	}
	ok(one_form, "hll: what is accepted is the only encoding of its contents");
	ok(whole, "hll: what is cut off is refused");
	ok(refused > 200, "hll: damage is noticed");
}

static void
test_foreign(void)
{
	bool redis = true;
	bool postgresql = true;
	bool explicit = true;
	const char *wrong;

	for (int round = 0; round < 200; round++)
	{
		uint32_t n = (uint32_t) (unit_random(&seed) % (round % 2 ? 2000 : 60000));
		HllState *state = random_state(14, n);
		HllState *read;
		size_t len;
		uint8_t *bytes = hll_to_redis(state, &len);

		read = hll_from_redis(bytes, len, &wrong);
		state = hll_densified(state);
		redis = redis && read != NULL && same_state(read, state);
		sketch_free(bytes);
		sketch_free(read);
		state = hll_reduce(state, 10 + round % 4);
		for (uint32_t i = 0; i < hll_nregisters(state->precision); i++)
			hll_registers(state)[i] = hll_registers(state)[i] > 31 ? 31 : hll_registers(state)[i];
		bytes = hll_to_postgresql(state, &len);
		read = hll_from_postgresql(bytes, len, &wrong);
		postgresql = postgresql && read != NULL && read->hash == SKETCH_HASH_MURMUR3 &&
			memcmp(hll_registers(hll_densified(read)), hll_registers(state), hll_nregisters(state->precision)) == 0;
		sketch_free(bytes);
		sketch_free(read);
		sketch_free(state);
	}
	ok(redis, "hll: Redis's form keeps all registers");
	ok(postgresql, "hll: postgresql-hll's form keeps all registers");

	for (int round = 0; round < 50; round++)
	{
		uint8_t bytes[3 + 8 * 100] = {0x12, 0x8e, 0x7f};
		uint64_t hash = UINT64_C(1) << 63;
		HllState *state = hll_new(14, SKETCH_HASH_MURMUR3);
		HllState *read;

		for (int i = 0; i < 100; i++)
		{
			hash += unit_random(&seed) >> 8;
			state = hll_add(state, hash);
			for (int j = 0; j < 8; j++)
				bytes[3 + 8 * i + j] = (uint8_t) (hash >> (56 - 8 * j));
		}
		read = hll_from_postgresql(bytes, sizeof(bytes), &wrong);
		explicit = explicit && read != NULL && same_state(read, state);
		sketch_free(read);
		sketch_free(state);
	}
	ok(explicit, "hll: explicit values of postgresql-hll are their hashes");
}

static void
add_range(HllState **state, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
	{
		uint64_t here = i * UINT64_C(0x9E3779B97F4A7C15) + seed;

		*state = hll_add(*state, unit_random(&here));
	}
}

/* How often a 90 % interval holds the truth, and whether estimates are near it. */
static void
test_joint(void)
{
	static const uint32_t sizes[][3] = {/* only A, only B, both */
										{20000, 20000, 20000},
										{50000, 1000, 2000},
										{30000, 30000, 300},
										{40000, 40000, 0},
										{0, 60000, 20000},
										{0, 0, 30000},
										{200, 300, 100},
										{200, 30000, 200}};
	int within[8][3];
	double worst = 0;
	int rounds = 60;

	memset(within, 0, sizeof(within));
	for (int round = 0; round < rounds; round++)
	{
		seed += UINT64_C(0x1234567890abcdef);
		for (int i = 0; i < 8; i++)
		{
			uint64_t a = sizes[i][0];
			uint64_t b = sizes[i][1];
			uint64_t both = sizes[i][2];
			HllState *left = hll_new(12, SKETCH_HASH_REDIS);
			HllState *right = hll_new(13, SKETCH_HASH_REDIS);
			HllInterval *result[3];
			HllJoint joint;

			add_range(&left, 0, a + both);
			add_range(&right, a, a + both + b);
			hll_joint(left, right, 0.9, &joint);
			result[0] = &joint.only_a;
			result[1] = &joint.only_b;
			result[2] = &joint.both;
			for (int j = 0; j < 3; j++)
			{
				double error = fabs(result[j]->estimate - sizes[i][j]) / (double) (a + b + both);

				within[i][j] += result[j]->lower <= sizes[i][j] && sizes[i][j] <= result[j]->upper;
				worst = error > worst ? error : worst;
			}
			sketch_free(left);
			sketch_free(right);
		}
	}
	for (int i = 0; i < 8; i++)
	{
		char name[100];

		snprintf(name, sizeof(name), "hll: bounds of %u / %u / %u hold the truth: %d %d %d of %d", sizes[i][0],
				 sizes[i][1], sizes[i][2], within[i][0], within[i][1], within[i][2], rounds);
		ok(within[i][0] >= rounds * 8 / 10 && within[i][1] >= rounds * 8 / 10 && within[i][2] >= rounds * 8 / 10, name);
	}
	ok(worst < 4.5 * hll_error(12), "hll: no estimate of a part is off by more than the whole's error allows");
}

/* Registers of n random items, without adding them. */
static HllState *
random_registers(int precision, double n)
{
	HllState *state = hll_new_dense(precision, SKETCH_HASH_REDIS);
	uint32_t m = hll_nregisters(precision);

	for (uint32_t i = 0; i < m; i++)
	{
		double uniform = ((double) (unit_random(&seed) >> 11) + 0.5) * 0x1p-53;
		double rank = ceil(log2(n / m / -log(uniform)));

		hll_registers(state)[i] = (uint8_t) fmin(fmax(rank, 0), 65 - precision);
	}
	return state;
}

/* A set, half of it in one that is so many times larger. */
static void
test_lopsided(void)
{
	static const double larger[] = {1e3, 3e3, 1e4, 1e5, 1e8, 1e12};
	static const uint32_t sizes[] = {20, 1000, 20000};
	int within = 0;
	int rounds = 20;
	bool good = true;
	HllState *full;
	HllJoint joint;

	for (int i = 0; i < 18 * rounds; i++)
	{
		uint32_t size = sizes[i % 3];
		HllState *small = hll_new(14, SKETCH_HASH_REDIS);
		HllState *large = random_registers(14, size * larger[i / 3 % 6]);

		seed += UINT64_C(0x1234567890abcdef);
		add_range(&small, 0, size / 2);
		large = hll_merge(large, small);
		add_range(&small, size / 2, size);
		good = good && hll_joint(small, large, 0.95, &joint) &&
			joint.both.upper < 1.1 * size && joint.only_a.upper < 1.1 * size;
		within += joint.both.lower <= size / 2 && size / 2 <= joint.both.upper &&
			joint.only_a.lower <= size / 2 && size / 2 <= joint.only_a.upper;
		sketch_free(small);
		sketch_free(large);
	}
	ok(good, "hll: no part of a small set is larger than the set");
	ok(within >= 18 * rounds * 9 / 10, "hll: bounds of the parts of a small set hold the truth");

	full = hll_new_dense(14, SKETCH_HASH_REDIS);
	memset(hll_registers(full), 51, 16384);
	ok(!hll_joint(full, full, 0.95, &joint), "hll: full registers have no parts");
	sketch_free(full);
}

int
main(void)
{
	test_registers();
	test_merges();
	test_tokens();
	test_probe();
	test_unput();
	test_rankcode();
	test_hostile();
	test_foreign();
	test_joint();
	test_lopsided();
	return done_testing();
}
