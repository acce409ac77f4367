/*
 * observed.c
 *		What sets have observed of slots, as states of dc_pncounter, and the values that follow from
 *		it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A node is region:epoch. Its amounts are those of the slot that were observed; its amounts
 * of resets are not zero if the slot was closed by a deletion (sets.h). Sums are of 128 bits:
 * there are fewer than 2^26 nodes.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/key.h"
#include "region/sets.h"
#include "types/crdt/crdttype.h"

#define MAX_REGION_BYTES 40

static int observed_compare_entries(const void *a, const void *b);

/*
 * observed_wrong returns what is wrong with a state that comes from elsewhere, as a sentence, or
 * NULL. The server has checked that it is a state.
 */
const char *
observed_wrong(Datum upto)
{
	AmountsIter iter = amounts_iter(crdt_bytes_of(upto));
	AmountsEntry entry;
	DcRegionRow row;

	while (amounts_next(&iter, &entry))
	{
		CHECK_FOR_INTERRUPTS();
		if (!observed_node(entry.node, &row))
			return _("A node is not the name of a region and an epoch.");
	}
	return NULL;
}

/*
 * observed_node sets the region and epoch of a node; false if it is none. Each has only one
 * spelling.
 */
bool
observed_node(CrdtString node, DcRegionRow *row)
{
	char name[CRDT_MAX_NODE + 1];
	size_t len;
	char *end;

	if (node.len > CRDT_MAX_NODE)
		return false;
	memcpy(name, node.data, node.len);
	name[node.len] = '\0';
	len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
	if (len == 0 || len > MAX_REGION_BYTES || name[len] != ':' || name[len + 1] < '1' || name[len + 1] > '9')
		return false;
	errno = 0;
	row->epoch = strtoi64(name + len + 1, &end, 10);
	row->region = PointerGetDatum(cstring_to_text_with_len(name, (int) len));
	return errno == 0 && *end == '\0' && strlen(name) == node.len;
}

/*
 * observed_slots returns the state of slots (DcRegionRow). Slots with an epoch below zero are
 * sealed, and must not be observed.
 */
Datum
observed_slots(const List *slots)
{
	AmountsEntry *entries = palloc(Max(list_length(slots), 1) * sizeof(AmountsEntry));
	CrdtBuf buf = {NULL, 0, 0};
	size_t n = 0;
	ListCell *lc;

	foreach(lc, slots)
	{
		const DcRegionRow *row = lfirst(lc);
		char *node;

		if (row->epoch <= 0 || (row->inc <= 0 && row->dec <= 0))
			continue;
		node = psprintf("%s:" INT64_FORMAT, TextDatumGetCString(row->region), row->epoch);
		entries[n++] = (AmountsEntry){.node = {node, strlen(node)}, .amounts = {Max(row->inc, 0), Max(row->dec, 0)}};
	}
	qsort(entries, n, sizeof(AmountsEntry), observed_compare_entries);
	amounts_encode(&buf, CRDT_PNCOUNTER, entries, n);
	return crdt_datum(&buf);
}

/*
 * Compare two entries by their nodes, for qsort().
 */
static int
observed_compare_entries(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return crdt_compare(((const AmountsEntry *) a)->node, ((const AmountsEntry *) b)->node);
}

/*
 * Return true if `by` contains all of a state.
 */
bool
observed_covers(Datum state, Datum by)
{
	return crdt_same(crdt_bytes_of(crdt_merge_datums(state, by)), crdt_bytes_of(by));
}

/*
 * observed_close closes the slots of a state.
 */
Datum
observed_close(Datum state)
{
	CrdtBuf buf = {NULL, 0, 0};

	amounts_reset(&buf, crdt_bytes_of(state));
	return crdt_datum(&buf);
}

/*
 * observed_find finds a slot's amounts in a state; false if it has none.
 */
bool
observed_find(Datum state, const DcRegionRow *row, AmountsEntry *entry)
{
	char *node = psprintf("%s:" INT64_FORMAT, TextDatumGetCString(row->region), row->epoch);
	CrdtString name = {node, strlen(node)};
	AmountsIter iter = amounts_iter(crdt_bytes_of(state));
	int order = -1;

	while (order < 0 && amounts_next(&iter, entry))
		order = crdt_compare(entry->node, name);
	pfree(node);
	return order == 0;
}

/*
 * Return true if a deletion has closed the slot.
 */
bool
observed_is_closed(Datum state, const DcRegionRow *row)
{
	AmountsEntry entry;

	return observed_find(state, row, &entry) &&
		(entry.amounts[AMOUNT_INC_RESET] > 0 || entry.amounts[AMOUNT_DEC_RESET] > 0);
}

/*
 * sets_observed is what any of the rows of a key has observed: the base of each slot. An owner may
 * have written very many rows. So states are merged in pairs, and the results again, and each is
 * freed as soon as possible.
 */
Datum
sets_observed(const DcSetRows *rows)
{
	Datum *states = palloc(Max(rows->n, 1) * sizeof(Datum));
	Datum all;

	states[0] = observed_slots(NIL);
	for (int i = 0; i < rows->n; i++)
		states[i] = rows->rows[i].upto;
	for (int step = 1; step < rows->n; step *= 2)
	{
		for (int i = 0; i + step < rows->n; i += 2 * step)
		{
			Datum merged = crdt_merge_datums(states[i], states[i + step]);

			CHECK_FOR_INTERRUPTS();
			if (merged != states[i] && states[i] != rows->rows[i].upto)
				pfree(DatumGetPointer(states[i]));
			if (states[i + step] != rows->rows[i + step].upto)
				pfree(DatumGetPointer(states[i + step]));
			states[i] = merged;
		}
	}
	all = states[0];
	pfree(states);
	return all;
}

/*
 * sets_last returns the row whose value holds, the latest one, or NULL.
 */
const DcSetRow *
sets_last(const DcSetRows *rows)
{
	const DcSetRow *last = NULL;

	for (int i = 0; i < rows->n; i++)
	{
		const DcSetRow *row = &rows->rows[i];

		/* they are in the order of regions */
		if (last == NULL || row->hlc >= last->hlc)
			last = row;
	}
	return last;
}

/*
 * set_rows_put adds a row to those of its key, in the place of its region's earlier one. It does
 * not change the existing rows.
 */
void
set_rows_put(DcSetRows *rows, const DcSetRow *row)
{
	DcSetRow *all = palloc((rows->n + 1) * sizeof(DcSetRow));
	int n = 0;
	bool put = false;

	for (int i = 0; i < rows->n; i++)
	{
		int order = texts_compare(rows->rows[i].region, row->region);

		if (order >= 0 && !put)
			all[n++] = *row;
		put |= order >= 0;
		if (order != 0)
			all[n++] = rows->rows[i];
	}
	if (!put)
		all[n++] = *row;
	*rows = (DcSetRows){.n = n, .rows = all};
}

/*
 * Return true if a row that comes is later than the existing one of the same region. If two
 * databases have the region's name, there may be two rows with one stamp; then all databases choose
 * the same one.
 */
bool
set_wins(const DcSetRow *come, const DcSetRow *have)
{
	if (come->hlc != have->hlc)
		return come->hlc > have->hlc;
	if (come->value != have->value)
		return come->value > have->value;
	return come->deleted && !have->deleted;
}

/*
 * sets_tally returns the part of a key's value that comes from its rows: W less all bases.
 */
DcTally
sets_tally(const DcSetRows *rows)
{
	const DcSetRow *last = sets_last(rows);
	AmountsIter iter = amounts_iter(crdt_bytes_of(sets_observed(rows)));
	AmountsEntry entry;
	DcTally tally = {0, 0};

	if (last != NULL && last->value > 0)
		tally.inc = last->value;
	else if (last != NULL)
		tally.dec = -(__int128) last->value;
	while (amounts_next(&iter, &entry))
	{
		tally.inc -= entry.amounts[AMOUNT_INC];
		tally.dec -= entry.amounts[AMOUNT_DEC];
	}
	return tally;
}

/*
 * slots_tally returns the other part: the sum of the slots.
 */
DcTally
slots_tally(const List *slots)
{
	DcTally tally = {0, 0};
	ListCell *lc;

	foreach(lc, slots)
	{
		const DcRegionRow *row = lfirst(lc);

		tally.inc += row->inc;
		tally.dec += row->dec;
	}
	return tally;
}

/*
 * tally_to_bigint raises 22003 for a sum that overflows bigint.
 */
int64
tally_to_bigint(__int128 sum)
{
	if (sum < PG_INT64_MIN || sum > PG_INT64_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	return (int64) sum;
}
