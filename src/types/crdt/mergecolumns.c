/*
 * mergecolumns.c
 *		dcounter.merge_row(): what two versions of a row become, column by column.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- States (the mergeable types, and dc_hll) merge. Of dc_cms and dc_topk the later state is
 *	  kept (mergetypes.c). NULL is before every state.
 *	- The stamp and all other columns but the key are one group. The group with the later
 *	  stamp wins as a whole, so what a user has written together stays together. No stamp
 *	  (NULL) is before every stamp.
 *	- Of two groups that differ under one stamp, as somebody has forgotten to take a new one,
 *	  the greater wins, by an order that is the same in all databases: columns in the order of
 *	  their names, NULL first, then the bytes of the type's send function, or those of its
 *	  text if it has none. Of the settings, which are the session's, those that such bytes
 *	  depend on are pinned. So all databases keep the same one; it does not matter which.
 *
 * The merge of two rows is thus the least upper bound of both, whatever their order, and merging a
 * row again changes nothing. A state that does not change stays the same value, not a copy, so a
 * value in TOAST is not stored again.
 *
 * All memory is the caller's, who is called once a row.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

#include "base/compat.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "types/crdt/crdttype.h"
#include "types/crdt/hlcclock.h"
#include "types/crdt/mergerow.h"
#include "types/crdt/stamp.h"

extern Datum dc_hll_union(PG_FUNCTION_ARGS);

static void merged_begin(const MergeTable *table, MergedRow *merged);
static void merge_state(const MergeTable *table, AttrNumber att, TupleTableSlot *old,
						TupleTableSlot *new, MergedRow *merged);
static Datum merge_datums(const MergeColumn *column, Datum old, Datum new, bool *is_old, bool *is_new);
static void observe_value(const MergeColumn *column, Datum value);
static int compare_row_stamps(const MergeTable *table, TupleTableSlot *a, TupleTableSlot *b);
static bool group_is_same(const MergeTable *table, TupleTableSlot *a, TupleTableSlot *b);
static int compare_groups(const MergeTable *table, TupleTableSlot *a, TupleTableSlot *b);
static int compare_bytes(const MergeColumn *column, Datum a, Datum b);
static bytea *value_bytes(const MergeColumn *column, Datum value);

/*
 * merge_rows merges a row that has come into the existing one. The clock learns of the stamps that
 * come in by it (22023 if one is too far ahead).
 */
void
merge_rows(const MergeTable *table, TupleTableSlot *old, TupleTableSlot *new, MergedRow *merged)
{
	int order = compare_row_stamps(table, old, new);

	merged_begin(table, merged);
	for (int i = 0; i < table->natts; i++)
	{
		if (table->columns[i].role == MERGE_STATE)
			merge_state(table, i + 1, old, new, merged);
	}
	if (order == 0)
		order = compare_groups(table, old, new);
	if (order < 0)
	{
		bool isnull;

		merged->changes = true;
		if (table->stamp != 0)
		{
			Datum stamp = merge_value(table, new, table->stamp, &isnull);

			if (!isnull)
				observe_value(&table->columns[table->stamp - 1], stamp);
		}
		return;
	}
	for (int i = 0; i < table->ngroup; i++)
	{
		AttrNumber att = table->group[i];
		bool isnull;
		Datum value = merge_value(table, old, att, &isnull);

		merge_replace(merged, att, value, isnull);
	}
	if (table->stamp != 0)
	{
		bool isnull;
		Datum value = merge_value(table, old, table->stamp, &isnull);

		merge_replace(merged, table->stamp, value, isnull);
	}
}

/*
 * merge_states merges the states alone.
 */
void
merge_states(const MergeTable *table, TupleTableSlot *old, TupleTableSlot *new, MergedRow *merged)
{
	merged_begin(table, merged);
	for (int i = 0; i < table->natts; i++)
	{
		if (table->columns[i].role == MERGE_STATE)
			merge_state(table, i + 1, old, new, merged);
	}
}

/*
 * Prepare the result of a merge, with room for all columns of the table.
 */
static void
merged_begin(const MergeTable *table, MergedRow *merged)
{
	merged->changes = false;
	merged->n = 0;
	merged->columns = palloc(table->natts * sizeof(int));
	merged->values = palloc(table->natts * sizeof(Datum));
	merged->nulls = palloc(table->natts * sizeof(bool));
}

/*
 * merge_replace gives a column another value than the row that has come has.
 */
void
merge_replace(MergedRow *merged, AttrNumber att, Datum value, bool isnull)
{
	merged->columns[merged->n] = att;
	merged->values[merged->n] = value;
	merged->nulls[merged->n] = isnull;
	merged->n++;
}

/*
 * merge_value reads a column of a row of the table.
 */
Datum
merge_value(const MergeTable *table, TupleTableSlot *row, AttrNumber att, bool *isnull)
{
	return slot_nullable(row, att, table->columns[att - 1].type, isnull);
}

/*
 * Merge the states of one column. If the result is not the value that came, put it into `merged`;
 * set merged->changes if it is not the value that is there.
 */
static void
merge_state(const MergeTable *table, AttrNumber att, TupleTableSlot *old, TupleTableSlot *new,
			MergedRow *merged)
{
	const MergeColumn *column = &table->columns[att - 1];
	bool old_null;
	bool new_null;
	Datum old_value = merge_value(table, old, att, &old_null);
	Datum new_value = merge_value(table, new, att, &new_null);
	bool is_old = new_null;
	bool is_new = old_null;
	Datum value = new_null ? old_value : new_value;

	if (!is_old && !is_new)
	{
		if (merge_same(column, old_value, false, new_value, false))
			return;
		value = merge_datums(column, old_value, new_value, &is_old, &is_new);
	}
	else if (is_old && is_new)
		return;
	if (!is_old)
	{
		merged->changes = true;
		observe_value(column, new_value);
	}
	if (is_new)
		return;
	if (!is_old && column->is_domain)
		domain_check(value, false, column->type, NULL, NULL);
	merge_replace(merged, att, value, is_old && old_null);
}

/*
 * merge_datums merges two states; the result is one of them if they say the same.
 */
static Datum
merge_datums(const MergeColumn *column, Datum old, Datum new, bool *is_old, bool *is_new)
{
	Datum merged;

	if (column->total != NULL)
	{
		*is_new = merge_sketch_is_later(column, new, old);
		*is_old = !*is_new;
		return *is_new ? new : old;
	}
	if (column->state == NULL)
		merged = DirectFunctionCall2(dc_hll_union, old, new);
	else
		merged = crdt_merge_datums(old, new);
	*is_old = datum_image_eq(merged, old, false, -1);
	*is_new = !*is_old && datum_image_eq(merged, new, false, -1);
	return *is_old ? old : *is_new ? new
								   : merged;
}

/*
 * merge_observe tells the clock of all stamps of a row that has come.
 */
void
merge_observe(const MergeTable *table, TupleTableSlot *row)
{
	for (int i = 0; i < table->natts; i++)
	{
		const MergeColumn *column = &table->columns[i];
		bool isnull;
		Datum value;

		if (column->role != MERGE_STATE && column->role != MERGE_STAMP)
			continue;
		value = merge_value(table, row, i + 1, &isnull);
		if (!isnull)
			observe_value(column, value);
	}
}

/*
 * Move the clock past the stamp in a dc_hlc or dc_lww value; 22023 if it is too far ahead. Other
 * types have no stamps.
 */
static void
observe_value(const MergeColumn *column, Datum value)
{
	if (column->state == &crdt_hlc)
		hlc_clock_observe(hlc_decode(crdt_bytes_of(value)).time);
	else if (column->state == &crdt_lww)
	{
		Lww lww = lww_decode(crdt_bytes_of(value));

		if (lww.written)
			hlc_clock_observe(lww.stamp.time);
	}
}

/*
 * compare_row_stamps tells which row's group is later: less than 0 if it is that of b.
 */
static int
compare_row_stamps(const MergeTable *table, TupleTableSlot *a, TupleTableSlot *b)
{
	bool a_null;
	bool b_null;
	Datum a_value;
	Datum b_value;
	Stamp a_stamp;
	Stamp b_stamp;

	if (table->stamp == 0)
		return 0;
	a_value = merge_value(table, a, table->stamp, &a_null);
	b_value = merge_value(table, b, table->stamp, &b_null);
	if (a_null || b_null)
		return (int) b_null - (int) a_null;
	a_stamp = hlc_decode(crdt_bytes_of(a_value));
	b_stamp = hlc_decode(crdt_bytes_of(b_value));
	return stamp_compare(&a_stamp, &b_stamp);
}

/*
 * Return true if two values of a column are the same, byte by byte. Of values that are
 * stored apart, it first checks whether they are one and the same.
 */
bool
merge_same(const MergeColumn *column, Datum a, bool a_null, Datum b, bool b_null)
{
	if (a_null || b_null)
		return a_null && b_null;
	if (column->len == -1 &&
		VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(a)) && VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(b)) &&
		memcmp(DatumGetPointer(a), DatumGetPointer(b), VARSIZE_EXTERNAL(DatumGetPointer(a))) == 0)
		return true;
	return datum_image_eq(a, b, column->by_value, column->len);
}

/*
 * Return true if two rows have the same values in all columns of the group.
 */
static bool
group_is_same(const MergeTable *table, TupleTableSlot *a, TupleTableSlot *b)
{
	for (int i = 0; i < table->ngroup; i++)
	{
		AttrNumber att = table->group[i];
		bool a_null;
		bool b_null;
		Datum a_value = merge_value(table, a, att, &a_null);
		Datum b_value = merge_value(table, b, att, &b_null);

		if (!merge_same(&table->columns[att - 1], a_value, a_null, b_value, b_null))
			return false;
	}
	return true;
}

/*
 * compare_groups gives the order of two groups of one stamp. search_path and client_encoding are
 * those that some types' functions depend on.
 */
static int
compare_groups(const MergeTable *table, TupleTableSlot *a, TupleTableSlot *b)
{
	int order = 0;
	int level;

	if (group_is_same(table, a, b))
		return 0;
	level = search_path_pin();
	set_config_option("client_encoding", GetDatabaseEncodingName(), PGC_USERSET,
					  PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	for (int i = 0; i < table->ngroup && order == 0; i++)
	{
		AttrNumber att = table->group[i];
		bool a_null;
		bool b_null;
		Datum a_value = merge_value(table, a, att, &a_null);
		Datum b_value = merge_value(table, b, att, &b_null);

		if (a_null || b_null)
			order = (int) b_null - (int) a_null;
		else
			order = compare_bytes(&table->columns[att - 1], a_value, b_value);
	}
	AtEOXact_GUC(false, level);
	return order;
}

/*
 * Compare two values of a column, neither of them NULL, by the bytes of value_bytes().
 */
static int
compare_bytes(const MergeColumn *column, Datum a, Datum b)
{
	bytea *a_bytes = value_bytes(column, a);
	bytea *b_bytes = value_bytes(column, b);

	return crdt_compare((CrdtString){VARDATA_ANY(a_bytes), VARSIZE_ANY_EXHDR(a_bytes)},
						(CrdtString){VARDATA_ANY(b_bytes), VARSIZE_ANY_EXHDR(b_bytes)});
}

/*
 * Return a value as its type's send function gives it, or as text if the type has none.
 */
static bytea *
value_bytes(const MergeColumn *column, Datum value)
{
	/* the functions are those of the cache, which another row may need in the meantime */
	FmgrInfo bytes;

	fmgr_info_copy(&bytes, (FmgrInfo *) &column->bytes, CurrentMemoryContext);
	if (column->bytes_are_text)
		return (bytea *) cstring_to_text(OutputFunctionCall(&bytes, value));
	return DatumGetByteaPP(PointerGetDatum(SendFunctionCall(&bytes, value)));
}
