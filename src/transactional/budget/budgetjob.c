/*
 * budgetjob.c
 *		Ending reservations whose time is up, and closing grants, as a job.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A step ends a batch of reservations whose time is up, removes a batch of those that have ended
 * longer ago than dcounter.hold_retention, and goes over grants:
 *
 *	- What is left of grants that have expired lapses. It waits for no unit that another transaction
 *	  has in hand; those lapse later.
 *	- Grants that have no units are closed: calls would look at all of them. A closed one is no longer
 *	  live, until dc_grant() changes it.
 *
 * A grant is closed if, in one snapshot that was taken after its row was locked, it has no units,
 * and no open reservation has units of it. Then none can come back: another transaction that takes
 * units and may roll back leaves them in the snapshot; one that ends a reservation leaves that open
 * in it; and one that adds units to the grant waits for the lock, and makes it live again. What this
 * one has given back is in the rows by then. At REPEATABLE
 * READ there is no such snapshot, and no grant is closed.
 *
 * As with compaction, the commit need not wait for the disk.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/catrow.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/guc.h"
#include "core/counter/apply.h"
#include "core/table/tablejob.h"
#include "transactional/budget/budget.h"
#include "transactional/stock/take.h"

#define BATCH 500

/* Grants that a step looks at. */
#define GRANT_BATCH 200

/* The worker looks at all grants no more often than that. */
#define WALK_PAUSE_MS 20000

/* How far one has come with the grants of a budget, in the order of their expiry. */
typedef struct DcGrantPlace
{
	TimestampTz expires_at; /* of the last one, */
	int64 grant;			/* and its number */
} DcGrantPlace;

/* How far this process has come with a budget. */
typedef struct DcGrantWalk
{
	Oid pool;			 /* hash key */
	DcGrantPlace lapsed; /* grants that have expired */
	DcGrantPlace seen;	 /* all grants that are live */
	DcMoment rests;		 /* until then */
} DcGrantWalk;

static const DcGrantPlace first_place = {DT_NOBEGIN, 0};

/* In TopMemoryContext. Entries are never removed: a job's own state does not outlast its round. */
static HTAB *grant_walks = NULL;

/*
 * r has those of a batch, b, of which an open reservation has units, and how many lines have been read
 * for that. The planner cannot make a join of a FILTER, so a line takes one look into a hash table.
 */
#define MAX_LINES 2500000
#define RESERVED \
	"r AS MATERIALIZED (SELECT array_agg(DISTINCT o.id) FILTER (WHERE o.id IN (SELECT b.id FROM b)) AS grants, count(*) AS lines" \
	" FROM (SELECT unnest(e.grants) AS id FROM @reservations AS e WHERE e.state = 'open' LIMIT " CppAsString2(MAX_LINES) ") AS o)"

/* The units of a grant. */
#define UNITS \
	"(SELECT coalesce(sum(u.units), 0) FROM (SELECT t.inc::numeric - t.dec AS units FROM @totals AS t WHERE t.key = g.grant_id::text" \
	" UNION ALL SELECT s.inc::numeric - s.dec FROM @shards AS s WHERE s.key = g.grant_id::text) AS u)"

/* The last one's expiry and number, how many, now. No reservation is read if no grant has expired. */
static const DcStatement sql_grants_lapse = {
	.text = "WITH b AS MATERIALIZED (SELECT l.grant_id AS id, l.expires_at FROM @grants AS l"
			" WHERE l.live AND l.expires_at <= $4 AND (l.expires_at, l.grant_id) > ($1, $2)"
			" ORDER BY l.expires_at, l.grant_id LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED), " RESERVED
			" SELECT b.id, b.expires_at, coalesce(b.id = ANY ((SELECT r.grants FROM r)::int8[]), false) FROM b",
	.argtypes = {TIMESTAMPTZOID, INT8OID, INT4OID, TIMESTAMPTZOID},
	.columns = {DC_BIGINT("grant_id"), DC_TIME("expires_at"), DC_COLUMN("is reserved", BOOLOID)},
	.of = DC_OF_MORE};

/* grant, units */
static const DcStatement sql_grant_lapsed = {
	.text = "UPDATE @grants AS g SET lapsed = g.lapsed + $2 WHERE g.grant_id = $1",
	.argtypes = {INT8OID, INT8OID}};

/* the last one's expiry and number, how many */
static const DcStatement sql_grants_walk = {
	.text = "SELECT g.grant_id, g.expires_at, " UNITS " = 0 FROM @grants AS g"
			" WHERE g.live AND (g.expires_at, g.grant_id) > ($1, $2) ORDER BY g.expires_at, g.grant_id LIMIT $3",
	.argtypes = {TIMESTAMPTZOID, INT8OID, INT4OID},
	.columns = {DC_BIGINT("grant_id"), DC_TIME("expires_at"), DC_COLUMN("is empty", BOOLOID)},
	.of = DC_OF_MORE};

/* grants */
static const DcStatement sql_grants_lock = {
	.text = "SELECT g.grant_id FROM @grants AS g WHERE g.grant_id = ANY ($1) AND g.live FOR NO KEY UPDATE SKIP LOCKED",
	.argtypes = {INT8ARRAYOID},
	.columns = {DC_BIGINT("grant_id")},
	.of = DC_OF_MORE};

/* grants, which are locked. None is closed if not all lines have been read. */
static const DcStatement sql_grants_close = {
	.text = "WITH b AS (SELECT unnest($1) AS id), " RESERVED
			" UPDATE @grants AS g SET live = false FROM r WHERE g.grant_id = ANY ($1) AND r.lines < " CppAsString2(MAX_LINES) " AND coalesce(g.grant_id <> ALL (r.grants), true) AND " UNITS " = 0",
	.argtypes = {INT8ARRAYOID}};

static List *budgetjob_list(void);
static DcTableStep budgetjob_step(Oid table, bool all_owners);
static int64 *result_grants(DcSqlSession *session, int *count);
static bool grants_lapse(const DcBudget *budget);
static bool place_advance(const DcSqlSession *session, DcGrantPlace *place);
static void grants_close(const DcBudget *budget, int64 *grants, int count);
static DcGrantWalk *grant_walk(Oid pool);
static void grants_walk(const DcBudget *budget, bool all_owners);

static DcTableJob job = {.list = budgetjob_list, .step = budgetjob_step};

/*
 * List the stocks of the budgets.
 */
static List *
budgetjob_list(void)
{
	Oid catalog = catalog_relation_if_any("budget"); /* none before the extension is updated */
	List *pools = NIL;
	ListCell *lc;

	if (!OidIsValid(catalog) || !ConditionalLockRelationOid(catalog, AccessShareLock))
		return NIL;
	foreach(lc, budget_read_all())
	{
		CHECK_FOR_INTERRUPTS();
		pools = lappend_oid(pools, ((DcBudgetRow *) lfirst(lc))->pool);
	}
	return pools;
}

/*
 * budgetjob_step does a batch of each.
 */
static DcTableStep
budgetjob_step(Oid table, bool all_owners)
{
	DcBudget budget;
	bool expires;
	bool purges = false;
	bool lapses;

	if (!budget_open_at_once(table, all_owners, &budget))
		return TABLE_DONE;
	(void) reservations_expire(&budget, (Datum) 0, BATCH, &expires);
	if (dc_hold_retention >= 0)
		purges = reservations_purge(&budget, GetCurrentTimestamp() - dc_hold_retention * USECS_PER_SEC, BATCH);
	apply_early(); /* the rows of grants have what has come back, before they are looked at */
	lapses = grants_lapse(&budget);
	grants_walk(&budget, all_owners);
	return expires || purges || lapses ? TABLE_GOES_ON : TABLE_DONE;
}

/*
 * Return the numbers of grants that are the first column of the last result.
 */
static int64 *
result_grants(DcSqlSession *session, int *count)
{
	int64 *grants;

	*count = (int) session->rows.count;
	grants = palloc(Max(*count, 1) * sizeof(int64));
	for (int i = 0; i < *count; i++)
		grants[i] = rows_bigint(&session->rows, i, 1);
	return grants;
}

/*
 * place_advance sets a place to the last grant of a result, whose second column is its expiry. If
 * there are no further ones it returns false, and the place is the first one again.
 */
static bool
place_advance(const DcSqlSession *session, DcGrantPlace *place)
{
	uint64 count = session->rows.count;

	*place = first_place;
	if (count < GRANT_BATCH)
		return false;
	for (uint64 i = 0; i < count; i++)
	{
		DcGrantPlace other = {DatumGetTimestampTz(rows_datum(&session->rows, i, 2)), rows_bigint(&session->rows, i, 1)};

		if (other.expires_at > place->expires_at || (other.expires_at == place->expires_at && other.grant > place->grant))
			*place = other;
	}
	return true;
}

/*
 * grants_lapse takes what is left of the next grants that have expired, and closes them. Those that
 * cannot be closed yet are passed over, until all have been looked at. Returns true if there are
 * more to look at.
 */
static bool
grants_lapse(const DcBudget *budget)
{
	DcGrantWalk *walk = grant_walk(budget->pool->relid);
	Datum values[] = {TimestampTzGetDatum(walk->lapsed.expires_at), Int64GetDatum(walk->lapsed.grant), Int32GetDatum(GRANT_BATCH),
					  TimestampTzGetDatum(GetCurrentTimestamp())};
	DcSqlSession session;
	int64 *grants;
	bool more;
	int looked_at;
	int count = 0;

	budget_sql_begin(&session, budget);
	(void) sql_run(&session, &sql_grants_lapse, values);
	more = place_advance(&session, &walk->lapsed);
	grants = result_grants(&session, &looked_at);
	for (int i = 0; i < looked_at; i++)
	{
		if (!DatumGetBool(rows_datum(&session.rows, i, 3)))
			grants[count++] = grants[i];
	}
	for (int i = 0; i < count; i++)
	{
		int64 left;

		CHECK_FOR_INTERRUPTS();
		left = grant_take(budget, grants[i], PG_INT64_MAX, TAKE_FREE);
		if (left > 0)
			(void) sql_run(&session, &sql_grant_lapsed, (Datum[]){Int64GetDatum(grants[i]), Int64GetDatum(left)});
	}
	if (count > 0)
		grants_close(budget, grants, count);
	sql_end(&session);
	return more;
}

/*
 * grants_close closes those of some grants that have no units, and to which none can come back.
 * Their rows are locked.
 */
static void
grants_close(const DcBudget *budget, int64 *grants, int count)
{
	Datum value = int8_array_datum(grants, count);
	DcSqlSession session;

	if (IsolationUsesXactSnapshot())
		return;
	budget_sql_begin(&session, budget);
	(void) sql_run(&session, &sql_grants_close, &value);
	sql_end(&session);
}

/*
 * Return how far this process has come with a budget.
 */
static DcGrantWalk *
grant_walk(Oid pool)
{
	DcGrantWalk *walk;
	bool found;

	if (grant_walks == NULL)
	{
		HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(DcGrantWalk), .hcxt = TopMemoryContext};

		grant_walks = hash_create("dcounter walks over grants", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	walk = hash_search(grant_walks, &pool, HASH_ENTER, &found);
	if (!found)
		*walk = (DcGrantWalk){.pool = pool, .lapsed = first_place, .seen = first_place};
	return walk;
}

/*
 * grants_walk looks at the next grants, in the order of their expiry, and closes those without
 * units. In the worker it rests when it has seen all.
 */
static void
grants_walk(const DcBudget *budget, bool all_owners)
{
	DcGrantWalk *walk = grant_walk(budget->pool->relid);
	Datum values[] = {TimestampTzGetDatum(walk->seen.expires_at), Int64GetDatum(walk->seen.grant), Int32GetDatum(GRANT_BATCH)};
	DcSqlSession session;
	int64 *grants;
	int count;
	int empty = 0;

	if (all_owners && !moment_is_reached(walk->rests))
		return;
	budget_sql_begin(&session, budget);
	(void) sql_run(&session, &sql_grants_walk, values);
	if (!place_advance(&session, &walk->seen))
		walk->rests = moment_in(WALK_PAUSE_MS);
	grants = result_grants(&session, &count);
	for (int i = 0; i < count; i++)
	{
		if (DatumGetBool(rows_datum(&session.rows, i, 3)))
			grants[empty++] = grants[i];
	}
	if (empty > 0)
	{
		Datum value = int8_array_datum(grants, empty);

		(void) sql_run(&session, &sql_grants_lock, &value);
		grants = result_grants(&session, &empty);
		if (empty > 0)
			grants_close(budget, grants, empty);
	}
	sql_end(&session);
}

/*
 * budget_job goes over the budgets; true if it has yielded.
 */
bool
budget_job(DcJobRun *run)
{
	return table_job_run(&job, run);
}
