/*
 * mergerow.c
 *		dcounter.merge_row(): the trigger by which rows of the same key merge, instead of one
 *		overwriting the other.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each database has the table, users write to all of them, and built-in logical replication
 * takes the rows to the others. There the trigger replaces the existing row by the least upper
 * bound of it and the incoming one (mergecolumns.c). That is the same in whatever order rows come,
 * and however often, so all tables become equal.
 *
 * Rows that are applied (session_replication_role is replica, as in an apply worker or
 * the copy of a table):
 *
 *	- UPDATE: the row becomes the merged one. If it is that already, nothing is written. So a row
 *	  that goes around a ring, or returns to its writer, ends there.
 *	- INSERT: another row of the key may be there, or may be written by another session at this
 *	  very moment. First the trigger looks for it, without a lock. If the row that comes adds
 *	  nothing, that is all: no lock is taken, so those who copy a table that is there already
 *	  and those who apply its changes, in another order, mostly do not wait for each other.
 *	  Otherwise a nested statement, INSERT ... ON CONFLICT (key) DO UPDATE, inserts the row, or
 *	  locks the existing one and updates it, which fires this trigger, and that merges with the
 *	  newest version of the row, whether the snapshot sees it or not. The server ensures that one of
 *	  the two happens. So the row that came has been handled, and is not inserted again.
 *
 * The nested statement also fires this trigger, one level deeper, and there its row passes. It runs
 * as the role that runs the outer statement, with the rights, the triggers and the checks that
 * apply to that role anyway; it is no more than what an upsert of that role would do. (In an apply
 * worker that is the subscription's owner, or since version 16 the table's.) Row-level security
 * would hide the row that is in the way; apply workers refuse tables with it for roles that are
 * subject to it, and so does this.
 *
 * Code of the table's owner may run at several points: as triggers that fire before, in functions
 * of types. It cannot alter the table, which the outer statement has open, nor drop the index. It
 * can rename things, so the nested statement is created when it is needed (mergerowcache.c). If it
 * has written rows of another table all the same, that is found afterwards, as this trigger has not
 * fired, and is an error, which undoes it.
 *
 * Rows that users write:
 *
 *	- INSERT: a row without a stamp gets one. Here as in an update, stamps that the user gives,
 *	  also within registers, may not be too far ahead: the other databases would not take them.
 *	- UPDATE: states merge with those that are there, so one that was read before cannot undo later
 *	  changes. If a column of the group changes, the row gets a new stamp, later than the one it
 *	  has, unless the user has set a later one. The values of the group that are in TOAST and do not
 *	  change are stored again: otherwise they would not be sent, and the receiver would put its own
 *	  values, perhaps those of another writer, under this stamp.
 *	- The key does not change: elsewhere this would be another row, and the old one stay.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "types/crdt/crdttype.h"
#include "types/crdt/hlcclock.h"
#include "types/crdt/mergerow.h"
#include "types/crdt/stamp.h"

PG_FUNCTION_INFO_V1(merge_row);

#define MERGE_NAME "merge_row()"

/* A nested statement, whose row passes. */
typedef struct Passing
{
	Oid relid;
	int depth; /* of the triggers that it fires */
	bool fired;
	TupleTableSlot *row;
	struct Passing *outer;
} Passing;

/* In the frame of the call that runs the statement, which clears it on each way out. */
static Passing *passing = NULL;

static void mergerow_check_call(FunctionCallInfo fcinfo);
static Passing *passing_of(const TriggerData *data);
static int trigger_depth(void);
static HeapTuple apply_insert(TriggerData *data, const MergeTable *table);
static void check_row_security(Relation rel);
static bool adds_nothing(const MergeTable *table, Relation rel, TupleTableSlot *row);
static bool mergerow_find_row(const MergeTable *table, Relation rel, TupleTableSlot *row, Relation index,
							  TupleTableSlot *found);
static void mergerow_upsert(TriggerData *data);
static void run_upsert(TriggerData *data, Passing *pass);
static HeapTuple apply_update(TriggerData *data, const MergeTable *table, const Passing *pass);
static TupleTableSlot *with_identities(const MergeTable *table, TriggerData *data, const Passing *pass);
static HeapTuple user_insert(TriggerData *data, const MergeTable *table);
static HeapTuple user_update(TriggerData *data, const MergeTable *table);
static void check_key(const MergeTable *table, TriggerData *data);
static bool group_differs(const MergeTable *table, TriggerData *data);
static bool column_differs(const MergeTable *table, AttrNumber att, TupleTableSlot *a, TupleTableSlot *b);
static void renew_stamp(const MergeTable *table, TriggerData *data, MergedRow *merged);
static void fetch_group(const MergeTable *table, TriggerData *data, MergedRow *merged);
static Datum new_row_stamp(int64 seen);
static HeapTuple mergerow_replaced(HeapTuple tuple, Relation rel, const MergedRow *merged);

/*
 * merge_row([column, ...] [, 'stamp=column']) -> trigger, BEFORE INSERT OR UPDATE FOR EACH ROW
 *
 * Without columns, all columns of a mergeable type merge.
 *
 * Errors: 39P01 if it is called by another kind of trigger, 42703, 42701, 42804, 42P10 for
 * arguments that do not fit the table, 42P16 if it needs a stamp, 42809 or 0A000 for tables that it
 * cannot work on, 55000 without a key or a node's name, 0A000 if a user changes the key, 22023 for
 * a stamp too far ahead.
 */
Datum
merge_row(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	const MergeTable *table;
	const Passing *pass;
	bool applied = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
	HeapTuple result;

	mergerow_check_call(fcinfo);
	table = merge_table_find(data);
	pass = passing_of(data);
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		result = applied ? apply_update(data, table, pass) : user_update(data, table);
	else if (pass != NULL)
		result = data->tg_trigtuple;
	else
		result = applied ? apply_insert(data, table) : user_insert(data, table);
	return PointerGetDatum(result);
}

/*
 * Raise 39P01 unless merge_row() was called as a BEFORE INSERT OR UPDATE trigger FOR EACH ROW.
 */
static void
mergerow_check_call(FunctionCallInfo fcinfo)
{
	TriggerEvent event;

	trigger_check(fcinfo, MERGE_NAME);
	event = ((TriggerData *) fcinfo->context)->tg_event;
	if (!TRIGGER_FIRED_BEFORE(event) || !TRIGGER_FIRED_FOR_ROW(event) ||
		!(TRIGGER_FIRED_BY_INSERT(event) || TRIGGER_FIRED_BY_UPDATE(event)))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s must be a BEFORE INSERT OR UPDATE trigger, FOR EACH ROW", MERGE_NAME)));
}

/*
 * passing_of returns the nested statement that has fired a trigger, or NULL, and notes that it has.
 */
static Passing *
passing_of(const TriggerData *data)
{
	if (passing == NULL || passing->relid != RelationGetRelid(data->tg_relation) ||
		passing->depth != trigger_depth())
		return NULL;
	passing->fired = true;
	return passing;
}

/*
 * Return the nesting depth of the trigger that is running, as pg_trigger_depth() does.
 */
static int
trigger_depth(void)
{
	return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0));
}

/*
 * apply_insert writes a row that has come, with a separate statement, if the row adds anything. It
 * returns NULL, as nothing is left to be done.
 */
static HeapTuple
apply_insert(TriggerData *data, const MergeTable *table)
{
	Relation rel = data->tg_relation;

	check_row_security(rel);
	if (!adds_nothing(table, rel, data->tg_trigslot))
		mergerow_upsert(data);
	return NULL;
}

/*
 * Raise 0A000 if row-level security applies to the current role: it could hide the row that is in
 * the way.
 */
static void
check_row_security(Relation rel)
{
	if (rel->rd_rel->relrowsecurity &&
		check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("user \"%s\" cannot merge rows into table \"%s\", which has row-level security",
						GetUserNameFromId(GetUserId(), true), RelationGetRelationName(rel))));
}

/*
 * adds_nothing looks for the existing row in its current version. If there is none, or the incoming
 * row would change it, the clock has learnt of the incoming stamps.
 */
static bool
adds_nothing(const MergeTable *table, Relation rel, TupleTableSlot *row)
{
	Relation index = index_open(table->index, AccessShareLock);
	TupleTableSlot *there = table_slot_create(rel, NULL);
	MergedRow merged;
	bool nothing = false;

	PushActiveSnapshot(GetLatestSnapshot()); /* values may be stored apart */
	if (mergerow_find_row(table, rel, row, index, there))
	{
		merge_rows(table, there, row, &merged);
		nothing = !merged.changes;
	}
	else
		merge_observe(table, row);
	PopActiveSnapshot();
	ExecDropSingleTupleTableSlot(there);
	index_close(index, NoLock);
	return nothing;
}

/*
 * mergerow_find_row finds the row with the key of another.
 */
static bool
mergerow_find_row(const MergeTable *table, Relation rel, TupleTableSlot *row, Relation index,
				  TupleTableSlot *found)
{
	ScanKeyData *keys = palloc(table->nkeys * sizeof(ScanKeyData));
	IndexScanDesc scan;
	bool result;

	for (int i = 0; i < table->nkeys; i++)
	{
		Oid family = index->rd_opfamily[i];
		Oid type = index->rd_opcintype[i];
		Oid operator= get_opfamily_member(family, type, type, BTEqualStrategyNumber);
		bool isnull;
		Datum value = merge_value(table, row, table->keys[i], &isnull);

		if (!OidIsValid(operator))
			elog(ERROR, "missing operator %d(%u,%u) in opfamily %u", BTEqualStrategyNumber, type, type, family);
		if (isnull)
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("null value in column \"%s\" of table \"%s\", which is part of its key",
							NameStr(TupleDescAttr(RelationGetDescr(rel), table->keys[i] - 1)->attname),
							RelationGetRelationName(rel))));
		ScanKeyEntryInitialize(&keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid,
							   index->rd_indcollation[i], get_opcode(operator), value);
	}
	scan = compat_index_beginscan(rel, index, GetActiveSnapshot(), table->nkeys);
	index_rescan(scan, keys, table->nkeys, NULL, 0);
	result = index_getnext_slot(scan, ForwardScanDirection, found);
	if (result)
		ExecMaterializeSlot(found);
	index_endscan(scan);
	return result;
}

/*
 * mergerow_upsert runs the nested statement. If it has written, this trigger has fired.
 */
static void
mergerow_upsert(TriggerData *data)
{
	Passing pass = {
		.relid = RelationGetRelid(data->tg_relation),
		.depth = trigger_depth() + 1,
		.row = data->tg_trigslot,
		.outer = passing};

	PG_TRY();
	{
		passing = &pass;
		run_upsert(data, &pass);
	}
	PG_FINALLY();
	{
		passing = pass.outer;
	}
	PG_END_TRY();
}

/*
 * Insert the row of `pass` by the prepared INSERT ... ON CONFLICT. Raise 55000 if it wrote a row
 * and this trigger did not fire: the name then stood for another table.
 */
static void
run_upsert(TriggerData *data, Passing *pass)
{
	const MergeTable *table;
	SPIPlanPtr plan;
	Datum *values;
	char *nulls;
	int n = 0;
	int result;

	SPI_connect();
	plan = merge_table_plan(data, &table);
	values = palloc(table->natts * sizeof(Datum));
	nulls = palloc(table->natts);
	for (int i = 0; i < table->natts; i++)
	{
		bool isnull;

		if (table->columns[i].role == MERGE_IGNORED)
			continue;
		values[n] = merge_value(table, pass->row, i + 1, &isnull);
		nulls[n++] = isnull ? 'n' : ' ';
	}
	result = SPI_execute_plan(plan, values, nulls, false, 0);
	if (result != SPI_OK_INSERT)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
	if (SPI_processed > 0 && !pass->fired)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" was renamed while it was being used", RelationGetRelationName(data->tg_relation))));
	SPI_finish();
}

/*
 * apply_update merges a row that has come into the existing one; NULL if that changes nothing of
 * it. A key that changes is taken over: its writer has no such trigger.
 */
static HeapTuple
apply_update(TriggerData *data, const MergeTable *table, const Passing *pass)
{
	TupleTableSlot *old = data->tg_trigslot;
	TupleTableSlot *new = with_identities(table, data, pass);
	HeapTuple tuple = new == data->tg_newslot ? data->tg_newtuple : ExecFetchSlotHeapTuple(new, false, NULL);
	MergedRow merged;
	bool same_key = true;

	merge_rows(table, old, new, &merged);
	for (int i = 0; i < table->nkeys; i++)
		same_key &= !column_differs(table, table->keys[i], old, new);
	if (!merged.changes && same_key)
		return NULL;
	return mergerow_replaced(tuple, data->tg_relation, &merged);
}

/*
 * with_identities returns the row of an update. An UPDATE that users write, as the nested statement
 * is one, cannot give GENERATED ALWAYS identity columns, so they are taken from the row that came.
 */
static TupleTableSlot *
with_identities(const MergeTable *table, TriggerData *data, const Passing *pass)
{
	MergedRow identities = {.n = 0};
	TupleTableSlot *slot;

	if (pass == NULL)
		return data->tg_newslot;
	for (int i = 0; i < table->natts; i++)
	{
		bool isnull;
		Datum value;

		if (!table->columns[i].identity_always || table->columns[i].role == MERGE_KEY)
			continue;
		value = merge_value(table, pass->row, i + 1, &isnull);
		if (identities.n == 0)
		{
			identities.columns = palloc(table->natts * sizeof(int));
			identities.values = palloc(table->natts * sizeof(Datum));
			identities.nulls = palloc(table->natts * sizeof(bool));
		}
		merge_replace(&identities, i + 1, value, isnull);
	}
	if (identities.n == 0)
		return data->tg_newslot;
	/* which is of this call alone: no descriptor that would have to be released */
	slot = MakeSingleTupleTableSlot(CreateTupleDescCopy(RelationGetDescr(data->tg_relation)), &TTSOpsHeapTuple);
	ExecStoreHeapTuple(mergerow_replaced(data->tg_newtuple, data->tg_relation, &identities), slot, false);
	return slot;
}

/*
 * user_insert gives a row a stamp, if it has none.
 */
static HeapTuple
user_insert(TriggerData *data, const MergeTable *table)
{
	Datum stamp;
	bool isnull;
	int column = table->stamp;
	MergedRow merged = {.n = 1, .columns = &column, .values = &stamp, .nulls = &isnull};

	merge_observe(table, data->tg_trigslot);
	if (table->stamp == 0)
		return data->tg_trigtuple;
	stamp = merge_value(table, data->tg_trigslot, table->stamp, &isnull);
	if (!isnull)
		return data->tg_trigtuple;
	stamp = new_row_stamp(0);
	isnull = false;
	return mergerow_replaced(data->tg_trigtuple, data->tg_relation, &merged);
}

/*
 * Merge the states that a user writes with the existing ones. If the stamp or the group changes,
 * make sure that the stamp is later, and fetch the group's values that are stored apart.
 */
static HeapTuple
user_update(TriggerData *data, const MergeTable *table)
{
	MergedRow merged;

	check_key(table, data);
	merge_states(table, data->tg_trigslot, data->tg_newslot, &merged);
	if (table->stamp != 0 && group_differs(table, data))
	{
		renew_stamp(table, data, &merged);
		fetch_group(table, data, &merged);
	}
	return mergerow_replaced(data->tg_newtuple, data->tg_relation, &merged);
}

/*
 * Raise 0A000 if an update changes a column of the key.
 */
static void
check_key(const MergeTable *table, TriggerData *data)
{
	for (int i = 0; i < table->nkeys; i++)
	{
		if (!column_differs(table, table->keys[i], data->tg_trigslot, data->tg_newslot))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change the key of a row of \"%s\"", RelationGetRelationName(data->tg_relation)),
				 errdetail("Its rows are merged with those of other databases by their key."),
				 errhint("Insert another row, and delete this one.")));
	}
}

/*
 * Return true if an update changes the stamp, or a column that depends on it.
 */
static bool
group_differs(const MergeTable *table, TriggerData *data)
{
	if (column_differs(table, table->stamp, data->tg_trigslot, data->tg_newslot))
		return true;
	for (int i = 0; i < table->ngroup; i++)
	{
		if (column_differs(table, table->group[i], data->tg_trigslot, data->tg_newslot))
			return true;
	}
	return false;
}

/*
 * Return true if two rows differ in a column, byte by byte.
 */
static bool
column_differs(const MergeTable *table, AttrNumber att, TupleTableSlot *a, TupleTableSlot *b)
{
	bool a_null;
	bool b_null;
	Datum a_value = merge_value(table, a, att, &a_null);
	Datum b_value = merge_value(table, b, att, &b_null);

	return !merge_same(&table->columns[att - 1], a_value, a_null, b_value, b_null);
}

/*
 * renew_stamp gives an updated row a stamp that is later than the one it had.
 */
static void
renew_stamp(const MergeTable *table, TriggerData *data, MergedRow *merged)
{
	bool old_null;
	bool new_null;
	Datum old = merge_value(table, data->tg_trigslot, table->stamp, &old_null);
	Datum new = merge_value(table, data->tg_newslot, table->stamp, &new_null);
	Stamp old_stamp = {0};
	Stamp given;

	if (!old_null)
		old_stamp = hlc_decode(crdt_bytes_of(old));
	if (!new_null)
	{
		given = hlc_decode(crdt_bytes_of(new));
		if (old_null || stamp_compare(&given, &old_stamp) > 0)
		{
			hlc_clock_observe(given.time);
			return;
		}
	}
	merge_replace(merged, table->stamp, new_row_stamp(old_stamp.time), false);
}

/*
 * fetch_group makes values of the group that are stored apart part of the row.
 */
static void
fetch_group(const MergeTable *table, TriggerData *data, MergedRow *merged)
{
	for (int i = 0; i < table->ngroup; i++)
	{
		AttrNumber att = table->group[i];
		bool isnull;
		Datum value = merge_value(table, data->tg_newslot, att, &isnull);

		if (!isnull && table->columns[att - 1].len == -1 &&
			VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
			merge_replace(merged, att,
						  PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(value))),
						  false);
	}
}

/*
 * new_row_stamp creates a stamp of this database that is later than another stamp's time.
 */
static Datum
new_row_stamp(int64 seen)
{
	const char *node = node_name();
	Stamp stamp = {.time = hlc_clock_next(seen), .node = {node, strlen(node)}};
	CrdtBuf buf = {NULL, 0, 0};

	hlc_encode(&buf, &stamp);
	return crdt_datum(&buf);
}

/*
 * mergerow_replaced returns a row with the values that differ.
 */
static HeapTuple
mergerow_replaced(HeapTuple tuple, Relation rel, const MergedRow *merged)
{
	if (merged->n == 0)
		return tuple;
	return heap_modify_tuple_by_cols(tuple, RelationGetDescr(rel), merged->n, merged->columns,
									 merged->values, merged->nulls);
}
