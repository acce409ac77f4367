/*
 * crdt_fuzz.c
 *		Any bytes as two states of a mergeable type: what the checks let pass obeys the
 *		laws, is in its only form, and can be read and changed.
 *
 * An input is the length of the first state, in two bytes, and both of them. A second one
 * that is not valid is left out.
 */
#include "types/crdt/amounts.h"
#include "types/crdt/dots.h"
#include "types/crdt/gset.h"
#include "types/crdt/stamp.h"

#include <stdlib.h>

extern int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
demand(bool condition)
{
	if (!condition)
		abort();
}

static bool
same(const CrdtBuf *a, CrdtBytes b)
{
	return crdt_same(crdt_bytes(a), b);
}

/* The state is what the check lets pass, and not before a part of it; it is freed. */
static void
demand_after(const CrdtType *type, CrdtBuf *state, CrdtBytes part)
{
	CrdtBuf merged = {NULL, 0, 0};

	demand(crdt_check(type, crdt_bytes(state), NULL) == NULL);
	type->merge(&merged, part, crdt_bytes(state));
	demand(same(&merged, crdt_bytes(state)));
	crdt_buf_free(&merged);
	crdt_buf_free(state);
}

static void
use_two(const CrdtType *type, CrdtBytes a, CrdtBytes b)
{
	CrdtBuf forth = {NULL, 0, 0};
	CrdtBuf back = {NULL, 0, 0};
	CrdtBuf delta = {NULL, 0, 0};

	type->merge(&forth, a, b);
	type->merge(&back, b, a);
	demand(same(&forth, crdt_bytes(&back)));
	crdt_buf_free(&back);
	if (type->delta != NULL)
	{
		type->delta(&delta, b, a);
		type->merge(&back, crdt_bytes(&delta), a);
		demand(same(&forth, crdt_bytes(&back)));
		crdt_buf_free(&back);
		type->merge(&back, crdt_bytes(&delta), b);
		demand(same(&back, b));
		crdt_buf_free(&back);
		demand(crdt_check(type, crdt_bytes(&delta), NULL) == NULL);
		crdt_buf_free(&delta);
	}
	type->merge(&back, crdt_bytes(&forth), b);
	demand_after(type, &back, a);
	demand_after(type, &forth, b);
}

/* The first, the second, and the first with the second after it. */
static void
use_three(const CrdtType *type, CrdtBytes a, CrdtBytes b, CrdtBytes c)
{
	CrdtBuf ab = {NULL, 0, 0};
	CrdtBuf bc = {NULL, 0, 0};
	CrdtBuf left = {NULL, 0, 0};
	CrdtBuf right = {NULL, 0, 0};

	type->merge(&ab, a, b);
	type->merge(&bc, b, c);
	type->merge(&left, crdt_bytes(&ab), c);
	type->merge(&right, a, crdt_bytes(&bc));
	demand(same(&left, crdt_bytes(&right)));
	crdt_buf_free(&ab);
	crdt_buf_free(&bc);
	crdt_buf_free(&left);
	crdt_buf_free(&right);
}

/* What was changed is after what was there; and associative with that and another. */
static void
use_change(const CrdtType *type, CrdtBuf *changed, CrdtBytes from, CrdtBytes other)
{
	use_two(type, from, crdt_bytes(changed));
	use_three(type, from, other, crdt_bytes(changed));
	use_three(type, crdt_bytes(changed), from, other);
	demand_after(type, changed, from);
}

static void
use_amounts(const CrdtType *type, CrdtBytes state, CrdtBytes other, CrdtString node)
{
	AmountsIter iter = amounts_iter(state);
	AmountsEntry *entries = malloc((state.len + 1) * sizeof(AmountsEntry));
	CrdtBuf out = {NULL, 0, 0};
	size_t n = 0;
	int64_t value;

	for (; amounts_next(&iter, &entries[n]); n++)
		demand(amounts_entry_wrong(&entries[n]) == NULL && crdt_node_wrong(entries[n].node) == NULL);
	amounts_encode(&out, type->kind, entries, n);
	demand(same(&out, state));
	crdt_buf_free(&out);
	(void) amounts_value(state, &value);
	if (amounts_add(&out, state, node, AMOUNT_INC, 3))
		use_change(type, &out, state, other);
	crdt_buf_free(&out);
	if (type->kind == CRDT_PNCOUNTER)
	{
		if (n > 0 && amounts_add(&out, state, entries[n / 2].node, AMOUNT_DEC, INT64_MAX / 2))
			use_change(type, &out, state, other);
		crdt_buf_free(&out);
		amounts_reset(&out, state);
		demand(amounts_value(crdt_bytes(&out), &value) && value == 0);
		use_change(type, &out, state, other);
	}
	free(entries);
}

static void
use_gset(CrdtBytes state, CrdtBytes other, CrdtString element)
{
	GsetIter iter = gset_iter(state);
	CrdtString *elements = malloc((state.len + 1) * sizeof(CrdtString));
	CrdtBuf out = {NULL, 0, 0};
	size_t n = 0;

	for (; gset_next(&iter, &elements[n]); n++)
		demand(gset_contains(state, elements[n]));
	gset_encode(&out, elements, n);
	demand(same(&out, state));
	crdt_buf_free(&out);
	gset_add(&out, state, element);
	demand(gset_contains(crdt_bytes(&out), element));
	demand(gset_contains(state, element) == same(&out, state));
	use_change(&crdt_gset, &out, state, other);
	free(elements);
}

static void
use_dots(const CrdtType *type, CrdtBytes state, CrdtBytes other, CrdtString element, CrdtString node)
{
	DotsReader reader;
	DotsWriter writer = {{NULL, 0, 0}, 0};
	CrdtString last = {NULL, 0};
	CrdtBuf out = {NULL, 0, 0};
	int64_t n = dots_count(state);

	dots_reader_open(&reader, state);
	while (dots_reader_next(&reader))
	{
		last = reader.current.element;
		demand(n-- > 0 && dots_contains(state, last));
		dots_put(&writer, last, reader.current.dots, reader.current.n);
	}
	demand(n == 0);
	dots_finish(&writer, &out, type->kind, &reader.context);
	demand(same(&out, state));
	crdt_buf_free(&out);
	if (reader.context.n > 0 && dots_add(&out, state, element, reader.context.nodes[reader.context.n / 2].node))
		use_change(type, &out, state, other);
	dots_reader_close(&reader);

	if (dots_add(&out, state, element, node))
	{
		demand(dots_contains(crdt_bytes(&out), element) && !same(&out, state));
		use_change(type, &out, state, other);
	}
	if (dots_set(&out, state, element, node))
	{
		demand(dots_contains(crdt_bytes(&out), element) && dots_count(crdt_bytes(&out)) == 1);
		use_change(type, &out, state, other);
	}
	dots_remove(&out, state, last);
	demand(!dots_contains(crdt_bytes(&out), last));
	use_change(type, &out, state, other);
	dots_reset(&out, state);
	demand(dots_count(crdt_bytes(&out)) == 0);
	use_change(type, &out, state, other);
}

static void
use_stamp(const CrdtType *type, CrdtBytes state, CrdtBytes other)
{
	CrdtBuf out = {NULL, 0, 0};
	Lww lww = {true, {0, {NULL, 0}}, {"1", 1}};

	if (type->kind == CRDT_HLC)
	{
		lww.stamp = hlc_decode(state);
		hlc_encode(&out, &lww.stamp);
		demand(same(&out, state));
		crdt_buf_free(&out);
		lww.stamp.time = stamp_next(0, lww.stamp.time, 0);
		hlc_encode(&out, &lww.stamp);
	}
	else
	{
		lww = lww_decode(state);
		lww_encode(&out, &lww);
		demand(same(&out, state));
		crdt_buf_free(&out);
		if (!lww.written)
			return;
		lww.stamp.time = stamp_next(0, lww.stamp.time, 0);
		lww_encode(&out, &lww);
	}
	if (lww.stamp.time <= STAMP_MAX_TIME)
		use_change(type, &out, state, other);
	crdt_buf_free(&out);
}

static void
use(const CrdtType *type, CrdtBytes state, CrdtBytes other)
{
	size_t part = state.len / 2 < 20 ? state.len / 2 : 20;
	CrdtString element = {(const char *) state.data + state.len - part, part};
	CrdtString node = {"new", 3};

	use_two(type, state, state);
	use_two(type, state, other);
	use_two(type, other, state);
	if (crdt_node_wrong(element) == NULL)
		node = element;
	if (type->kind == CRDT_ORSET || type->kind == CRDT_MVREG)
		use_dots(type, state, other, element, node);
	else if (type->kind == CRDT_GSET)
		use_gset(state, other, element);
	else if (type->kind == CRDT_LWW || type->kind == CRDT_HLC)
		use_stamp(type, state, other);
	else
		use_amounts(type, state, other, node);
}

/* What the check shows of a string must be there. */
static bool
reads(CrdtString string, CrdtStringKind kind)
{
	volatile uint8_t sum = (uint8_t) kind;

	for (size_t i = 0; i < string.len; i++)
		sum = (uint8_t) (sum + string.data[i]);
	return true;
}

/* A copy, so that a read behind the end is seen. */
static CrdtBytes
cut(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len);

	if (len > 0)
		memcpy(copy, data, len);
	return (CrdtBytes){copy, len};
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const CrdtType *const types[] = {
		&crdt_gcounter, &crdt_pncounter, &crdt_gset, &crdt_orset, &crdt_lww, &crdt_mvreg, &crdt_hlc, &crdt_vclock};
	size_t first;
	CrdtBytes a;
	CrdtBytes b;

	if (size < 3)
		return 0;
	first = (data[0] | (size_t) data[1] << 8) % (size - 1);
	a = cut(data + 2, first);
	b = cut(data + 2 + first, size - 2 - first);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
	{
		bool valid = crdt_check(types[i], a, reads) == NULL;

		if (crdt_check(types[i], b, reads) == NULL)
			use(types[i], b, valid ? a : b);
		if (valid)
			use(types[i], a, a);
	}
	free((uint8_t *) a.data);
	free((uint8_t *) b.data);
	return 0;
}
