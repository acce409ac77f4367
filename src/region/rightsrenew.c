/*
 * rightsrenew.c
 *		The units of a database that has been restored or copied.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It does not know what has happened to them since: it may have sold them, or given them to other
 * regions. So before it sells any, it takes a new epoch for each stock that is replicated, in the
 * transaction in which it gets its own (dc_region_renew()), and all of its units and holds are
 * forgotten. If the operator says that nothing was lost, as with a promoted standby that commits
 * had waited for, they stay. Then a row of grants for each key, from the old epoch to the new one,
 * says that units on their way to the old one are still for this region (grant.c).
 *
 * A database whose start nobody has confirmed in time does not know whether it was restored. So its
 * stocks are shut until the operator decides. If at least one other region has confirmed the start,
 * the units stay.
 *
 * All of a stock's tables are locked against writers in the meantime, after the identity. Until
 * then takes, restocks and apply workers stop at the identity, and sessions wait for it before they
 * lock the stock (rights_await()). A transaction that has it locked already, by an earlier take,
 * gets 40001, so that nobody waits for it. When sessions have locked the stock they check whether
 * it was shut in the meantime (rights_identity_check()).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/lmgr.h"
#include "storage/sinval.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/hooks.h"
#include "base/subxact.h"
#include "core/counter/apply.h"
#include "core/table/access.h"
#include "region/life.h"
#include "region/rights.h"
#include "types/crdt/hlcclock.h"

/* region, old epoch, new epoch */
#define RENEW_ARGS \
	{ \
		TEXTOID, INT8OID, INT8OID \
	}

/* units of keys that have some, and of keys that were asked for */
static const DcStatement sql_renew_carry = {
	.text = "INSERT INTO @grants AS g (key, from_region, from_epoch, to_region, to_epoch, units)"
			" SELECT u.key, $1, $2, $1, $3, least(sum(u.units), 9223372036854775807)::int8"
			" FROM (SELECT s.key, s.units FROM @shards AS s UNION ALL SELECT w.key, 0 FROM @wants AS w WHERE w.region = $1) AS u"
			" GROUP BY u.key ORDER BY u.key",
	.argtypes = RENEW_ARGS,
	.reads_all = true,
	.of = DC_OF_MORE};

/* units that were carried to the old epoch are carried to the new one as well */
static const DcStatement sql_renew_chain = {
	.text = "INSERT INTO @grants AS g (key, from_region, from_epoch, to_region, to_epoch, units)"
			" SELECT o.key, $1, o.from_epoch, $1, $3, 0 FROM @grants AS o"
			" WHERE o.from_region = $1 AND o.to_region = $1 AND o.to_epoch = $2 ORDER BY o.key, o.from_epoch ON CONFLICT DO NOTHING",
	.argtypes = RENEW_ARGS,
	.reads_all = true,
	.of = DC_OF_MORE};

static const DcStatement sql_renew_forget = {
	.text = "UPDATE @shards AS s SET dec = s.dec + s.units, units = 0 WHERE s.units > 0",
	.reads_all = true,
	.of = DC_OF_SHARDS};

/* now */
static const DcStatement sql_renew_holds = {
	.text = "UPDATE @holds AS h SET state = 'expired', confirmed = 0, ended_at = $1 WHERE h.state = 'open'",
	.argtypes = {TIMESTAMPTZOID},
	.reads_all = true,
	.of = DC_OF_HOLDS};

/* region, new epoch, stamp */
static const DcStatement sql_renew_wants = {
	.text = "UPDATE @wants AS w SET epoch = $2, hlc = $3, since = 0, wanted = 0, low = 0, granted = 0, kept = 0, waits = 0,"
			" asked = 0, asked_at = 0, until = '-infinity', given = 0,"
			" units = (SELECT least(coalesce(sum(s.units), 0), 9223372036854775807)::int8 FROM @shards AS s WHERE s.key = w.key)"
			" WHERE w.region = $1",
	.argtypes = {TEXTOID, INT8OID, INT8OID},
	.reads_all = true,
	.of = DC_OF_MORE + 1};

/* What renew_work() is called with. */
typedef struct DcRenewal
{
	const DcCounterRow *row;
	const char *region;
	bool lossless;
	bool worker;
} DcRenewal;

/* Stocks that the worker must not try again (Oid, in TopMemoryContext). */
static List *renew_failed = NIL;

/*
 * Of this renewal: the rows of all stocks, in the transaction's memory, and what each owner's have
 * taken (owner_time). Only rights_renew() and what it calls look at these, and it sets them first.
 */
static List *renew_stocks = NIL;
static List *renew_times = NIL;

static void note_failed(Oid counter);
static void note_slowest(Oid counter);
static bool renew_in_time(const DcCounterRow *row, const char *region, bool lossless, bool worker);
static bool renew_work(void *arg);
static void rightsrenew_renew(DcCounterRow *row, const char *region, bool lossless);

/*
 * rights_await waits until this database may sell units, while the caller has no lock on the stock.
 * It is called for each take, so its result is kept as long as the entry of the stock: a new epoch
 * changes the stock, too.
 */
void
rights_await(Oid stock, const char *function)
{
	DcCounter *counter = counter_find(stock);
	DcIdentity identity;

	if (counter == NULL || !counter_has_rights(counter))
		return;
	AcceptInvalidationMessages();
	if (counter->valid && counter->rights_open == counter->generation)
		return;
	counter_check_write(stock, function);
	region_identity_awaited(&identity);
}

/*
 * rights_await_and_lock does so for a caller that is about to write wants, and keeps the identity:
 * like a renewal, it locks that before the tables of the stock, among which those of grants and
 * wants come first.
 */
void
rights_await_and_lock(Oid stock, const char *function)
{
	DcCounter *counter = counter_find(stock);
	DcIdentity identity;

	if (counter == NULL || !counter_has_rights(counter))
		return;
	counter_check_write(stock, function);
	region_identity_needed(&identity);
	rights_lock(counter, RowExclusiveLock, true);
}

/*
 * rights_identity_check raises 55000 if this database needs a new epoch before it sells units of a
 * stock, and 40001 if the caller would have to wait for that, with the stock locked. The worker
 * shuts a stock without a lock on it: so a caller that has waited checks again.
 */
void
rights_identity_check(DcCounter *counter)
{
	DcIdentity identity;

	region_stock_is_locked();
	AcceptInvalidationMessages();
	if (counter->valid && counter->rights_open == counter->generation)
		return;
	region_identity_awaited(&identity);
	if (!rights_are_open(counter))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the units of stock \"%s\" may have been sold already", get_rel_name(counter->relid)),
				 errdetail("This database took a new epoch, and no other region has confirmed that nothing was sold since; or the worker could not open the stock, because it was locked or code of its owner could run."),
				 errhint("Call dc_region_renew(lossless => true) if the server was only stopped, and dc_region_renew(), which gives the units up, if it was restored.")));
	counter->rights_open = counter->generation;
}

/*
 * rights_are_open reads the current epoch of a stock, because the caller's may date from before it
 * waited for the identity. Returns false if the stock is shut.
 */
bool
rights_are_open(DcCounter *counter)
{
	DcCounterRow row;

	if (!catalog_read(counter->relid, &row))
		elog(ERROR, "stock %u is locked, but was dropped", counter->relid);
	counter->row.rights_epoch = row.rights_epoch;
	return row.rights_epoch > 0;
}

/*
 * rights_renew gives this database a new epoch for each stock, in the transaction in which the
 * database gets one. A stock may be shut instead: it keeps its units and its epoch, as a negative
 * number, and sells, gives and asks for nothing until dc_region_renew() is called. The worker shuts
 * those on which code of their owners can run, and those that stay locked, tables or rows, or take
 * too long: a transaction that has taken units and goes on must not keep it from giving the
 * database an epoch.
 */
void
rights_renew(const char *region, DcRights rights, bool worker)
{
	List *rows = catalog_read_all();
	ListCell *lc;

	list_free_deep(renew_times);
	renew_times = NIL;
	renew_stocks = rows;
	apply_early();
	foreach(lc, rows)
	{
		DcCounterRow *row = lfirst(lc);

		if (!OidIsValid(row->grants))
			continue;
		if ((rights == RIGHTS_SHUT || !renew_in_time(row, region, rights == RIGHTS_KEPT, worker)) && row->rights_epoch > 0)
		{
			row->rights_epoch = -row->rights_epoch;
			catalog_update(row);
		}
	}
}

/*
 * Note, for this process, that the stock could not get a new epoch.
 */
static void
note_failed(Oid counter)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	renew_failed = list_append_unique_oid(renew_failed, counter);
	MemoryContextSwitchTo(old);
}

/*
 * note_slowest is called when the time of a step is over. It notes all stocks of the owner whose
 * stocks took most of the step: they are shut the next time, so that one owner delays the others
 * only once. If there is no other owner, or that owner has the database, it notes only the present
 * stock.
 */
static void
note_slowest(Oid counter)
{
	Oid owner = InvalidOid;
	bool several = false;
	int64 most = -1;
	ListCell *lc;

	foreach(lc, renew_stocks)
	{
		const DcCounterRow *row = lfirst(lc);
		Oid of = OidIsValid(row->grants) ? relation_owner(row->counter) : InvalidOid;

		several |= OidIsValid(of) && OidIsValid(owner) && of != owner;
		if (OidIsValid(of) && *owner_time(&renew_times, of) > most)
		{
			most = *owner_time(&renew_times, of);
			owner = of;
		}
	}
	if (!several || compat_owns_database(MyDatabaseId, owner))
	{
		note_failed(counter);
		return;
	}
	foreach(lc, renew_stocks)
	{
		const DcCounterRow *row = lfirst(lc);

		if (OidIsValid(row->grants) && relation_owner(row->counter) == owner)
			note_failed(row->counter);
	}
}

/*
 * renew_in_time renews a stock; false if it must be shut. While the worker is patient, it tries a
 * renewal that fails again as a whole, even if one stock has used up the time of the step. For a
 * user, only errors raised by rows or code of the owner shut a stock.
 */
static bool
renew_in_time(const DcCounterRow *row, const char *region, bool lossless, bool worker)
{
	volatile DcMoment began = moment_now();
	MemoryContext caller = CurrentMemoryContext;
	DcRenewal renewal = {row, region, lossless, worker};
	volatile bool done = false;

	if (worker && !worker_is_patient() && list_member_oid(renew_failed, row->counter))
	{
		ereport(WARNING,
				(errmsg("stock \"%s\" is shut: it could not be renewed, or the stocks of its owner took too long", get_rel_name(row->counter))));
		return false;
	}
	PG_TRY();
	{
		done = subxact_run(renew_work, &renewal);
		renew_failed = list_delete_oid(renew_failed, row->counter);
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(caller);

		*owner_time(&renew_times, relation_owner(row->counter)) += moment_age(began);
		began = moment_now(); /* its time is added only once */
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			note_slowest(row->counter);
		else
			note_failed(row->counter);
		if (worker ? worker_is_patient() || error->sqlerrcode == ERRCODE_QUERY_CANCELED || ShutdownRequestPending
				   : !is_owners_error(error->sqlerrcode))
			ReThrowError(error);
		ereport(WARNING,
				(errmsg("stock \"%s\" is shut: %s", get_rel_name(row->counter), error->message)));
		FreeErrorData(error);
	}
	PG_END_TRY();
	*owner_time(&renew_times, relation_owner(row->counter)) += moment_age(began);
	return done;
}

/*
 * Give a stock a new epoch, as a subtransaction. Return false if the worker has to leave it to its
 * owner.
 */
static bool
renew_work(void *arg)
{
	const DcRenewal *renewal = arg;
	DcCounterRow row = *renewal->row;

	if (renewal->worker && !worker_may(row.counter))
		return false;
	rightsrenew_renew(&row, renewal->region, renewal->lossless);
	return true;
}

/*
 * Give a stock a new epoch, with its tables locked against writers: with `lossless` its units stay,
 * and grants to the old epoch are carried to the new one; otherwise units and holds are forgotten.
 */
static void
rightsrenew_renew(DcCounterRow *row, const char *region, bool lossless)
{
	Oid locked[] = {row->grants, row->wants};
	int64 epoch = region_epoch_new();
	DcCounter *counter;
	DcSqlSession session;
	Datum values[3];

	for (int i = 0; i < lengthof(locked); i++)
		LockRelationOid(locked[i], ShareRowExclusiveLock);
	if (!counter_lock(row->counter, ShareRowExclusiveLock))
		return; /* dropped in the meantime */
	counter = counter_lookup(row->counter);
	if (counter->row.grants != locked[0] || counter->row.wants != locked[1])
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("stock \"%s\" was replicated again in the meantime", get_rel_name(row->counter))));
	LockRelationOid(counter->row.holds, ShareRowExclusiveLock);
	values[0] = CStringGetTextDatum(region);
	values[1] = Int64GetDatum(rights_epoch_of(counter));
	values[2] = Int64GetDatum(epoch);
	rights_begin(&session, counter);
	if (lossless)
	{
		(void) sql_run(&session, &sql_renew_carry, values);
		(void) sql_run(&session, &sql_renew_chain, values);
	}
	else
	{
		Datum now = TimestampTzGetDatum(GetCurrentTimestamp());

		(void) sql_run(&session, &sql_renew_forget, NULL);
		(void) sql_run(&session, &sql_renew_holds, &now);
	}
	values[1] = values[2];
	values[2] = Int64GetDatum(hlc_clock_next(0));
	(void) sql_run(&session, &sql_renew_wants, values);
	sql_end(&session);
	*row = counter->row;
	row->rights_epoch = epoch;
	catalog_update(row);
	if (cache_hooks != NULL)
		cache_hooks->forget(MyDatabaseId, row->counter);
}
