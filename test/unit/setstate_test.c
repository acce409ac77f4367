/*
 * setstate_test.c
 *		Sets in memory against the algorithms that know values only; versions that are
 *		undone; the index with hostile hashes.
 */
#include "types/crdt/setstate.h"

#include "base/siphash.h"
#include "types/crdt/gset.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

/* AddressSanitizer looks for leaks, too; it is not there under an emulator. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_disable()
#define __lsan_enable()
#endif

#define MAX_CHANGES 64

#undef malloc

/* The allocation that fails, counted from now; 0 is none. */
static int failing_at = 0;
static jmp_buf failed;

void *
failing_malloc(size_t size)
{
	if (failing_at > 0 && --failing_at == 0)
		longjmp(failed, 1);
	return malloc(size);
}

static uint64_t seed = 42;

static uint64_t
random_below(uint64_t n)
{
	return unit_random(&seed) % n;
}

static CrdtString
string_of(const char *data)
{
	return (CrdtString){data, strlen(data)};
}

/* Elements of all lengths from 0; some differ only behind their first eight bytes. */
static CrdtString
random_element(char *out, int universe)
{
	int number = (int) random_below(universe);

	if (number == 0)
		out[0] = '\0';
	else
		sprintf(out, number % 3 == 0 ? "an element, %d" : number % 3 == 1 ? "%d"
																		  : "\xc3\xa4%d",
				number);
	return string_of(out);
}

static CrdtString
random_node(char *out, int nodes)
{
	sprintf(out, "node %d", (int) random_below(nodes));
	return string_of(out);
}

/* A value, and what a function makes of it. */
static void
replace(CrdtBuf *value, CrdtBuf *by)
{
	crdt_buf_free(value);
	*value = *by;
}

static CrdtBuf
copy_of(const CrdtBuf *value)
{
	CrdtBuf copy = {NULL, 0, 0};

	crdt_put_bytes(&copy, value->data, value->len);
	return copy;
}

static bool
flat_contains(const CrdtBuf *value, CrdtString element)
{
	if (value->data[0] == CRDT_HEADER(CRDT_GSET))
		return gset_contains(crdt_bytes(value), element);
	return dots_contains(crdt_bytes(value), element);
}

static void
flat_add(CrdtBuf *value, CrdtString element, CrdtString node)
{
	CrdtBuf out = {NULL, 0, 0};

	if (value->data[0] == CRDT_HEADER(CRDT_GSET))
		gset_add(&out, crdt_bytes(value), element);
	else
		(void) dots_add(&out, crdt_bytes(value), element, node);
	replace(value, &out);
}

static void
flat_remove(CrdtBuf *value, CrdtString element)
{
	CrdtBuf out = {NULL, 0, 0};

	dots_remove(&out, crdt_bytes(value), element);
	replace(value, &out);
}

static CrdtBuf
empty_value(CrdtKind kind)
{
	CrdtBuf value = {NULL, 0, 0};

	if (kind == CRDT_GSET)
		gset_empty(&value);
	else
		dots_empty(&value, kind);
	return value;
}

/*
 * A value as replicas and lost messages leave it: several dots at an element, gaps in
 * the context.
 */
static CrdtBuf
random_value(CrdtKind kind, int universe, int nodes)
{
	const CrdtType *type = kind == CRDT_GSET ? &crdt_gset : &crdt_orset;
	CrdtBuf value = empty_value(kind);
	int replicas = (int) random_below(5);
	char element[40];
	char node[20];

	for (int i = 0; i < replicas; i++)
	{
		CrdtBuf other = empty_value(kind);
		CrdtBuf before;
		CrdtBuf delta = {NULL, 0, 0};
		CrdtBuf merged = {NULL, 0, 0};

		random_node(node, nodes);
		for (int j = 0; j < universe / 4; j++)
			flat_add(&other, random_element(element, universe), string_of(node));
		before = copy_of(&other);
		for (int j = 0; j < universe / 4; j++)
			flat_add(&other, random_element(element, universe), string_of(node));
		type->delta(&delta, crdt_bytes(&other), crdt_bytes(&before));
		type->merge(&merged, crdt_bytes(&value), crdt_bytes(i % 2 == 0 ? &delta : &other));
		replace(&value, &merged);
		crdt_buf_free(&other);
		crdt_buf_free(&before);
		crdt_buf_free(&delta);
	}
	return value;
}

static bool
is_value(const SetState *state, const CrdtBuf *value)
{
	CrdtBuf out = {NULL, 0, 0};
	bool same;

	setstate_encode(&out, state);
	same = crdt_same(crdt_bytes(&out), crdt_bytes(value)) &&
		crdt_check(state->kind == CRDT_GSET ? &crdt_gset : &crdt_orset, crdt_bytes(&out), NULL) == NULL;
	crdt_buf_free(&out);
	return same;
}

static bool
reset_is_right(const SetState *state, const CrdtBuf *value)
{
	CrdtBuf reset = {NULL, 0, 0};
	CrdtBuf flat = {NULL, 0, 0};
	bool same;

	if (state->kind == CRDT_GSET)
		return true;
	setstate_encode_reset(&reset, state);
	dots_reset(&flat, crdt_bytes(value));
	same = crdt_same(crdt_bytes(&reset), crdt_bytes(&flat));
	crdt_buf_free(&reset);
	crdt_buf_free(&flat);
	return same;
}

/* A state, its changes since some version, and all its values since then. */
typedef struct History
{
	SetState *state;
	SetChange changes[MAX_CHANGES];
	CrdtBuf values[MAX_CHANGES + 1];
	int n;
} History;

static void
forget_all(History *history)
{
	for (int i = 0; i < history->n; i++)
	{
		setstate_forget(&history->changes[i]);
		crdt_buf_free(&history->values[i]);
	}
	history->values[0] = history->values[history->n];
	history->n = 0;
}

/* One change of both forms; false if they differ in what it does. */
static bool
random_change(History *history, int universe, int nodes)
{
	SetState *state = history->state;
	CrdtBuf value = copy_of(&history->values[history->n]);
	bool removes = state->kind == CRDT_ORSET && random_below(5) < 2;
	bool there;
	bool agrees;
	bool changes;
	SetEffect effect;
	char element_data[40];
	char node_data[20];
	CrdtString element = random_element(element_data, universe);
	CrdtString node = random_node(node_data, nodes);

	there = flat_contains(&value, element);
	agrees = setstate_contains(state, element) == there;
	if (removes)
		flat_remove(&value, element);
	else
		flat_add(&value, element, node);
	effect = removes ? setstate_remove(state, element, &history->changes[history->n])
					 : setstate_add(state, element, node, &history->changes[history->n]);
	changes = removes ? there : state->kind == CRDT_ORSET || !there;
	agrees &= effect == (changes ? SET_CHANGED : SET_SAME);
	if (effect == SET_CHANGED)
		history->values[++history->n] = value;
	else
		crdt_buf_free(&value);
	return agrees;
}

/* A copy at any version, which may take the state's place. */
static bool
go_back(History *history)
{
	int version = (int) random_below(history->n + 1);
	SetState *copy = setstate_copy(history->state);
	bool right = is_value(copy, &history->values[history->n]);

	for (int i = history->n - 1; i >= version; i--)
	{
		setstate_undo(copy, &history->changes[i]);
		right &= random_below(4) > 0 || is_value(copy, &history->values[i]);
	}
	right &= is_value(copy, &history->values[version]);
	right &= is_value(history->state, &history->values[history->n]);
	if (random_below(2) == 0)
	{
		setstate_free(copy);
		return right;
	}
	for (int i = history->n; i > version; i--)
	{
		CrdtBuf value = copy_of(&history->values[version]);

		replace(&history->values[i], &value);
	}
	forget_all(history);
	setstate_free(history->state);
	history->state = copy;
	return right;
}

static bool
random_history(CrdtKind kind, int universe, int nodes, int changes)
{
	History history = {.n = 0};
	bool right;

	history.values[0] = random_value(kind, universe, nodes);
	history.state = setstate_load(crdt_bytes(&history.values[0]));
	right = is_value(history.state, &history.values[0]);
	for (int i = 0; i < changes; i++)
	{
		right &= random_change(&history, universe, nodes);
		if (random_below(8) == 0)
			right &= is_value(history.state, &history.values[history.n]) &&
				reset_is_right(history.state, &history.values[history.n]);
		if (random_below(30) == 0)
			right &= go_back(&history);
		if (history.n == MAX_CHANGES || random_below(40) == 0)
			forget_all(&history);
	}
	right &= is_value(history.state, &history.values[history.n]);
	forget_all(&history);
	crdt_buf_free(&history.values[0]);
	setstate_free(history.state);
	return right;
}

static void
test_histories(void)
{
	bool gset = true;
	bool orset = true;
	bool many_nodes = true;

	for (int i = 0; i < 150; i++)
	{
		gset &= random_history(CRDT_GSET, 1 + (int) random_below(300), 1, 200);
		orset &= random_history(CRDT_ORSET, 1 + (int) random_below(200), 1 + (int) random_below(5), 300);
		many_nodes &= random_history(CRDT_ORSET, 30, 200, 200);
	}
	ok(gset, "a dc_gset in memory is what the value is, after each change and undone");
	ok(orset, "the same of a dc_orset");
	ok(many_nodes, "the same of a dc_orset of many nodes");
}

/* Changes that are not kept, and so many that the array grows and closes its gaps. */
static void
test_long(void)
{
	CrdtBuf value = empty_value(CRDT_ORSET);
	SetState *state = setstate_load(crdt_bytes(&value));
	char element[40];
	size_t most = 0;
	bool right = true;

	for (int i = 0; i < 200000; i++)
	{
		sprintf(element, "%d", i);
		right &= setstate_add(state, string_of(element), string_of("n"), NULL) == SET_CHANGED;
		sprintf(element, "%d", i - 1000);
		right &= setstate_remove(state, string_of(element), NULL) == (i < 1000 ? SET_SAME : SET_CHANGED);
		most = state->size > most ? state->size : most;
	}
	ok(right && state->live == 1000 && most <= 4096, "a window of 1,000 elements takes no more memory with time");
	crdt_buf_free(&value);
	setstate_encode(&value, state);
	right = dots_count(crdt_bytes(&value)) == 1000 && crdt_check(&crdt_orset, crdt_bytes(&value), NULL) == NULL;
	ok(right, "and is written rightly");
	crdt_buf_free(&value);
	setstate_free(state);
}

static void
test_limits(void)
{
	CrdtBuf value = {NULL, 0, 0};
	DotsRange all = {1, INT64_MAX};
	DotsNode node = {string_of("full"), &all, 1};
	DotsContext context = {&node, 1, &all, 1};
	DotsWriter writer = {{NULL, 0, 0}, 0};
	char *element = malloc(CRDT_MAX_ELEMENT);
	SetState *state;
	SetChange change;
	int added = 0;

	dots_finish(&writer, &value, CRDT_ORSET, &context);
	state = setstate_load(crdt_bytes(&value));
	ok(setstate_add(state, string_of("a"), string_of("full"), &change) == SET_NO_DOTS &&
		   !setstate_contains(state, string_of("a")) && is_value(state, &value),
	   "a node without dots adds nothing");
	memset(element, 'x', CRDT_MAX_ELEMENT);
	for (;; added++)
	{
		element[added % CRDT_MAX_ELEMENT] = 'y';
		if (setstate_add(state, (CrdtString){element, CRDT_MAX_ELEMENT}, string_of("n"), NULL) != SET_CHANGED)
			break;
	}
	crdt_buf_free(&value);
	setstate_encode(&value, state);
	ok(added == 9 && value.len < CRDT_MAX_SIZE && value.len > CRDT_MAX_SIZE - 2 * CRDT_MAX_ELEMENT &&
		   dots_count(crdt_bytes(&value)) == 9,
	   "a set does not grow beyond its largest value");
	free(element);
	crdt_buf_free(&value);
	setstate_free(state);
}

/* Numbers with few different hashes, the last slot's among them, against an array. */
static void
test_index(void)
{
	static const uint32_t hashes[] = {0, 1, 7, 15, 31, 0xffffffff, 0x7fffffff};
	uint32_t hash_of[100];
	bool there[100] = {false};
	HashIndex index = {NULL, 0, 0};
	bool right = true;

	for (int i = 0; i < 100; i++)
		hash_of[i] = hashes[random_below(7)];
	for (int i = 0; i < 20000; i++)
	{
		uint32_t number = (uint32_t) random_below(100);
		HashIndexIter iter;
		uint32_t found;
		bool seen = false;

		iter = hashindex_find(&index, hash_of[number]);
		while (hashindex_next(&index, &iter, &found))
		{
			right &= found < 100 && hash_of[found] == hash_of[number] && there[found];
			seen |= found == number;
		}
		right &= seen == there[number];
		hashindex_reserve(&index, index.n + 1);
		if (there[number])
			hashindex_remove(&index, hash_of[number], number);
		else
			hashindex_put(&index, hash_of[number], number);
		there[number] = !there[number];
	}
	ok(right, "the index finds what is there among many of one hash");
	hashindex_free(&index);
}

static void
test_siphash(void)
{
	static const uint64_t zero[2] = {0, 0};
	uint8_t bytes[63];

	for (int i = 0; i < 63; i++)
		bytes[i] = (uint8_t) (i + 1);
	/* of Rust's DefaultHasher and of Python with PYTHONHASHSEED=0 */
	ok(siphash_hash(zero, "", 0) == UINT64_C(0xd1fba762150c532c) &&
		   siphash_hash(zero, "a", 1) == UINT64_C(0x407448d2b89b1813) &&
		   siphash_hash(zero, "abcdefg", 7) == UINT64_C(0x6db12aae9070f506) &&
		   siphash_hash(zero, "abcdefgh", 8) == UINT64_C(0x3f7b849c0b8e35ea) &&
		   siphash_hash(zero, bytes, 63) == UINT64_C(0x6bafe9f92616651b),
	   "SipHash-1-3 is what it is elsewhere");
}

/* The longest way to a hash's end. */
static int
longest_way(const SetState *state)
{
	int longest = 0;

	for (size_t i = 0; i < state->nentries; i++)
	{
		size_t at = state->entries[i].hash & (state->index.size - 1);
		int way = 1;

		for (; state->index.slots[at].number != i + 1; way++)
			at = (at + 1) & (state->index.size - 1);
		longest = way > longest ? way : longest;
	}
	return longest;
}

/* Elements that were chosen to be in one place with one key are not with another. */
static void
test_hostile(void)
{
	CrdtBuf empty = empty_value(CRDT_GSET);
	SetState *state = setstate_load(crdt_bytes(&empty));
	char element[40];
	int chosen = 0;

	for (int i = 0; chosen < 2000; i++)
	{
		sprintf(element, "%d", i);
		if ((hashindex_hash(element, strlen(element)) & 0xff) != 0)
			continue;
		chosen++;
		(void) setstate_add(state, string_of(element), string_of("n"), NULL);
	}
	ok(longest_way(state) > 100, "elements can be chosen to meet if the key is known");
	crdt_buf_free(&empty);
	setstate_encode(&empty, state);
	setstate_free(state);
	hashindex_seed(unit_random(&seed), unit_random(&seed));
	state = setstate_load(crdt_bytes(&empty));
	ok(longest_way(state) < 50, "and not if it is not");
	setstate_free(state);
	crdt_buf_free(&empty);
}

/*
 * Without memory at the n-th allocation, a change leaves the state as it was. What it has
 * taken so far is the memory context's, which is not here.
 */
static bool
fail_once(SetState *state, const CrdtBuf *value, int n, CrdtString element, CrdtString node)
{
	volatile bool fails = false;

	__lsan_disable();
	if (setjmp(failed) == 0)
	{
		failing_at = n;
		(void) setstate_add(state, element, node, NULL);
	}
	else
		fails = true;
	failing_at = 0;
	__lsan_enable();
	return fails && is_value(state, value);
}

static void
test_memory(void)
{
	bool right = true;
	int failures = 0;

	for (int i = 0; i < 300; i++)
	{
		CrdtKind kind = i % 2 == 0 ? CRDT_GSET : CRDT_ORSET;
		CrdtBuf value = random_value(kind, 100, 4);
		SetState *state = setstate_load(crdt_bytes(&value));
		CrdtString element = string_of("an element that is new");
		CrdtString node = string_of(i % 3 == 0 ? "node 1" : "a node that is new");

		/* there are gaps, or not */
		for (int j = 0; kind == CRDT_ORSET && j < i / 2; j++)
		{
			char name[40];

			random_element(name, 100);
			(void) setstate_remove(state, string_of(name), NULL);
			flat_remove(&value, string_of(name));
		}
		for (int n = 1; !setstate_contains(state, element); n++)
		{
			right &= fail_once(state, &value, n, element, node) || setstate_contains(state, element);
			failures++;
		}
		flat_add(&value, element, node);
		right &= is_value(state, &value);
		setstate_free(state);
		crdt_buf_free(&value);
	}
	ok(right && failures > 600, "a change for which there is no memory is not made");
}

int
main(void)
{
	test_siphash();
	test_index();
	test_histories();
	test_long();
	test_limits();
	test_hostile();
	test_memory();
	return done_testing();
}
