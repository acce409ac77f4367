/*
 * sourcecount.c
 *		Adding or subtracting many rows of a source at once, for TRUNCATE, ATTACH and DETACH.
 *
 * These make rows appear in a source, or vanish, without a trigger for each. What the rows
 * count for is added to the counter in the same transaction, so the difference of source and
 * counter stays what it is, for each key and in each snapshot that shows the command.
 *
 *	1. The command has locked the table whose rows come or go against all writers, to the end of
 *	   its transaction, or we do so (source_leaves). So all that others have written there
 *	   is committed, and counted or, before ATTACH, to be counted here; and this transaction
 *	   writes to it no more, as the server refuses these commands while rows wait for their
 *	   triggers.
 *	2. Then the counter tables and the binding are locked (source_begin_change). A build that has
 *	   read its differences before that is told by the new epoch to read them again.
 *	3. Then the rows are read, in a snapshot that is taken now, at any isolation level: what the
 *	   transaction's own snapshot does not show goes, or comes, all the same.
 *
 * TRUNCATE of all of a source need not read it: afterwards each value is to be 0, or what
 * was carried over from detached partitions. So the values themselves are subtracted, less
 * that. All writers of the source have ended, and nothing else may add to the counter:
 * builds need the lock of the binding, compaction keeps the sums. Amounts of our own that are
 * pending are written before that. That also ends a build, and what was suspect: the
 * difference is 0 for each key.
 *
 * The memory needed is that of pending deltas, which are bounded (counter/pending.c).
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/hooks.h"
#include "bound/refs.h"
#include "bound/sourceddl.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "counter/pending.h"
#include "counter/sqlpath.h"
#include "counter/write.h"
#include "miscadmin.h"
#include "table/access.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#define PAGE_ROWS 10000

/* A binding whose rows are counted. */
typedef struct DcCountedFor
{
	DcBound bound;
	DcCarrying *carrying; /* NULL: for the counter itself */
} DcCountedFor;

/* where to begin, without it, rows */
static const DcStatement sql_page_of_totals = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t"
			" WHERE t.key >= $1 AND (t.key > $1 OR NOT $2) ORDER BY t.key LIMIT $3",
	.argtypes = {TEXTOID, BOOLOID, INT4OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* where to begin, the shard there, without it, rows */
static const DcStatement sql_page_of_shards = {
	.text = "SELECT s.key, s.inc, s.dec, s.shard FROM @shards AS s"
			" WHERE s.key >= $1 AND (s.key > $1 OR s.shard > $2 OR NOT $3)"
			" ORDER BY s.key, s.shard LIMIT $4",
	.argtypes = {TEXTOID, INT4OID, BOOLOID, INT4OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_COLUMN("shard", INT4OID)}};

static void count_rows(Relation rel, DcCountedFor *countings, int n, int sign);
static void subtract_table(DcCounter *counter, bool totals);
static void subtract_carried(void *arg, const DcKey *key, int64 amount);

/*
 * source_lineage returns a table and all that it is a partition of, upwards. A partition that is
 * being detached concurrently is one until that is final: its rows are subtracted only then.
 */
List *
source_lineage(Oid relid)
{
	List *lineage = list_make1_oid(relid);

	while (get_rel_relispartition(relid))
	{
		relid = get_partition_parent(relid, true);
		lineage = lappend_oid(lineage, relid);
	}
	return lineage;
}

/*
 * source_leaves locks a table and its partitions, and returns those that have rows.
 */
List *
source_leaves(Oid relid, LOCKMODE mode)
{
	List *leaves = NIL;
	ListCell *lc;

	foreach(lc, find_all_inheritors(relid, mode, NULL))
	{
		if (get_rel_relkind(lfirst_oid(lc)) != RELKIND_PARTITIONED_TABLE)
			leaves = lappend_oid(leaves, lfirst_oid(lc));
	}
	/* children of a table that is no partition of theirs are not part of the source */
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? leaves : list_make1_oid(relid);
}

/*
 * source_begin_change locks a binding whose values are about to change other than with rows;
 * false if there is none any more.
 */
bool
source_begin_change(const DcSourceRow *row)
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
	return true;
}

/*
 * source_count_rows adds what all rows of a table count for, or subtracts it. The bindings
 * (DcSourceRow *) are those of one source; the table is a partition of it, or was one just now.
 */
void
source_count_rows(Oid source, const List *rows, Oid leaf, int sign)
{
	Relation root = table_open(source, AccessShareLock);
	Relation rel = table_open(leaf, AccessShareLock);
	DcCountedFor *countings = palloc0(list_length(rows) * sizeof(DcCountedFor));
	int n = 0;
	ListCell *lc;

	CheckTableNotInUse(rel, "TRUNCATE, ATTACH or DETACH");
	foreach(lc, rows)
	{
		DcBound *bound = &countings[n++].bound;

		bound->row = *(DcSourceRow *) lfirst(lc);
		bound->eval = source_eval_make(&bound->row, root, rel, CurrentMemoryContext);
	}
	count_rows(rel, countings, n, sign);
	table_close(rel, NoLock);
	table_close(root, NoLock);
}

/*
 * source_carry_rows moves what all rows of a table count for to the table of carried amounts.
 */
void
source_carry_rows(Oid source, DcSourceRow *row, Oid leaf)
{
	Relation root = table_open(source, AccessShareLock);
	Relation rel = table_open(leaf, AccessShareLock);
	DcCountedFor counting = {{0}};

	CheckTableNotInUse(rel, "DETACH");
	counting.bound.row = *row;
	counting.bound.eval = source_eval_make(row, root, rel, CurrentMemoryContext);
	counting.carrying = carried_begin(row);
	count_rows(rel, &counting, 1, 1);
	carried_end(counting.carrying);
	table_close(rel, NoLock);
	table_close(root, NoLock);
}

static void
count_rows(Relation rel, DcCountedFor *countings, int n, int sign)
{
	Snapshot snapshot;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan;

	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	scan = table_beginscan(rel, snapshot, 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
		{
			DcBound *bound = &countings[i].bound;
			DcCounted counted;

			if (source_eval(bound->eval, slot, &counted))
			{
				if (countings[i].carrying != NULL)
					carried_add(countings[i].carrying, &counted);
				else
					bound_add(bound, &counted, sign);
			}
			source_eval_reset(bound->eval);
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
 * source_count_nothing makes the values of a bound counter table those of a source without rows.
 */
void
source_count_nothing(const DcSourceRow *row)
{
	DcCounter *counter = counter_open_bound(row->counter);
	DcSourceStateRow state;
	DcSourceRow now;
	Snapshot snapshot;

	/* code of an owner, called while amounts are being written: which of them are, nobody knows */
	if (InSecurityRestrictedOperation() && !pending_is_empty())
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
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	subtract_table(counter, true);
	subtract_table(counter, false);
	if (OidIsValid(now.carried))
		carried_read(&now, snapshot, subtract_carried, counter);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	state.state = DC_SOURCE_EXACT;
	state.built_to = NULL;
	state.epoch++;
	source_state_store(&state);
}

/*
 * subtract_table subtracts the amounts of one of the counter's tables, in the active snapshot.
 */
static void
subtract_table(DcCounter *counter, bool totals)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter values", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	text *from = cstring_to_text("");
	int32 shard = 0;
	bool without = false;
	uint64 count;

	do
	{
		DcSqlSession session;
		Datum values[] = {PointerGetDatum(from), BoolGetDatum(without), Int32GetDatum(PAGE_ROWS)};
		Datum of_shards[] = {values[0], Int32GetDatum(shard), values[1], values[2]};
		Datum *keys;
		int64 *nets;

		sql_begin(&session, counter);
		count = sql_read(&session, totals ? &sql_page_of_totals : &sql_page_of_shards,
						 totals ? values : of_shards);
		MemoryContextSwitchTo(cxt);
		keys = palloc((count + 1) * sizeof(Datum));
		nets = palloc((count + 1) * sizeof(int64));
		for (uint64 i = 0; i < count; i++)
		{
			keys[i] = PointerGetDatum(DatumGetTextPCopy(rows_datum(&session.rows, i, 1)));
			nets[i] = rows_bigint(&session.rows, i, 2) - rows_bigint(&session.rows, i, 3);
			if (!totals)
				shard = DatumGetInt32(rows_datum(&session.rows, i, 4));
		}
		sql_end(&session);
		for (uint64 i = 0; i < count; i++)
		{
			DcKey key;

			key_from_text(keys[i], &key);
			subtract_carried(counter, &key, -nets[i]);
		}
		from = count > 0 ? DatumGetTextPCopy(keys[count - 1]) : from;
		without = true;
	} while (count == PAGE_ROWS);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * subtract_carried adds an amount, which is one that stays, or one that goes with its sign turned.
 */
static void
subtract_carried(void *arg, const DcKey *key, int64 amount)
{
	if (amount > 0)
		counter_add_amounts(arg, key, DC_NO_HINT, amount, 0);
	else if (amount < 0)
		counter_add_amounts(arg, key, DC_NO_HINT, 0, -amount);
}
