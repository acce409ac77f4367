/*
 * mark.c
 *		dc_mark(), dc_unmark(), dc_reconcile(): exact totals that come from outside.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A nightly batch, or an analytics system, knows what the values of some keys should have been at a
 * moment. Increments have continued since, and setting the values would lose them. So a mark keeps
 * the value of each key in one snapshot S. For each key
 *
 *	value(S') = value(S) + increments that S' shows and S does not.
 *
 * Adding exact - value(S), once, makes that exact + the same increments, in every later S'. An
 * increment is in the mark or after it, by whether S shows it, whenever it is added to the tables
 * and whatever moves it there: compaction changes no sum in any snapshot. dc_set() and dc_delete()
 * are changes like any other: one made after the mark is kept as well.
 *
 * S is the transaction's snapshot under REPEATABLE READ, so the exact values can be read in the
 * same snapshot. Under READ COMMITTED it is taken after the locks. It shows what the transaction
 * has done itself, pending deltas included: they are written first. DDL that is not MVCC (TRUNCATE,
 * ATTACH) is seen by a snapshot that is older; so S must show the newest rows of the tables in
 * pg_class (25001). What a buffered table has in memory is in no snapshot. So it cannot be marked,
 * nor, in an older snapshot, one that was buffered. It can be reconciled: what is added goes to
 * rows at once, as it must not be less durable than the note of it (transactional/once/once.c).
 *
 * The note: what was exact is written into the row of the key in the mark, or a new one for a key
 * that it does not have, whose value was 0. The same transaction adds the difference as a pending
 * delta, in the same subtransaction. So both commit or roll back together. A key that has a note is
 * not added to again. Two calls with one mark do not overlap: each holds its lock to the end of its
 * transaction (markrow.c), and the second one then reads the first one's notes, at any isolation
 * level. Under REPEATABLE READ and SERIALIZABLE a note, or a mark, that the transaction's snapshot
 * does not show as it is now is a serialization failure (40001): neither "noted" nor "not noted"
 * would be true in it.
 *
 * Locks: the counter's tables (ROW EXCLUSIVE), the mark, rows. A call that waits for a mark has no
 * row of the counter locked, unless earlier calls of its transaction did that.
 *
 * The caller needs what dc_set() needs: SELECT, INSERT and UPDATE.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/hooks.h"
#include "core/counter/apply.h"
#include "core/counter/sqlpath.h"
#include "core/counter/write.h"
#include "core/rows/sums.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "transactional/bound/mark.h"

PG_FUNCTION_INFO_V1(dc_mark);
PG_FUNCTION_INFO_V1(dc_unmark);
PG_FUNCTION_INFO_V1(dc_reconcile);

/* Rows of either table that are read together. */
#define CHUNK INT64CONST(10000)

/* first key, maximum number of rows */
static const DcStatement sql_mark_totals = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t WHERE t.key >= $1 COLLATE \"C\""
			" ORDER BY t.key COLLATE \"C\" LIMIT $2",
	.argtypes = {TEXTOID, INT8OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

static const DcStatement sql_mark_shards = {
	.text = "SELECT s.key, s.inc, s.dec FROM @shards AS s WHERE s.key >= $1 COLLATE \"C\""
			" ORDER BY s.key COLLATE \"C\" LIMIT $2",
	.argtypes = {TEXTOID, INT8OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")},
	.of = DC_OF_SHARDS};

/* Rows in the order of their keys, and how far they have been gone over. */
typedef struct DcKeyRows
{
	DcRows rows;
	uint64 next;
	bool cut;  /* there may be more rows, of the last key too */
	DcKey key; /* of the next row, unless all were gone over */
} DcKeyRows;

/* The values of a mark that is being made. */
typedef struct DcMarking
{
	DcCounter *counter;
	DcMarkWriter *writer;
	MemoryContext cxt; /* of `from` */
	Datum from;		   /* the first key that comes next */
	int64 limit;	   /* of rows */
} DcMarking;

static DcCounter *open_to_mark(FunctionCallInfo fcinfo, const char *function);
static void no_mark_error(const DcCounter *counter, const char *mark);
static void check_mark(const DcCounter *counter, const char *mark);
static void snapshot_push(DcCounter *counter);
static bool is_newer(Oid relid, Snapshot snapshot);
static int64 mark_values_of(DcCounter *counter, const char *mark);
static bool mark_chunk(DcMarking *marking);
static void key_rows_read(DcKeyRows *side, DcSqlSession *session, const DcStatement *statement,
						  const DcMarking *marking);
static bool key_rows_next(DcKeyRows *side);
static bool key_rows_end(const DcKeyRows *side, DcKey *end, bool cut);
static bool mark_merge(DcMarking *marking, DcKeyRows *totals, DcKeyRows *shards, const DcKey *end);
static int64 reconcile_key(DcCounter *counter, const char *mark, Datum key, int64 exact, int64 *was);
static void mark_add_difference(DcCounter *counter, Datum key, int64 delta);

/*
 * dc_mark(counter regclass, mark text) -> bigint, how many keys there were
 *
 * Errors: 42710 if there is a mark of that name, 0A000 for a table that is buffered or lies on
 * other servers, 55000 for one that is bound to a source, 42809 for a stock or a ledger, 25001 in a
 * snapshot that is too old.
 */
Datum
dc_mark(PG_FUNCTION_ARGS)
{
	DcMark mark = {.mark = text_arg_limited(fcinfo, 1, "mark", DC_MAX_MARK_BYTES)};
	DcCounter *counter = open_to_mark(fcinfo, "dc_mark()");

	if (counter_is_buffered(counter))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot mark \"%s\": it is buffered", get_rel_name(counter->relid)),
				 errdetail("Increments in memory belong to no snapshot."),
				 errhint("In one transaction, make it exact with dc_alter(), mark it, and make it buffered again.")));
	mark.counter = counter->relid;
	mark_lock(mark.counter, mark.mark);
	if (mark_find(mark.counter, mark.mark))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" already has a mark \"%s\"", get_rel_name(mark.counter), mark.mark),
				 errhint("Remove it with dc_unmark(), or use another name.")));
	apply_early();
	CommandCounterIncrement();
	snapshot_push(counter);
	mark.at = GetCurrentTimestamp();
	mark.keys = mark_values_of(counter, mark.mark);
	PopActiveSnapshot();
	mark_insert(&mark);
	PG_RETURN_INT64(mark.keys);
}

/*
 * dc_unmark(counter regclass, mark text) -> bigint, how many keys it had. Errors: 42704
 * if there is no such mark.
 */
Datum
dc_unmark(PG_FUNCTION_ARGS)
{
	char *mark = text_arg_limited(fcinfo, 1, "mark", DC_MAX_MARK_BYTES);
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_unmark()");
	int64 keys;

	counter_check_write(counter->relid, "dc_unmark()");
	mark_lock(counter->relid, mark);
	keys = mark_delete(counter->relid, mark);
	if (keys < 0)
		no_mark_error(counter, mark);
	PG_RETURN_INT64(keys);
}

/*
 * dc_reconcile(counter regclass, keys text[]|bigint[]|uuid[], exact bigint[], as_of text)
 * -> setof (key text|bigint|uuid, was bigint, exact bigint, delta bigint)
 *
 * One row for each member of keys, in its order. `delta` is what was added: 0 if that was done
 * before. Errors: 42704 if there is no such mark, 23505 if a key was reconciled with another
 * number, 2202E when the lengths differ, 22003 when a difference overflows bigint, and as of
 * dc_mark().
 */
Datum
dc_reconcile(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext cxt;
	DcCounter *counter;
	Datum *members;
	Datum *keys;
	Datum *exact;
	char *mark;
	int nkeys;
	int nexact;

	counter_arg(fcinfo);
	keys = key_array_arg(fcinfo, 1, &nkeys, &members);
	exact = array_arg(fcinfo, 2, "exact", "exact value", &nexact);
	if (nexact != nkeys)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("keys and exact must have the same length"),
				 errdetail("There are %d keys and %d exact values.", nkeys, nexact)));
	mark = text_arg_limited(fcinfo, 3, "as_of", DC_MAX_MARK_BYTES);
	counter = open_to_mark(fcinfo, "dc_reconcile()");
	mark_lock(counter->relid, mark);
	check_mark(counter, mark);
	InitMaterializedSRF(fcinfo, 0);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter reconcile", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < nkeys; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);
		Datum values[4] = {members[i], 0, exact[i]};
		bool nulls[4] = {false};
		int64 was;

		CHECK_FOR_INTERRUPTS();
		values[3] = Int64GetDatum(reconcile_key(counter, mark, keys[i], DatumGetInt64(exact[i]), &was));
		values[1] = Int64GetDatum(was);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
	}
	MemoryContextDelete(cxt);
	PG_RETURN_NULL();
}

/*
 * open_to_mark opens a counter table that has marks, with the rights for it.
 */
static DcCounter *
open_to_mark(FunctionCallInfo fcinfo, const char *function)
{
	DcCounter *counter = counter_lookup(counter_arg(fcinfo));

	if (counter->bound) /* the error of others has another hint */
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot execute %s on \"%s\": it is bound to a source", function,
						get_rel_name(counter->relid)),
				 errhint("Use dc_source_fix(), which compares it with its source.")));
	(void) counter_open_to_write(fcinfo, function);
	counter = counter_open_to_read(fcinfo, function);
	if (counter_is_stock(counter))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot execute %s on \"%s\": it is a stock", function,
						get_rel_name(counter->relid)),
				 errhint("Use dc_restock() and dc_take().")));
	if (counter->foreign)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot execute %s on \"%s\"", function, get_rel_name(counter->relid)),
				 errdetail_internal("%s", elsewhere_detail(counter))));
	return counter;
}

/*
 * Raise 42704: the counter table has no mark of this name.
 */
static void
no_mark_error(const DcCounter *counter, const char *mark)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("\"%s\" has no mark \"%s\"", get_rel_name(counter->relid), mark),
			 errhint("Make one with dc_mark().")));
}

/*
 * check_mark raises 42704 if there is no such mark, and 40001 if the transaction's snapshot has it
 * otherwise.
 */
static void
check_mark(const DcCounter *counter, const char *mark)
{
	bool found = mark_find(counter->relid, mark);

	if (IsolationUsesXactSnapshot() &&
		mark_find_in(counter->relid, mark, GetTransactionSnapshot()) != found)
		serialization_error();
	if (!found)
		no_mark_error(counter, mark);
}

/*
 * snapshot_push makes active the snapshot of a mark, which the caller pops.
 */
static void
snapshot_push(DcCounter *counter)
{
	Snapshot snapshot;
	bool old;

	if (!IsolationUsesXactSnapshot())
	{
		PushActiveSnapshot(GetLatestSnapshot());
		return;
	}
	PushCopiedSnapshot(GetTransactionSnapshot());
	UpdateActiveSnapshotCommandId();
	snapshot = GetActiveSnapshot();
	old = is_newer(counter->relid, snapshot) || is_newer(counter->row.shards, snapshot);
	for (int i = 0; i < counter->nmembers; i++)
		old |= is_newer(counter->members[i], snapshot);
	/* amounts that were in memory, whichever job or function made it exact */
	old |= buffer_hooks != NULL && buffer_hooks->was_buffered(counter) &&
		TransactionIdIsNormal(counter->row.changed_by) &&
		XidInMVCCSnapshot(counter->row.changed_by, snapshot);
	if (old)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot mark \"%s\": the transaction's snapshot is too old",
						get_rel_name(counter->relid)),
				 errdetail("The table has been altered since."),
				 errhint("Try again in a new transaction.")));
}

/*
 * Return true if another transaction has changed a relation's row in pg_class since a
 * snapshot.
 */
static bool
is_newer(Oid relid, Snapshot snapshot)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	TransactionId xmin;

	if (!HeapTupleIsValid(tuple))
		return true;
	xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	return !TransactionIdIsCurrentTransactionId(xmin) && XidInMVCCSnapshot(xmin, snapshot);
}

/*
 * mark_values_of writes the values of all keys in the active snapshot, and returns how many
 * there are.
 */
static int64
mark_values_of(DcCounter *counter, const char *mark)
{
	DcMarking marking = {.counter = counter, .limit = CHUNK, .cxt = CurrentMemoryContext};

	marking.writer = mark_writer_begin(counter->relid, mark);
	marking.from = CStringGetTextDatum("");
	while (mark_chunk(&marking))
		CHECK_FOR_INTERRUPTS();
	return mark_writer_end(marking.writer);
}

/*
 * mark_chunk writes the values of the keys that come next; false if these were the last. If a
 * table has more rows, the last key that was read, and all after it, are left to the next
 * chunk.
 */
static bool
mark_chunk(DcMarking *marking)
{
	DcSqlSession session;
	DcKeyRows totals = {0};
	DcKeyRows shards = {0};
	DcKey end;
	bool more;

	sql_begin(&session, marking->counter);
	key_rows_read(&totals, &session, &sql_mark_totals, marking);
	key_rows_read(&shards, &session, &sql_mark_shards, marking);
	more = key_rows_end(&totals, &end, false);
	more = key_rows_end(&shards, &end, more);
	if (!mark_merge(marking, &totals, &shards, more ? &end : NULL) && more)
		marking->limit *= 2; /* a single key has that many rows */
	if (more)
	{
		MemoryContext old = MemoryContextSwitchTo(marking->cxt);
		Datum from = key_text_datum(&end);

		pfree(DatumGetPointer(marking->from));
		marking->from = from;
		MemoryContextSwitchTo(old);
	}
	sql_end(&session);
	return more;
}

/*
 * key_rows_read reads rows of one table.
 */
static void
key_rows_read(DcKeyRows *side, DcSqlSession *session, const DcStatement *statement,
			  const DcMarking *marking)
{
	Datum values[] = {marking->from, Int64GetDatum(marking->limit)};

	side->cut = sql_read(session, statement, values) >= (uint64) marking->limit;
	side->rows = session->rows;
	if (side->rows.count > 0)
		key_from_text(rows_datum(&side->rows, 0, 1), &side->key);
}

/*
 * key_rows_next goes on to the next row; false if there is none.
 */
static bool
key_rows_next(DcKeyRows *side)
{
	DcKey last = side->key;

	if (++side->next >= side->rows.count)
		return false;
	key_from_text(rows_datum(&side->rows, side->next, 1), &side->key);
	if (key_compare(&last, &side->key) > 0)
		elog(ERROR, "keys of counter table %u are not in order", side->rows.table);
	return true;
}

/*
 * key_rows_end lowers *end, if it is `set`, to the last key of a table that has more rows.
 * Returns true if it is set then.
 */
static bool
key_rows_end(const DcKeyRows *side, DcKey *end, bool set)
{
	DcKey last;

	if (!side->cut)
		return set;
	key_from_text(rows_datum(&side->rows, side->rows.count - 1, 1), &last);
	if (!set || key_compare(&last, end) < 0)
		*end = last;
	return true;
}

/*
 * mark_merge adds up the rows of each key before `end`, of all if that is NULL; false if there is
 * none.
 */
static bool
mark_merge(DcMarking *marking, DcKeyRows *totals, DcKeyRows *shards, const DcKey *end)
{
	DcKeyRows *sides[] = {totals, shards};
	bool any = false;

	for (;;)
	{
		const DcKey *first = NULL;
		DcSums sums;
		DcKey key;

		for (int i = 0; i < lengthof(sides); i++)
		{
			if (sides[i]->next < sides[i]->rows.count &&
				(first == NULL || key_compare(&sides[i]->key, first) < 0))
				first = &sides[i]->key;
		}
		if (first == NULL || (end != NULL && key_compare(first, end) >= 0))
			return any;
		key = *first;
		sums_init(&sums);
		for (int i = 0; i < lengthof(sides); i++)
		{
			DcKeyRows *side = sides[i];
			bool left = side->next < side->rows.count;

			while (left && key_compare(&side->key, &key) == 0)
			{
				sums_add(&sums, rows_bigint(&side->rows, side->next, 2),
						 rows_bigint(&side->rows, side->next, 3));
				left = key_rows_next(side);
			}
		}
		mark_writer_add(marking->writer, key_text_datum(&key), sums_value(&sums, key_text_datum(&key)));
		any = true;
	}
}

/*
 * reconcile_key notes what a key should have been at a mark, and adds the difference. Returns what
 * was added.
 */
static int64
reconcile_key(DcCounter *counter, const char *mark, Datum key, int64 exact, int64 *was)
{
	DcMarkValue value = {.counter = counter->relid, .mark = unconstify(char *, mark), .key = key};
	int64 delta;

	ItemPointerSetInvalid(&value.tid);
	if (mark_value_find(counter->relid, mark, key, &value))
	{
		if (IsolationUsesXactSnapshot() && !TransactionIdIsCurrentTransactionId(value.xmin) &&
			XidInMVCCSnapshot(value.xmin, GetTransactionSnapshot()))
			serialization_error();
	}
	*was = value.value;
	if (value.noted && value.exact != exact)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("a key of \"%s\" was already reconciled with a different value", get_rel_name(counter->relid)),
				 errdetail("Key \"%s\" had %lld at mark \"%s\", not %lld.",
						   TextDatumGetCString(key), (long long) value.exact, mark, (long long) exact),
				 errhint("Make another mark.")));
	if (value.noted)
		return 0;
	if (pg_sub_s64_overflow(exact, value.value, &delta))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The difference between what is exact and what was counted must fit into bigint.")));
	value.exact = exact;
	value.noted = true;
	mark_value_store(&value);
	if (delta != 0)
		mark_add_difference(counter, key, delta);
	return delta;
}

/*
 * mark_add_difference adds a delta so that it is as durable as its note.
 */
static void
mark_add_difference(DcCounter *counter, Datum key, int64 delta)
{
	DcKey bytes;

	key_from_text(key, &bytes);
	if (!counter_is_buffered(counter) || delta == PG_INT64_MIN) /* the error */
		counter_add(counter, &bytes, DC_NO_HINT, delta, false);
	else
		apply_blind(counter, &bytes, Max(delta, 0), Max(-delta, 0));
}
