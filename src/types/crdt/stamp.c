/*
 * stamp.c
 *		Stamps of a hybrid logical clock, and the registers that go by them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A stamp is a time and a node. A node's next stamp is later than all that it gave out
 * or has seen, and not before its wall clock:
 *
 *		next = max(now, last + 1, seen + 1)
 *
 * That is the clock of Kulkarni, Demirbas, Madappa, Avva, Leone 2014 in one number:
 * what they keep as a counter beside the time is how far it is ahead of the wall
 * clock's microsecond. If one event happened before another, its stamp is less; stamps
 * are no further ahead than the fastest wall clock that took part, and the events
 * that fell into one microsecond. Two nodes never make equal stamps, as the name is
 * a part of them; the times of one node never repeat (hlcclock.c).
 *
 * A last-writer-wins register is a value and the stamp of its writing; the later
 * stamp wins. Equal stamps with different values are never made here; so that forged
 * ones merge as well, the greater bytes win then.
 *
 * Bodies: a stamp is its time and node. A register that was never written has none,
 * any other the stamp, and the value's length and bytes (JSON as jsonb prints it).
 */
#include "types/crdt/stamp.h"

#include <string.h>

/*
 * Compare two stamps, by time and then by node. Return less than 0 if a is earlier.
 */
int
stamp_compare(const Stamp *a, const Stamp *b)
{
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return crdt_compare(a->node, b->node);
}

/*
 * stamp_next returns the time of a node's next stamp. It may be beyond STAMP_MAX_TIME, as `last`
 * and `seen` may be forged and have any value.
 */
int64_t
stamp_next(int64_t now, int64_t last, int64_t seen)
{
	int64_t before = last > seen ? last : seen;

	if (before == INT64_MAX)
		return before;
	return now > before ? now : before + 1;
}

/*
 * Return what is wrong with a stamp that is not trusted, or NULL, and move *next behind it.
 * `valid` may be NULL.
 */
static const char *
check_stamp(const uint8_t **next, const uint8_t *end, CrdtValid valid)
{
	Stamp stamp;
	const char *wrong;

	if (!bytes_get_varint(next, end, &stamp.time) || stamp.time > STAMP_MAX_TIME)
		return "The time is missing or out of range.";
	if (!crdt_check_string(next, end, CRDT_MAX_NODE, &stamp.node))
		return "A node's name is missing or too long.";
	wrong = crdt_node_wrong(stamp.node);
	if (wrong != NULL)
		return wrong;
	if (valid != NULL && !valid(stamp.node, CRDT_STRING_NODE))
		return "A node's name is not valid in the database's encoding.";
	return NULL;
}

/*
 * Append a stamp's time and node.
 */
static void
put_stamp(CrdtBuf *out, const Stamp *stamp)
{
	crdt_put_number(out, stamp->time);
	crdt_put_string(out, stamp->node);
}

/*
 * Read a stamp that has been checked, and move *next behind it. Its node is a view.
 */
static Stamp
get_stamp(const uint8_t **next)
{
	Stamp stamp;

	stamp.time = crdt_get_number(next);
	stamp.node = crdt_get_string(next);
	return stamp;
}

/*
 * Append a whole state, header byte included.
 */
static void
put_state(CrdtBuf *out, CrdtBytes state)
{
	crdt_put_bytes(out, state.data, state.len);
}

/* dc_hlc */

/*
 * Return what is wrong with the body of a dc_hlc, or NULL. The header byte has been checked.
 */
static const char *
hlc_check(CrdtBytes state, CrdtValid valid)
{
	const uint8_t *next = state.data + 1;
	const uint8_t *end = state.data + state.len;
	const char *wrong = check_stamp(&next, end, valid);

	if (wrong != NULL)
		return wrong;
	return next == end ? NULL : "There are extra bytes at the end.";
}

/*
 * Write a stamp as a dc_hlc.
 */
void
hlc_encode(CrdtBuf *out, const Stamp *stamp)
{
	crdt_put_byte(out, CRDT_HEADER(CRDT_HLC));
	put_stamp(out, stamp);
}

/*
 * Return the stamp of a dc_hlc that has been checked. Its node is a view.
 */
Stamp
hlc_decode(CrdtBytes state)
{
	const uint8_t *next = state.data + 1;

	return get_stamp(&next);
}

/*
 * Write the later of two stamps.
 */
static void
hlc_merge(CrdtBuf *out, CrdtBytes a, CrdtBytes b)
{
	Stamp stamp_a = hlc_decode(a);
	Stamp stamp_b = hlc_decode(b);

	put_state(out, stamp_compare(&stamp_a, &stamp_b) >= 0 ? a : b);
}

/* dc_lww */

/*
 * Return what is wrong with the body of a dc_lww, or NULL. The header byte has been checked; a
 * register that was never written has no body.
 */
static const char *
lww_check(CrdtBytes state, CrdtValid valid)
{
	const uint8_t *next = state.data + 1;
	const uint8_t *end = state.data + state.len;
	CrdtString value;
	const char *wrong;

	if (state.len == 1)
		return NULL;
	wrong = check_stamp(&next, end, valid);
	if (wrong != NULL)
		return wrong;
	if (!crdt_check_string(&next, end, CRDT_MAX_ELEMENT, &value))
		return "The value is missing or too long.";
	if (next != end)
		return "There are extra bytes at the end.";
	if (valid != NULL && !valid(value, CRDT_STRING_JSON))
		return "The value is not in the form in which jsonb is printed.";
	return NULL;
}

/*
 * Write a register that was never written.
 */
void
lww_empty(CrdtBuf *out)
{
	crdt_put_byte(out, CRDT_HEADER(CRDT_LWW));
}

/*
 * Write a register; without a stamp and value if it was never written.
 */
void
lww_encode(CrdtBuf *out, const Lww *lww)
{
	lww_empty(out);
	if (!lww->written)
		return;
	put_stamp(out, &lww->stamp);
	crdt_put_string(out, lww->value);
}

/*
 * Return the contents of a dc_lww that has been checked. Node and value are views.
 */
Lww
lww_decode(CrdtBytes state)
{
	const uint8_t *next = state.data + 1;
	Lww lww = {false, {0, {NULL, 0}}, {NULL, 0}};

	lww.written = state.len > 1;
	if (lww.written)
	{
		lww.stamp = get_stamp(&next);
		lww.value = crdt_get_string(&next);
	}
	return lww;
}

/*
 * Compare two registers: one that was never written comes first, then by stamp, then by value.
 * Return more than 0 if a wins a merge.
 */
static int
lww_compare(CrdtBytes a, CrdtBytes b)
{
	Lww lww_a = lww_decode(a);
	Lww lww_b = lww_decode(b);
	int order;

	if (!lww_a.written || !lww_b.written)
		return (int) lww_a.written - (int) lww_b.written;
	order = stamp_compare(&lww_a.stamp, &lww_b.stamp);
	return order != 0 ? order : crdt_compare(lww_a.value, lww_b.value);
}

/*
 * Write the register that wins.
 */
static void
lww_merge(CrdtBuf *out, CrdtBytes a, CrdtBytes b)
{
	put_state(out, lww_compare(a, b) >= 0 ? a : b);
}

/*
 * Write `after` if it wins against `before`, and otherwise an unwritten register, whose merge
 * changes nothing.
 */
static void
lww_delta(CrdtBuf *out, CrdtBytes after, CrdtBytes before)
{
	if (lww_compare(after, before) > 0)
		put_state(out, after);
	else
		lww_empty(out);
}

const CrdtType crdt_hlc = {CRDT_HLC, "dc_hlc", hlc_check, hlc_merge, NULL};
const CrdtType crdt_lww = {CRDT_LWW, "dc_lww", lww_check, lww_merge, lww_delta};
