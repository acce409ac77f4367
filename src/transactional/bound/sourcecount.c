/*
 * sourcecount.c
 *		Adding or subtracting many rows of a source at once, for TRUNCATE, ATTACH and DETACH.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * These make rows appear in a source, or vanish, without a trigger for each. The counts of
 * these rows are added to the counter in the same transaction, so the difference of source and
 * counter stays what it is, for each key and in each snapshot that shows the command.
 *
 *	1. The command has locked the table whose rows come or go against all writers, to the end of
 *	   its transaction, or we do so (source_leaves). So all that other transactions have written
 *	   there is committed, and counted or, before ATTACH, to be counted here; and this transaction
 *	   no longer writes to it, as the server refuses these commands while rows wait for their
 *	   triggers.
 *	2. Then the counter tables and the binding are locked (source_begin_change). A build that has
 *	   read its differences before that sees the new epoch, and reads them again.
 *	3. Then the rows are read, in a snapshot that is taken now, at any isolation level: what the
 *	   transaction's own snapshot does not show goes or comes anyway.
 *
 * TRUNCATE of all of a source need not read it: afterwards each value is to be 0, or what was
 * carried over from detached partitions. So the values themselves are subtracted, less that.
 * All writers of the source have ended, and nothing else may add to the counter: builds need
 * the lock of the binding, compaction keeps the sums. Our own pending amounts are written
 * before that. That also ends a build, and what was suspect: the difference is 0 for each key.
 *
 * The memory needed is that of pending deltas, which are bounded (core/counter/pending.c).
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "core/counter/pending.h"
#include "core/counter/sqlpath.h"
#include "core/counter/write.h"
#include "core/rows/sums.h"
#include "core/table/access.h"
#include "transactional/bound/keysums.h"
#include "transactional/bound/refs.h"
#include "transactional/bound/sourceddl.h"

#define PAGE_ROWS 10000

/* A binding whose rows are counted. */
typedef struct DcCountedFor
{
	DcBound bound;
	DcCarrying *carrying; /* NULL: for the counter itself */
} DcCountedFor;

/* from key, inclusive?, maximum number of rows */
static const DcStatement sql_page_of_totals = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t"
			" WHERE t.key >= $1 AND ($2 OR t.key > $1) ORDER BY t.key LIMIT $3",
	.argtypes = {TEXTOID, BOOLOID, INT4OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* from key, from shard of it, inclusive?, maximum number of rows */
static const DcStatement sql_page_of_shards = {
	.text = "SELECT s.key, s.inc, s.dec, s.shard FROM @shards AS s"
			" WHERE s.key >= $1 AND ($3 OR s.key > $1 OR s.shard > $2)"
			" ORDER BY s.key, s.shard LIMIT $4",
	.argtypes = {TEXTOID, INT4OID, BOOLOID, INT4OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_COLUMN("shard", INT4OID)}};

static void count_rows(Relation rel, DcCountedFor *countings, int n, int sign);
static void count_row(DcCountedFor *counting, TupleTableSlot *slot, int sign);
static void take_table(DcKeySums *sums, DcCounter *counter, bool totals);
static void take_carried(void *arg, const DcKey *key, int64 amount);
static void add_sums(DcKeySums *sums, DcCounter *counter);

/*
 * source_begin_change locks a binding whose values are about to change other than with rows,
 * and reads it again: another session may have detached a partition in the meantime, and have made
 * the table of what is carried. Returns false if there is no longer one.
 */
bool
source_begin_change(DcSourceRow *row)
{
	DcSourceStateRow state;
	DcSourceRow now;

	(void) counter_open_bound(row->counter);
	(void) bound_lock(row->counter, true);
	if (!source_read(row->counter, &now) || now.source != row->source ||
		!source_state_read(row->counter, &state))
		return false;
	state.epoch++;
	source_state_store(&state);
	*row = now;
	return true;
}

/*
 * source_count_rows adds what all rows of a table count for, or subtracts it. The bindings
 * (DcSourceRow *) are those of one source; the table is a partition of it, or was one just now. Its
 * columns have the names that those of the source have, so that need not be locked: after a
 * partition, it could be a deadlock.
 */
void
source_count_rows(const List *rows, Oid leaf, int sign)
{
	Relation rel = table_open_present(leaf, AccessShareLock);
	DcCountedFor *countings = palloc0(list_length(rows) * sizeof(DcCountedFor));
	int n = 0;
	ListCell *lc;

	foreach(lc, rows)
	{
		DcBound *bound = &countings[n++].bound;

		bound->row = *(DcSourceRow *) lfirst(lc);
		bound->eval = source_eval_make(&bound->row, rel, rel, CurrentMemoryContext);
	}
	count_rows(rel, countings, n, sign);
	table_close(rel, NoLock);
}

/*
 * source_carry_rows moves what all rows of a table count for to the table of carried amounts.
 */
void
source_carry_rows(DcSourceRow *row, Oid leaf)
{
	Relation rel = table_open_present(leaf, AccessShareLock);
	DcCountedFor counting;

	memset(&counting, 0, sizeof(counting));
	counting.bound.row = *row;
	counting.bound.eval = source_eval_make(row, rel, rel, CurrentMemoryContext);
	counting.carrying = carried_begin(row);
	count_rows(rel, &counting, 1, 1);
	carried_end(counting.carrying);
	table_close(rel, NoLock);
}

/*
 * Add each row of a table to each of n bindings of one source (sign 1), or subtract it (-1). It
 * reads the newest snapshot, whatever the isolation level.
 */
static void
count_rows(Relation rel, DcCountedFor *countings, int n, int sign)
{
	Snapshot snapshot;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan;

	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	scan = compat_table_beginscan(rel, snapshot, 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
		{
			count_row(&countings[i], slot, sign);
			source_eval_reset(countings[i].bound.eval);
		}
	}
	table_endscan(scan);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	for (int i = 0; i < n; i++)
		source_eval_free(countings[i].bound.eval);
}

/*
 * Count a row, or take it away, for a binding.
 */
static void
count_row(DcCountedFor *counting, TupleTableSlot *slot, int sign)
{
	DcCounted *counted;
	int n = source_eval_row(counting->bound.eval, slot, &counted);

	for (int i = 0; i < n; i++)
	{
		if (counted[i].value == 0)
			continue;
		if (counting->carrying != NULL)
			carried_add(counting->carrying, &counted[i]);
		else
			bound_add(&counting->bound, &counted[i], sign);
	}
}

/*
 * source_count_nothing makes the values of a bound counter table those of a source without rows.
 */
void
source_count_nothing(const DcSourceRow *row)
{
	DcCounter *counter = counter_open_bound(row->counter);
	DcSourceStateRow state;
	DcSourceRow now;
	DcKeySums *sums;
	Snapshot snapshot;
	bool fire;

	/*
	 * code of an owner, called while amounts are being written: nothing tells which of them are
	 * written already
	 */
	if (InSecurityRestrictedOperation() && (!pending_is_empty() || refs_any(row->counter) || refs_are_written()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot execute %s within security-restricted operation",
						"TRUNCATE of a source")));
	(void) bound_lock(row->counter, true);
	if (!source_read(row->counter, &now) || now.source != row->source ||
		!source_state_read(row->counter, &state))
		return;
	counter_hooks->apply_early();
	CommandCounterIncrement();
	sums = key_sums_begin(maintenance_work_mem, false);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	fire = source_triggers_fire(relation_members(row->source, NoLock), row->replicated, snapshot);
	take_table(sums, counter, true);
	take_table(sums, counter, false);
	if (OidIsValid(now.carried))
		carried_read(&now, snapshot, take_carried, sums);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	add_sums(sums, counter);
	if (OidIsValid(now.refs))
		refs_empty(&now);
	if (fire)
		state.state = DC_SOURCE_EXACT;
	state.built_to = NULL;
	state.epoch++;
	source_state_store(&state);
}

/*
 * take_table takes the amounts of one of the counter's tables with their signs turned, in the
 * active snapshot. A page at a time: SPI keeps results in memory.
 */
static void
take_table(DcKeySums *sums, DcCounter *counter, bool totals)
{
	MemoryContext caller = CurrentMemoryContext;
	text *from = cstring_to_text("");
	int32 shard = 0;
	bool all = true;
	DcSqlSession session;
	uint64 count;

	do
	{
		Datum of_totals[] = {PointerGetDatum(from), BoolGetDatum(all), Int32GetDatum(PAGE_ROWS)};
		Datum of_shards[] = {PointerGetDatum(from), Int32GetDatum(shard), BoolGetDatum(all),
							 Int32GetDatum(PAGE_ROWS)};

		CHECK_FOR_INTERRUPTS();
		sql_begin(&session, counter);
		count = totals ? sql_read(&session, &sql_page_of_totals, of_totals)
					   : sql_read(&session, &sql_page_of_shards, of_shards);
		for (uint64 i = 0; i < count; i++)
		{
			DcKey key;

			key_from_text(rows_datum(&session.rows, i, 1), &key);
			key_sums_add(sums, key.data, key.len, DC_SIDE_COUNTER,
						 rows_bigint(&session.rows, i, 3), rows_bigint(&session.rows, i, 2));
		}
		if (count > 0)
		{
			MemoryContext old = MemoryContextSwitchTo(caller);

			from = DatumGetTextPCopy(rows_datum(&session.rows, count - 1, 1));
			MemoryContextSwitchTo(old);
			shard = totals ? 0 : DatumGetInt32(rows_datum(&session.rows, count - 1, 4));
			all = false;
		}
		sql_end(&session);
	} while (count == PAGE_ROWS);
}

/*
 * Add a carried amount to the sums; arg is the DcKeySums.
 */
static void
take_carried(void *arg, const DcKey *key, int64 amount)
{
	key_sums_add(arg, key->data, key->len, DC_SIDE_COUNTER, amount, 0);
}

/*
 * add_sums adds what was taken. All is read by then, so nothing of this is read.
 */
static void
add_sums(DcKeySums *sums, DcCounter *counter)
{
	DcKeySumsRow row;

	key_sums_sort(sums);
	while (key_sums_next(sums, &row))
	{
		int64 amount = sums_to_bigint(row.sums[DC_SIDE_COUNTER], "value");
		DcKey key = {.data = row.data, .len = row.len};

		CHECK_FOR_INTERRUPTS();
		if (amount != 0)
			counter_add(counter, &key, DC_NO_HINT, amount, false);
	}
	key_sums_end(sums);
}
