/*
 * statsshards.c
 *		The function behind dc_stat_shards: the current contents of a shard table.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The numbers are read by one query on the shard table, as the table's owner. They are sums
 * over all rows, so they reveal no key. They are shown to roles that may SELECT from the
 * counter table, and to members of pg_monitor. The view calls the function once for each
 * table, so a condition on the table keeps others from being read.
 *
 * Many tables are read, some of which may be in any state. One of them must not make the others
 * unreadable. A table that is locked by DDL is not waited for. Each one is read in a
 * subtransaction of its own, so that an error (for example, a foreign server does not answer)
 * becomes a warning. Its numbers are then NULL. They are also NULL if code of the owner could run
 * while they are read (ownercode.c): it might not terminate. Only the owner itself sees them then.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "base/activity.h"
#include "base/compat.h"
#include "core/counter/sqlpath.h"
#include "core/stats/stats.h"
#include "core/table/access.h"
#include "core/table/ownercode.h"
#include "core/table/subscription.h"

PG_FUNCTION_INFO_V1(stat_shards);

/* Columns of stat_shards() */
enum
{
	COL_SHARD_ROWS,
	COL_ACTIVE_KEYS,
	COL_SHARD_IMBALANCE,
	COL_COMPACTION_LAG,
	COL_PENDING_AMOUNT,
	NUM_COLS
};

/* How long to wait for locks: the shortest time possible. */
#define LOCK_TIMEOUT "1ms"

/* The columns of sql_stats */
enum
{
	LIVE_SHARD_ROWS = 1,
	LIVE_ACTIVE_KEYS,
	LIVE_IMBALANCE,
	LIVE_PENDING,
	LIVE_OLDEST
};

/* Live numbers of a table */
typedef struct DcLive
{
	int64 shard_rows;
	int64 active_keys;
	bool has_imbalance;
	float8 imbalance;
	Datum pending; /* numeric */
	bool has_oldest;
	TimestampTz oldest; /* last change of the row that has gone longest without one */
} DcLive;

#define ROW_IS_USED "s.inc <> 0 OR s.dec <> 0"

/*
 * number of shard rows, number of keys with an amount, highest ratio of the greatest to the mean
 * amount among a key's rows, total amount, and oldest time of the rows with an amount
 */
static const DcStatement sql_stats = {
	.text = "SELECT coalesce(sum(k.n), 0)::int8, count(*) FILTER (WHERE k.used > 0),"
			" max(k.most / nullif(k.mean, 0)) FILTER (WHERE k.used > 1),"
			" coalesce(sum(k.amount), 0), min(k.oldest)"
			" FROM (SELECT count(*) AS n, sum(s.inc) - sum(s.dec) AS amount,"
			" count(*) FILTER (WHERE " ROW_IS_USED ") AS used,"
			" max(s.inc::float8 + s.dec) FILTER (WHERE " ROW_IS_USED ") AS most,"
			" avg(s.inc::float8 + s.dec) FILTER (WHERE " ROW_IS_USED ") AS mean,"
			" min(s.updated_at) FILTER (WHERE " ROW_IS_USED ") AS oldest"
			" FROM @shards AS s GROUP BY s.key) AS k",
	.argtypes = {0},
	.reads_all = true,
	.columns = {DC_BIGINT("shard"), DC_BIGINT("inc"), DC_NULLABLE("inc", FLOAT8OID), DC_COLUMN("inc", NUMERICOID), DC_NULLABLE("updated_at", TIMESTAMPTZOID)},
	.of = DC_OF_SHARDS};

static bool try_read_live(const DcCounterRow *row, DcLive *live);
static bool read_live(const DcCounterRow *row, MemoryContext result,
					  DcLive *live);
static void put_live(ReturnSetInfo *result, const DcCounterRow *row, const DcLive *live);

/*
 * dcounter.stat_shards(counter regclass) -> no row if the caller is not shown the table, a row of
 * nulls if it cannot be read now; see the view dc_stat_shards
 */
Datum
stat_shards(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum values[NUM_COLS] = {0};
	bool nulls[NUM_COLS];
	DcCounterRow row;
	DcLive live;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0) || !stats_may_see(PG_GETARG_OID(0)) || !catalog_read(PG_GETARG_OID(0), &row))
		PG_RETURN_NULL();
	memset(nulls, true, sizeof(nulls));
	if (try_read_live(&row, &live))
		put_live(result, &row, &live);
	else if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row.counter)))
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	PG_RETURN_NULL();
}

/*
 * try_read_live reads the live numbers of a table. Returns false if that fails, with a warning,
 * or if it is locked. A cancelled query is cancelled nevertheless. The subtransaction is rolled
 * back in any case: that releases its locks.
 */
static bool
try_read_live(const DcCounterRow *row, DcLive *live)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData *volatile error = NULL;
	volatile bool done = false;
	bool guard = ownercode_guard(false);

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		/* its index or its TOAST table may be locked, though the table itself is not */
		set_config_option("lock_timeout", LOCK_TIMEOUT, PGC_USERSET, PGC_S_SESSION,
						  GUC_ACTION_SAVE, true, 0, false);
		done = read_live(row, caller, live);
	}
	PG_CATCH();
	{
		(void) ownercode_guard(guard); /* before anything here can fail */
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	(void) ownercode_guard(guard);
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	if (error == NULL)
		return done;

	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	/* the reason may be the owner's secret */
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("could not read the shard table of counter table \"%s\"",
					get_rel_name(row->counter)),
			 errdetail_log("%s", error->message)));
	FreeErrorData(error);
	return false;
}

/*
 * read_live does the work; pass-by-reference results go to `result`.
 */
static bool
read_live(const DcCounterRow *row, MemoryContext result, DcLive *live)
{
	DcCounter *counter = counter_open_in_passing(row->counter);
	DcSqlSession session;
	const DcRows *rows = &session.rows;
	MemoryContext old;
	bool isnull;

	if (counter == NULL || !ownercode_may_read(counter))
		return false;
	sql_begin(&session, counter);
	if (sql_read(&session, &sql_stats, NULL) != 1)
		elog(ERROR, "unexpected number of rows");
	live->shard_rows = rows_bigint(rows, 0, LIVE_SHARD_ROWS);
	live->active_keys = rows_bigint(rows, 0, LIVE_ACTIVE_KEYS);
	live->imbalance = DatumGetFloat8(rows_nullable(rows, 0, LIVE_IMBALANCE, &isnull));
	live->has_imbalance = !isnull;
	old = MemoryContextSwitchTo(result);
	live->pending = datumCopy(rows_datum(rows, 0, LIVE_PENDING), false, -1);
	MemoryContextSwitchTo(old);
	live->oldest = DatumGetTimestampTz(rows_nullable(rows, 0, LIVE_OLDEST, &isnull));
	live->has_oldest = !isnull;
	sql_end(&session);
	return true;
}

/*
 * put_live returns the numbers of a table. A row that holds an amount was last changed at
 * `oldest` or later, so the oldest uncompacted change is at least that old; and all that came
 * before the last sweep is compacted, unless its row was locked at that time. Rows have wall
 * time: if the clock was set back since, they look younger, and only the sweep, whose age is
 * measured, says how old it may be, or the first write after it: an idle table is not swept
 * (activity.c). A table that is fed has no such sweep: its subscription brings amounts that the
 * publisher has not compacted yet.
 */
static void
put_live(ReturnSetInfo *result, const DcCounterRow *row, const DcLive *live)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};
	DcTableStats stats;
	DcStatsNow now;
	int64 lag = 0;

	if (live->has_oldest)
	{
		if (pg_sub_s64_overflow(GetCurrentTimestamp(), live->oldest, &lag))
			lag = PG_INT64_MAX - 1; /* written by hand: -infinity; the greatest of all is infinity itself */
		lag = Max(lag, 0);
		if (stats_get(row->counter, &stats, &now) && stats.sweep.ended_at != 0 && !counter_is_fed(row))
		{
			DcMoment since = activity_since(MyDatabaseId, row->counter);

			lag = Max(lag, moment_age(since.us != DC_NEVER.us ? moment_max(stats.sweep.started, since) : stats.sweep.started));
		}
	}
	values[COL_SHARD_ROWS] = Int64GetDatum(live->shard_rows);
	values[COL_ACTIVE_KEYS] = Int64GetDatum(live->active_keys);
	values[COL_SHARD_IMBALANCE] = Float8GetDatum(live->imbalance);
	nulls[COL_SHARD_IMBALANCE] = !live->has_imbalance;
	values[COL_COMPACTION_LAG] = stats_interval(lag);
	values[COL_PENDING_AMOUNT] = live->pending;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}
