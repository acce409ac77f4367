/*
 * stockregions.c
 *		Units in other regions, and taking over those of a region that is gone.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A region reports how many units it has in its rows of wants (rightstell.c): of each key, in the
 * transaction in which it gives some, and some time after it has sold or received some. With the
 * grants from and to it since,
 *
 *		units + received since - given since
 *
 * is the most that it can have: it may have sold some of them. When a region is permanently lost,
 * another one can take these units over (dc_rights_reclaim()). No algorithm can know what the
 * region has sold, so an operator must decide: one who knows it, or who would rather sell a unit
 * twice than not at all. First, dc_region_retire() must say that the region will never come back.
 *
 * A takeover is a row of grants from the epoch of that region, which this region writes under its
 * own name, as no row has two writers. So it counts as given, and no region that knows of it takes
 * the units again.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "core/table/access.h"
#include "core/table/subscription.h"
#include "region/rights.h"
#include "transactional/stock/stock.h"
#include "transactional/stock/take.h"

PG_FUNCTION_INFO_V1(dc_stock_regions);
PG_FUNCTION_INFO_V1(dc_rights_reclaim);

/* key, this region */
static const DcStatement sql_stock_regions = {
	.text = "SELECT r.region, CASE WHEN r.region = $2 THEN least(here.units, 9223372036854775807)::int8 ELSE w.units END,"
			" CASE WHEN r.region = $2 THEN statement_timestamp() ELSE to_timestamp(w.hlc / 1000000.0) END,"
			" least(got.units, 9223372036854775807)::int8, least(gave.units, 9223372036854775807)::int8,"
			" coalesce(greatest(w.wanted - greatest(since.units - w.granted, 0), 0), 0)::int8,"
			" CASE WHEN w.wanted > greatest(since.units - w.granted, 0) THEN to_timestamp(w.since / 1000000.0) END"
			" FROM (SELECT o.region FROM @wants AS o WHERE o.key = $1"
			" UNION SELECT g.from_region FROM @grants AS g WHERE g.key = $1"
			" UNION SELECT g.to_region FROM @grants AS g WHERE g.key = $1 UNION SELECT $2) AS r(region)"
			" LEFT JOIN @wants AS w ON w.key = $1 AND w.region = r.region"
			" CROSS JOIN LATERAL (SELECT coalesce(sum(s.units), 0) FROM @shards AS s WHERE s.key = $1) AS here(units)"
			" CROSS JOIN LATERAL (SELECT coalesce(sum(g.units), 0) FROM @grants AS g"
			" WHERE g.key = $1 AND g.to_region = r.region AND g.from_region <> r.region) AS got(units)"
			" CROSS JOIN LATERAL (SELECT coalesce(sum(g.units), 0) FROM @grants AS g"
			" WHERE g.key = $1 AND g.from_region = r.region AND g.to_region <> r.region) AS gave(units)"
			" CROSS JOIN LATERAL (SELECT coalesce(sum(g.units), 0) FROM @grants AS g"
			" WHERE g.key = $1 AND g.to_region = w.region AND g.to_epoch = w.epoch) AS since(units)"
			" WHERE r.region <> '' ORDER BY r.region COLLATE \"C\"",
	.argtypes = {TEXTOID, TEXTOID},
	.columns = {DC_TEXT("region"), DC_NULLABLE("units", INT8OID), DC_NULLABLE("units_at", TIMESTAMPTZOID), DC_BIGINT("granted_in"), DC_BIGINT("granted_out"), DC_BIGINT("wanted"), DC_NULLABLE("wanted_since", TIMESTAMPTZOID)},
	.of = DC_OF_MORE};

#define RECLAIMED \
	"SELECT w.key, w.epoch, least(w.units + got.units - w.granted - (gave.units - w.given), 9223372036854775807)::int8" \
	" FROM @wants AS w" \
	" CROSS JOIN LATERAL (SELECT coalesce(sum(g.units), 0) FROM @grants AS g" \
	" WHERE g.key = w.key AND g.to_region = w.region AND g.to_epoch = w.epoch) AS got(units)" \
	" CROSS JOIN LATERAL (SELECT coalesce(sum(g.units), 0) FROM @grants AS g" \
	" WHERE g.key = w.key AND g.from_epoch = w.epoch) AS gave(units)" \
	" WHERE w.region = $1 AND ($2 IS NULL OR w.key = $2)" \
	" AND w.units + got.units - w.granted - (gave.units - w.given) > 0"

/* region, key or NULL: what it has at most of each key, and the epoch */
static const DcStatement sql_reclaim_list = {
	.text = RECLAIMED " ORDER BY w.key",
	.argtypes = {TEXTOID, TEXTOID},
	.reads_all = true,
	.columns = {DC_TEXT("key"), DC_BIGINT("epoch"), DC_BIGINT("units")},
	.of = DC_OF_MORE + 1};

/* the same: whether there is any */
static const DcStatement sql_reclaim_any = {
	.text = RECLAIMED " LIMIT 1",
	.argtypes = {TEXTOID, TEXTOID},
	.reads_all = true,
	.columns = {DC_TEXT("key"), DC_BIGINT("epoch"), DC_BIGINT("units")},
	.of = DC_OF_MORE + 1};

/* region */
static const DcStatement sql_reclaim_retired = {
	.text = "SELECT r.epoch FROM dcounter.region AS r WHERE r.region = $1 AND r.retired_at IS NOT NULL"
			" AND NOT EXISTS (SELECT FROM dcounter.region AS o WHERE o.region = $1 AND o.epoch > r.epoch)",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("epoch")}};

/* Units of a key that are taken over. */
typedef struct DcReclaimed
{
	DcKey key;
	int64 epoch;
	int64 units;
} DcReclaimed;

static const DcStatement sql_units_here = {
	.text = "SELECT 1::int8 FROM @shards AS s WHERE s.units > 0 LIMIT 1",
	.reads_all = true,
	.columns = {DC_BIGINT("one")},
	.of = DC_OF_SHARDS};

static DcCounter *open_to_reclaim(FunctionCallInfo fcinfo);
static void check_region(DcCounter *counter, const DcIdentity *identity, const char *region);
static int64 stockregions_reclaim(DcCounter *counter, const DcIdentity *identity, const char *region, const DcKey *key);

/*
 * dc_stock_regions(stock regclass, key text|bigint|uuid) -> setof (region, units, units_at,
 * granted_in, granted_out, wanted, wanted_since): the units that each region has of a key. For this
 * region they are those that can be taken now; for others those that they had at units_at, or NULL
 * if they have never reported them. granted_in and granted_out are the units that they have been
 * given by others, and have given, in all; wanted is the number that they lack. Needs SELECT.
 *
 * Errors: 55000 if the stock is not replicated.
 */
Datum
dc_stock_regions(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_stock_regions()");
	DcIdentity identity = {.region = ""};
	DcSqlSession session;
	Datum values[2];

	stock_check(counter);
	rights_needed(counter);
	rights_lock(counter, AccessShareLock, true);
	InitMaterializedSRF(fcinfo, 0);
	(void) region_identity(&identity);
	values[0] = key_text_datum(key);
	values[1] = CStringGetTextDatum(identity.region);
	rights_begin(&session, counter);
	sql_read(&session, &sql_stock_regions, values);
	rows_return(fcinfo, &session.rows);
	sql_end(&session);
	return (Datum) 0;
}

/*
 * dc_rights_reclaim(stock regclass, region text, key text|bigint|uuid) -> bigint: takes over all
 * units that a retired region may have, of a key, or of all keys (NULL), and returns how many.
 * Units that the region has sold since its last report may be sold twice. To be called in one
 * region only.
 *
 * Errors: 42501 if the caller does not own the stock, 22023 for this region, 55000 if the region is
 * not retired, the stock is not replicated, or this database needs a new epoch.
 */
Datum
dc_rights_reclaim(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = PG_ARGISNULL(2) ? NULL : key_arg(fcinfo, 2, &buf);
	DcCounter *counter;
	DcIdentity identity;
	char *region;

	arg_not_null(fcinfo, 1, "region");
	region = text_to_cstring(PG_GETARG_TEXT_PP(1));
	counter = open_to_reclaim(fcinfo);
	region_identity_needed(&identity);
	region_check_role();
	rights_identity_check(counter);
	identity.epoch = counter->row.rights_epoch;
	check_region(counter, &identity, region);
	PG_RETURN_INT64(stockregions_reclaim(counter, &identity, region, key));
}

/*
 * open_to_reclaim opens the stock in argument 0 for its owner, after the identity and in the order
 * of locks on its tables that a renewal keeps. One at a time: the second one sees what the first
 * has taken over.
 */
static DcCounter *
open_to_reclaim(FunctionCallInfo fcinfo)
{
	Oid relid = counter_arg(fcinfo);
	DcCounter *counter = counter_find(relid);
	DcIdentity identity;

	prevent_write("dc_rights_reclaim()");
	if (counter != NULL && counter_has_rights(counter))
	{
		prevent_not_owner(relid);
		region_identity_needed(&identity);
		LockRelationOid(counter->row.grants, ShareRowExclusiveLock);
		LockRelationOid(counter->row.wants, RowExclusiveLock);
	}
	counter = counter_open_as_owner(fcinfo, "dc_rights_reclaim()", RowExclusiveLock);
	stock_check(counter);
	rights_needed(counter);
	prevent_fed(counter, "dc_rights_reclaim()");
	LockRelationOid(counter->row.grants, ShareRowExclusiveLock); /* they may have changed by now */
	LockRelationOid(counter->row.wants, RowExclusiveLock);
	return counter;
}

/*
 * Check that units of the region may be taken over: it is another one, and is retired.
 */
static void
check_region(DcCounter *counter, const DcIdentity *identity, const char *region)
{
	DcSqlSession session;
	Datum value = CStringGetTextDatum(region);
	bool retired;

	if (strcmp(region, identity->region) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is the region of this database", region)));
	rights_begin(&session, counter);
	retired = sql_run(&session, &sql_reclaim_retired, &value) > 0;
	sql_end(&session);
	if (!retired)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("region \"%s\" is not retired", region),
				 errdetail("It may be selling its units."),
				 errhint("If it will never come back, call dc_region_retire() first.")));
}

/*
 * Take over what a retired region has at most of a key, or of all keys if `key` is NULL. Return how
 * many units that is.
 */
static int64
stockregions_reclaim(DcCounter *counter, const DcIdentity *identity, const char *region, const DcKey *key)
{
	MemoryContext cxt = CurrentMemoryContext;
	DcSqlSession session;
	Datum values[] = {CStringGetTextDatum(region), key != NULL ? key_text_datum(key) : (Datum) 0};
	DcReclaimed *found;
	int64 sum = 0;
	int n;

	rights_begin(&session, counter);
	n = (int) sql_run_nulls(&session, &sql_reclaim_list, values, key != NULL ? "  " : " n");
	found = MemoryContextAllocHuge(cxt, Max(n, 1) * sizeof(DcReclaimed));
	for (int i = 0; i < n; i++)
	{
		rights_key(rows_datum(&session.rows, i, 1), cxt, &found[i].key);
		found[i].epoch = rows_bigint(&session.rows, i, 2);
		found[i].units = rows_bigint(&session.rows, i, 3);
	}
	for (int i = 0; i < n; i++)
	{
		DcIdentity from = {identity->region, found[i].epoch};

		CHECK_FOR_INTERRUPTS();
		grant_raise(&session, key_text_datum(&found[i].key), &from, identity, found[i].units);
		if (pg_add_s64_overflow(sum, found[i].units, &sum))
			sum = PG_INT64_MAX;
	}
	sql_end(&session);
	for (int i = 0; i < n; i++)
		stock_give(counter, &found[i].key, found[i].units);
	pfree(found);
	return sum;
}

/*
 * region_has_units returns true if a region has units of a stock, whose tables are locked: this
 * database's own region (`own`), or another one as far as it has reported them.
 */
bool
region_has_units(DcCounter *counter, const char *region, bool own)
{
	DcSqlSession session;
	Datum values[] = {CStringGetTextDatum(region), (Datum) 0};
	bool any;

	rights_begin(&session, counter);
	if (own)
		any = sql_run(&session, &sql_units_here, NULL) > 0;
	else
		any = sql_run_nulls(&session, &sql_reclaim_any, values, " n") > 0;
	sql_end(&session);
	return any;
}
