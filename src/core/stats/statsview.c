/*
 * statsview.c
 *		The functions behind dc_stat_counters, dc_stat_hot_keys and dc_stat_memory, and
 *		dc_stat_reset().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A table's row is shown to roles that may SELECT from the table, and to members of pg_monitor.
 * All numbers come from shared memory (statsarea.c) and the server's own catalogs and
 * statistics. No counter table is opened or waited for. So even many tables take little time, and
 * no table can block the others, whatever its state is. Numbers that have to be read from a table
 * are in dc_stat_shards (statsshards.c).
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "core/stats/stats.h"
#include "core/table/subscription.h"

PG_FUNCTION_INFO_V1(stat_counters);
PG_FUNCTION_INFO_V1(stat_hot_keys);
PG_FUNCTION_INFO_V1(stat_memory);
PG_FUNCTION_INFO_V1(dc_stat_reset);

/* Columns of stat_counters() */
enum
{
	VIEW_COUNTER,
	VIEW_FED_BY,
	VIEW_INCREMENTS,
	VIEW_KEYS_WRITTEN,
	VIEW_TOTALS_WRITTEN,
	VIEW_WRITES_PER_SECOND,
	VIEW_BUSY_SKIPPED,
	VIEW_SPLITS,
	VIEW_WAITS,
	VIEW_EARLY_WRITES,
	VIEW_ESTIMATED_SHARD_ROWS,
	VIEW_COMPACTION_LAG,
	VIEW_KEYS_COMPACTED,
	VIEW_LAST_COMPACTION,
	VIEW_LAST_COMPACTION_DURATION,
	VIEW_OVERFLOWED_KEYS,
	VIEW_READS,
	VIEW_MEAN_READ_TIME,
	VIEW_BUFFERED,
	VIEW_BUFFER_FULL,
	VIEW_FLUSHES,
	VIEW_KEYS_FLUSHED,
	VIEW_MEAN_FLUSH_TIME,
	VIEW_CACHE_HITS,
	VIEW_CACHE_MISSES,
	VIEW_CACHE_EVICTIONS,
	VIEW_STATS_RESET,
	VIEW_COLS
};

/* A row of stat_counters(), whose columns are null until they are set. */
typedef struct DcStatRow
{
	Datum values[VIEW_COLS];
	bool nulls[VIEW_COLS];
} DcStatRow;

static void statsview_set(DcStatRow *row, int column, Datum value);
static void set_cumulative(DcStatRow *row, Oid counter, bool fed);
static void set_mean(DcStatRow *row, const DcTableStats *stats, int column,
					 DcStatsCount time, DcStatsCount times);
static void set_estimated_rows(DcStatRow *row, Oid shards);
static int64 statsview_estimated_rows(Oid relid);
static void put_hot_keys(ReturnSetInfo *result, Oid counter);

/*
 * stat_counters() -> setof record, see the view dc_stat_counters
 */
Datum
stat_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool any_fed = any_table_is_fed();
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *counter = lfirst(lc);
		const char *fed_by;
		DcStatRow row = {0};

		CHECK_FOR_INTERRUPTS();
		if (!stats_may_see(counter->counter))
			continue;
		memset(row.nulls, true, sizeof(row.nulls));
		statsview_set(&row, VIEW_COUNTER, ObjectIdGetDatum(counter->counter));
		fed_by = any_fed ? counter_fed_by(counter) : NULL;
		if (fed_by != NULL)
			statsview_set(&row, VIEW_FED_BY, CStringGetTextDatum(fed_by));
		stats_attach_shown(counter->counter);
		set_cumulative(&row, counter->counter, fed_by != NULL);
		set_estimated_rows(&row, counter->shards);
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
		if (stats_may_see(row->counter))
			put_hot_keys((ReturnSetInfo *) fcinfo->resultinfo, row->counter);
	}
	PG_RETURN_NULL();
}

/*
 * dcounter.stat_memory() -> setof record, see the view dc_stat_memory. The numbers are of the
 * whole server, so only members of pg_monitor are shown them.
 */
Datum
stat_memory(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool nulls[4] = {false};
	Datum values[4];
	DcStatsRoom room;
	int64 without = 0;
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	if (!has_privs_of_role(GetUserId(), ROLE_PG_MONITOR) || !stats_get_room(&room))
		PG_RETURN_NULL();
	foreach(lc, catalog_read_all())
	{
		Oid relid = ((DcCounterRow *) lfirst(lc))->counter;

		CHECK_FOR_INTERRUPTS();
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) && !stats_has(relid))
			without++;
	}
	values[0] = Int64GetDatum(room.tables);
	values[1] = Int64GetDatum(room.max_tables);
	values[2] = Int64GetDatum(without);
	values[3] = Int64GetDatum(room.evicted);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
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
				 errmsg("statistics of counter tables are not available"),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
	if (!PG_ARGISNULL(0))
	{
		stats_reset(PG_GETARG_OID(0));
		PG_RETURN_VOID();
	}

	foreach(lc, catalog_read_all())
	{
		Oid relid = ((DcCounterRow *) lfirst(lc))->counter;

		CHECK_FOR_INTERRUPTS();
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) &&
			compat_owns_relation(relid, GetUserId()))
			stats_reset(relid);
	}
	PG_RETURN_VOID();
}

/*
 * Return true if the caller is shown a table: not if policies decide which of its
 * rows the caller sees. A settings row may be of a table that does not exist any more.
 */
bool
stats_may_see(Oid counter)
{
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(counter)) &&
		((pg_class_aclcheck(counter, GetUserId(), ACL_SELECT) == ACLCHECK_OK &&
		  check_enable_rls(counter, InvalidOid, true) != RLS_ENABLED) ||
		 has_privs_of_role(GetUserId(), ROLE_PG_MONITOR));
}

/*
 * Set a column of the row, which is null otherwise.
 */
static void
statsview_set(DcStatRow *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

/*
 * set_cumulative sets the columns that come from shared memory, if the table has an entry
 * there. The age of changes that a subscription brings is unknown.
 */
static void
set_cumulative(DcStatRow *row, Oid counter, bool fed)
{
	static const struct
	{
		int column;
		DcStatsCount count;
	} columns[] = {
		{VIEW_INCREMENTS, DC_STATS_INCREMENTS},
		{VIEW_KEYS_WRITTEN, DC_STATS_KEYS},
		{VIEW_TOTALS_WRITTEN, DC_STATS_TOTALS},
		{VIEW_BUSY_SKIPPED, DC_STATS_BUSY_SKIPS},
		{VIEW_SPLITS, DC_STATS_SPLITS},
		{VIEW_WAITS, DC_STATS_WAITS},
		{VIEW_EARLY_WRITES, DC_STATS_EARLY},
		{VIEW_KEYS_COMPACTED, DC_STATS_COMPACTED},
		{VIEW_READS, DC_STATS_READS},
		{VIEW_BUFFERED, DC_STATS_BUFFERED},
		{VIEW_BUFFER_FULL, DC_STATS_BUFFER_FULL},
		{VIEW_FLUSHES, DC_STATS_FLUSHES},
		{VIEW_KEYS_FLUSHED, DC_STATS_FLUSHED},
		{VIEW_CACHE_HITS, DC_STATS_CACHE_HITS},
		{VIEW_CACHE_MISSES, DC_STATS_CACHE_MISSES},
		{VIEW_CACHE_EVICTIONS, DC_STATS_CACHE_EVICTIONS},
	};
	DcTableStats stats;
	DcStatsNow now;

	if (!stats_get(counter, &stats, &now))
		return;
	for (int i = 0; i < lengthof(columns); i++)
		statsview_set(row, columns[i].column, Int64GetDatum(stats.counts[columns[i].count]));
	statsview_set(row, VIEW_WRITES_PER_SECOND, Float8GetDatum(now.writes));
	statsview_set(row, VIEW_STATS_RESET, TimestampTzGetDatum(stats.reset_at));
	set_mean(row, &stats, VIEW_MEAN_READ_TIME, DC_STATS_READ_TIME, DC_STATS_READS);
	set_mean(row, &stats, VIEW_MEAN_FLUSH_TIME, DC_STATS_FLUSH_TIME, DC_STATS_FLUSHES);
	if (now.has_lag && !fed)
		statsview_set(row, VIEW_COMPACTION_LAG, stats_interval(now.lag));
	if (stats.sweep.ended_at != 0)
	{
		statsview_set(row, VIEW_LAST_COMPACTION, TimestampTzGetDatum(stats.sweep.ended_at));
		statsview_set(row, VIEW_LAST_COMPACTION_DURATION, stats_interval(stats.sweep.us));
		statsview_set(row, VIEW_OVERFLOWED_KEYS, Int64GetDatum(stats.sweep.overflowed));
	}
}

/*
 * set_mean sets the mean time of something, in ms, if it has ever happened.
 */
static void
set_mean(DcStatRow *row, const DcTableStats *stats, int column, DcStatsCount time,
		 DcStatsCount times)
{
	if (stats->counts[times] != 0)
		statsview_set(row, column,
					  Float8GetDatum((double) stats->counts[time] / 1000.0 / stats->counts[times]));
}

/*
 * set_estimated_rows sets the column of shard rows, to what the server believes there are.
 */
static void
set_estimated_rows(DcStatRow *row, Oid shards)
{
	List *tables = list_make1_oid(shards);
	int64 rows = 0;
	ListCell *lc;

	if (get_rel_relkind(shards) == RELKIND_PARTITIONED_TABLE)
		tables = relation_members(shards, NoLock);
	foreach(lc, tables)
	{
		int64 more = statsview_estimated_rows(lfirst_oid(lc));

		if (more < 0)
			return;
		rows += more;
	}
	statsview_set(row, VIEW_ESTIMATED_SHARD_ROWS, Int64GetDatum(rows));
}

/*
 * statsview_estimated_rows returns the rows that the server believes a relation to have, 0 for one
 * that consists of partitions, or -1 if it does not know. Its statistics follow what is written;
 * the catalog has what the last VACUUM or ANALYZE has found.
 */
static int64
statsview_estimated_rows(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	int64 rows = -1;
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return -1; /* dropped in the meantime */
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (form->relkind == RELKIND_PARTITIONED_TABLE)
		rows = 0;
	else if (form->relkind == RELKIND_RELATION && pgstat_fetch_stat_tabentry(relid) != NULL)
		rows = DatumGetInt64(DirectFunctionCall1(pg_stat_get_live_tuples, ObjectIdGetDatum(relid)));
	else if (form->reltuples >= 0)
		rows = (int64) form->reltuples;
	ReleaseSysCache(tuple);
	return rows;
}

/*
 * stats_interval returns an interval of this many microseconds, with days.
 */
Datum
stats_interval(int64 us)
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
		bool nulls[5] = {false};
		Datum values[] = {
			ObjectIdGetDatum(counter),
			PointerGetDatum(cstring_to_text_with_len(key->data, key->len)),
			Float8GetDatum((double) key->count / hot.seconds),
			Float8GetDatum((double) key->error / hot.seconds),
			Float8GetDatum((double) key->last * USECS_PER_SEC / DC_HOT_WINDOW),
		};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}
