/*
 * detach.c
 *		dc_ledger_detach(): detaching old months, and carrying their balances forward.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Protocol:
 *
 *	1. One detach of a ledger at a time: an advisory lock, before any lock on the
 *	   entries.
 *	2. Wait for all transactions that are posting now. An entry bears the time of the call
 *	   that posted it, so those that come later post to this month, or a later one,
 *	   which is never detached. They are not kept waiting.
 *	3. Lock the old months: no transaction changes them any more.
 *	4. Add the sums of their entries to the openings, in a new snapshot.
 *	5. Detach them, with plain DDL. It waits for the transactions that use the ledger, and
 *	   makes later ones wait, but not for longer than that.
 *
 * All rows of the table of openings have the same `before`: the time from which entries are
 * kept. If it has no row, no entry has ever been detached.
 *
 * A reader has a lock on the entries, so months are not detached while it
 * reads. But its snapshot may be from before a detach, and then would show neither
 * the entries nor the openings. So it checks its snapshot (openings_snapshot_push).
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/lockclass.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/guard.h"
#include "core/table/partition.h"
#include "core/table/table.h"
#include "transactional/ledger/detach.h"
#include "transactional/ledger/entrymonth.h"
#include "transactional/ledger/ledgershape.h"
#include "transactional/ledger/ledgersql.h"

PG_FUNCTION_INFO_V1(dc_ledger_detach);

#define OPENING_OPTIONS "fillfactor=80"
#define OPENING_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" PRIMARY KEY," \
	" amount pg_catalog.int8 NOT NULL," \
	" before pg_catalog.timestamptz NOT NULL"

/* before: adds up the entries before a time */
static const DcStatement sql_opening_add = {
	.text = "INSERT INTO @openings AS o (key, amount, before)"
			" SELECT e.key, sum(e.amount)::int8, $1 FROM @entries AS e WHERE e.at < $1 GROUP BY e.key"
			" ON CONFLICT (key) DO UPDATE SET amount = o.amount + excluded.amount, before = excluded.before",
	.argtypes = {TIMESTAMPTZOID},
	.reads_all = true};

/* before: all rows have the same */
static const DcStatement sql_opening_move = {
	.text = "UPDATE @openings AS o SET before = $1 WHERE o.before <> $1", .argtypes = {TIMESTAMPTZOID}, .reads_all = true};

static TimestampTz before_arg(FunctionCallInfo fcinfo, int argno);
static void check_detachable(DcLedger *ledger);
static void lock_detaching(Oid relid);
static List *lock_months(DcLedger *ledger, TimestampTz before, TimestampTz *end);
static void carry_forward(DcLedger *ledger, TimestampTz end);
static void create_openings(DcLedger *ledger);
static void detach_detach(DcLedger *ledger, Oid month);

/*
 * dc_ledger_detach(ledger regclass, before timestamptz) -> setof regclass, the months
 * that end by that time: they are detached, and are ordinary tables of the owner
 * then. For the ledger's owner. Errors: 42809 if entries are not kept by month, 22023 for
 * a time in the future, 25001 under REPEATABLE READ and SERIALIZABLE.
 */
Datum
dc_ledger_detach(PG_FUNCTION_ARGS)
{
	DcCounter *counter;
	DcLedger *ledger;
	TimestampTz before;
	TimestampTz end;
	List *months;
	ListCell *lc;

	counter_arg(fcinfo);
	prevent_write("dc_ledger_detach()");
	before = before_arg(fcinfo, 1);
	counter = counter_open_ledger(fcinfo, "dc_ledger_detach()", AccessShareLock, ACL_NO_RIGHTS);
	lock_detaching(counter->relid);
	ledger = ledger_open(fcinfo, "dc_ledger_detach()", AccessShareLock, ACL_NO_RIGHTS);
	check_detachable(ledger);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	writers_wait(ledger->row.entries);
	months = lock_months(ledger, before, &end);
	if (months == NIL)
		return (Datum) 0;
	carry_forward(ledger, end);
	foreach(lc, months)
	{
		ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
		Datum value = ObjectIdGetDatum(lfirst_oid(lc));
		bool isnull = false;

		detach_detach(ledger, lfirst_oid(lc));
		tuplestore_putvalues(result->setResult, result->setDesc, &value, &isnull);
	}
	return (Datum) 0;
}

/*
 * Return the time before which months are to be detached; 22004 for NULL, 22023 if it is in the
 * future.
 */
static TimestampTz
before_arg(FunctionCallInfo fcinfo, int argno)
{
	TimestampTz before;

	arg_not_null(fcinfo, argno, "before");
	before = PG_GETARG_TIMESTAMPTZ(argno);
	if (before > GetCurrentTimestamp()) /* entries have wall time */
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("before must not be in the future")));
	return before;
}

/*
 * Raise 42809 for a ledger whose entries are not kept by month, 25001 under REPEATABLE READ and
 * SERIALIZABLE.
 */
static void
check_detachable(DcLedger *ledger)
{
	if (!ledger->by_month)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("the entries of \"%s\" are not kept by month",
						get_rel_name(ledger->relid)),
				 errhint("Monthly partitions can only be chosen when a ledger is created, with partition_by => 'month'.")));
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("dc_ledger_detach() must run at isolation level READ COMMITTED"),
				 errdetail("The snapshot of this transaction may be older than some entries.")));
}

/*
 * lock_detaching makes this transaction the only one that detaches months of a ledger. It
 * has no other lock yet that another one that detaches would wait for.
 */
static void
lock_detaching(Oid relid)
{
	(void) advisory_lock(DETACH_LOCK_CLASS, relid, 0, ExclusiveLock, true);
}

/*
 * lock_months lists the months that end by a time, and when the last of them does.
 */
static List *
lock_months(DcLedger *ledger, TimestampTz before, TimestampTz *end)
{
	Relation entries;
	List *months;
	ListCell *lc;

	AcceptInvalidationMessages();
	entries = table_open_present(ledger->row.entries, NoLock);
	months = months_until(entries, before, end);
	table_close(entries, NoLock);
	foreach(lc, months)
		LockRelationOid(lfirst_oid(lc), ShareRowExclusiveLock);
	return months;
}

/*
 * carry_forward adds the sums of the entries before a time to the openings.
 */
static void
carry_forward(DcLedger *ledger, TimestampTz end)
{
	Datum before = TimestampTzGetDatum(end);
	DcSqlSession session;

	if (!OidIsValid(ledger->row.openings))
		create_openings(ledger);
	ledger_sql_begin(&session, ledger);
	sql_run(&session, &sql_opening_add, &before);
	sql_run(&session, &sql_opening_move, &before);
	sql_end(&session);
}

/*
 * create_openings makes the table of openings, as the owner.
 */
static void
create_openings(DcLedger *ledger)
{
	DcRunAs state;

	runas_begin(&state, ledger->counter->owner);
	ledger->row.openings = sibling_create(ledger->relid, DC_OPENING_SUFFIX, OPENING_COLUMNS, OPENING_OPTIONS, false,
										  "balances of detached entries; see dc_ledger_detach()");
	guard_create(relation_sql_name(ledger->row.openings));
	runas_end(&state);
	ledger_set_openings(ledger->relid, ledger->row.openings);
	ledger->counter = counter_lookup(ledger->relid);
}

/*
 * detach_detach detaches a month, as the owner. It loses the guard: the part that came from the
 * parent by itself.
 */
static void
detach_detach(DcLedger *ledger, Oid month)
{
	char *table = relation_sql_name(month);
	DcRunAs state;

	runas_begin(&state, ledger->counter->owner);
	run_ddl(psprintf("ALTER TABLE %s DETACH PARTITION %s",
					 relation_sql_name(ledger->row.entries), table));
	if (OidIsValid(get_trigger_oid(month, GUARD_TRUNCATE, true)))
		run_ddl(psprintf("DROP TRIGGER " GUARD_TRUNCATE " ON %s", table));
	runas_end(&state);
}

/*
 * openings_before returns when the kept entries begin, as a snapshot has it; false if none
 * were detached.
 */
bool
openings_before(DcLedger *ledger, Snapshot snapshot, TimestampTz *before)
{
	Relation rel;
	TupleTableSlot *slot;
	TableScanDesc scan;
	bool found;

	if (!OidIsValid(ledger->row.openings))
		return false;
	rel = table_open_present(ledger->row.openings, AccessShareLock);
	ledger_recheck(ledger);
	slot = table_slot_create(rel, NULL);
	scan = compat_table_beginscan(rel, snapshot, 0, NULL);
	found = table_scan_getnextslot(scan, ForwardScanDirection, slot);
	if (found)
		*before = DatumGetTimestampTz(slot_datum(slot, ledger->opening_layout.atts[OPENING_BEFORE], TIMESTAMPTZOID));
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return found;
}

/*
 * openings_snapshot_push makes active the snapshot that a read function answers from, as
 * read_snapshot_push() does, but not one from before months were detached. If
 * it must be that one, it raises 40001.
 */
void
openings_snapshot_push(DcLedger *ledger)
{
	TimestampTz seen;
	TimestampTz latest;

	read_snapshot_push();
	if (!openings_before(ledger, SnapshotSelf, &latest))
		return;
	if (openings_before(ledger, GetActiveSnapshot(), &seen) && seen == latest)
		return;
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("Entries were detached after the transaction's snapshot.")));
	PopActiveSnapshot();
	latest_snapshot_push();
}
