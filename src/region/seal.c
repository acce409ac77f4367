/*
 * seal.c
 *		Unpublished counts of an identity: setting them apart (sealing), and publishing them
 *		(folding).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * When a server has started, amounts in local shard rows may have been published already, by the
 * server of which this one is a snapshot. Later counts have not. So the local rows of each
 * replicated counter are sealed: in one transaction they become remote ones, and rows of
 *
 *		NAME_region (key, region, minus the epoch, ...)
 *
 * have the same amounts. Totals and remote shard rows are still the sum over the rows of regions
 * (region.h), and the row filters of the publications let no such row through.
 *
 * Later they are folded: added to the rows of the epoch itself, or to the slots that are counted in
 * since a deletion (regionslot.c), and removed. That happens when the others have confirmed that
 * this database is the only one of the epoch, or before it takes another one. No row of the epoch
 * is merged before that (slot_is_foreign), nor is one of a key that still has sealed amounts of an
 * older epoch (slot_is_sealed), because a counter was left out. So another database that publishes
 * the same amounts arrives at the same sums as this one, and they are counted once.
 *
 * The tables of a counter are locked as by writers, then the identity, exclusively. Sealing waits
 * for transactions that are changing a local row, usually at the end of a commit. Rows that a
 * prepared transaction has locked cannot be sealed before it has ended.
 *
 * The worker seals and folds each counter in a transaction of its own (sealturns.c),
 * dc_region_renew() all of them in one.
 *
 * The worker runs no code of owners, so it leaves tables with such code alone, as well as those
 * that it could not process in time. Their sealed amounts are folded later, under the epoch under
 * which they were sealed. Amounts that could not even be sealed go to the epoch in which they are
 * published. That, and a table that is not as it was created, harms only its owner.
 * dc_region_renew() seals all of them, as their owners.
 *
 * A key whose sum would overflow bigint stays where it is.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "base/subxact.h"
#include "core/counter/apply.h"
#include "core/counter/sqlpath.h"
#include "core/rows/shardnumber.h"
#include "core/table/access.h"
#include "core/table/layout.h"
#include "core/table/ownercode.h"
#include "core/table/subscription.h"
#include "region/life.h"
#include "region/sets.h"

#define MAX_BIGINT "9223372036854775807"

/* How long the restore of a dump may take from its data to its publications. */
#define PUBLICATIONS_US (INT64CONST(60) * USECS_PER_SEC)

/* How many times dcounter.region_handshake it may take from one index to the next. */
#define INDEX_HANDSHAKES 20

#define SEAL(how) \
	"WITH l AS MATERIALIZED (SELECT s.key, s.shard FROM @shards AS s WHERE s.shard >= 0 AND s.key NOT IN" \
	" (SELECT x.key FROM @shards AS x WHERE x.shard >= 0 GROUP BY x.key" \
	" HAVING sum(x.inc) NOT BETWEEN 0 AND " MAX_BIGINT " OR sum(x.dec) NOT BETWEEN 0 AND " MAX_BIGINT ")" \
	" FOR UPDATE" how ")," \
	" d AS (DELETE FROM @shards AS s USING l WHERE s.key = l.key AND s.shard = l.shard" \
	" RETURNING s.key, s.inc, s.dec, s.updated_at)," \
	" g AS (SELECT d.key, sum(d.inc)::int8 AS inc, sum(d.dec)::int8 AS dec, max(d.updated_at) AS at" \
	" FROM d GROUP BY d.key HAVING sum(d.inc) <> 0 OR sum(d.dec) <> 0)," \
	" r AS (INSERT INTO @regions AS r (key, region, epoch, inc, dec, updated_at)" \
	" SELECT g.key, $1, $2, g.inc, g.dec, g.at FROM g ORDER BY g.key ON CONFLICT (key, region, epoch) DO UPDATE" \
	" SET inc = r.inc + excluded.inc, dec = r.dec + excluded.dec, updated_at = greatest(r.updated_at, excluded.updated_at))" \
	" INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)" \
	" SELECT g.key, $3, g.inc, g.dec, g.at FROM g ORDER BY g.key ON CONFLICT (key, shard) DO UPDATE" \
	" SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec, updated_at = greatest(s.updated_at, excluded.updated_at)"
#define SEAL_ARGS \
	{ \
		TEXTOID, INT8OID, INT4OID \
	}

/* region, minus the epoch, a number for remote rows */
static const DcStatement sql_seal = {
	.text = SEAL(""),
	.argtypes = SEAL_ARGS,
	.reads_all = true,
	.of = DC_OF_SHARDS};

/* the same, of rows that nobody has locked */
static const DcStatement sql_seal_free = {
	.text = SEAL(" SKIP LOCKED"),
	.argtypes = SEAL_ARGS,
	.reads_all = true,
	.of = DC_OF_SHARDS};

/* region, epoch, limit: how many keys */
static const DcStatement sql_fold = {
	.text = "WITH d AS (DELETE FROM @regions AS s WHERE s.region = $1 AND s.epoch = -$2 AND s.key IN (SELECT f.key FROM @regions AS f"
			" WHERE f.region = $1 AND f.epoch = -$2 AND NOT EXISTS"
			" (SELECT FROM @regions AS o WHERE o.key = f.key AND o.region = $1 AND o.epoch = $2"
			" AND (o.inc::numeric + f.inc > " MAX_BIGINT " OR o.dec::numeric + f.dec > " MAX_BIGINT ")) LIMIT $3)"
			" RETURNING s.key, s.inc, s.dec, s.updated_at),"
			" i AS (INSERT INTO @regions AS r (key, region, epoch, inc, dec, updated_at)"
			" SELECT d.key, $1, $2, d.inc, d.dec, d.updated_at FROM d ORDER BY d.key ON CONFLICT (key, region, epoch) DO UPDATE"
			" SET inc = r.inc + excluded.inc, dec = r.dec + excluded.dec, updated_at = greatest(r.updated_at, excluded.updated_at))"
			" SELECT count(*) FROM d",
	.argtypes = {TEXTOID, INT8OID, INT8OID},
	.reads_all = true,
	.columns = {DC_BIGINT("count")},
	.of = DC_OF_MORE};

/*
 * region: the epochs under which something was sealed; any more were inserted directly, and cost a
 * scan each
 */
static const DcStatement sql_sealed_epochs = {
	.text = "SELECT -s.epoch AS epoch FROM @regions AS s WHERE s.region = $1 AND s.epoch < 0 AND s.epoch > -" MAX_BIGINT " GROUP BY s.epoch ORDER BY s.epoch DESC LIMIT 64",
	.argtypes = {TEXTOID},
	.reads_all = true,
	.columns = {DC_BIGINT("epoch")},
	.of = DC_OF_MORE};

/* region, epoch, limit */
static const DcStatement sql_sealed = {
	.text = "SELECT s.key, s.inc, s.dec, s.updated_at FROM @regions AS s WHERE s.region = $1 AND s.epoch = -$2 ORDER BY s.key LIMIT $3",
	.argtypes = {TEXTOID, INT8OID, INT8OID},
	.reads_all = true,
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TIME("updated_at")},
	.of = DC_OF_MORE};

/* region, epoch, keys */
static const DcStatement sql_unseal = {
	.text = "DELETE FROM @regions AS s WHERE s.region = $1 AND s.epoch = -$2 AND s.key = ANY ($3)",
	.argtypes = {TEXTOID, INT8OID, TEXTARRAYOID},
	.of = DC_OF_MORE};

/* What seal_work() is called with. */
typedef struct SealWork
{
	List *counters;
	const DcSelfRow *self;
	bool seals;
	bool folds;
	bool folded; /* out: something was */
} SealWork;

/* What lock_work() is called with, and what it finds. */
typedef struct LockWork
{
	const DcCounterRow *row;
	DcCounter *counter;
} LockWork;

/* The time that the steps of an owner have taken. */
typedef struct OwnerTime
{
	Oid owner;
	int64 us;
} OwnerTime;

static DcCounter *lock_or_leave_out(const DcCounterRow *row);
static bool lock_work(void *arg);
static bool seal_work(void *arg);
static bool is_in_order(DcCounter *counter, bool worker);
static bool publications_are_awaited(void);
static bool indexes_are_awaited(int have, int lack);
static void log_awaited(Oid relid);
static int64 fold_epoch(DcSqlSession *session, const DcSelfRow *self, int64 sealed, int64 limit, bool *more);
static int64 fold_slots(DcSqlSession *session, DcRegionRel *slots, DcRegionRel *sets, const DcSelfRow *self, int64 sealed_under, int64 limit,
						bool *more);
static bool fold_slot(DcRegionRel *slots, DcRegionRel *sets, const DcIdentity *identity, const DcRegionRow *sealed);
static void begin_seal(DcSqlSession *session, DcCounter *counter);
static const char *seal_word(DcCounter *counter, const char *word);

/*
 * Return true while there are no publications, for a minute after that was seen: a dump may have
 * been made without them.
 */
static bool
publications_are_awaited(void)
{
	static DcMoment since = DC_NEVER;

	if (publications_exist())
	{
		since = DC_NEVER;
		return false;
	}
	since = moment_min(since, moment_now());
	return moment_age(since) < PUBLICATIONS_US;
}

/*
 * Log once for which table a renewal waits: if there is no restore, somebody has to create its
 * index, or to call dc_region_renew().
 */
static void
log_awaited(Oid relid)
{
	static Oid logged = InvalidOid;
	char *name = get_rel_name(relid);

	if (relid == logged || name == NULL)
		return;
	logged = relid;
	ereport(LOG,
			(errmsg("table \"%s\" of a replicated counter has no index: a dump is being restored", name),
			 errdetail("The database takes a new epoch as a region when all tables have their indexes."),
			 errhint("If nothing is being restored, create the index, or call dc_region_renew().")));
}

/*
 * Return true while tables lack indexes that a restore of a dump may be about to make. If there are
 * some already, all data has come. Then indexes are awaited as long as they become more: a table
 * whose owner has dropped its index would keep all counters waiting.
 */
static bool
indexes_are_awaited(int have, int lack)
{
	static DcMoment since = DC_NEVER;
	static int had = 0;

	if (lack == 0 || have == 0 || have > had)
		since = moment_now();
	had = have == 0 ? 0 : Max(had, have);
	return lack > 0 && moment_age(since) < INDEX_HANDSHAKES * INT64CONST(1000) * dc_region_handshake;
}

/*
 * Return true if a dump is being restored, as far as can be seen: a replicated counter has a table
 * without any index, or the worker sees no publications. Indexes come when all data has come, and
 * publications after them.
 */
bool
restore_is_under_way(bool worker)
{
	Oid lacks = InvalidOid;
	int have = 0;
	int lack = 0;
	ListCell *lc;

	if (worker && publications_are_awaited())
		return true;
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		Oid tables[] = {row->counter, row->shards, row->regions, row->sets};

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; OidIsValid(row->regions) && i < lengthof(tables); i++)
		{
			if (!relation_lacks_indexes(tables[i]))
				have++;
			else if (lack++ == 0)
				lacks = tables[i];
		}
	}
	if (!indexes_are_awaited(have, lack))
		return false;
	log_awaited(lacks);
	return true;
}

/*
 * replicated_lock locks all replicated counters for the user, and then the identity. Returns them.
 */
List *
replicated_lock(void)
{
	List *counters = NIL;
	List *known = NIL;
	ListCell *lc;

	region_check_role();
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);
		DcCounter *counter;

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(row->regions))
			continue;
		known = lappend_oid(known, row->counter);
		counter = lock_or_leave_out(row);
		if (counter != NULL)
			counters = lappend(counters, counter);
	}
	identity_lock();
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (OidIsValid(row->regions) && !list_member_oid(known, row->counter))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("counter table \"%s\" was replicated in the meantime", get_rel_name(row->counter))));
	}
	return counters;
}

/*
 * lock_or_leave_out does replicated_lock_one() for a user. A counter whose tables are not as they
 * were created is left out with a warning: that harms only its owner.
 */
static DcCounter *
lock_or_leave_out(const DcCounterRow *row)
{
	MemoryContext caller = CurrentMemoryContext;
	LockWork work = {row, NULL};

	PG_TRY();
	{
		(void) subxact_run(lock_work, &work);
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(caller);
		const DcCounter *counter = counter_find(row->counter);

		if (!is_owners_error(error->sqlerrcode) || (counter != NULL && counter->fed))
			ReThrowError(error);
		ereport(WARNING,
				(errmsg("counter table \"%s\" is left out: %s", get_rel_name(row->counter), error->message)));
		FreeErrorData(error);
		work.counter = NULL;
	}
	PG_END_TRY();
	return work.counter;
}

/*
 * Lock the tables of a counter, as a subtransaction. The result is in the work.
 */
static bool
lock_work(void *arg)
{
	LockWork *work = arg;

	work->counter = replicated_lock_one(work->row, false);
	return true;
}

/*
 * replicated_lock_one locks a replicated counter. Returns NULL if it was dropped, or if the worker
 * has to leave it to its owner; for the user it raises an error then.
 */
DcCounter *
replicated_lock_one(const DcCounterRow *row, bool worker)
{
	DcCounter *counter;

	if (worker && !worker_may(row->counter))
		return NULL;
	LockRelationOid(row->regions, RowExclusiveLock);
	LockRelationOid(row->sets, RowExclusiveLock);
	if (!counter_lock(row->counter, RowExclusiveLock))
		return NULL; /* dropped in the meantime */
	counter = worker ? counter_find(row->counter) : counter_lookup(row->counter);
	if (counter == NULL || !counter_is_replicated(counter))
		return NULL;
	if (counter->fed && worker)
		return NULL; /* a copy, whose rows are those of another database */
	if (counter->fed)
		prevent_fed(counter, "dc_region_renew()");
	if (counter->row.regions != row->regions || counter->row.sets != row->sets)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("counter table \"%s\" was replicated again in the meantime", get_rel_name(row->counter))));
	return is_in_order(counter, worker) ? counter : NULL;
}

/*
 * worker_may returns true if no code of the owner can run when the worker uses a table. Raises
 * 55P03 if a table is locked.
 */
bool
worker_may(Oid counter)
{
	const char *reason;
	DcOwnerCode code = ownercode_begin(counter, &reason);

	if (code == DC_CODE_LOCKED)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("counter table \"%s\" is locked", get_rel_name(counter))));
	if (code == DC_CODE_FOUND)
		ownercode_log(counter, reason);
	return code == DC_CODE_NONE;
}

/*
 * Return true if the tables are as they were created; for the user it raises an error if not.
 */
static bool
is_in_order(DcCounter *counter, bool worker)
{
	DcTableLayout layout;
	DcShapeProblem problem = {0};
	bool fits = true;

	if (!worker)
	{
		counter_layout(counter);
		counter_lock_partitions(counter);
	}
	else if (counter->rls || !OidIsValid(counter->owner) || !counter_has_layout(counter))
		return false;
	for (DcRegionTable table = TABLE_OF_REGIONS; table <= TABLE_OF_SETS && fits; table++)
	{
		Relation rel = table_open_present(region_table_of(&counter->row, table), NoLock);

		fits = !worker || region_table_fits(rel, table, &layout, &problem);
		if (fits)
			(void) region_layout(counter, rel, table);
		table_close(rel, NoLock);
	}
	return fits;
}

/*
 * seal_all seals unpublished counts; with `free`, it skips rows that other transactions have
 * locked. The tables and the identity are locked.
 */
void
seal_all(List *counters, const DcSelfRow *self, bool free)
{
	ListCell *lc;

	apply_early();
	foreach(lc, counters)
	{
		DcCounter *counter = lfirst(lc);
		DcSqlSession session;
		Datum values[] = {CStringGetTextDatum(self->region), Int64GetDatum(-self->epoch),
						  Int32GetDatum(remote_shard(own_shard(false)))};

		if (counter_is_buffered(counter) && buffer_hooks != NULL)
			buffer_hooks->write_down(counter);
		counter = counter_lookup(counter->relid);
		begin_seal(&session, counter);
		(void) sql_run(&session, free ? &sql_seal_free : &sql_seal, values);
		sql_end(&session);
	}
}

/*
 * fold_some adds sealed amounts of up to `limit` keys to the rows of their epochs, so that the
 * others get them. Returns the number of keys; *more is set if there may be more.
 */
int64
fold_some(List *counters, const DcSelfRow *self, int64 limit, bool *more)
{
	int64 keys = 0;
	ListCell *lc;

	foreach(lc, counters)
	{
		Datum region = CStringGetTextDatum(self->region);
		DcSqlSession session;
		int64 *epochs;
		uint64 n;

		begin_seal(&session, lfirst(lc));
		n = sql_run(&session, &sql_sealed_epochs, &region);
		epochs = MemoryContextAllocHuge(CurrentMemoryContext, Max(n, 1) * sizeof(int64));
		for (uint64 i = 0; i < n; i++)
			epochs[i] = rows_bigint(&session.rows, i, 1);
		for (uint64 i = 0; i < n && keys < limit; i++)
			keys += fold_epoch(&session, self, epochs[i], limit - keys, more);
		sql_end(&session);
	}
	return keys;
}

/*
 * seal_and_fold seals and folds, as requested, each counter for a user. One that fails, for example
 * because of a row that its owner has made, is left out with a warning: it must not keep the others
 * from going on. Returns true if anything was folded. All tables are locked.
 */
bool
seal_and_fold(List *counters, const DcSelfRow *self, bool seals, bool folds)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool folded = false;
	ListCell *lc;

	foreach(lc, counters)
	{
		Oid relid = ((DcCounter *) lfirst(lc))->relid;
		SealWork work = {list_make1(lfirst(lc)), self, seals, folds, false};

		PG_TRY();
		{
			(void) subxact_run(seal_work, &work);
			folded |= work.folded;
		}
		PG_CATCH();
		{
			ErrorData *error = error_caught(caller);

			if (!is_owners_error(error->sqlerrcode))
				ReThrowError(error);
			ereport(WARNING,
					(errmsg("counter table \"%s\" is left out: %s", get_rel_name(relid), error->message),
					 errdetail("Its increments are published later.")));
			FreeErrorData(error);
		}
		PG_END_TRY();
	}
	return folded;
}

/*
 * Seal and fold the counters, as a subtransaction, as far as the work says.
 */
static bool
seal_work(void *arg)
{
	SealWork *work = arg;
	bool more = false;

	if (work->seals)
		seal_all(work->counters, work->self, false);
	work->folded = work->folds && fold_some(work->counters, work->self, PG_INT64_MAX, &more) > 0;
	return true;
}

/*
 * is_owners_error returns true unless an error is a cancel, or about locks or resources: other
 * errors come from rows or code of the owner, and concern only them.
 */
bool
is_owners_error(int code)
{
	switch (ERRCODE_TO_CATEGORY(code))
	{
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
			return false;
		default:
			return code != ERRCODE_LOCK_NOT_AVAILABLE;
	}
}

/*
 * fold_epoch folds amounts that were sealed under an epoch, this database's own or an older one,
 * and returns the number of keys.
 */
static int64
fold_epoch(DcSqlSession *session, const DcSelfRow *self, int64 sealed, int64 limit, bool *more)
{
	Datum values[] = {CStringGetTextDatum(self->region), Int64GetDatum(sealed), Int64GetDatum(limit)};
	DcCounter *counter = session->counter;
	DcRegionRel slots;
	DcRegionRel sets;
	int64 keys;

	regionrel_open(&slots, counter, TABLE_OF_REGIONS, RowExclusiveLock);
	regionrel_open(&sets, counter, TABLE_OF_SETS, RowExclusiveLock);
	if (setrel_is_empty(&sets) && counter->row.rights_epoch <= sealed)
	{
		(void) sql_run(session, &sql_fold, values);
		keys = rows_bigint(&session->rows, 0, 1);
		*more |= keys == limit;
	}
	else
		keys = fold_slots(session, &slots, &sets, self, sealed, limit, more);
	regionrel_close(&sets);
	regionrel_close(&slots);
	CommandCounterIncrement();
	return keys;
}

/*
 * fold_slots does so if keys were set or deleted: not all of them are counted in the rows of that
 * epoch itself (regionslot.c). Returns the number of keys.
 */
static int64
fold_slots(DcSqlSession *session, DcRegionRel *slots, DcRegionRel *sets, const DcSelfRow *self, int64 sealed_under, int64 limit,
		   bool *more)
{
	DcIdentity identity = {self->region, sealed_under};
	Datum values[3] = {CStringGetTextDatum(self->region), Int64GetDatum(sealed_under), Int64GetDatum(limit)};
	uint64 n = sql_run(session, &sql_sealed, values);
	MemoryContext caller = CurrentMemoryContext;
	Datum *keys = MemoryContextAllocHuge(caller, Max(n, 1) * sizeof(Datum));
	MemoryContext one = AllocSetContextCreate(caller, "dcounter sealed key", ALLOCSET_DEFAULT_SIZES); /* its sets may be large */
	int folded = 0;

	for (uint64 i = 0; i < n; i++)
	{
		DcRegionRow sealed = {.key = rows_datum(&session->rows, i, 1),
							  .region = values[0],
							  .inc = rows_bigint(&session->rows, i, 2),
							  .dec = rows_bigint(&session->rows, i, 3),
							  .at = DatumGetTimestampTz(rows_datum(&session->rows, i, 4))};

		CHECK_FOR_INTERRUPTS();
		if (toast_raw_datum_size(sealed.key) > DC_MAX_KEY_BYTES + VARHDRSZ) /* made by hand: it is not a valid key */
			continue;
		MemoryContextSwitchTo(one);
		if (fold_slot(slots, sets, &identity, &sealed))
			keys[folded++] = sealed.key;
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
	*more |= n == limit && folded > 0; /* some may not be folded, and stay */
	if (folded > 0)
	{
		values[2] = array_datum(keys, folded, TEXTOID);
		(void) sql_run(session, &sql_unseal, values);
	}
	return folded;
}

/*
 * fold_slot adds the sealed amounts of a key to the slot that is counted in; false if its sum would
 * overflow bigint, or there is no slot. The caller keeps compaction away by the lock on the
 * identity.
 */
static bool
fold_slot(DcRegionRel *slots, DcRegionRel *sets, const DcIdentity *identity, const DcRegionRow *sealed)
{
	DcRegionRow row;
	bool found;

	while ((found = slot_find_own(slots, sealed->key, identity, &row)) && !region_row_lock(slots, &row))
		CHECK_FOR_INTERRUPTS(); /* removed by hand */
	if (!found || !slot_is_open(&row, set_observed_now(sets, sealed->key)))
	{
		int64 epoch;

		if (!slot_has_next(slots->counter, identity, found ? &row : NULL))
			return false;
		epoch = slot_epoch_next(slots->counter, identity, found ? &row : NULL);
		row = *sealed;
		row.epoch = epoch;
		if (!region_row_insert(slots, &row))
			serialization_error();
		CommandCounterIncrement();
		return true;
	}
	if (pg_add_s64_overflow(row.inc, sealed->inc, &row.inc) || pg_add_s64_overflow(row.dec, sealed->dec, &row.dec))
		return false;
	row.at = Max(row.at, sealed->at);
	if (!region_row_replace(slots, &row, true))
		elog(ERROR, "locked row of a region could not be updated");
	CommandCounterIncrement();
	return true;
}

/*
 * begin_seal begins a session of statements that name the table of regions, too.
 */
static void
begin_seal(DcSqlSession *session, DcCounter *counter)
{
	sql_begin(session, counter);
	session->word = seal_word;
	sql_keep_open(session, DC_OF_MORE, counter->row.regions);
}

/*
 * Return what a word in a statement's text stands for: the table of regions.
 */
static const char *
seal_word(DcCounter *counter, const char *word)
{
	if (strcmp(word, "regions") != 0)
		elog(ERROR, "unrecognized word: %s", word);
	return relation_sql_name(counter->row.regions);
}

/*
 * Return a pointer to the accumulated time of an owner, in us. The list is in TopMemoryContext.
 */
int64 *
owner_time(List **times, Oid owner)
{
	MemoryContext old;
	OwnerTime *time;
	ListCell *lc;

	foreach(lc, *times)
	{
		time = lfirst(lc);
		if (time->owner == owner)
			return &time->us;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	time = palloc(sizeof(OwnerTime));
	*time = (OwnerTime){owner, 0};
	*times = lappend(*times, time);
	MemoryContextSwitchTo(old);
	return &time->us;
}
