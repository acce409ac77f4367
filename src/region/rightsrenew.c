/*
 * rightsrenew.c
 *		The units of a database that has been restored or copied.
 *
 * It does not know what has become of them since: it may have sold them, and given them to other regions. So
 * before it sells any, it takes a new epoch for each stock that is replicated, in the transaction in
 * which it gets its own (dc_region_renew()), and all of its units and holds are forgotten. If the operator
 * says that nothing was lost, as where a standby was promoted that commits had waited for, they
 * stay. Then a row of grants for each key, from the old epoch to the new one, says that what is on its
 * way to the old one is still for this region (grant.c).
 *
 * All of a stock's tables are locked against writers meanwhile. Until then takes, restocks and apply workers
 * stop at the identity (rights_identity_check(), region_identity_needed()).
 */
#include "postgres.h"

#include "base/hooks.h"
#include "catalog/pg_type.h"
#include "counter/apply.h"
#include "miscadmin.h"
#include "region/life.h"
#include "region/rights.h"
#include "storage/lmgr.h"
#include "table/access.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

/* region, old epoch, new epoch */
#define RENEW_ARGS \
	{ \
		TEXTOID, INT8OID, INT8OID \
	}

/* what there is, of keys with units and of those that were asked for */
static const DcStatement sql_renew_carry = {
	.text = "INSERT INTO @grants AS g (key, from_region, from_epoch, to_region, to_epoch, units)"
			" SELECT u.key, $1, $2, $1, $3, least(sum(u.units), 9223372036854775807)::int8"
			" FROM (SELECT s.key, s.units FROM @shards AS s UNION ALL SELECT w.key, 0 FROM @wants AS w WHERE w.region = $1) AS u"
			" GROUP BY u.key ORDER BY u.key",
	.argtypes = RENEW_ARGS,
	.reads_all = true,
	.of = DC_OF_MORE};

/* what was carried to the old epoch is to the new one as well */
static const DcStatement sql_renew_chain = {
	.text = "INSERT INTO @grants AS g (key, from_region, from_epoch, to_region, to_epoch, units)"
			" SELECT o.key, $1, o.from_epoch, $1, $3, 0 FROM @grants AS o"
			" WHERE o.from_region = $1 AND o.to_region = $1 AND o.to_epoch = $2 ORDER BY o.key, o.from_epoch",
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

static void renew(DcCounterRow *row, const char *region, bool lossless);

/*
 * rights_identity_check raises 55000 if this database needs a new epoch before it sells units of a
 * stock. It is asked at each take, so the answer holds as long as the entry of the stock: a new
 * epoch is one for the stock, too.
 */
void
rights_identity_check(DcCounter *counter)
{
	static const DcCounter *checked = NULL; /* entries stay where they are */
	static uint32 generation;
	DcIdentity identity;

	if (checked == counter && generation == counter->generation)
		return;
	region_identity_needed(&identity);
	if (counter->row.rights_epoch == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the units of stock \"%s\" may be those of another database", get_rel_name(counter->relid)),
				 errdetail("This database took a new epoch, and the worker has left the stock alone, as code of its owner can run."),
				 errhint("Call dc_region_renew().")));
	checked = counter;
	generation = counter->generation;
}

/*
 * rights_renew gives this database a new epoch for each stock. dc_region_renew() calls it, in the
 * transaction in which the database gets one. The worker leaves stocks alone on which code of their owners
 * can run: they have no epoch then.
 */
void
rights_renew(const char *region, bool lossless, bool worker)
{
	List *rows = catalog_read_all();
	ListCell *lc;

	apply_early();
	foreach(lc, rows)
	{
		DcCounterRow *row = lfirst(lc);

		if (!OidIsValid(row->grants))
			continue;
		if (!worker || worker_may(row->counter))
			renew(row, region, lossless);
		else
		{
			row->rights_epoch = 0; /* nothing is sold or given until the user renews it */
			catalog_update(row);
		}
	}
}

static void
renew(DcCounterRow *row, const char *region, bool lossless)
{
	Oid locked[] = {row->grants, row->wants};
	int64 epoch = region_epoch_new();
	DcCounter *counter;
	DcSqlSession session;
	Datum values[3];

	for (int i = 0; i < lengthof(locked); i++)
		LockRelationOid(locked[i], ShareRowExclusiveLock);
	if (!counter_lock(row->counter, ShareRowExclusiveLock))
		return; /* dropped meanwhile */
	counter = counter_lookup(row->counter);
	if (counter->row.grants != locked[0] || counter->row.wants != locked[1])
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("stock \"%s\" was replicated anew meanwhile", get_rel_name(row->counter))));
	LockRelationOid(counter->row.holds, ShareRowExclusiveLock);
	values[0] = CStringGetTextDatum(region);
	values[1] = Int64GetDatum(counter->row.rights_epoch);
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
	values[2] = Int64GetDatum(want_stamp());
	(void) sql_run(&session, &sql_renew_wants, values);
	sql_end(&session);
	*row = counter->row;
	row->rights_epoch = epoch;
	catalog_update(row);
	if (cache_hooks != NULL)
		cache_hooks->forget(MyDatabaseId, row->counter);
}
