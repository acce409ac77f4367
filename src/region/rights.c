/*
 * rights.c
 *		The job "rights": giving units to the regions that ask for them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A step goes over a batch of keys of which another region wants units and this one has some, in
 * the order of the keys. For each it reads the wants of all regions, divides the units
 * (escrow_share()), takes them from shard rows that are not locked, and raises the rows of grants,
 * all in one transaction. Units that were locked are left to the next step. The first step of a
 * round also rewrites this region's own wants whose time is up, or that have been met, and reports
 * how many units are here (rightstell.c), which asks for units of keys that run low
 * (dcounter.rights_low).
 *
 * The commit need not wait for the disk: nothing leaves the server that is not on it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/guc.h"
#include "base/lockclass.h"
#include "core/compact/compact.h"
#include "core/counter/units.h"
#include "core/table/tablejob.h"
#include "region/rights.h"
#include "transactional/stock/take.h"

/* The limit in the statement below. */
#define KEYS_PER_STEP 100

/* Wants of a retired region are not served. */
#define LIVE_REGION \
	" NOT coalesce((SELECT r.retired_at IS NOT NULL FROM dcounter.region AS r" \
	" WHERE r.region = w.region ORDER BY r.epoch DESC LIMIT 1), false)"

#define GRANTED_SINCE \
	" CROSS JOIN LATERAL (SELECT least(greatest(coalesce(sum(g.units), 0) - w.granted, 0), 9223372036854775807)::int8" \
	" FROM @grants AS g WHERE g.key = w.key AND g.to_region = w.region AND g.to_epoch = w.epoch) AS d(since)"

/* key */
static const DcStatement sql_rights_requests = {
	.text = "SELECT w.region, w.epoch, w.since, w.wanted, w.low, d.since,"
			" CASE WHEN w.until > statement_timestamp() THEN w.kept ELSE 0 END, w.asked"
			" FROM @wants AS w" GRANTED_SINCE
			" WHERE w.key = $1 AND (w.wanted > 0 OR w.low > 0 OR w.kept > 0) AND" LIVE_REGION " AND octet_length(w.region) < 64 LIMIT 1000", /* there may be others by hand */
	.argtypes = {TEXTOID},
	.columns = {DC_TEXT("region"), DC_BIGINT("epoch"), DC_BIGINT("since"), DC_BIGINT("wanted"), DC_BIGINT("low"), DC_BIGINT("granted"), DC_BIGINT("kept"), DC_BIGINT("asked")},
	.of = DC_OF_MORE + 1};

/* key */
static const DcStatement sql_rights_units = {
	.text = "SELECT least(coalesce(sum(s.units), 0), 9223372036854775807)::int8 FROM @shards AS s WHERE s.key = $1",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("units")},
	.of = DC_OF_SHARDS};

/*
 * this region, how many units there should be at least, a key, whether it is the first one: own
 * wants to be rewritten, once in a round; the next keys that others want and that are here; whether
 * anybody wants anything. Most rows only report units, so they are read once.
 */
static const DcStatement sql_rights_open = {
	.text = "WITH o AS MATERIALIZED (SELECT w.key, w.region, w.epoch, w.granted, w.wanted, w.low, w.kept, w.asked, w.until"
			" FROM @wants AS w WHERE w.wanted > 0 OR w.low > 0 OR w.kept > 0)"
			" (SELECT 0::int8, w.key FROM o AS w" GRANTED_SINCE
			" WHERE $4 AND w.region = $1 AND ((w.kept > 0 AND w.until <= statement_timestamp())"
			" OR (w.asked > 0 AND w.asked <= d.since) OR ($2 = 0 AND w.low > 0)) ORDER BY w.key LIMIT 100)"
			" UNION ALL (SELECT 1, k.key FROM (SELECT DISTINCT w.key FROM o AS w WHERE w.region <> $1 AND (w.wanted > 0 OR w.low > 0)"
			" AND (w.key > $3 OR $4 AND w.key = $3)) AS k"
			" WHERE EXISTS (SELECT FROM @shards AS s WHERE s.key = k.key AND s.units > 0) ORDER BY k.key LIMIT 100)"
			" UNION ALL (SELECT 2, '' FROM o LIMIT 1)",
	.argtypes = {TEXTOID, INT8OID, TEXTOID, BOOLOID},
	.columns = {DC_BIGINT("what"), DC_TEXT("key")},
	.of = DC_OF_MORE + 1};

/* The kinds of keys that it finds. */
enum
{
	OWN_WANTS,
	WANTED_KEYS,
	ANYTHING,
	NUM_FOUND
};

typedef struct DcOpenWants
{
	int n[NUM_FOUND];
	DcKey *keys[NUM_FOUND];
} DcOpenWants;

/* Where the sweep over the stock at hand is. */
static struct
{
	char *after; /* a key; NULL: at the beginning */
	bool told;	 /* others know how many units are here */
	MemoryContext cxt;
} at;

static bool rights_wants(const DcCounterRow *row);
static void rights_start(MemoryContext cxt);
static DcTableStep rights_step(Oid table, bool all_owners);
static void find_open(DcCounter *counter, const DcIdentity *identity, DcOpenWants *open);
static void rights_give(DcCounter *counter, const DcIdentity *identity, const DcKey *key);
static int read_requests(DcCounter *counter, const DcIdentity *identity, const DcKey *key,
						 DcRequest **requests, int64 *units);
static void rights_grant(DcCounter *counter, const DcIdentity *from, const DcKey *key, DcRequest *requests, int count,
						 int64 units);

static DcTableJob job = {.wants = rights_wants, .start = rights_start, .state = &at, .state_size = sizeof(at), .step = rights_step};

/*
 * Return true if the table is a replicated stock, which the job works on.
 */
static bool
rights_wants(const DcCounterRow *row)
{
	return OidIsValid(row->grants);
}

/*
 * Begin a round at the first key. `cxt` lives as long as the round.
 */
static void
rights_start(MemoryContext cxt)
{
	at.cxt = cxt;
	at.after = NULL;
}

/*
 * rights_job goes over the stocks that are replicated; true if it has yielded.
 */
bool
rights_job(DcJobRun *run)
{
	return table_job_run(&job, run);
}

/*
 * rights_step serves a batch of keys of a stock.
 */
static DcTableStep
rights_step(Oid table, bool all_owners)
{
	DcCounter *counter = compact_open(table, all_owners);
	DcIdentity identity;
	DcOpenWants open;
	DcKey *keys;
	int n;

	if (counter == NULL || !counter_has_rights(counter) || !region_identity_at_once(&identity) || !rights_are_open(counter) ||
		!rights_lock(counter, RowExclusiveLock, false) ||
		!advisory_lock(RIGHTS_LOCK_CLASS, table, 0, ExclusiveLock, false))
		return TABLE_DONE;
	units_check(counter);
	identity.epoch = counter->row.rights_epoch;
	find_open(counter, &identity, &open);
	for (int i = 0; i < open.n[OWN_WANTS]; i++)
		(void) want_change(counter, &open.keys[OWN_WANTS][i], (DcWantChange){0}, DT_NOBEGIN, false);
	if (at.after == NULL)
		at.told = rights_tell(counter, &identity, !all_owners);
	keys = open.keys[WANTED_KEYS];
	n = open.n[WANTED_KEYS];
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		rights_give(counter, &identity, &keys[i]);
	}
	if (n == KEYS_PER_STEP)
	{
		at.after = MemoryContextStrdup(at.cxt, TextDatumGetCString(key_text_datum(&keys[n - 1])));
		return TABLE_GOES_ON;
	}
	return dc_rights_low > 0 || !at.told || open.n[ANYTHING] > 0 ? TABLE_DONE : TABLE_IDLE;
}

/*
 * find_open finds the wants that have to be served or rewritten.
 */
static void
find_open(DcCounter *counter, const DcIdentity *identity, DcOpenWants *open)
{
	MemoryContext cxt = CurrentMemoryContext;
	Datum values[4];
	DcSqlSession session;
	uint64 n;

	for (int i = 0; i < NUM_FOUND; i++)
	{
		open->n[i] = 0;
		open->keys[i] = palloc(KEYS_PER_STEP * sizeof(DcKey));
	}
	values[0] = CStringGetTextDatum(identity->region);
	values[1] = Int64GetDatum(dc_rights_low);
	values[2] = CStringGetTextDatum(at.after != NULL ? at.after : "");
	values[3] = BoolGetDatum(at.after == NULL);
	rights_begin(&session, counter);
	n = sql_run(&session, &sql_rights_open, values);
	for (uint64 i = 0; i < n; i++)
	{
		int64 what = rows_bigint(&session.rows, i, 1);

		rights_key(rows_datum(&session.rows, i, 2), cxt, &open->keys[what][open->n[what]++]);
	}
	sql_end(&session);
}

/*
 * rights_give gives units of a key to the regions that want them.
 */
static void
rights_give(DcCounter *counter, const DcIdentity *identity, const DcKey *key)
{
	DcRequest *requests;
	int64 units;
	int64 wanted;
	int64 taken = 0;
	int n = read_requests(counter, identity, key, &requests, &units);

	wanted = escrow_share(requests, n, units, dc_rights_low);
	if (wanted > 0)
		taken = stock_take(counter, key, wanted, TAKE_FREE);
	if (taken > 0)
		rights_grant(counter, identity, key, requests, n, taken);
}

/*
 * read_requests reads what regions want of a key, and the units that are here.
 */
static int
read_requests(DcCounter *counter, const DcIdentity *identity, const DcKey *key, DcRequest **requests,
			  int64 *units)
{
	MemoryContext cxt = CurrentMemoryContext;
	Datum name = key_text_datum(key);
	DcSqlSession session;
	const DcRows *rows = &session.rows;
	int n;

	rights_begin(&session, counter);
	n = (int) sql_run(&session, &sql_rights_requests, &name);
	*requests = MemoryContextAllocZero(cxt, Max(n, 1) * sizeof(DcRequest));
	for (int i = 0; i < n; i++)
	{
		DcRequest *request = &(*requests)[i];
		char *region = TextDatumGetCString(rows_datum(rows, i, 1));
		DcWant want = {.wanted = rows_bigint(rows, i, 4), .low = rows_bigint(rows, i, 5), .kept = rows_bigint(rows, i, 7), .asked = rows_bigint(rows, i, 8)};

		request->region = MemoryContextStrdup(cxt, region);
		request->own = strcmp(region, identity->region) == 0;
		request->epoch = rows_bigint(rows, i, 2);
		request->since = rows_bigint(rows, i, 3);
		escrow_need(&want, rows_bigint(rows, i, 6), &request->need, &request->low, &request->keep);
	}
	(void) sql_run(&session, &sql_rights_units, &name);
	*units = rows_bigint(rows, 0, 1);
	sql_end(&session);
	return n;
}

/*
 * rights_grant raises the grants of regions by the units that have been taken: the oldest requests
 * first, if there are fewer units than expected.
 */
static void
rights_grant(DcCounter *counter, const DcIdentity *from, const DcKey *key, DcRequest *requests, int count, int64 units)
{
	DcSqlSession session;
	Datum name = key_text_datum(key);

	rights_begin(&session, counter);
	for (int i = 0; i < count && units > 0; i++)
	{
		DcIdentity to = {(char *) requests[i].region, requests[i].epoch};
		int64 part = Min(requests[i].given, units);

		if (part == 0)
			continue;
		grant_raise(&session, name, from, &to, part);
		units -= part;
	}
	sql_end(&session);
	(void) want_change(counter, key, (DcWantChange){0}, DT_NOBEGIN, false); /* reports how many are left */
}
