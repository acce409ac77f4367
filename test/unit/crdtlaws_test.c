/*
 * crdtlaws_test.c
 *		The laws of mergeable types: over all states that a few operations make, over
 *		all small sets of dots, and over random ones.
 *
 * With the argument "long" there are some millions of random ones.
 */
#include "crdt_unit.h"

/*
 * operate changes a state by an operation of a node; amounts and times are random.
 * False if it cannot be done, which must leave the state as it was.
 */
static bool
operate(const CrdtType *type, CrdtBuf *state, int what, int node_number, int element_number, uint64_t random)
{
	CrdtString node = unit_nodes[node_number];
	CrdtString element = unit_elements[element_number];
	CrdtBytes from = crdt_bytes(state);
	CrdtBuf out = no_bytes;
	int64_t amount = random % 64 == 0 ? INT64_MAX / 3 : (int64_t) (random % 3);
	Stamp stamp = {(int64_t) (random % 8), node};
	bool done = true;

	switch (type->kind)
	{
		case CRDT_GCOUNTER:
		case CRDT_VCLOCK:
			done = amounts_add(&out, from, node, AMOUNT_INC, amount);
			break;
		case CRDT_PNCOUNTER:
			if (what == 0)
				amounts_reset(&out, from);
			else
				done = amounts_add(&out, from, node, what == 1 ? AMOUNT_DEC : AMOUNT_INC, amount);
			break;
		case CRDT_GSET:
			gset_add(&out, from, element);
			break;
		case CRDT_ORSET:
			if (what == 0 && element_number == 0)
				dots_reset(&out, from);
			else if (what == 0)
				dots_remove(&out, from, element);
			else
				done = dots_add(&out, from, element, node);
			break;
		case CRDT_MVREG:
			if (what == 0 && element_number == 0)
				dots_reset(&out, from);
			else
				done = dots_set(&out, from, element, node);
			break;
		case CRDT_LWW:
			lww_encode(&out, &(Lww){true, stamp, element});
			break;
		case CRDT_HLC:
			hlc_encode(&out, &stamp);
			break;
	}
	if (done)
		unit_replace(state, out);
	else
		crdt_buf_free(&out);
	return done;
}

/* Numbered states: equal ones have one number. */
typedef struct Numbered
{
	const CrdtType *type;
	CrdtBuf *states;
	int n;
	int base;	 /* the first ones, of which all threes are checked */
	int *merged; /* n times base: the number of their merge + 1, or 0 */
	bool right;
} Numbered;

#define MAX_STATES 200000
#define HASHES (1 << 19)

static int hashes[HASHES]; /* a state's number + 1 */

/* The number of a state, which it takes. */
static int
number_of(Numbered *all, CrdtBuf state)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < state.len; i++)
		hash = (hash ^ state.data[i]) * UINT64_C(0x9E3779B97F4A7C15) + (hash >> 29);
	for (hash %= HASHES; hashes[hash] != 0; hash = (hash + 1) % HASHES)
	{
		if (unit_same(&all->states[hashes[hash] - 1], &state))
		{
			crdt_buf_free(&state);
			return hashes[hash] - 1;
		}
	}
	if (all->n == MAX_STATES)
		abort();
	all->right = all->right && unit_valid(all->type, &state);
	all->states[all->n] = state;
	hashes[hash] = ++all->n;
	return all->n - 1;
}

static void
begin_numbers(Numbered *all, const CrdtType *type)
{
	*all = (Numbered){type, calloc(MAX_STATES, sizeof(CrdtBuf)), 0, 0, NULL, true};
	memset(hashes, 0, sizeof(hashes));
}

static void
end_numbers(Numbered *all)
{
	for (int i = 0; i < all->n; i++)
		crdt_buf_free(&all->states[i]);
	free(all->states);
	free(all->merged);
}

/* The merge of any state and one of the base; in both orders it is the same. */
static int
merge_numbers(Numbered *all, int a, int b)
{
	int *merged = &all->merged[(size_t) a * all->base + b];

	if (*merged == 0)
	{
		CrdtBuf forth = unit_merge(all->type, &all->states[a], &all->states[b]);
		CrdtBuf back = unit_merge(all->type, &all->states[b], &all->states[a]);

		all->right = all->right && unit_same(&forth, &back);
		crdt_buf_free(&back);
		*merged = 1 + number_of(all, forth);
	}
	return *merged - 1;
}

/* The laws of two: idempotent, an upper bound, deltas. */
static void
check_two(Numbered *all, int a, int b)
{
	int both = merge_numbers(all, a, b);
	int delta;

	all->right = all->right && merge_numbers(all, a, a) == a;
	all->right = all->right && merge_numbers(all, both, a) == both && merge_numbers(all, both, b) == both;
	if (all->type->delta == NULL)
		return;
	delta = number_of(all, unit_delta(all->type, &all->states[b], &all->states[a]));
	/* what is merged with one of the base: a, and b */
	all->right = all->right && merge_numbers(all, delta, a) == both && merge_numbers(all, delta, b) == b;
	all->right = all->right && (a != b || delta == 0);
}

/* Associative; and of all upper bounds the merge is the least. */
static void
check_three(Numbered *all, int a, int b, int c)
{
	int both = merge_numbers(all, a, b);

	if (merge_numbers(all, both, c) != merge_numbers(all, merge_numbers(all, b, c), a))
		all->right = false;
	if (merge_numbers(all, a, c) == c && merge_numbers(all, b, c) == c && merge_numbers(all, both, c) != c)
		all->right = false;
}

/* All laws of all twos and threes of the states that are there, the empty one first. */
static bool
check_all(Numbered *all)
{
	int base = all->base = all->n;

	all->merged = calloc((size_t) MAX_STATES * base, sizeof(int));
	for (int a = 0; a < base; a++)
	{
		for (int b = 0; b < base; b++)
			check_two(all, a, b);
	}
	for (int a = 0; a < base && all->right; a++)
	{
		for (int b = 0; b < base; b++)
		{
			for (int c = 0; c < base; c++)
				check_three(all, a, b, c);
		}
	}
	return all->right;
}

/* One more operation on each state so far, and what is new between any two. */
static void
grow(Numbered *all, int nodes, int elements, int most)
{
	int before = all->n;

	for (int from = 0; from < before; from++)
	{
		for (int i = 0; i < 3 * nodes * elements * 2 && all->n < most; i++)
		{
			CrdtBuf state = unit_copy(crdt_bytes(&all->states[from]));

			operate(all->type, &state, i % 3, i / 3 % nodes, i / 3 / nodes % elements, 1 + (uint64_t) (i / 3 / nodes / elements));
			number_of(all, state);
		}
	}
	for (int a = 0; a < before && all->type->delta != NULL; a++)
	{
		for (int b = 0; b < before && all->n < most; b++)
		{
			number_of(all, unit_merge(all->type, &all->states[a], &all->states[b]));
			number_of(all, unit_delta(all->type, &all->states[a], &all->states[b]));
		}
	}
}

static void
test_few_operations(bool whole)
{
	char name[120];

	for (int i = 0; i < CRDT_TYPES; i++)
	{
		for (int nodes = 2; nodes <= 3; nodes++)
		{
			Numbered all;
			bool right;

			begin_numbers(&all, crdt_types[i]);
			number_of(&all, unit_empty(crdt_types[i]));
			for (int operations = 0; operations < 4; operations++)
				grow(&all, nodes, 2, whole ? 100 : 60);
			right = check_all(&all);
			snprintf(name, sizeof(name), "%s: the laws hold for all threes of %d states that few operations of %d nodes make",
					 crdt_types[i]->name, all.base, nodes);
			ok(right, name);
			end_numbers(&all);
		}
	}
}

/*
 * Sets of dots as bits: which dots were seen, and which are at each element. Their
 * merge is what it is by definition, dot by dot.
 */
typedef struct Bits
{
	unsigned seen;
	unsigned at[3];
} Bits;

static CrdtBuf
bits_state(Bits bits, int nodes, int counters, int elements)
{
	DotsNode names[3];
	DotsRange ranges[16];
	DotsContext context = {names, 0, ranges, 0};
	DotsWriter writer = {no_bytes, 0};
	CrdtBuf out = no_bytes;
	size_t numbers[3];

	for (int node = 0; node < nodes; node++)
	{
		DotsNode *of = &names[context.n];

		*of = (DotsNode){unit_nodes[node], ranges + context.nranges, 0};
		for (int i = 0; i < counters; i++)
		{
			if (!(bits.seen >> (node * counters + i) & 1))
				continue;
			if (of->n > 0 && of->ranges[of->n - 1].last == i)
				of->ranges[of->n - 1].last++;
			else
				of->ranges[of->n++] = (DotsRange){i + 1, i + 1};
		}
		numbers[node] = context.n;
		context.nranges += of->n;
		context.n += of->n > 0;
	}
	for (int element = 0; element < elements; element++)
	{
		Dot dots[16];
		size_t n = 0;

		for (int dot = 0; dot < nodes * counters; dot++)
		{
			if (bits.at[element] >> dot & 1)
				dots[n++] = (Dot){numbers[dot / counters], dot % counters + 1};
		}
		dots_put(&writer, unit_elements[element], dots, n);
	}
	dots_finish(&writer, &out, CRDT_ORSET, &context);
	return out;
}

static Bits
bits_merge(Bits a, Bits b)
{
	Bits merged = {a.seen | b.seen, {0}};

	for (int i = 0; i < 3; i++)
		merged.at[i] = (a.at[i] & b.at[i]) | (a.at[i] & ~b.seen) | (b.at[i] & ~a.seen);
	return merged;
}

/* A number as digits: each dot was not seen, or is at some of the elements. */
static Bits
bits_numbered(int number, int dots, int elements)
{
	Bits bits = {0, {0}};
	int digits = 1 + (1 << elements);

	for (int dot = 0; dot < dots; dot++, number /= digits)
	{
		int digit = number % digits - 1;

		bits.seen |= (unsigned) (digit >= 0) << dot;
		for (int element = 0; digit > 0 && element < elements; element++)
			bits.at[element] |= (unsigned) (digit >> element & 1) << dot;
	}
	return bits;
}

static void
test_all_dots(int nodes, int counters, int elements)
{
	Numbered all;
	int states = 1;
	bool right = true;
	char name[120];

	begin_numbers(&all, &crdt_orset);
	for (int dot = 0; dot < nodes * counters; dot++)
		states *= 1 + (1 << elements);
	for (int i = 0; i < states; i++)
		number_of(&all, bits_state(bits_numbered(i, nodes * counters, elements), nodes, counters, elements));
	right = check_all(&all) && all.base == states && all.n == states;
	for (int a = 0; a < states && right; a++)
	{
		for (int b = 0; b < states && right; b++)
		{
			Bits merged = bits_merge(bits_numbered(a, nodes * counters, elements), bits_numbered(b, nodes * counters, elements));
			CrdtBuf expected = bits_state(merged, nodes, counters, elements);

			right = unit_same(&expected, &all.states[merge_numbers(&all, a, b)]);
			crdt_buf_free(&expected);
		}
	}
	snprintf(name, sizeof(name), "all %d sets of %d dots of %d nodes at %d elements: the laws, and merges by definition",
			 states, nodes * counters, nodes, elements);
	ok(right, name);
	end_numbers(&all);
}

/* Random replicas: each has a state, and there are states of before. */
#define REPLICAS 4
#define HISTORY 12

typedef struct World
{
	const CrdtType *type;
	CrdtBuf replicas[REPLICAS];
	CrdtBuf history[HISTORY];
	uint64_t seed;
	bool right;
} World;

static int
below(World *world, int n)
{
	return (int) (unit_random(&world->seed) % (uint64_t) n);
}

static const CrdtBuf *
any_state(World *world)
{
	int i = below(world, REPLICAS + HISTORY);

	return i < REPLICAS ? &world->replicas[i] : &world->history[i - REPLICAS];
}

static void
begin_world(World *world)
{
	for (int i = 0; i < REPLICAS; i++)
		unit_replace(&world->replicas[i], unit_empty(world->type));
	for (int i = 0; i < HISTORY; i++)
		unit_replace(&world->history[i], unit_empty(world->type));
}

static void
end_world(World *world)
{
	for (int i = 0; i < REPLICAS; i++)
		crdt_buf_free(&world->replicas[i]);
	for (int i = 0; i < HISTORY; i++)
		crdt_buf_free(&world->history[i]);
}

/*
 * An operation, or a merge of a state or of what is new in one. Seldom a node's name is
 * used twice, which must not break a law either.
 */
static void
step(World *world)
{
	const CrdtType *type = world->type;
	int at = below(world, REPLICAS);
	CrdtBuf *state = &world->replicas[at];
	int what = below(world, 8);

	if (what < 5)
		operate(type, state, below(world, 4), below(world, 10) == 0 ? below(world, UNIT_NODES) : at,
				below(world, UNIT_ELEMENTS), unit_random(&world->seed));
	else if (what == 5 || type->delta == NULL)
		unit_replace(state, unit_merge(type, state, any_state(world)));
	else
	{
		CrdtBuf delta = unit_delta(type, any_state(world), any_state(world));

		unit_replace(state, unit_merge(type, state, &delta));
		if (what == 6)
			unit_replace(&world->history[below(world, HISTORY)], delta);
		else
			crdt_buf_free(&delta);
	}
	world->right = world->right && unit_valid(type, state);
	unit_replace(&world->history[below(world, HISTORY)], unit_copy(crdt_bytes(state)));
}

/* Is the merge of a and b a given state? */
static bool
merges_to(const World *world, const CrdtBuf *a, const CrdtBuf *b, const CrdtBuf *expected)
{
	CrdtBuf merged = unit_merge(world->type, a, b);
	bool same = unit_same(&merged, expected);

	crdt_buf_free(&merged);
	return same;
}

static void
random_laws(World *world)
{
	const CrdtType *type = world->type;
	const CrdtBuf *a = any_state(world);
	const CrdtBuf *b = any_state(world);
	const CrdtBuf *c = any_state(world);
	CrdtBuf ab = unit_merge(type, a, b);
	CrdtBuf bc = unit_merge(type, b, c);
	CrdtBuf abc = unit_merge(type, &ab, c);
	bool right = unit_valid(type, &ab) && unit_valid(type, &abc);

	right = right && merges_to(world, b, a, &ab);		/* commutative */
	right = right && merges_to(world, a, &bc, &abc);	/* associative */
	right = right && merges_to(world, a, a, a);			/* idempotent */
	right = right && merges_to(world, a, &ab, &ab);		/* an upper bound, */
	right = right && merges_to(world, &ab, b, &ab);		/* of both, */
	right = right && merges_to(world, &ab, &abc, &abc); /* and the least: abc is one as well */
	right = right && merges_to(world, &bc, &abc, &abc); /* a merge keeps the order */
	world->right = world->right && right;
	crdt_buf_free(&ab);
	crdt_buf_free(&bc);
	crdt_buf_free(&abc);
}

/* A chain of states is the first, and what was new in each, in any order and repeated. */
static void
random_deltas(World *world)
{
	const CrdtType *type = world->type;
	CrdtBuf first = unit_copy(crdt_bytes(any_state(world)));
	CrdtBuf last = unit_copy(crdt_bytes(&first));
	CrdtBuf deltas[4];
	CrdtBuf empty = unit_empty(type);
	CrdtBuf none;

	for (int i = 0; i < 4; i++)
	{
		const CrdtBuf *other = any_state(world);
		CrdtBuf next = unit_merge(type, &last, other);
		CrdtBuf direct = unit_delta(type, other, &last);

		deltas[i] = unit_delta(type, &next, &last);
		/* what another has that is new here, or all of it: the same comes out */
		world->right = world->right && merges_to(world, &last, &direct, &next) && merges_to(world, &last, &deltas[i], &next);
		world->right = world->right && unit_valid(type, &deltas[i]) && merges_to(world, &deltas[i], &next, &next);
		crdt_buf_free(&direct);
		unit_replace(&last, next);
	}
	for (int i = 0; i < 6; i++)
		unit_replace(&first, unit_merge(type, &first, &deltas[below(world, 4)]));
	for (int i = 3; i >= 0; i--)
		unit_replace(&first, unit_merge(type, &deltas[i], &first));
	world->right = world->right && unit_same(&first, &last);
	none = unit_delta(type, &last, &last);
	world->right = world->right && unit_same(&none, &empty);
	for (int i = 0; i < 4; i++)
		crdt_buf_free(&deltas[i]);
	crdt_buf_free(&none);
	crdt_buf_free(&empty);
	crdt_buf_free(&first);
	crdt_buf_free(&last);
}

static void
test_random(int rounds)
{
	char name[120];

	for (int i = 0; i < CRDT_TYPES; i++)
	{
		World world = {crdt_types[i], {no_bytes}, {no_bytes}, (uint64_t) i, true};

		for (int round = 0; round < rounds && world.right; round++)
		{
			if (round % 64 == 0)
				begin_world(&world);
			step(&world);
			random_laws(&world);
			if (world.type->delta != NULL && round % 8 == 0)
				random_deltas(&world);
		}
		snprintf(name, sizeof(name), "%s: the laws hold for %d random threes of states", world.type->name, rounds);
		ok(world.right, name);
		end_world(&world);
	}
}

int
main(int argc, char **argv)
{
	bool whole = argc > 1 && strcmp(argv[1], "long") == 0;

	test_few_operations(whole);
	test_all_dots(2, 2, 1);
	test_all_dots(3, 1, 2);
	if (whole)
	{
		test_all_dots(2, 2, 2);
		test_all_dots(1, 4, 2);
		test_all_dots(1, 3, 3);
	}
	test_random(whole ? 200000 : 12500);
	return done_testing();
}
