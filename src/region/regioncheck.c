/*
 * regioncheck.c
 *		Counts of regions, comparing the values with these, and repairing values.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Everything is read in one snapshot. In each snapshot, totals and remote shard rows of a key are
 * the sum over its rows of regions, with the value that it was set to (region.h, sets.h), even
 * while other sessions count, compact and merge. Only changes that bypass dcounter's functions
 * break that, such as rows that are changed directly.
 *
 * The counts of a region and epoch, and the values that a region has set keys to, as
 * dc_region_check() shows them, are the same in all regions that have the same rows: the digest is
 * over all of these rows, in any order.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/key.h"
#include "core/counter/sqlpath.h"
#include "core/table/access.h"
#include "region/region.h"

PG_FUNCTION_INFO_V1(dc_get_regions);
PG_FUNCTION_INFO_V1(dc_region_check);
PG_FUNCTION_INFO_V1(dc_region_repair);

/* The amounts that sets have observed, by key and node. */
#define OBSERVED \
	"SELECT s.key, e.key AS node, max(coalesce((e.value ->> 'inc')::numeric, 0)) AS inc," \
	" max(coalesce((e.value ->> 'dec')::numeric, 0)) AS dec" \
	" FROM @sets AS s, jsonb_each(s.upto::text::jsonb) AS e"

/* The values that keys were last set to. */
#define LAST \
	"SELECT DISTINCT ON (s.key) s.key, s.region, s.value::numeric AS value, s.deleted," \
	" timestamptz 'epoch' + s.hlc * interval '1 microsecond' AS at FROM @sets AS s"
#define LAST_ORDER " ORDER BY s.key, s.hlc DESC, s.region DESC"

/* The parts that add up to the value of each key (sets.h). */
#define PARTS \
	"SELECT r.key, r.inc::numeric, r.dec::numeric, r.updated_at FROM @regions AS r" \
	" UNION ALL SELECT w.key, greatest(w.value, 0), greatest(-w.value, 0), w.at FROM (" LAST LAST_ORDER ") AS w" \
	" UNION ALL SELECT o.key, -o.inc, -o.dec, NULL FROM (" OBSERVED " GROUP BY s.key, e.key) AS o"

/* Keys whose values differ, and by how much. */
#define DIFFERENCES \
	"SELECT u.key, sum(u.inc) AS inc, sum(u.dec) AS dec FROM (" \
	"SELECT t.key, t.inc::numeric, t.dec::numeric FROM @totals AS t" \
	" UNION ALL SELECT s.key, s.inc, s.dec FROM @shards AS s WHERE s.shard < 0" \
	" UNION ALL SELECT p.key, -p.inc, -p.dec FROM (" PARTS ") AS p(key, inc, dec, at)" \
	") AS u(key, inc, dec) GROUP BY u.key HAVING sum(u.inc) <> 0 OR sum(u.dec) <> 0"

/* key, this region or '', the name of the counter, for regions that have put it aside */
static const DcStatement sql_get = {
	.text = "SELECT g.* FROM (SELECT u.region, sum(u.inc)::int8, sum(u.dec)::int8, (sum(u.inc) - sum(u.dec))::int8,"
			" max(u.updated_at),"
			" CASE WHEN u.region = $2 THEN statement_timestamp()"
			" ELSE (SELECT max(b.beat_at) FROM dcounter.region AS b WHERE b.region = u.region"
			" AND NOT coalesce(b.seen -> '!aside' ? $3, false)) END"
			" FROM (SELECT r.region, r.inc - coalesce(o.inc, 0), r.dec - coalesce(o.dec, 0), r.updated_at"
			" FROM @regions AS r LEFT JOIN (" OBSERVED " WHERE s.key = $1 GROUP BY s.key, e.key) AS o"
			" ON o.node = r.region || ':' || r.epoch WHERE r.key = $1"
			" UNION ALL SELECT $2, s.inc, s.dec, s.updated_at FROM @shards AS s"
			" WHERE s.key = $1 AND s.shard >= 0 AND (s.inc <> 0 OR s.dec <> 0) AND $2 <> '') AS u(region, inc, dec, updated_at)"
			" GROUP BY u.region"
			" UNION ALL SELECT NULL, greatest(w.value, 0)::int8, greatest(-w.value, 0)::int8, w.value::int8, w.at, NULL"
			" FROM (" LAST " WHERE s.key = $1" LAST_ORDER ") AS w WHERE NOT w.deleted) AS g(region)"
			" ORDER BY g.region COLLATE \"C\"",
	.argtypes = {TEXTOID, TEXTOID, TEXTOID},
	.columns = {DC_NULLABLE("region", TEXTOID), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_BIGINT("value"), DC_TIME("updated_at"), DC_NULLABLE("complete_to", TIMESTAMPTZOID)},
	.of = DC_OF_MORE};

static const DcStatement sql_check = {
	.text = "SELECT * FROM (SELECT r.region, r.epoch, count(*), sum(r.inc), sum(r.dec),"
			" bit_xor(hashtextextended(concat_ws(' ', r.inc, r.dec, r.key), r.epoch))"
			" FROM @regions AS r GROUP BY r.region, r.epoch"
			" UNION ALL SELECT s.region, NULL, count(*), sum(greatest(s.value, 0)), -sum(least(s.value, 0)),"
			" bit_xor(hashtextextended(concat_ws(' ', s.hlc, s.value, s.deleted, s.upto::text, s.key), 0))"
			" FROM @sets AS s GROUP BY s.region"
			" UNION ALL SELECT NULL, NULL, count(*), coalesce(sum(d.inc), 0), coalesce(sum(d.dec), 0), NULL"
			" FROM (" DIFFERENCES ") AS d) AS c(region, epoch) ORDER BY c.region COLLATE \"C\", c.epoch",
	.reads_all = true,
	.columns = {DC_NULLABLE("region", TEXTOID), DC_NULLABLE("epoch", INT8OID), DC_BIGINT("keys"), DC_COLUMN("inc", NUMERICOID), DC_COLUMN("dec", NUMERICOID), DC_NULLABLE("digest", INT8OID)},
	.of = DC_OF_MORE};

static const DcStatement sql_differing = {
	.text = "SELECT d.key FROM (" DIFFERENCES ") AS d ORDER BY d.key",
	.reads_all = true,
	.columns = {DC_TEXT("key")},
	.of = DC_OF_MORE};

/* keys */
static const DcStatement sql_drop_remote = {
	.text = "DELETE FROM @shards AS s WHERE s.key = ANY ($1) AND s.shard < 0",
	.argtypes = {TEXTARRAYOID},
	.of = DC_OF_SHARDS};

/* keys: set totals to what their regions have counted and set */
static const DcStatement sql_update_totals = {
	.text = "UPDATE @totals AS t SET inc = w.inc, dec = w.dec, updated_at = greatest(t.updated_at, w.at)"
			" FROM (SELECT k.key, coalesce(sum(p.inc), 0)::int8 AS inc, coalesce(sum(p.dec), 0)::int8 AS dec, max(p.at) AS at"
			" FROM unnest($1) AS k(key) LEFT JOIN (" PARTS ") AS p(key, inc, dec, at) ON p.key = k.key GROUP BY k.key) AS w"
			" WHERE t.key = w.key",
	.argtypes = {TEXTARRAYOID},
	.reads_all = true};

static const DcStatement sql_insert_totals = {
	.text = "INSERT INTO @totals AS t (key, inc, dec, updated_at)"
			" SELECT p.key, sum(p.inc)::int8, sum(p.dec)::int8, max(p.at) FROM (" PARTS ") AS p(key, inc, dec, at)"
			" WHERE p.key = ANY ($1) AND NOT EXISTS (SELECT FROM @totals AS o WHERE o.key = p.key)"
			" GROUP BY p.key HAVING sum(p.inc) <> 0 OR sum(p.dec) <> 0 ORDER BY p.key",
	.argtypes = {TEXTARRAYOID},
	.reads_all = true};

static DcCounter *regioncheck_open_to_read(FunctionCallInfo fcinfo, const char *function);
static void begin_check(DcSqlSession *session, DcCounter *counter);
static const char *check_word(DcCounter *counter, const char *word);
static DcCounter *open_to_repair(FunctionCallInfo fcinfo);
static int regioncheck_repair(DcCounter *counter);

/*
 * dc_get_regions(counter regclass, key text|bigint|uuid) -> setof (region, inc, dec, value,
 * updated_at, complete_to): what each region has counted since the key was set, in all of its
 * epochs together. This region's row includes amounts that are not published yet, except for those
 * in memory. A last row, without a region, has the value that the key was set to, if it was. Needs
 * SELECT.
 */
Datum
dc_get_regions(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = regioncheck_open_to_read(fcinfo, "dc_get_regions()");
	DcIdentity identity = {.region = ""};
	DcSqlSession session;
	Datum values[3];

	InitMaterializedSRF(fcinfo, 0);
	(void) region_self(&identity);
	values[0] = key_text_datum(key);
	values[1] = CStringGetTextDatum(identity.region);
	values[2] = CStringGetTextDatum(relation_sql_name(counter->relid));
	begin_check(&session, counter);
	sql_read(&session, &sql_get, values);
	rows_return(fcinfo, &session.rows);
	sql_end(&session);
	return (Datum) 0;
}

/*
 * dc_region_check(counter regclass) -> setof (region, epoch, keys, inc, dec, digest): the counts of
 * each region and epoch; without an epoch, how many keys each region has set, and the sum of the
 * values; and a last row without a region, for the keys whose values differ from what the regions
 * have counted: how many, and by how much. Needs SELECT.
 */
Datum
dc_region_check(PG_FUNCTION_ARGS)
{
	DcCounter *counter = regioncheck_open_to_read(fcinfo, "dc_region_check()");
	DcSqlSession session;

	InitMaterializedSRF(fcinfo, 0);
	begin_check(&session, counter);
	sql_read(&session, &sql_check, NULL);
	rows_return(fcinfo, &session.rows);
	sql_end(&session);
	return (Datum) 0;
}

/*
 * Open a replicated counter for reading, with its tables of regions and sets locked. An error if
 * the counter is not replicated, or the current user may not read it.
 */
static DcCounter *
regioncheck_open_to_read(FunctionCallInfo fcinfo, const char *function)
{
	DcCounter *counter = counter_open_to_read(fcinfo, function);

	region_check_replicated(counter);
	LockRelationOid(counter->row.regions, AccessShareLock);
	LockRelationOid(counter->row.sets, AccessShareLock);
	return counter;
}

/*
 * region_check_replicated raises 55000 for a counter table that is not replicated.
 */
void
region_check_replicated(const DcCounter *counter)
{
	if (!counter_is_replicated(counter))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not replicated between regions", get_rel_name(counter->relid)),
				 errhint("Call dc_replicate() first.")));
}

/*
 * begin_check begins a session of statements that name the tables of regions and of sets, too.
 */
static void
begin_check(DcSqlSession *session, DcCounter *counter)
{
	sql_begin(session, counter);
	session->word = check_word;
	sql_keep_open(session, DC_OF_MORE, counter->row.regions);
	sql_keep_open(session, DC_OF_MORE + 1, counter->row.sets);
}

/*
 * Return what a word in a statement's text stands for: a table of the counter.
 */
static const char *
check_word(DcCounter *counter, const char *word)
{
	if (strcmp(word, "sets") == 0)
		return relation_sql_name(counter->row.sets);
	if (strcmp(word, "regions") != 0)
		elog(ERROR, "unrecognized word: %s", word);
	return relation_sql_name(counter->row.regions);
}

/*
 * dc_region_repair(counter regclass) -> bigint: sets the totals of keys to what the regions have
 * counted, and returns how many differed. Increments and merges wait in the meantime. For the
 * owner.
 */
Datum
dc_region_repair(PG_FUNCTION_ARGS)
{
	DcCounter *counter = open_to_repair(fcinfo);

	PG_RETURN_INT64(regioncheck_repair(counter));
}

/*
 * open_to_repair opens a counter table for its owner, and keeps all from writing to its
 * tables: that of regions first, as the workers of subscriptions do.
 */
static DcCounter *
open_to_repair(FunctionCallInfo fcinfo)
{
	Oid relid = counter_arg(fcinfo);
	DcCounter *counter = counter_lookup(relid);
	Oid regions = counter->row.regions;
	Oid sets = counter->row.sets;

	prevent_write("dc_region_repair()");
	prevent_not_owner(relid);
	region_check_replicated(counter);
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot execute %s at this isolation level", "dc_region_repair()"),
				 errhint("Use READ COMMITTED.")));
	LockRelationOid(regions, ShareRowExclusiveLock);
	LockRelationOid(sets, AccessShareLock);
	counter = counter_open_as_owner(fcinfo, "dc_region_repair()", ShareRowExclusiveLock);
	if (counter->row.regions != regions || counter->row.sets != sets)
		region_check_replicated(&(DcCounter){.relid = relid});
	return counter;
}

/*
 * Set the values of keys to what the regions have counted, and return how many keys differed.
 */
static int
regioncheck_repair(DcCounter *counter)
{
	DcSqlSession session;
	Datum *keys;
	Datum array;
	uint64 n;

	begin_check(&session, counter);
	n = sql_run(&session, &sql_differing, NULL);
	keys = palloc(Max(n, 1) * sizeof(Datum));
	for (uint64 i = 0; i < n; i++)
		keys[i] = rows_datum(&session.rows, i, 1);
	if (n > 0)
	{
		array = array_datum(keys, (int) n, TEXTOID);
		sql_run(&session, &sql_drop_remote, &array);
		sql_run(&session, &sql_update_totals, &array);
		sql_run(&session, &sql_insert_totals, &array);
		counter_changed(counter, keys, (int) n);
	}
	sql_end(&session);
	if (n > 0 && cache_hooks != NULL)
		cache_hooks->forget(MyDatabaseId, counter->relid);
	return (int) n;
}
