/*
 * statsview.c
 *		The functions behind dc_stat_counters and dc_stat_hot_keys, and
 *		dc_stat_reset().
 *
 * A table's row is shown to roles that may SELECT from the table, and to members of
 * pg_monitor. Its cumulative numbers come from shared memory (stats.c). Its live
 * numbers are read by one query on the shard table, as the table's owner; they are
 * sums over all rows, so they reveal no key.
 *
 * Many tables are read, some of which may be in any state. One of them must not make
 * the others unreadable. A table that is locked by DDL is not waited for. Each one
 * is read in a subtransaction of its own, so that an error (a foreign server that
 * does not answer, say) becomes a warning. Its live numbers are then NULL. They
 * are NULL, too, if code of the owner could run while they are read (ownercode.c): it
 * might not come to an end. The owner itself is shown them.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/activity.h"
#include "base/compat.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "counter/sqlpath.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "stats/stats.h"
#include "table/access.h"
#include "table/ownercode.h"
#include "table/subscription.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/rls.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(stat_counters);
PG_FUNCTION_INFO_V1(stat_hot_keys);
PG_FUNCTION_INFO_V1(dc_stat_reset);

/* Columns of stat_counters() */
enum
{
	COL_COUNTER,
	COL_FED_BY,
	COL_INCREMENTS,
	COL_KEYS_WRITTEN,
	COL_WRITES_PER_SECOND,
	COL_BUSY_SKIPPED,
	COL_SPLITS,
	COL_WAITS,
	COL_EARLY_WRITES,
	COL_SHARD_ROWS,
	COL_ACTIVE_KEYS,
	COL_SHARD_IMBALANCE,
	COL_COMPACTION_LAG,
	COL_PENDING_AMOUNT,
	COL_KEYS_COMPACTED,
	COL_LAST_COMPACTION,
	COL_LAST_COMPACTION_DURATION,
	COL_OVERFLOWED_KEYS,
	COL_READS,
	COL_MEAN_READ_TIME,
	COL_BUFFERED,
	COL_BUFFER_FULL,
	COL_FLUSHES,
	COL_KEYS_FLUSHED,
	COL_MEAN_FLUSH_TIME,
	COL_CACHE_HITS,
	COL_CACHE_MISSES,
	COL_CACHE_EVICTIONS,
	COL_STATS_RESET,
	NUM_COLS
};

/* How long locks are waited for: as short as can be. */
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

/* A row of stat_counters(), whose columns are null until they are set. */
typedef struct DcStatRow
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS];
} DcStatRow;

/* Live numbers of a table */
typedef struct DcLive
{
	int64 shard_rows;
	int64 active_keys;
	bool has_imbalance;
	float8 imbalance;
	Datum pending; /* numeric */
	bool has_oldest;
	TimestampTz oldest; /* latest change of the row that has not changed longest */
} DcLive;

#define ROW_IS_USED "s.inc <> 0 OR s.dec <> 0"

/* shard rows, keys with an amount, highest max / mean of a key's rows, amount
 * and oldest time of the rows with an amount */
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

static bool may_see(Oid counter);
static bool try_read_live(const DcCounterRow *row, DcLive *live);
static bool read_live(const DcCounterRow *row, MemoryContext result,
					  DcLive *live);
static void set(DcStatRow *row, int column, Datum value);
static void set_cumulative(DcStatRow *row, Oid counter, DcSweepTimes *sweep);
static bool set_fed_by(DcStatRow *row, const DcCounterRow *counter);
static void set_mean(DcStatRow *row, const DcTableStats *stats, int column,
					 DcStatsCount time, DcStatsCount times);
static void set_live(DcStatRow *row, Oid counter, const DcLive *live, const DcSweepTimes *sweep);
static Datum interval_of(int64 us);
static void put_hot_keys(ReturnSetInfo *result, Oid counter);

/*
 * stat_counters() -> setof record, see the view dc_stat_counters
 */
Datum
stat_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *counter = lfirst(lc);
		DcStatRow row = {0};
		DcSweepTimes sweep = {0};
		DcLive live;
		bool has_live;

		CHECK_FOR_INTERRUPTS();
		if (!may_see(counter->counter))
			continue;
		has_live = try_read_live(counter, &live);
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(counter->counter)))
			continue; /* dropped meanwhile */
		memset(row.nulls, true, sizeof(row.nulls));
		set(&row, COL_COUNTER, ObjectIdGetDatum(counter->counter));
		set_cumulative(&row, counter->counter, &sweep);
		if (set_fed_by(&row, counter))
			sweep.ended_at = 0; /* amounts come that others have not compacted yet */
		if (has_live)
			set_live(&row, counter->counter, &live, &sweep);
		tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
	}
	PG_RETURN_NULL();
}

/*
 * stat_hot_keys() -> setof record, see the view dc_stat_hot_keys
 */
Datum
stat_hot_keys(PG_FUNCTION_ARGS)
{
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (may_see(row->counter))
			put_hot_keys((ReturnSetInfo *) fcinfo->resultinfo, row->counter);
	}
	PG_RETURN_NULL();
}

/*
 * dc_stat_reset(counter regclass) -> void: sets the cumulative numbers of a table
 * to zero; NULL: of all tables that the caller owns.
 */
Datum
dc_stat_reset(PG_FUNCTION_ARGS)
{
	ListCell *lc;

	if (!PG_ARGISNULL(0))
	{
		Oid relid = PG_GETARG_OID(0);

		if (counter_find(relid) == NULL)
			counter_lookup(relid); /* raises the error */
		if (!compat_owns_relation(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE,
						   get_rel_name(relid));
	}
	if (!stats_enabled())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there are no statistics of counter tables"),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
	if (!PG_ARGISNULL(0))
	{
		stats_reset(PG_GETARG_OID(0));
		PG_RETURN_VOID();
	}

	foreach(lc, catalog_read_all())
	{
		Oid relid = ((DcCounterRow *) lfirst(lc))->counter;

		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) &&
			compat_owns_relation(relid, GetUserId()))
			stats_reset(relid);
	}
	PG_RETURN_VOID();
}

/*
 * may_see tells whether the caller is shown a table: not if policies decide which of its
 * rows the caller sees. A settings row may be of a table that does not exist any more.
 */
static bool
may_see(Oid counter)
{
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(counter)) &&
		((pg_class_aclcheck(counter, GetUserId(), ACL_SELECT) == ACLCHECK_OK &&
		  check_enable_rls(counter, InvalidOid, true) != RLS_ENABLED) ||
		 has_privs_of_role(GetUserId(), ROLE_PG_MONITOR));
}

/*
 * try_read_live reads the live numbers of a table. False if that fails, with a
 * warning, or if it is locked. A cancelled query is cancelled nevertheless. The
 * subtransaction is rolled back in any case: that releases its locks.
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
		/* an index of it may be locked, or its TOAST table, that is locked itself */
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
	DcCounter *counter = counter_open_at_once(row->counter, AccessShareLock);
	DcSqlSession session;
	const DcRows *rows = &session.rows;
	MemoryContext old;
	bool isnull;

	if (counter == NULL || !ownercode_may_read(counter))
		return false;
	stats_attach(counter);
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

static void
set(DcStatRow *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

/*
 * set_cumulative sets the columns that come from shared memory, if it has them, and
 * *sweep.
 */
static void
set_cumulative(DcStatRow *row, Oid counter, DcSweepTimes *sweep)
{
	static const struct
	{
		int column;
		DcStatsCount count;
	} columns[] = {
		{COL_INCREMENTS, DC_STATS_INCREMENTS},
		{COL_KEYS_WRITTEN, DC_STATS_KEYS},
		{COL_BUSY_SKIPPED, DC_STATS_BUSY_SKIPS},
		{COL_SPLITS, DC_STATS_SPLITS},
		{COL_WAITS, DC_STATS_WAITS},
		{COL_EARLY_WRITES, DC_STATS_EARLY},
		{COL_KEYS_COMPACTED, DC_STATS_COMPACTED},
		{COL_READS, DC_STATS_READS},
		{COL_BUFFERED, DC_STATS_BUFFERED},
		{COL_BUFFER_FULL, DC_STATS_BUFFER_FULL},
		{COL_FLUSHES, DC_STATS_FLUSHES},
		{COL_KEYS_FLUSHED, DC_STATS_FLUSHED},
		{COL_CACHE_HITS, DC_STATS_CACHE_HITS},
		{COL_CACHE_MISSES, DC_STATS_CACHE_MISSES},
		{COL_CACHE_EVICTIONS, DC_STATS_CACHE_EVICTIONS},
	};
	DcTableStats stats;
	double writes;

	if (!stats_get(counter, &stats, &writes))
		return;
	for (int i = 0; i < lengthof(columns); i++)
		set(row, columns[i].column, Int64GetDatum(stats.counts[columns[i].count]));
	set(row, COL_WRITES_PER_SECOND, Float8GetDatum(writes));
	set(row, COL_STATS_RESET, TimestampTzGetDatum(stats.reset_at));
	set_mean(row, &stats, COL_MEAN_READ_TIME, DC_STATS_READ_TIME, DC_STATS_READS);
	set_mean(row, &stats, COL_MEAN_FLUSH_TIME, DC_STATS_FLUSH_TIME, DC_STATS_FLUSHES);
	*sweep = stats.sweep;
	if (sweep->ended_at != 0)
	{
		set(row, COL_LAST_COMPACTION, TimestampTzGetDatum(sweep->ended_at));
		set(row, COL_LAST_COMPACTION_DURATION, interval_of(sweep->us));
		set(row, COL_OVERFLOWED_KEYS, Int64GetDatum(sweep->overflowed));
	}
}

/*
 * set_fed_by sets the column of subscriptions; false if there are none.
 */
static bool
set_fed_by(DcStatRow *row, const DcCounterRow *counter)
{
	const char *names = counter_fed_by(counter);

	if (names != NULL)
		set(row, COL_FED_BY, CStringGetTextDatum(names));
	return names != NULL;
}

/*
 * set_mean sets the mean time of something, in ms, if it has ever happened.
 */
static void
set_mean(DcStatRow *row, const DcTableStats *stats, int column, DcStatsCount time,
		 DcStatsCount times)
{
	if (stats->counts[times] != 0)
		set(row, column,
			Float8GetDatum((double) stats->counts[time] / 1000.0 / stats->counts[times]));
}

/*
 * set_live sets the columns of live numbers. A row that holds an amount was last
 * changed at `oldest` or later, so the oldest uncompacted change is at least
 * that old; and all that came before the last sweep is compacted, unless its row was
 * locked at that time. Rows have wall time: if the clock was set back since, they
 * look younger, and only the sweep, whose age is measured, says how old it may be, or the first
 * write after it: a table that nobody writes to is not swept (activity.c).
 */
static void
set_live(DcStatRow *row, Oid counter, const DcLive *live, const DcSweepTimes *sweep)
{
	DcMoment since = activity_since(MyDatabaseId, counter);
	int64 lag = 0;

	if (live->has_oldest)
	{
		if (pg_sub_s64_overflow(GetCurrentTimestamp(), live->oldest, &lag))
			lag = PG_INT64_MAX; /* written by hand: -infinity */
		lag = Max(lag, 0);
		if (sweep->ended_at != 0)
			lag = Max(lag, moment_age(since.us != DC_NEVER.us ? moment_max(sweep->started, since) : sweep->started));
	}
	set(row, COL_SHARD_ROWS, Int64GetDatum(live->shard_rows));
	set(row, COL_ACTIVE_KEYS, Int64GetDatum(live->active_keys));
	if (live->has_imbalance)
		set(row, COL_SHARD_IMBALANCE, Float8GetDatum(live->imbalance));
	set(row, COL_COMPACTION_LAG, interval_of(lag));
	set(row, COL_PENDING_AMOUNT, live->pending);
}

/*
 * interval_of returns an interval of so many microseconds, with days.
 */
static Datum
interval_of(int64 us)
{
	return DirectFunctionCall2(timestamp_mi, TimestampGetDatum(us), TimestampGetDatum(0));
}

/*
 * put_hot_keys returns a row for each hot key of a table.
 */
static void
put_hot_keys(ReturnSetInfo *result, Oid counter)
{
	DcHotStats hot;

	if (!stats_get_hot_keys(counter, &hot))
		return;
	for (int i = 0; i < hot.keys.nkeys; i++)
	{
		const DcHotKey *key = &hot.keys.keys[i];
		bool nulls[4] = {false};
		Datum values[] = {
			ObjectIdGetDatum(counter),
			PointerGetDatum(cstring_to_text_with_len(key->data, key->len)),
			Float8GetDatum((double) key->count / hot.seconds),
			Float8GetDatum((double) key->error / hot.seconds),
		};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}
