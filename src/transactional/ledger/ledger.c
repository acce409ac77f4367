/*
 * ledger.c
 *		Opening a ledger.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A ledger is a counter table, for the balances, and tables that go with it. A call
 * locks the table of balances first, as with any counter table (ROW
 * EXCLUSIVE to post), and the others afterwards, always in the same order. Anything
 * looked up and checked before is checked again once all locks are held.
 *
 * A session remembers a ledger until a relcache invalidation of one of its tables comes. All
 * code relies on the columns that dc_ledger_create() has made, and on the guard
 * (core/table/guard.c), so both are checked when the ledger is looked up again.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/relcached.h"
#include "base/relopen.h"
#include "core/compact/compact.h"
#include "core/counter/sqlpath.h"
#include "core/counter/units.h"
#include "core/rows/insert.h"
#include "core/table/access.h"
#include "core/table/extras.h"
#include "core/table/guard.h"
#include "core/table/layout.h"
#include "transactional/ledger/entrymonth.h"
#include "transactional/ledger/ledger.h"
#include "transactional/ledger/ledgershape.h"

/* Look-ups that invalidations may undo before the result is used anyway. */
#define MAX_TRIES 16

static void ledger_changed(void *entry, Oid relid);

/*
 * Entries are never removed. The table of rules in one goes when it is filled again, so
 * nothing keeps a pointer into that.
 */
static DcRelCached ledgers = {
	.name = "dcounter ledgers",
	.keysize = sizeof(Oid),
	.size = sizeof(DcLedger),
	.changed = ledger_changed,
};

static DcLedger *ledger_find(DcCounter *counter);
static bool ledger_fill(void *entry, void *arg);
static bool lock_ledger_tables(DcLedger *ledger, LOCKMODE mode);
static void ledger_check_table(DcLedger *ledger, Oid relid, const DcShape *shape,
							   DcTableLayout *layout);
static void ledger_check_owner(const DcLedger *ledger, Oid relid);
static int ledger_counter_tables(const DcLedgerRow *ledger, Oid *tables);
static void check_counters(DcLedger *ledger);

/*
 * ledger_open opens the ledger in argument 0, with all of `rights` on its table of
 * balances, or for its owner if there are none.
 */
DcLedger *
ledger_open(FunctionCallInfo fcinfo, const char *function, LOCKMODE mode,
			AclMode rights)
{
	DcCounter *counter = counter_open_ledger(fcinfo, function, mode, rights);
	DcLedger *ledger;
	int tries = 0;

	do
	{
		ledger = ledger_find(counter);
		/* with debug_discard_caches it never stays valid; it is fresh enough */
	} while (!lock_ledger_tables(ledger, mode) && ++tries < MAX_TRIES);
	/* taking the locks may have received invalidations of the counter tables */
	ledger->counter = counter_lookup(counter->relid);
	ledger->limits = counter_lookup(ledger->row.limits);
	counter_layout(ledger->limits);
	if (mode > AccessShareLock)
	{
		guard_check(ledger->unguarded);
		units_check(ledger->limits);
	}
	return ledger;
}

/*
 * ledger_open_at_once opens a ledger to write without waiting for a lock, and without asking
 * for rights. Returns NULL if it is locked, cannot be used in its state, or is not the current
 * user's (unless all_owners).
 */
DcLedger *
ledger_open_at_once(Oid relid, bool all_owners)
{
	DcCounter *counter = compact_open(relid, all_owners);
	DcCounterRow limits;
	DcLedgerRow row;
	DcLedger *ledger;

	if (counter == NULL || !counter_is_ledger(counter) ||
		!ledger_read(relid, &row) ||
		counter_open_at_once(row.limits, RowExclusiveLock) == NULL ||
		!catalog_read(row.limits, &limits) ||
		!ConditionalLockRelationOid(limits.holds, AccessShareLock) ||
		!ConditionalLockRelationOid(row.entries, RowExclusiveLock) ||
		!ConditionalLockRelationOid(row.accounts, AccessShareLock) ||
		!ConditionalLockRelationOid(row.pendings, RowExclusiveLock))
		return NULL;
	ledger = ledger_find(counter);
	(void) lock_ledger_tables(ledger, RowExclusiveLock); /* they are locked */
	guard_check(ledger->unguarded);
	ledger->counter = counter_lookup(relid);
	ledger->limits = counter_lookup(row.limits);
	counter_layout(ledger->limits);
	units_check(ledger->limits);
	return ledger;
}

/*
 * ledger_check raises an error if a ledger cannot be opened in its state.
 */
void
ledger_check(Oid relid)
{
	guard_check(ledger_find(counter_lookup(relid))->unguarded);
}

/*
 * ledger_recheck looks a ledger that is open up again if something has changed, as code
 * of its owner may do between two statements: its tables may have other shapes.
 */
void
ledger_recheck(DcLedger *ledger)
{
	if (ledger->valid)
		return;
	ledger->counter = counter_lookup(ledger->relid);
	(void) relcached_fill(ledger, &ledger->valid, ledger_fill, NULL);
	ledger->limits = counter_lookup(ledger->row.limits);
	counter_layout(ledger->limits);
}

/*
 * ledger_lock_rest locks the tables that only some calls need, in the order of all calls, and
 * makes sure that the ledger is as it was created.
 */
void
ledger_lock_rest(DcLedger *ledger)
{
	LockRelationOid(ledger->row.accounts, AccessShareLock);
	LockRelationOid(ledger->row.pendings, AccessShareLock);
	if (OidIsValid(ledger->row.openings))
		LockRelationOid(ledger->row.openings, AccessShareLock);
	ledger_recheck(ledger);
}

/*
 * lock_ledger_tables locks the tables that every call needs besides that of balances; false if the
 * ledger has to be looked up again.
 */
static bool
lock_ledger_tables(DcLedger *ledger, LOCKMODE mode)
{
	LOCKMODE others = mode > AccessShareLock ? RowExclusiveLock : AccessShareLock;

	if (!counter_lock(ledger->row.limits, others))
		return false;
	LockRelationOid(ledger->row.entries, others);
	return ledger->valid;
}

/*
 * ledger_find returns a ledger from the cache, looked up if necessary.
 */
static DcLedger *
ledger_find(DcCounter *counter)
{
	DcLedger *ledger = relcached_enter(&ledgers, &counter->relid);

	ledger->counter = counter;
	if (!ledger->valid)
		(void) relcached_fill(ledger, &ledger->valid, ledger_fill, NULL);
	return ledger;
}

/*
 * ledger_fill looks a ledger up, and checks the shapes of its tables.
 */
static bool
ledger_fill(void *entry, void *arg)
{
	DcLedger *ledger = entry;
	Relation entries;
	DcTableLayout layout;

	if (!ledger_read(ledger->relid, &ledger->row))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("ledger \"%s\" is not registered",
						get_rel_name(ledger->relid)),
				 errhint("Register its tables with dc_ledger_adopt().")));
	if (ledger->rules != NULL)
		hash_destroy(ledger->rules);
	ledger->rules = NULL;
	ledger->unguarded = InvalidOid;
	ledger_check_table(ledger, ledger->row.entries, &entry_shape, &layout);
	entries = table_open_present(ledger->row.entries, NoLock);
	ledger->direct = !entries->rd_rel->relispartition && entries_are_plain(entries, &layout);
	ledger_check_table(ledger, ledger->row.accounts, &account_shape, &ledger->account_layout);
	ledger_check_table(ledger, ledger->row.pendings, &pending_shape, &layout);
	if (OidIsValid(ledger->row.openings))
		ledger_check_table(ledger, ledger->row.openings, &opening_shape, &ledger->opening_layout);
	check_counters(ledger);
	ledger_check_owner(ledger, ledger->row.limits);
	ledger->by_month = month_is_key(entries);
	ledger->parent_direct = relation_extras(entries, EXTRA_PART | EXTRA_RULES | EXTRA_TRIGGERS) == 0;
	sql_forget(ledger->counter); /* tables may have other names */
	table_close(entries, NoLock);
	return true;
}

/*
 * check_counters notes if one of the tables of balances and limits is not guarded. core/counter
 * checks the rest of them.
 */
static void
check_counters(DcLedger *ledger)
{
	ledger->ncounters = ledger_counter_tables(&ledger->row, ledger->counters);
	for (int i = 0; i < ledger->ncounters; i++)
	{
		Relation rel = try_table_open(ledger->counters[i], AccessShareLock);

		if (rel == NULL)
			continue; /* dropped while we waited: the table of limits is no longer a counter table */
		if (!guard_keeps_rows(rel))
			ledger->unguarded = RelationGetRelid(rel);
		table_close(rel, NoLock);
	}
}

/*
 * ledger_guard_counters puts the guard on the counter tables of a ledger, where it is missing
 * or disabled.
 */
void
ledger_guard_counters(const DcLedgerRow *ledger)
{
	Oid tables[DC_LEDGER_COUNTER_TABLES];
	int n = ledger_counter_tables(ledger, tables);

	for (int i = 0; i < n; i++)
	{
		Relation rel = table_open_present(tables[i], AccessShareLock);
		bool on = guard_keeps_rows(rel);

		table_close(rel, NoLock);
		if (!on)
			guard_create_rows(relation_sql_name(tables[i]));
	}
}

/*
 * ledger_counter_tables lists the counter tables of a ledger, and returns their number.
 */
static int
ledger_counter_tables(const DcLedgerRow *ledger, Oid *tables)
{
	const Oid counters[] = {ledger->ledger, ledger->limits};
	int n = 0;

	for (int i = 0; i < lengthof(counters); i++)
	{
		DcCounterRow row;

		if (!catalog_read(counters[i], &row))
			continue;
		tables[n++] = row.counter;
		tables[n++] = row.shards;
		if (OidIsValid(row.holds))
			tables[n++] = row.holds;
	}
	return n;
}

/*
 * ledger_check_table locks and checks one of a ledger's tables, and notes if it is not guarded.
 */
static void
ledger_check_table(DcLedger *ledger, Oid relid, const DcShape *shape, DcTableLayout *layout)
{
	Relation rel = table_open_present(relid, AccessShareLock);

	shape_check(rel, shape, layout);
	if (rel->rd_rel->relrowsecurity)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("row-level security is not supported on table \"%s\" of a ledger",
						RelationGetRelationName(rel))));
	if (!guard_is_on(rel))
		ledger->unguarded = relid;
	table_close(rel, NoLock);
	ledger_check_owner(ledger, relid);
}

/*
 * Raise 55000 if a table of a ledger has another owner than its table of balances.
 */
static void
ledger_check_owner(const DcLedger *ledger, Oid relid)
{
	if (relation_owner(relid) != ledger->counter->owner)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the tables of ledger \"%s\" have different owners",
						get_rel_name(ledger->relid)),
				 errhint("Use ALTER TABLE ... OWNER TO to give all of them to one role.")));
}

/*
 * Return true if entries can be inserted into a table, or into a
 * partition, without SQL.
 */
bool
entries_are_plain(Relation entries, const DcTableLayout *layout)
{
	return layout->heap && layout->exact && relation_extras(entries, EXTRAS_OF_INSERT) == 0;
}

/*
 * ledger_changed forgets a ledger that a relation belongs to.
 */
static void
ledger_changed(void *entry, Oid relid)
{
	DcLedger *ledger = entry;
	const DcLedgerRow *row = &ledger->row;

	if (!OidIsValid(relid) || relid == ledger->relid ||
		relid == row->entries || relid == row->accounts ||
		relid == row->pendings || relid == row->limits || relid == row->openings)
		ledger->valid = false;
	for (int i = 0; i < ledger->ncounters; i++)
		ledger->valid &= relid != ledger->counters[i];
	if (!ledger->valid || relid == ledger->leaf)
		ledger->leaf = InvalidOid;
}
