/*
 * topk_test.c
 *		Bounds of the heaviest items against exact weights, over random merge trees;
 *		the state against a naive one; the format and its check.
 *
 * With the argument "accuracy" the streams are longer and more.
 */
#include "types/sketch/topk/topk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define PARTS 12

/* A stored sketch. */
typedef struct Value
{
	uint8_t *bytes;
	size_t len;
} Value;

typedef enum StreamKind
{
	ZIPF08,
	ZIPF11,
	ZIPF15,
	UNIFORM,
	DISTINCT,
	RISING,
	ROUND_ROBIN,
	KINDS
} StreamKind;

static const char *const kind_names[KINDS] = {
	"Zipf 0.8", "Zipf 1.1", "Zipf 1.5", "uniform", "all distinct", "rising", "round robin"};

typedef struct Stream
{
	StreamKind kind;
	int length;
	int items;
	int64_t total;
	int64_t *truth;
	double *cumulative; /* of Zipf's weights */
	uint64_t seed;
} Stream;

/* The text of an item: some are longer than what is kept in place. */
static size_t
item_name(char *out, int item)
{
	return (size_t) sprintf(out, item % 5 == 0 ? "a longer name, of item number %d" : "i%d", item);
}

static int
item_number(const TopkItem *item)
{
	char name[64];

	memcpy(name, item->data, item->len);
	name[item->len] = '\0';
	return atoi(name[0] == 'i' ? name + 1 : name + strlen("a longer name, of item number "));
}

static bool
add(TopkState *state, int item, int64_t weight)
{
	char name[64];

	return topk_add(state, name, item_name(name, item), weight);
}

static Value
encode(const TopkList *list)
{
	Value value;

	value.len = topk_encoded_size(list);
	value.bytes = malloc(value.len);
	if (topk_encode(list, value.bytes) != value.len)
		abort();
	return value;
}

static Value
store(const TopkState *state)
{
	TopkList list;
	Value value;

	topk_list(state, &list);
	value = encode(&list);
	free(list.items);
	return value;
}

static TopkState *
load(const Value *value)
{
	TopkList list;
	TopkState *state;

	topk_decode(value->bytes, value->len, &list);
	state = topk_load(&list);
	free(list.items);
	return state;
}

static bool
same(const Value *a, const Value *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static bool
merge_value(TopkState *state, const Value *value)
{
	TopkList list;
	bool fits;

	topk_decode(value->bytes, value->len, &list);
	fits = topk_merge(state, &list);
	free(list.items);
	return fits;
}

static void
stream_init(Stream *stream, StreamKind kind, int length, uint64_t seed)
{
	double exponent = kind == ZIPF08 ? 0.8 : kind == ZIPF11 ? 1.1
															: 1.5;
	double sum = 0;

	stream->kind = kind;
	stream->length = length;
	stream->items = kind == DISTINCT || kind == RISING ? length : length / 10;
	stream->total = 0;
	stream->truth = calloc((size_t) stream->items, sizeof(int64_t));
	stream->cumulative = malloc((size_t) stream->items * sizeof(double));
	for (int i = 0; i < stream->items; i++)
		stream->cumulative[i] = sum += pow(i + 1, -exponent);
	stream->seed = seed;
}

static void
stream_free(Stream *stream)
{
	free(stream->truth);
	free(stream->cumulative);
}

/* The stream's item at a position, and its weight. */
static int
stream_next(Stream *stream, int at, bool weighted, int64_t *weight)
{
	uint64_t r = unit_random(&stream->seed);
	int item = 0;

	*weight = weighted ? (int64_t) (unit_random(&stream->seed) % 100) : 1;
	switch (stream->kind)
	{
		case ZIPF08:
		case ZIPF11:
		case ZIPF15:
			{
				double want = (double) (r >> 11) / 9007199254740992.0 * stream->cumulative[stream->items - 1];
				int low = 0;
				int high = stream->items - 1;

				while (low < high)
				{
					int middle = (low + high) / 2;

					if (stream->cumulative[middle] < want)
						low = middle + 1;
					else
						high = middle;
				}
				item = low;
				break;
			}
		case UNIFORM:
			item = (int) (r % (uint64_t) stream->items);
			break;
		case DISTINCT:
			item = at;
			break;
		case RISING:
			item = at;
			*weight += at;
			break;
		case ROUND_ROBIN: /* one more than there are counters, in turn; few heavy ones */
			item = r % 16 == 0 ? (int) ((r >> 32) % 3) : at % 41;
			break;
		case KINDS:
			break;
	}
	stream->truth[item] += *weight;
	stream->total += *weight;
	return item;
}

/* Is all true that is promised of a sketch of the stream? */
static bool
is_right(const Stream *stream, const Value *value)
{
	char *listed = calloc((size_t) stream->items, 1);
	TopkList list;
	bool right = topk_check(value->bytes, value->len) == NULL;
	int64_t sum = 0;

	topk_decode(value->bytes, value->len, &list);
	right = right && list.total == stream->total && list.floor <= list.total / list.counters;
	for (int i = 0; i < list.n; i++)
	{
		const TopkItem *item = &list.items[i];
		int number = item_number(item);

		right = right && item->count >= stream->truth[number] &&
			item->count - item->error <= stream->truth[number] &&
			item->error <= list.floor && !listed[number];
		listed[number] = 1;
		sum += item->count;
	}
	right = right && sum <= list.total;
	for (int number = 0; number < stream->items; number++)
	{
		if (!listed[number] && (stream->truth[number] > list.floor || stream->truth[number] > list.total / list.counters))
			right = false;
		/* an item of a share above the floor's is one that may have that share */
		for (int i = 1; i < 100 && stream->truth[number] > 0; i *= 3)
		{
			double share = 1.0 / i;
			int64_t upper = stream->truth[number];

			if (stream->truth[number] >= (double) stream->total / i &&
				(!topk_has_share(upper, list.total, share, false) ||
				 (!listed[number] && !topk_has_share(list.floor, list.total, share, false))))
				right = false;
		}
	}
	free(list.items);
	free(listed);
	return right;
}

static int
descending(const void *a, const void *b)
{
	int64_t left = *(const int64_t *) a;
	int64_t right = *(const int64_t *) b;

	return left > right ? -1 : left < right;
}

/* The floor is at most 1/(m-j) of the weight without the heaviest j. */
static bool
has_tail_bound(const Stream *stream, const Value *value)
{
	int64_t *weights = malloc((size_t) stream->items * sizeof(int64_t));
	int64_t rest = stream->total;
	TopkList list;
	bool right = true;

	topk_decode(value->bytes, value->len, &list);
	memcpy(weights, stream->truth, (size_t) stream->items * sizeof(int64_t));
	qsort(weights, (size_t) stream->items, sizeof(int64_t), descending);
	for (int j = 0; j < list.counters && j < stream->items; j++)
	{
		right = right && list.floor * (list.counters - j) <= rest;
		rest -= weights[j];
	}
	free(list.items);
	free(weights);
	return right;
}

/*
 * Cut the stream into parts, add each to a sketch of its own, and merge them two
 * by two in random order; some get more of the stream after a merge.
 */
static bool
run_tree(StreamKind kind, int length, int counters, bool mixed, bool weighted, uint64_t seed)
{
	Stream stream;
	TopkState *parts[PARTS];
	int left = 1 + (int) (unit_random(&seed) % PARTS);
	int64_t weight;
	bool right = true;
	Value value;

	stream_init(&stream, kind, length, seed);
	for (int i = 0; i < left; i++)
	{
		int more = mixed ? (int) (unit_random(&seed) % (2 * (uint64_t) counters)) : 0;

		parts[i] = topk_new(1, i == 0 ? counters : counters + more);
	}
	for (int at = 0; at < length; at++)
	{
		uint64_t r = unit_random(&seed);
		int item = stream_next(&stream, at, weighted, &weight);

		right = right && add(parts[r % (uint64_t) left], item, weight);
		if (left > 1 && r % 3 == 0 && (r >> 8) % ((uint64_t) length * 2 / PARTS / 3 + 1) == 0)
		{
			value = store(parts[--left]);
			right = right && merge_value(parts[(r >> 40) % (uint64_t) left], &value);
			topk_free(parts[left]);
			free(value.bytes);
		}
	}
	while (left > 1)
	{
		int to = (int) (unit_random(&seed) % (uint64_t) --left);
		TopkList list;

		topk_list(parts[left], &list);
		right = right && topk_merge(parts[to], &list);
		free(list.items);
		topk_free(parts[left]);
	}
	value = store(parts[0]);
	right = right && is_right(&stream, &value) && has_tail_bound(&stream, &value);
	right = right && topk_counters(parts[0]) == counters && topk_k(parts[0]) == 1;
	topk_free(parts[0]);
	free(value.bytes);
	stream_free(&stream);
	return right;
}

static void
test_trees(int length, int runs)
{
	static const int counters[] = {44, 5, 1, 100};
	char name[100];

	for (int kind = 0; kind < KINDS; kind++)
	{
		bool right = true;

		for (int run = 0; run < runs; run++)
			right = run_tree((StreamKind) kind, length, run % 8 < 4 ? 40 : counters[run % 4],
							 run % 2 == 1, run % 3 == 1, (uint64_t) (1000 * kind + run)) &&
				right;
		snprintf(name, sizeof(name), "%s: bounds hold over %d random merge trees of %d items", kind_names[kind], runs, length);
		ok(right, name);
	}
}

/* The same as topk.c, as simple as can be. */
typedef struct Naive
{
	TopkList list;
	TopkItem items[400];
} Naive;

static void
naive_prune(Naive *naive)
{
	TopkList *list = &naive->list;

	list->items = naive->items;
	topk_sort(list->items, (size_t) list->n, topk_compare);
	while (list->n > list->counters)
	{
		int64_t count = list->items[--list->n].count;

		if (count > list->floor)
			list->floor = count;
		free((char *) list->items[list->n].data);
	}
}

static TopkItem *
naive_find(Naive *naive, const TopkItem *item)
{
	for (int i = 0; i < naive->list.n; i++)
	{
		if (topk_compare_bytes(&naive->items[i], item) == 0)
			return &naive->items[i];
	}
	return NULL;
}

static void
naive_insert(Naive *naive, const TopkItem *item)
{
	TopkItem *place = &naive->items[naive->list.n++];
	char *copy = malloc(item->len + 1);

	memcpy(copy, item->data, item->len);
	*place = *item;
	place->data = copy;
}

static void
naive_add(Naive *naive, int number, int64_t weight)
{
	char name[64];
	TopkItem item = {naive->list.floor + weight, naive->list.floor, name, (uint32_t) item_name(name, number), 0};
	TopkItem *found = naive_find(naive, &item);

	if (weight == 0)
		return;
	if (found != NULL)
		found->count += weight;
	else
		naive_insert(naive, &item);
	naive->list.total += weight;
	naive_prune(naive);
}

static void
naive_merge(Naive *a, Naive *b)
{
	int n = a->list.n;

	for (int i = 0; i < b->list.n; i++)
	{
		TopkItem item = b->items[i];
		TopkItem *found = naive_find(a, &item);

		if (found != NULL)
		{
			found->count += item.count;
			found->error += item.error;
			continue;
		}
		item.count += a->list.floor;
		item.error += a->list.floor;
		naive_insert(a, &item);
	}
	for (int i = 0; i < n; i++)
	{
		if (naive_find(b, &a->items[i]) == NULL)
		{
			a->items[i].count += b->list.floor;
			a->items[i].error += b->list.floor;
		}
	}
	a->list.total += b->list.total;
	a->list.floor += b->list.floor;
	if (b->list.counters < a->list.counters)
		a->list.counters = b->list.counters;
	if (b->list.k < a->list.k)
		a->list.k = b->list.k;
	naive_prune(a);
}

static void
naive_init(Naive *naive, int k, int counters)
{
	memset(naive, 0, sizeof(Naive));
	naive->list.k = k;
	naive->list.counters = counters;
	naive->list.items = naive->items;
}

static void
naive_free(Naive *naive)
{
	for (int i = 0; i < naive->list.n; i++)
		free((char *) naive->items[i].data);
}

/* The state does what the naive one does, stored and loaded between or not. */
static bool
run_naive(uint64_t seed, int steps)
{
	static Naive naive[2];
	TopkState *states[2];
	bool right = true;
	Value value;
	Value expected;

	for (int i = 0; i < 2; i++)
	{
		int counters = 1 + (int) (unit_random(&seed) % 60);

		naive_init(&naive[i], 1 + i, counters + 1);
		states[i] = topk_new(1 + i, counters + 1);
	}
	for (int step = 0; step < steps && right; step++)
	{
		uint64_t r = unit_random(&seed);
		int to = (int) (r % 2);
		int item = (int) ((r >> 8) % (1 + (r >> 32) % 200));
		int64_t weight = (int64_t) ((r >> 48) % 4);

		naive_add(&naive[to], item, weight);
		right = right && add(states[to], item, weight);
		if ((r >> 56) == 0)
		{
			value = store(states[1 - to]);
			right = right && merge_value(states[to], &value);
			naive_merge(&naive[to], &naive[1 - to]);
			free(value.bytes);
		}
		if ((r >> 40) % 16 > 0)
			continue;
		value = store(states[to]);
		expected = encode(&naive[to].list);
		right = right && same(&value, &expected) && topk_check(value.bytes, value.len) == NULL;
		topk_free(states[to]);
		states[to] = load(&value);
		free(value.bytes);
		free(expected.bytes);
	}
	for (int i = 0; i < 2; i++)
	{
		naive_free(&naive[i]);
		topk_free(states[i]);
	}
	return right;
}

static void
test_naive(void)
{
	bool right = true;

	for (uint64_t seed = 0; seed < 30; seed++)
	{
		topk_set_secret(seed);
		right = right && run_naive(seed, 2000);
	}
	topk_set_secret(0);
	ok(right, "the state does what a naive one does, also when stored and loaded between");
}

static void
test_exact(void)
{
	TopkState *state = topk_new(3, 64);
	TopkState *other = topk_new(2, 20);
	TopkList list;
	Value value;
	bool right = true;

	for (int i = 0; i < 30; i++)
		right = right && add(state, i, i + 1);
	for (int i = 25; i < 35; i++)
		right = right && add(other, i, 100);
	topk_list(state, &list);
	for (int i = 0; i < list.n; i++)
		right = right && list.items[i].error == 0 && list.items[i].count == item_number(&list.items[i]) + 1;
	ok(right && list.n == 30 && list.floor == 0 && list.total == 465, "few items are counted exactly");
	free(list.items);

	value = store(other);
	ok(merge_value(state, &value) && topk_k(state) == 2 && topk_counters(state) == 20,
	   "a union has the smaller k and the smaller number of counters");
	topk_list(state, &list);
	ok(list.n == 20 && list.floor == 15 && item_number(&list.items[0]) == 29 && list.items[0].count == 130 && list.items[0].error == 0 &&
		   list.items[19].count == 16 && list.total == 1465,
	   "and a floor of the heaviest item dropped");
	free(list.items);
	ok(add(state, 1000, 3), "a lighter item");
	topk_list(state, &list);
	ok(list.floor == 16 && list.items[18].count == 18 && list.items[18].error == 15 &&
		   item_number(&list.items[18]) == 1000,
	   "starts at the floor");
	free(list.items);
	free(value.bytes);
	topk_free(state);
	topk_free(other);
}

static void
test_limits(void)
{
	TopkState *state = topk_new(1, 1);
	TopkState *other = topk_new(1, 1);
	Value before;
	Value value;
	Value after;

	ok(topk_default_counters(1) == 64 && topk_default_counters(10) == 100 && topk_default_counters(100000) == 1000000 &&
		   topk_default_counters(1000000) == 1000000,
	   "default numbers of counters");
	ok(add(state, 1, INT64_MAX - 5) && add(state, 2, 3), "weights up to the limit");
	before = store(state);
	add(other, 3, 3);
	value = store(other);
	ok(!add(state, 1, 3) && !add(state, 7, INT64_MAX) && !merge_value(state, &value), "more is refused");
	after = store(state);
	ok(same(&before, &after) && topk_check(after.bytes, after.len) == NULL, "and changes nothing");
	ok(add(state, 1, 0) && add(state, 9, 0), "a weight of 0 is no overflow");
	free(after.bytes);
	after = store(state);
	ok(same(&before, &after), "and adds nothing");
	ok(add(state, 3, 2), "the last units");
	free(before.bytes);
	free(value.bytes);
	free(after.bytes);
	topk_free(state);
	topk_free(other);
}

static void
test_share(void)
{
	ok(topk_has_share(1, 10, 0.1, false) && topk_has_share(1, 10, 0.1, true) && topk_has_share(3, 30, 0.1, true) &&
		   !topk_has_share(2, 30, 0.1, false),
	   "a tenth is a share of 0.1");
	ok(topk_has_share(INT64_MAX / 10, INT64_MAX, 0.1, false) && !topk_has_share(INT64_MAX / 10, INT64_MAX, 0.1, true) &&
		   topk_has_share(INT64_MAX, INT64_MAX, 1, false),
	   "very large weights: in doubt it may be, not must be");
}

static Value
sample(void)
{
	TopkState *state = topk_new(2, 10);
	Value value;

	for (int i = 0; i < 200; i++)
		add(state, i * i % 13, 1 + i % 150);
	value = store(state);
	topk_free(state);
	return value;
}

static void
expect_wrong(const char *bytes, size_t len, const char *message)
{
	uint8_t *copy = malloc(len + 1);
	const char *wrong;
	char name[120];

	memcpy(copy, bytes, len);
	copy = realloc(copy, len > 0 ? len : 1);
	wrong = topk_check(copy, len);
	snprintf(name, sizeof(name), "check: %s", message == NULL ? "a right value" : message);
	ok(message == NULL ? wrong == NULL : wrong != NULL && strcmp(wrong, message) == 0, name);
	free(copy);
}

#define WRONG(bytes, message) expect_wrong(bytes, sizeof(bytes) - 1, message)

static void
test_check(void)
{
	WRONG("\1\0\1\100\0\0\0", NULL);
	WRONG("\1\0\1\100\1\5\0\0\0\1a", NULL);
	WRONG("\1\0\1\2\2\10\1\4\0\1a\1\1\1b", NULL);
	WRONG("\1\0\1\2\2\10\0\4\0\0\0\0\1a", NULL);
	WRONG("", "The value is truncated.");
	WRONG("\1", "The value is truncated.");
	WRONG("\2\0\1\100\0\0\0", "The version is unknown.");
	WRONG("\1\1\1\100\0\0\0", "Reserved bits are set.");
	WRONG("\1\0\1\100\0\0", "The header is malformed.");
	WRONG("\1\0\0\100\0\0\0", "The header is malformed.");
	WRONG("\1\0\2\1\0\0\0", "The header is malformed.");
	WRONG("\1\0\1\301\204\75\0\0\0", "The header is malformed.");
	WRONG("\1\0\1\2\3\10\0\4\0\1a\0\0\0\0\0\1c", "The header is malformed.");
	WRONG("\1\0\201\0\100\0\0\0", "The header is malformed.");
	WRONG("\1\0\1\100\0\377\377\377\377\377\377\377\377\377\1\0", "The header is malformed.");
	WRONG("\1\0\1\300\204\75\300\204\75\5\0\0\0\1a", "The value is truncated.");
	WRONG("\1\0\1\100\1\5\0\0\0\2a", "An item is truncated or has a malformed number.");
	WRONG("\1\0\1\100\1\5\0\6\0\1a", "An item is truncated or has a malformed number.");
	WRONG("\1\0\1\100\1\5\0\0\0\377\377\377\377\377\377\377\377\177", "An item is truncated or has a malformed number.");
	WRONG("\1\0\1\100\2\5\0\0\0\1a\5\0\1b", "A count is too low.");
	WRONG("\1\0\1\2\2\10\3\4\0\1a\2\1\1b", "A count is too low.");
	WRONG("\1\0\1\100\1\5\0\0\1\1a", "An error is too high.");
	WRONG("\1\0\1\2\2\10\1\4\0\1a\3\1\1b", "An error is too high.");
	WRONG("\1\0\1\2\2\10\0\4\0\1b\0\0\1a", "Items are not in order.");
	WRONG("\1\0\1\2\2\10\0\4\0\1a\0\0\1a", "Items are not in order.");
	WRONG("\1\0\1\2\2\10\1\4\1\1a\0\0\1b", "Items are not in order.");
	WRONG("\1\0\1\2\2\10\1\3\0\1a\0\0\1b", "The counts add up to more than the total weight.");
	WRONG("\1\0\1\100\1\5\0\0\0\1\0", "An item has a zero byte.");
	WRONG("\1\0\1\100\1\5\0\0\0\1ab", "There are bytes after the last item.");
	WRONG("\1\0\1\2\2\10\0\5\0\1a\0\0\1b", "The counts do not add up to the total weight.");
	WRONG("\1\0\1\3\2\10\1\4\0\1a\1\1\1b", "Items were dropped although there is room for more.");
	WRONG("\1\0\1\2\2\10\1\4\0\1a\1\1\1a", "An item is listed twice.");
}

/* Whatever a changed value is, the check reads no byte too many, and what it lets
 * pass is in its only form. */
static void
test_mutations(int runs)
{
	Value value = sample();
	uint64_t seed = 5;
	bool right = topk_check(value.bytes, value.len) == NULL;
	int passed = 0;

	for (size_t len = 0; len < value.len; len++)
	{
		uint8_t *copy = malloc(len > 0 ? len : 1);

		memcpy(copy, value.bytes, len);
		right = right && topk_check(copy, len) != NULL;
		free(copy);
	}
	ok(right, "a value cut short is refused");
	for (int run = 0; run < runs; run++)
	{
		uint8_t *copy = malloc(value.len);

		memcpy(copy, value.bytes, value.len);
		for (uint64_t i = unit_random(&seed) % 3 + 1; i > 0; i--)
		{
			uint64_t r = unit_random(&seed);

			copy[r % value.len] = (uint8_t) ((r >> 32) % 4 == 0 ? r >> 40 : copy[r % value.len] + (r >> 40) % 5 - 2);
		}
		if (topk_check(copy, value.len) == NULL)
		{
			Value changed = {copy, value.len};
			TopkState *state = load(&changed);
			Value again = store(state);

			right = right && same(&changed, &again);
			right = right && merge_value(state, &changed) && add(state, run, run);
			free(again.bytes);
			again = store(state);
			right = right && topk_check(again.bytes, again.len) == NULL;
			free(again.bytes);
			topk_free(state);
			passed++;
		}
		free(copy);
	}
	ok(right && passed > runs / 100, "what the check lets pass is in its only form, and can be used");
	free(value.bytes);
}

/* These bytes may never change their meaning. */
static void
test_golden(void)
{
	static const uint8_t golden[] = {1, 0, 2, 3, 3, 152, 3, 1, 104, 0, 0, 204, 1, 0, 1, 'a', 97, 1, 1, 'd'};
	TopkState *state = topk_new(2, 3);
	Value value;

	topk_add(state, "a", 1, 100);
	topk_add(state, "b", 1, 1);
	topk_add(state, "", 0, 304);
	topk_add(state, "c", 1, 1);
	topk_add(state, "d", 1, 2);
	value = store(state);
	ok(value.len == sizeof(golden) && memcmp(value.bytes, golden, value.len) == 0, "the bytes of a small value");
	free(value.bytes);
	topk_free(state);
}

int
main(int argc, char **argv)
{
	bool large = argc > 1 && strcmp(argv[1], "accuracy") == 0;

	test_exact();
	test_limits();
	test_share();
	test_golden();
	test_check();
	test_mutations(large ? 1000000 : 20000);
	test_naive();
	test_trees(20000, 24);
	if (large)
		test_trees(1000000, 24);
	return done_testing();
}
