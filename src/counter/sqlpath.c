/*
 * sqlpath.c
 *		The counter tables' SQL statements, and running them.
 *
 * These statements serve every kind of table that SQL can write: partitioned,
 * foreign, distributed. They run as the owner of the tables (runas.c).
 *
 * Why they are written as they are:
 *
 *	- The shard row is chosen once, in an uncorrelated sub-select, which is
 *	  evaluated once for the statement. A choice inside the WHERE clause, as in
 *	  "WHERE shard = floor(random() * 16)", would be evaluated for each row, and
 *	  so match no row or several: lost or doubled counts.
 *	- Rows are tried in the order of a hash of shard number and seed (rendezvous
 *	  hashing): each seed sees its own random permutation, and keeps its first
 *	  choice while rows come and go.
 *	- The plans are generic, and made with scans of whole tables disabled: a plan
 *	  made while a shard table is empty must still be right when it is not.
 *
 * Plans are kept for each counter table and replaced when its cache entry was
 * refilled (new names, new owner, new columns). A replaced plan may be in use
 * further up the stack, by a trigger on the table, so it is freed by the next
 * transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/compat.h"
#include "catalog/pg_type.h"
#include "counter/access.h"
#include "counter/sqlpath.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define MAX_ARGS 6

typedef struct DcStatementText
{
	const char *text;		/* with @totals and @shards for the tables */
	Oid argtypes[MAX_ARGS]; /* up to the first 0 */
} DcStatementText;

#define SHARD_UPSERT \
	" ON CONFLICT (key, shard) DO UPDATE" \
	" SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec," \
	" updated_at = excluded.updated_at"

#define CHOSEN_SHARD \
	"(SELECT f.shard FROM @shards AS f WHERE f.key = $1" \
	" ORDER BY hashint4extended(f.shard, $5) LIMIT 1 FOR NO KEY UPDATE"

#define ROW_IS_USED "s.inc <> 0 OR s.dec <> 0"

static const DcStatementText statements[DC_NUM_STATEMENTS] = {
	/* key, inc, dec, at, seed: adds to a row that nobody has locked */
	[DC_SQL_UPDATE_FREE] = {
		"UPDATE @shards AS s SET inc = s.inc + $2, dec = s.dec + $3,"
		" updated_at = $4 WHERE s.key = $1 AND s.shard = " CHOSEN_SHARD " SKIP LOCKED)",
		{TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID}},
	/* the same, waiting for the first choice */
	[DC_SQL_UPDATE_WAIT] = {"UPDATE @shards AS s SET inc = s.inc + $2, dec = s.dec + $3,"
							" updated_at = $4 WHERE s.key = $1 AND s.shard = " CHOSEN_SHARD ")",
							{TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID}},
	/* key, inc, dec, at, own shard, max shards */
	[DC_SQL_INSERT_IF_ROOM] = {"INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)"
							   " SELECT $1, $5, $2, $3, $4 WHERE $6 >"
							   " (SELECT count(*) FROM @shards AS c WHERE c.key = $1)" SHARD_UPSERT,
							   {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID, INT4OID}},
	/* keys, incs, decs, at, own shard: the own row of each key */
	[DC_SQL_INSERT_BATCH] = {"INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)"
							 " SELECT d.key, $5, d.inc, d.dec, $4"
							 " FROM unnest($1, $2, $3) AS d(key, inc, dec)" SHARD_UPSERT,
							 {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID, INT4OID}},
	/* key, inc, dec, at, own shard */
	[DC_SQL_UPDATE_OWN] = {"UPDATE @shards AS s SET inc = s.inc + $2, dec = s.dec + $3,"
						   " updated_at = $4 WHERE s.key = $1 AND s.shard = $5",
						   {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID}},
	/* key, inc, dec, at, own shard */
	[DC_SQL_INSERT_OWN] = {"INSERT INTO @shards (key, shard, inc, dec, updated_at)"
						   " VALUES ($1, $5, $2, $3, $4)",
						   {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID}},
	/* key: all rows of it, with whether it is a shard row */
	[DC_SQL_READ_KEY] = {"SELECT t.inc, t.dec, t.updated_at, false FROM @totals AS t"
						 " WHERE t.key = $1 UNION ALL"
						 " SELECT s.inc, s.dec, s.updated_at, true FROM @shards AS s"
						 " WHERE s.key = $1",
						 {TEXTOID}},
	/* keys */
	[DC_SQL_READ_KEYS] = {"SELECT t.key, t.inc, t.dec FROM @totals AS t"
						  " WHERE t.key = ANY ($1) UNION ALL"
						  " SELECT s.key, s.inc, s.dec FROM @shards AS s"
						  " WHERE s.key = ANY ($1)",
						  {TEXTARRAYOID}},
	[DC_SQL_READ_ALL] = {"SELECT coalesce(sum(u.inc), 0) - coalesce(sum(u.dec), 0)"
						 " FROM (SELECT t.inc, t.dec FROM @totals AS t UNION ALL"
						 " SELECT s.inc, s.dec FROM @shards AS s) AS u",
						 {0}},
	/* shard rows, keys with an amount, highest max / mean of a key's rows, amount
	 * and oldest time of the rows with an amount */
	[DC_SQL_STATS] = {"SELECT coalesce(sum(k.n), 0)::int8, count(*) FILTER (WHERE k.used > 0),"
					  " max(k.most / nullif(k.mean, 0)) FILTER (WHERE k.used > 1),"
					  " coalesce(sum(k.amount), 0), min(k.oldest)"
					  " FROM (SELECT count(*) AS n, sum(s.inc) - sum(s.dec) AS amount,"
					  " count(*) FILTER (WHERE " ROW_IS_USED ") AS used,"
					  " max(s.inc::float8 + s.dec) FILTER (WHERE " ROW_IS_USED ") AS most,"
					  " avg(s.inc::float8 + s.dec) FILTER (WHERE " ROW_IS_USED ") AS mean,"
					  " min(s.updated_at) FILTER (WHERE " ROW_IS_USED ") AS oldest"
					  " FROM @shards AS s GROUP BY s.key) AS k",
					  {0}},
	/* key */
	[DC_SQL_READ_TOTAL] = {"SELECT t.inc, t.dec, t.updated_at FROM @totals AS t WHERE t.key = $1", {TEXTOID}},
	/* how many */
	[DC_SQL_TOP] = {"SELECT t.key, t.value FROM @totals AS t WHERE t.value IS NOT NULL"
					" ORDER BY t.value DESC, t.key COLLATE \"C\" LIMIT $1",
					{INT4OID}},
	/* key */
	[DC_SQL_LOCK_TOTAL] = {"SELECT t.inc, t.dec FROM @totals AS t WHERE t.key = $1"
						   " FOR NO KEY UPDATE",
						   {TEXTOID}},
	/* key, inc, dec, at */
	[DC_SQL_UPDATE_TOTAL] = {"UPDATE @totals AS t SET inc = $2, dec = $3, updated_at = $4"
							 " WHERE t.key = $1",
							 {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID}},
	/* key */
	[DC_SQL_DELETE_TOTAL] = {"DELETE FROM @totals AS t WHERE t.key = $1 RETURNING t.inc, t.dec", {TEXTOID}},
	/* key */
	[DC_SQL_DELETE_SHARDS] = {"DELETE FROM @shards AS s WHERE s.key = $1 RETURNING s.inc, s.dec", {TEXTOID}},
	/* after key, after shard, limit: rows that nobody has locked */
	[DC_SQL_COMPACT_SHARDS] = {"SELECT s.key, s.shard, s.inc, s.dec, s.updated_at FROM @shards AS s"
							   " WHERE (s.key, s.shard) > ($1, $2) ORDER BY s.key, s.shard"
							   " LIMIT $3 FOR UPDATE SKIP LOCKED",
							   {TEXTOID, INT4OID, INT4OID}},
	/* keys */
	[DC_SQL_COMPACT_LOCK] = {"SELECT t.key, t.inc, t.dec FROM @totals AS t WHERE t.key = ANY ($1)"
							 " FOR NO KEY UPDATE SKIP LOCKED",
							 {TEXTARRAYOID}},
	/* keys */
	[DC_SQL_COMPACT_EXISTING] = {"SELECT t.key FROM @totals AS t WHERE t.key = ANY ($1)", {TEXTARRAYOID}},
	/* keys, incs, decs, times */
	[DC_SQL_COMPACT_UPDATE] = {"UPDATE @totals AS t SET inc = d.inc, dec = d.dec,"
							   " updated_at = greatest(t.updated_at, d.at)"
							   " FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
							   " WHERE t.key = d.key",
							   {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID}},
	/* keys, incs, decs, times */
	[DC_SQL_COMPACT_INSERT] = {"INSERT INTO @totals (key, inc, dec, updated_at)"
							   " SELECT d.key, d.inc, d.dec, d.at"
							   " FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
							   " ON CONFLICT DO NOTHING",
							   {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID}},
	/* keys, shards */
	[DC_SQL_COMPACT_DELETE] = {"DELETE FROM @shards AS s USING unnest($1, $2) AS d(key, shard)"
							   " WHERE s.key = d.key AND s.shard = d.shard",
							   {TEXTARRAYOID, INT4ARRAYOID}},
	/* keys, shards */
	[DC_SQL_COMPACT_ZERO] = {"UPDATE @shards AS s SET inc = 0, dec = 0"
							 " FROM unnest($1, $2) AS d(key, shard)"
							 " WHERE s.key = d.key AND s.shard = d.shard",
							 {TEXTARRAYOID, INT4ARRAYOID}},
};

/* The plans of one counter table. */
typedef struct DcPlans
{
	Oid counter;	   /* hash key */
	uint32 generation; /* of the cache entry that they were made for */
	SPIPlanPtr plans[DC_NUM_STATEMENTS];
	bool planned[DC_NUM_STATEMENTS]; /* has a generic plan */
	bool kept;						 /* may have plans at all */
} DcPlans;

static HTAB *plan_cache = NULL;

/* Tables that plans are kept for, and how many at most. */
static int tables_kept = 0;

#define MAX_TABLES_KEPT 100

/* Plans that were replaced, to be freed by a later transaction. */
static List *retired_plans = NIL;
static LocalTransactionId retired_in = InvalidLocalTransactionId;

static DcPlans *plans_get(DcCounter *counter);
static SPIPlanPtr plan_prepare(DcCounter *counter, DcStatement statement);
static void plans_retire_all(void);
static void plans_retire(DcPlans *plans);
static void plan_settings(void);
static uint64 sql_execute(DcSqlSession *session, DcStatement statement,
						  Datum *values, bool read_only);

/*
 * sql_begin connects to SPI and becomes the owner of the counter table.
 */
void
sql_begin(DcSqlSession *session, DcCounter *counter)
{
	session->counter = counter;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	runas_begin(&session->runas, counter->owner);
}

/*
 * sql_end undoes sql_begin. The results in SPI_tuptable are gone afterwards.
 */
void
sql_end(DcSqlSession *session)
{
	runas_end(&session->runas);
	SPI_finish();
}

/*
 * sql_run executes a statement that may write, and returns the number of rows
 * processed. Parameters are never null.
 */
uint64
sql_run(DcSqlSession *session, DcStatement statement, Datum *values)
{
	return sql_execute(session, statement, values, false);
}

/*
 * sql_read executes a query in the caller's snapshot, and returns the number of
 * rows. What this transaction itself has written counts in full, also if the
 * running statement wrote it.
 */
uint64
sql_read(DcSqlSession *session, DcStatement statement, Datum *values)
{
	uint64 rows;

	read_snapshot_push();
	rows = sql_execute(session, statement, values, true);
	PopActiveSnapshot();
	return rows;
}

/*
 * sql_bigint returns a bigint of the last result; NULL counts as 0.
 */
int64
sql_bigint(uint64 row, int column)
{
	bool isnull;
	Datum value = SPI_getbinval(SPI_tuptable->vals[row],
								SPI_tuptable->tupdesc, column, &isnull);

	return isnull ? 0 : DatumGetInt64(value);
}

static uint64
sql_execute(DcSqlSession *session, DcStatement statement, Datum *values,
			bool read_only)
{
	DcPlans *plans = plans_get(session->counter);
	SPIPlanPtr plan;
	int level = NewGUCNestLevel();
	int result;

	if (plans->plans[statement] == NULL)
		plans->plans[statement] = plan_prepare(session->counter, statement);
	plan = plans->plans[statement];
	if ((!plans->planned[statement] || !SPI_plan_is_valid(plan)) &&
		statement != DC_SQL_READ_ALL && statement != DC_SQL_STATS)
		plan_settings();
	result = SPI_execute_plan(plan, values, NULL, read_only, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan failed: %s",
			 SPI_result_code_string(result));
	plans->planned[statement] = (plans->plans[statement] == plan);
	AtEOXact_GUC(false, level);
	return SPI_processed;
}

/*
 * plan_settings steers the planner while it makes a generic plan, which is when
 * a plan is run for the first time or after an invalidation.
 */
static void
plan_settings(void)
{
	static const char *const off[] = {
		"enable_seqscan", "enable_hashjoin", "enable_mergejoin",
		/* the cost of disabled nodes would set off the compiler */
		"jit"};

	for (int i = 0; i < lengthof(off); i++)
		set_config_option(off[i], "off", PGC_USERSET, PGC_S_SESSION,
						  GUC_ACTION_SAVE, true, 0, false);
}

/*
 * plans_get returns the plans of a counter table, emptied if its cache entry
 * has changed, and frees what an earlier transaction retired.
 */
static DcPlans *
plans_get(DcCounter *counter)
{
	DcPlans *plans;
	bool found;

	if (plan_cache == NULL)
	{
		HASHCTL ctl = {0};

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(DcPlans);
		ctl.hcxt = TopMemoryContext;
		plan_cache = hash_create("dcounter plans", 32, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	if (retired_plans != NIL && retired_in != compat_local_xid())
	{
		ListCell *lc;

		foreach(lc, retired_plans)
			SPI_freeplan((SPIPlanPtr) lfirst(lc));
		list_free(retired_plans);
		retired_plans = NIL;
	}

	plans = hash_search(plan_cache, &counter->relid, HASH_FIND, NULL);
	if ((plans == NULL || !plans->kept) && tables_kept >= MAX_TABLES_KEPT)
		plans_retire_all();
	plans = hash_search(plan_cache, &counter->relid, HASH_ENTER, &found);
	if (!found)
		memset((char *) plans + sizeof(Oid), 0, sizeof(DcPlans) - sizeof(Oid));
	else if (plans->generation != counter->generation)
		plans_retire(plans);
	if (!plans->kept)
		tables_kept++;
	plans->kept = true;
	plans->generation = counter->generation;
	return plans;
}

/*
 * plans_retire_all gives back the memory of all plans: a session that works on
 * many tables would keep too much.
 */
static void
plans_retire_all(void)
{
	HASH_SEQ_STATUS status;
	DcPlans *plans;

	hash_seq_init(&status, plan_cache);
	while ((plans = hash_seq_search(&status)) != NULL)
	{
		if (plans->kept)
			plans_retire(plans);
		plans->kept = false;
	}
	tables_kept = 0;
}

static void
plans_retire(DcPlans *plans)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	for (int i = 0; i < DC_NUM_STATEMENTS; i++)
	{
		if (plans->plans[i] != NULL)
			retired_plans = lappend(retired_plans, plans->plans[i]);
		plans->plans[i] = NULL;
		plans->planned[i] = false;
	}
	retired_in = compat_local_xid();
	MemoryContextSwitchTo(old);
}

/*
 * plan_prepare puts the tables' names into a statement and prepares it.
 */
static SPIPlanPtr
plan_prepare(DcCounter *counter, DcStatement statement)
{
	const DcStatementText *text = &statements[statement];
	char *totals = relation_sql_name(counter->relid);
	char *shards = relation_sql_name(counter->row.shards);
	StringInfoData sql;
	SPIPlanPtr plan;
	int nargs = 0;

	initStringInfo(&sql);
	for (const char *p = text->text; *p != '\0'; p++)
	{
		if (strncmp(p, "@totals", 7) == 0)
		{
			appendStringInfoString(&sql, totals);
			p += 6;
		}
		else if (strncmp(p, "@shards", 7) == 0)
		{
			appendStringInfoString(&sql, shards);
			p += 6;
		}
		else
			appendStringInfoChar(&sql, *p);
	}
	while (nargs < MAX_ARGS && OidIsValid(text->argtypes[nargs]))
		nargs++;

	plan = SPI_prepare_cursor(sql.data, nargs, (Oid *) text->argtypes,
							  CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s",
			 sql.data, SPI_result_code_string(SPI_result));
	SPI_keepplan(plan);
	pfree(sql.data);
	return plan;
}
