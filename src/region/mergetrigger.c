/*
 * mergetrigger.c
 *		The common part of the triggers for rows that come from other regions.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They fire in the workers of logical replication, for what these insert (a first copy of the table
 * included) and for what they update. A row that is not there is inserted here, not by the caller:
 * where two links bring it, that would be a unique violation for one of them. For an update the
 * caller has the row locked, and writes what the trigger returns. NULL skips a row quietly.
 *
 * Where a subscription brings the other tables of the counter as well, this database is not a
 * region but has a copy of one (core/table/subscription.c). So rows are taken as they are.
 *
 * The role is that of the subscription's owner, in PostgreSQL 15 a superuser. No code of the
 * counter's owner runs: direct writes call none, and writes by SQL, for example to shard tables
 * that have triggers, run as their owner (base/runas.c). Any role that may execute these functions
 * may put them on a table of its own: they raise an error if that is not one of a counter.
 *
 * The contents of a row must not raise an error, which would stop everything that a link brings
 * (passedover.c). So everything that could make the merge fail is checked: nulls, names, keys that
 * no index takes, and impossible numbers.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "base/rowread.h"
#include "core/table/access.h"
#include "region/merge.h"
#include "region/rights.h"

static bool is_of_stock(const DcMergeKind *kind);
static DcCounter *counter_of(Relation rel, const DcMergeKind *kind, DcCounter **last);
static bool columns_of(const DcMerge *merge, const DcMergeKind *kind, HeapTuple tuple, Datum *columns);
static const char *key_problem(const DcMerge *merge, const DcMergeKind *kind);
static bool mergetrigger_same_key(const DcMerge *merge, const DcMergeKind *kind);
static bool same_value(const DcShape *shape, int column, Datum a, Datum b);
static bool keep_greater(DcMerge *merge, const DcMergeKind *kind);
static bool put_greater(DcMerge *merge, const DcMergeKind *kind, int64 *before);
static bool is_row_of(DcRegionRel *rel, const DcMerge *merge, const DcMergeKind *kind);
static bool replace_lesser(DcRegionRel *rel, DcMerge *merge, const DcMergeKind *kind, int64 *before, bool *written);

/*
 * Return what a trigger was called for. Raise 39P01 if that is not BEFORE INSERT OR UPDATE FOR EACH
 * ROW.
 */
TriggerData *
merge_trigger_data(FunctionCallInfo fcinfo, const char *function)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	trigger_check(fcinfo, function);
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		TRIGGER_FIRED_BY_DELETE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as a trigger, %s", function, "BEFORE INSERT OR UPDATE FOR EACH ROW")));
	return data;
}

/*
 * Merge a row, and return what a trigger function does. *last belongs to the trigger function: most
 * consecutive rows are of one counter.
 *
 * Errors: 55000 if the table does not belong to a replicated counter; those of a counter table that
 * cannot be written to. All of these stop the subscription until the cause is removed; then nothing
 * is lost.
 */
Datum
merge_trigger(FunctionCallInfo fcinfo, const DcMergeKind *kind, DcCounter **last)
{
	TriggerData *data = merge_trigger_data(fcinfo, kind->function);
	DcMerge merge = {.rel = data->tg_relation, .update = TRIGGER_FIRED_BY_UPDATE(data->tg_event)};
	const char *problem;

	merge.counter = counter_of(merge.rel, kind, last);
	merge.layout = region_layout(merge.counter, merge.rel, kind->table);
	merge.tuple = merge.update ? data->tg_newtuple : data->tg_trigtuple;
	if (merge.counter->fed)
		return PointerGetDatum(merge.tuple);
	if (is_of_stock(kind) && (problem = rights_problem(merge.counter)) != NULL)
		return region_row_missed(merge.rel, merge.counter, problem);
	if (!columns_of(&merge, kind, merge.tuple, merge.come))
		problem = _("A column is null.");
	else if ((problem = key_problem(&merge, kind)) == NULL)
		problem = kind->problem(&merge);
	if (problem == NULL && merge.update)
	{
		if (!columns_of(&merge, kind, data->tg_trigtuple, merge.have))
			elog(ERROR, "a row of \"%s\" has a null", RelationGetRelationName(merge.rel));
		if (!mergetrigger_same_key(&merge, kind))
			problem = _(kind->other);
	}
	if (problem != NULL)
		return region_row_passed_over(merge.rel, merge.counter, problem);
	if (kind->raised != NULL)
		return PointerGetDatum(keep_greater(&merge, kind) && merge.update ? merge.tuple : NULL);
	if (merge.update)
		return PointerGetDatum(kind->update(&merge));
	kind->insert(&merge);
	return PointerGetDatum(NULL);
}

/*
 * Return true if the rows are of a stock: grants or wants.
 */
static bool
is_of_stock(const DcMergeKind *kind)
{
	return kind->table == TABLE_OF_GRANTS || kind->table == TABLE_OF_WANTS;
}

/*
 * Return the counter that a table belongs to.
 */
static DcCounter *
counter_of(Relation rel, const DcMergeKind *kind, DcCounter **last)
{
	static bool (*const read[])(Oid relid, DcCounterRow * row) = {catalog_read_by_regions, catalog_read_by_sets,
																  catalog_read_by_grants, catalog_read_by_wants};
	Oid relid = RelationGetRelid(rel);
	DcCounterRow row;

	if (*last != NULL && (*last)->valid && region_table_of(&(*last)->row, kind->table) == relid)
		return *last;
	*last = NULL;
	if (!read[kind->table](relid, &row))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 is_of_stock(kind) ? errmsg("\"%s\" does not belong to a replicated stock", RelationGetRelationName(rel))
								   : errmsg("\"%s\" does not belong to a replicated counter table", RelationGetRelationName(rel)),
				 is_of_stock(kind) ? errhint("Call dc_adopt() for the stock, or drop the table.")
								   : errhint("Call dc_adopt() for the counter table, or drop the table.")));
	return *last = counter_lookup(row.counter);
}

/*
 * Deform a tuple; false if a column is null.
 */
static bool
columns_of(const DcMerge *merge, const DcMergeKind *kind, HeapTuple tuple, Datum *columns)
{
	Datum values[MaxTupleAttributeNumber];
	bool nulls[MaxTupleAttributeNumber];

	heap_deform_tuple(tuple, RelationGetDescr(merge->rel), values, nulls);
	for (int i = 0; i < region_shape_of(kind->table)->ncolumns; i++)
	{
		if (nulls[merge->layout->atts[i] - 1])
			return false;
		columns[i] = values[merge->layout->atts[i] - 1];
	}
	return true;
}

/*
 * Return what is wrong with the key, as a sentence, or NULL. Its first column is the counter's key,
 * and its other texts are names of regions.
 */
static const char *
key_problem(const DcMerge *merge, const DcMergeKind *kind)
{
	const DcShape *shape = region_shape_of(kind->table);

	if (toast_raw_datum_size(merge->come[shape->keys[0]]) - VARHDRSZ > DC_MAX_KEY_BYTES)
		return _("The key is too long.");
	for (int i = 1; i < shape->nkeys; i++)
	{
		Datum value = merge->come[shape->keys[i]];

		if (shape->columns[shape->keys[i]].type == TEXTOID &&
			(toast_raw_datum_size(value) - VARHDRSZ >= NAMEDATALEN || !region_name_is_valid(TextDatumGetCString(value))))
			return _("The name of the region is not valid.");
	}
	return NULL;
}

/*
 * Return true if a row that comes has the key of the existing one.
 */
static bool
mergetrigger_same_key(const DcMerge *merge, const DcMergeKind *kind)
{
	const DcShape *shape = region_shape_of(kind->table);

	for (int i = 0; i < shape->nkeys; i++)
	{
		if (!same_value(shape, shape->keys[i], merge->come[shape->keys[i]], merge->have[shape->keys[i]]))
			return false;
	}
	return true;
}

/*
 * Return true if two values of a column, which is a text or a bigint, are equal.
 */
static bool
same_value(const DcShape *shape, int column, Datum a, Datum b)
{
	return shape->columns[column].type == TEXTOID ? batch_key_equal(a, b) : DatumGetInt64(a) == DatumGetInt64(b);
}

/*
 * Lock the tables of a counter that are written to. Raise 55000 if it was dropped.
 */
DcCounter *
merge_lock(const DcMerge *merge)
{
	Oid relid = merge->counter->relid;

	if (!counter_lock(relid, RowExclusiveLock))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("counter table \"%s\" was dropped", get_rel_name(relid))));
	return counter_lookup(relid); /* the same entry */
}

/*
 * Make a tuple of n columns.
 */
HeapTuple
merge_form(const DcMerge *merge, const Datum *columns, int n)
{
	return keyrow_form(merge->rel, merge->layout->atts, columns, NULL, n);
}

/*
 * Return true if the row that comes is kept.
 */
static bool
keep_greater(DcMerge *merge, const DcMergeKind *kind)
{
	int64 come = DatumGetInt64(merge->come[kind->number]);
	int64 before = 0;

	if (!merge->update)
	{
		(void) merge_lock(merge); /* before rows */
		if (!put_greater(merge, kind, &before))
			return false;
	}
	else if (come <= (before = DatumGetInt64(merge->have[kind->number])))
		return false;
	kind->raised(merge, come - Max(before, 0));
	return true;
}

/*
 * Write the row that comes, and set *before to the number of the one that was there, if any. Wait
 * for transactions that write it, unless there is nothing to write: then return false.
 */
static bool
put_greater(DcMerge *merge, const DcMergeKind *kind, int64 *before)
{
	const DcShape *shape = region_shape_of(kind->table);
	ScanKeyData keys[SHAPE_MAX_KEYS];
	bool written = false;
	bool done = false;
	DcRegionRel rel;

	for (int i = 0; i < shape->nkeys; i++)
	{
		if (shape->columns[shape->keys[i]].type == TEXTOID)
			keyrow_text(&keys[i], i + 1, merge->come[shape->keys[i]]);
		else
			keyrow_bigint(&keys[i], i + 1, DatumGetInt64(merge->come[shape->keys[i]]));
	}
	regionrel_open(&rel, merge->counter, kind->table, NoLock);
	while (!done)
	{
		CHECK_FOR_INTERRUPTS();
		keyrow_store(rel.slot, rel.heap, rel.layout->atts, merge->come, NULL, shape->ncolumns);
		if (regionrel_find(&rel, keys, shape->nkeys))
			done = replace_lesser(&rel, merge, kind, before, &written);
		else if (keyrow_try_insert(rel.heap, rel.index, rel.slot))
			done = written = true;
		else
			(void) keyrow_wait(rel.heap, rel.index, keys, shape->nkeys, rel.found);
	}
	regionrel_close(&rel);
	if (written)
		CommandCounterIncrement();
	return written;
}

/*
 * Return true if rel->found is the row of the key that comes: its owner may have changed its key by
 * hand.
 */
static bool
is_row_of(DcRegionRel *rel, const DcMerge *merge, const DcMergeKind *kind)
{
	const DcShape *shape = region_shape_of(kind->table);

	for (int i = 0; i < shape->nkeys; i++)
	{
		int column = shape->keys[i];
		Datum value = slot_datum(rel->found, rel->layout->atts[column], shape->columns[column].type);

		if (!same_value(shape, column, value, merge->come[column]))
			return false;
	}
	return true;
}

/*
 * Do so for a row that was found; false if it no longer exists.
 */
static bool
replace_lesser(DcRegionRel *rel, DcMerge *merge, const DcMergeKind *kind, int64 *before, bool *written)
{
	AttrNumber att = rel->layout->atts[kind->number];
	int64 come = DatumGetInt64(merge->come[kind->number]);
	ItemPointerData tid = rel->found->tts_tid;

	if (come <= DatumGetInt64(slot_datum(rel->found, att, INT8OID)))
		return true;
	if (!regionrel_lock(rel, &tid) || !is_row_of(rel, merge, kind))
		return false;
	*before = DatumGetInt64(slot_datum(rel->found, att, INT8OID));
	if (come <= *before)
		return true;
	if (!keyrow_replace(rel->heap, &rel->found->tts_tid, rel->slot, true))
		elog(ERROR, "locked row of \"%s\" could not be updated", RelationGetRelationName(rel->heap));
	*written = true;
	return true;
}
