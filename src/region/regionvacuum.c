/*
 * regionvacuum.c
 *		dc_region_vacuum(): removing what is left of deleted keys.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A deleted key has rows of sets and of regions, and perhaps a row of totals without amounts. All
 * of them are removed at once, but only in this database: deletions are not published. Other
 * regions do the same at any time, or never, and all may go on counting in the key in the meantime.
 * That is safe since a region that gets the key again after that gets whole rows:
 *
 *	- The server silently skips an UPDATE of a row that does not exist. So others must insert the
 *	  rows that they write for the key from now on. The last set of the key is a deletion, and it
 *	  has closed each existing slot of the key, with just the amounts that these have (sets.h). Each
 *	  active region knows of that deletion, and all that it had published before that is here:
 *	  nothing is on its way. Each region that knows of it inserts a new slot (regionpublish.c), and
 *	  inserts its row of sets again unless it has written that since (setrow.c). Rows of grants, of
 *	  wants and of regions themselves are never removed.
 *	- Rows of the key that another region brings back, by a copy or with a later set that has
 *	  observed the old slots, are right by themselves: they include the slots and the amounts that
 *	  are subtracted. While a copy is under way the slots may come first.
 *	- Nothing is removed while the counter has sealed amounts of an older epoch: a removal raises
 *	  the epochs of new slots above those of the older epoch (slot_has_next).
 *	- This database no longer knows which epochs its slots of the key had. If it began to count in
 *	  one of these again, regions that still have that slot would have more in it already. So the
 *	  epochs of slots that are opened from now on, of any key, are greater than all that were
 *	  removed (regionslot.c). A slot of its own that comes back is not counted in.
 *
 *	- No set from before the deletion is on its way anywhere. A region that set the key without
 *	  knowing of the deletion would bring back slots that others have removed, or, along a ring or
 *	  by a hub, its own row to a region that has removed it. So all active regions must know of each
 *	  row of sets, not only of the last one.
 *
 * The heartbeats of the region that has set a key show that another region knows of the set: they
 * have the time before which all of its commits have come. The stamp of a set is the time when it
 * was created; its transaction commits later. Therefore heartbeats must be later than the stamp by
 * older_than: no transaction that sets keys may be open for longer. Nor may a backup that is
 * restored be older, as its rows of the key do not include the deletion.
 *
 * Nothing is removed of a key that has amounts in shard rows. Increments that are committed
 * in the meantime are added on top: they need none of the removed rows.
 *
 * The lock on the table of regions keeps all writers of the two tables away (region.h): compaction
 * skips the counter, setters and apply workers wait. Transactions that count do not.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "core/counter/sqlpath.h"
#include "core/table/access.h"
#include "region/life.h"
#include "region/sets.h"
#include "types/crdt/crdttype.h"

PG_FUNCTION_INFO_V1(dc_region_vacuum);

/* Microseconds from 1970, where stamps begin, to 2000. */
#define EPOCH_DIFF ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/* Keys that are removed by one statement. */
#define MAX_KEYS 1000

/* stamp: keys that were deleted by then, and have no amounts elsewhere */
static const DcStatement sql_deleted = {
	.text = "SELECT l.key FROM (SELECT DISTINCT ON (s.key) s.key, s.hlc, s.deleted FROM @sets AS s"
			" ORDER BY s.key, s.hlc DESC, s.region DESC) AS l WHERE l.deleted AND l.hlc <= $1"
			" AND NOT EXISTS (SELECT FROM @shards AS h WHERE h.key = l.key AND (h.inc <> 0 OR h.dec <> 0))"
			" AND NOT EXISTS (SELECT FROM @totals AS t WHERE t.key = l.key AND (t.inc <> 0 OR t.dec <> 0))",
	.argtypes = {INT8OID},
	.reads_all = true,
	.columns = {DC_TEXT("key")},
	.of = DC_OF_MORE + 1};

static const DcStatement sql_any_sealed = {
	.text = "SELECT count(*) FROM (SELECT FROM @regions AS r WHERE r.epoch < 0 LIMIT 1) AS s",
	.reads_all = true,
	.columns = {DC_BIGINT("count")},
	.of = DC_OF_MORE};

/* keys */
static const DcStatement sql_remove[] = {
	{.text = "DELETE FROM @sets AS s WHERE s.key = ANY ($1)", .argtypes = {TEXTARRAYOID}, .of = DC_OF_MORE + 1},
	{.text = "DELETE FROM @regions AS r WHERE r.key = ANY ($1)", .argtypes = {TEXTARRAYOID}, .of = DC_OF_MORE},
	{.text = "DELETE FROM @totals AS t WHERE t.key = ANY ($1) AND t.inc = 0 AND t.dec = 0", .argtypes = {TEXTARRAYOID}}};

/* A region, and what all others know of it. */
typedef struct DcHeardOf
{
	char *region;
	TimestampTz at;
} DcHeardOf;

typedef struct DcVacuum
{
	DcCounter *counter;
	DcIdentity identity;
	int64 older_than; /* us */
	MemoryContext cxt;
	bool alone;	 /* there is no other region */
	List *heard; /* DcHeardOf, in cxt */
	DcRegionRel slots;
	DcRegionRel sets;
	int64 removed;
	int64 unheard; /* keys of which a set may not be known everywhere */
	int64 open;	   /* keys with a slot that the deletion has not closed */
	int64 epoch;   /* greater than those of this database's slots that are removed */
} DcVacuum;

static DcCounter *open_to_vacuum(FunctionCallInfo fcinfo);
static void regionvacuum_vacuum(DcVacuum *vacuum);
static bool is_to_go(DcVacuum *vacuum, Datum key);
static bool all_have_heard(DcVacuum *vacuum, const DcSetRow *set);
static void note_epochs(DcVacuum *vacuum, const List *slots);
static void remove_keys(DcSqlSession *session, Datum *keys, int n);
static const char *vacuum_word(DcCounter *counter, const char *word);

/*
 * dc_region_vacuum(counter regclass, older_than interval) -> bigint: removes the rows of keys that
 * were deleted longer ago than that, and returns how many keys. For the owner.
 *
 * Errors: 22023 for a negative interval, 55000 if the counter is not replicated, or this database
 * needs a new epoch.
 */
Datum
dc_region_vacuum(PG_FUNCTION_ARGS)
{
	DcVacuum work = {0};
	DcCounterRow row;

	arg_not_null(fcinfo, 1, "older_than");
	work.older_than = interval_to_duration(PG_GETARG_INTERVAL_P(1), "older_than");
	if (work.older_than < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("older_than must not be negative")));
	work.counter = open_to_vacuum(fcinfo);
	region_identity_needed(&work.identity);
	regionvacuum_vacuum(&work);
	row = work.counter->row;
	if (work.epoch > row.rights_epoch)
	{
		row.rights_epoch = work.epoch;
		catalog_update(&row);
	}
	if (work.unheard + work.open > 0)
		ereport(NOTICE,
				(errmsg("deleted keys of \"%s\" that are kept: " INT64_FORMAT,
						get_rel_name(work.counter->relid), work.unheard + work.open),
				 errdetail("For " INT64_FORMAT " of them, not all regions have acknowledged that they were set or deleted. " INT64_FORMAT " were incremented at the same time, and can be deleted again.",
						   work.unheard, work.open)));
	PG_RETURN_INT64(work.removed);
}

/*
 * open_to_vacuum opens a counter table for its owner, and keeps all from writing to its tables of
 * regions and of sets.
 */
static DcCounter *
open_to_vacuum(FunctionCallInfo fcinfo)
{
	Oid relid = counter_arg(fcinfo);
	DcCounter *counter = counter_lookup(relid);
	Oid regions = counter->row.regions;
	Oid sets = counter->row.sets;
	DcIdentity identity;

	prevent_write("dc_region_vacuum()");
	prevent_not_owner(relid);
	region_check_replicated(counter);
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot execute %s at this isolation level", "dc_region_vacuum()"),
				 errhint("Use READ COMMITTED.")));
	region_identity_awaited(&identity); /* before any table is locked that the worker needs to complete a start */
	LockRelationOid(regions, ShareRowExclusiveLock);
	LockRelationOid(sets, RowExclusiveLock);
	counter = counter_open_as_owner(fcinfo, "dc_region_vacuum()", RowExclusiveLock);
	if (counter->row.regions != regions || counter->row.sets != sets)
		region_check_replicated(&(DcCounter){.relid = relid});
	return counter;
}

/*
 * Remove the rows of all deleted keys for which that is safe. With sealed amounts that are not
 * published yet, it removes nothing and says so.
 */
static void
regionvacuum_vacuum(DcVacuum *vacuum)
{
	DcCounter *counter = vacuum->counter;
	Datum stamp = Int64GetDatum(Max(GetCurrentTimestamp() + EPOCH_DIFF - vacuum->older_than, 0));
	DcSqlSession session;
	Datum *keys;
	MemoryContext cxt;
	MemoryContext old;
	uint64 found;
	int n = 0;

	vacuum->cxt = CurrentMemoryContext;
	vacuum->alone = !region_has_others(vacuum->identity.region);
	regionrel_open(&vacuum->slots, counter, TABLE_OF_REGIONS, NoLock);
	regionrel_open(&vacuum->sets, counter, TABLE_OF_SETS, NoLock);
	sql_begin(&session, counter);
	session.word = vacuum_word;
	sql_keep_open(&session, DC_OF_MORE, counter->row.regions);
	sql_keep_open(&session, DC_OF_MORE + 1, counter->row.sets);
	(void) sql_run(&session, &sql_any_sealed, NULL);
	if (rows_bigint(&session.rows, 0, 1) > 0)
	{
		ereport(NOTICE,
				(errmsg("nothing of \"%s\" is removed, because it has amounts that a renewal left out", get_rel_name(counter->relid)),
				 errhint("They are published by the worker, or by dc_region_renew().")));
		sql_end(&session);
		regionrel_close(&vacuum->sets);
		regionrel_close(&vacuum->slots);
		return;
	}
	found = sql_run(&session, &sql_deleted, &stamp);
	keys = MemoryContextAllocHuge(CurrentMemoryContext, Max(found, 1) * sizeof(Datum));
	cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter vacuum", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	for (uint64 i = 0; i < found; i++)
	{
		Datum key = rows_datum(&session.rows, i, 1);

		CHECK_FOR_INTERRUPTS();
		if (is_to_go(vacuum, key))
			keys[n++] = key;
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	for (int i = 0; i < n; i += MAX_KEYS)
		remove_keys(&session, keys + i, Min(n - i, MAX_KEYS));
	vacuum->removed = n;
	sql_end(&session);
	regionrel_close(&vacuum->sets);
	regionrel_close(&vacuum->slots);
}

/*
 * Return true if the rows of a deleted key can be removed.
 */
static bool
is_to_go(DcVacuum *vacuum, Datum key)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	const DcSetRow *last;
	DcSetRows sets;
	List *slots;
	ListCell *lc;

	set_rows_read(&vacuum->sets, key, snapshot, &sets);
	slots = region_rows_read(&vacuum->slots, key, snapshot);
	UnregisterSnapshot(snapshot);
	last = sets_last(&sets);
	if (last == NULL && !sets.too_many)
		return false; /* deleted directly in the meantime */
	if (sets.too_many)
	{
		vacuum->open++;
		return false;
	}
	for (int i = 0; i < sets.n; i++)
	{
		if (!all_have_heard(vacuum, &sets.rows[i]))
		{
			vacuum->unheard++;
			return false;
		}
	}
	foreach(lc, slots)
	{
		const DcRegionRow *slot = lfirst(lc);
		AmountsEntry entry;

		CHECK_FOR_INTERRUPTS();
		if (!observed_find(last->upto, slot, &entry) ||
			entry.amounts[AMOUNT_INC] != slot->inc || entry.amounts[AMOUNT_DEC] != slot->dec ||
			entry.amounts[AMOUNT_INC_RESET] != slot->inc || entry.amounts[AMOUNT_DEC_RESET] != slot->dec)
		{
			vacuum->open++;
			return false;
		}
	}
	note_epochs(vacuum, slots);
	return true;
}

/*
 * Return true if all active regions know of the set, and it is older than older_than. The answer
 * for its region is remembered for the other keys.
 */
static bool
all_have_heard(DcVacuum *vacuum, const DcSetRow *set)
{
	char *region = TextDatumGetCString(set->region);
	DcHeardOf *heard = NULL;
	ListCell *lc;

	foreach(lc, vacuum->heard)
	{
		if (strcmp(((DcHeardOf *) lfirst(lc))->region, region) == 0)
			heard = lfirst(lc);
	}
	if (heard == NULL && vacuum->alone)
		return true;
	if (heard == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(vacuum->cxt);

		heard = palloc(sizeof(DcHeardOf));
		*heard = (DcHeardOf){pstrdup(region), region_seen_by_all(region)};
		vacuum->heard = lappend(vacuum->heard, heard);
		MemoryContextSwitchTo(old);
	}
	if (TIMESTAMP_NOT_FINITE(heard->at))
		return TIMESTAMP_IS_NOEND(heard->at);
	return set->hlc + (__int128) vacuum->older_than < heard->at + EPOCH_DIFF;
}

/*
 * note_epochs notes the epochs of own slots that are going to be removed.
 */
static void
note_epochs(DcVacuum *vacuum, const List *slots)
{
	ListCell *lc;

	foreach(lc, slots)
	{
		const DcRegionRow *slot = lfirst(lc);

		if (strcmp(TextDatumGetCString(slot->region), vacuum->identity.region) == 0 &&
			region_epoch_is_own(&vacuum->identity, slot->epoch))
			vacuum->epoch = Max(vacuum->epoch, slot->epoch + 1);
	}
}

/*
 * Remove the rows of some keys from all tables of the counter.
 */
static void
remove_keys(DcSqlSession *session, Datum *keys, int n)
{
	Datum array = array_datum(keys, n, TEXTOID);

	for (int i = 0; i < lengthof(sql_remove); i++)
		sql_run(session, &sql_remove[i], &array);
}

/*
 * vacuum_word puts the tables of regions and of sets into statements.
 */
static const char *
vacuum_word(DcCounter *counter, const char *word)
{
	if (strcmp(word, "sets") == 0)
		return relation_sql_name(counter->row.sets);
	if (strcmp(word, "regions") != 0)
		elog(ERROR, "unrecognized word: %s", word);
	return relation_sql_name(counter->row.regions);
}
