/*
 * stats.h
 *		Statistics of counter tables in shared memory (see stats.c).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * There are none if dcounter is not preloaded. Rooms above this one use stats_hooks.
 */
#ifndef DC_STATS_H
#define DC_STATS_H

#include "base/clock.h"
#include "base/hooks.h"
#include "core/rows/directrel.h"
#include "core/stats/hotkeys.h"
#include "core/table/catalog.h"

/* The cumulative numbers of a table. */
typedef enum DcStatsCount
{
	DC_STATS_INCREMENTS,
	DC_STATS_KEYS,
	DC_STATS_TOTALS, /* of these, to the row of totals itself */
	DC_STATS_BUSY_SKIPS,
	DC_STATS_SPLITS,
	DC_STATS_WAITS,
	DC_STATS_EARLY,
	DC_STATS_COMPACTED, /* keys */
	DC_STATS_READS,
	DC_STATS_READ_TIME,	  /* microseconds */
	DC_STATS_BUFFERED,	  /* increments that went to memory */
	DC_STATS_BUFFER_FULL, /* transactions that wrote rows as memory was full */
	DC_STATS_FLUSHES,
	DC_STATS_FLUSHED,	 /* keys */
	DC_STATS_FLUSH_TIME, /* microseconds */
	DC_STATS_CACHE_HITS,
	DC_STATS_CACHE_MISSES,
	DC_STATS_CACHE_EVICTIONS,
	DC_STATS_PASSED_OVER, /* rows from other regions */
	DC_NUM_STATS
} DcStatsCount;

/* The last sweep of a table by compaction. */
typedef struct DcSweepTimes
{
	TimestampTz ended_at; /* to be shown; 0: none yet */
	int64 us;			  /* how long it took */
	int64 overflowed;	  /* keys that it could not move */
	DcMoment started;	  /* not in the file */
} DcSweepTimes;

/* The statistics of a table: as they are shown, and as they are kept in a file. */
typedef struct DcTableStats
{
	Oid database;
	Oid counter;
	uint64 counts[DC_NUM_STATS];
	TimestampTz reset_at;  /* the counts start there; to be shown */
	TimestampTz lag_since; /* the oldest change that may not be compacted; 0: none */
	DcSweepTimes sweep;
} DcTableStats;

/* Further numbers that are shown. */
typedef struct DcStatsNow
{
	double writes; /* a second, lately */
	bool has_lag;  /* `lag` is known */
	int64 lag;	   /* us */
} DcStatsNow;

/* How many tables have statistics, in all databases. */
typedef struct DcStatsRoom
{
	int64 tables;
	int64 max_tables;
	int64 evicted; /* that have lost them to others, ever */
} DcStatsRoom;

/* Writes lately; see stats_get_hot_keys(). */
typedef struct DcHotStats
{
	DcHotKeys keys;
	double seconds; /* that the counts stand for */
} DcHotStats;

/* The length of the windows in which hot keys are counted. */
#define DC_HOT_WINDOW (10 * USECS_PER_SEC)

/* stats.c */
extern void stats_init(void);
extern bool stats_enabled(void);
extern void stats_attach(DcCounter *counter);
extern void stats_attach_free(DcCounter *counter);
extern void stats_attach_shown(Oid counter);
extern void stats_free(Oid counter);
extern void stats_free_database(Oid database);
extern bool stats_get_room(DcStatsRoom *room);
extern bool stats_has(Oid counter);

/* statscount.c */
extern void stats_add(DcCounter *counter, const uint64 *counts, DcMoment at);
extern void stats_count(DcCounter *counter, DcStatsCount count, uint64 n);
extern void stats_add_sweep(DcCounter *counter, const DcSweepTimes *sweep);
extern void stats_hot_key(DcCounter *counter, const char *data, uint32 len,
						  uint64 increments);
extern void stats_read(DcCounter *counter, DcMoment started);
extern bool stats_get(Oid counter, DcTableStats *stats, DcStatsNow *now);
extern bool stats_get_hot_keys(Oid counter, DcHotStats *hot);
extern void stats_set_hot(Oid counter, uint64 hash, bool is_hot);
extern void stats_reset(Oid counter);

/* statsxact.c: counts of a transaction, until it commits */
extern void stats_applied(DcCounter *counter, const DcApplyStats *stats);
extern void stats_compacted(DcCounter *counter, int64 keys);
extern void stats_swept(DcCounter *counter, DcMoment started, int64 overflowed);
extern void stats_dropped(Oid counter);
extern void stats_dropped_database(Oid database);
extern void stats_xact_init(void);

/* statsview.c */
extern bool stats_may_see(Oid counter);
extern Datum stats_interval(int64 us);

/* statsfile.c */
extern void statsfile_save(const DcTableStats *stats, int count);
extern int statsfile_load(DcTableStats **stats);

#endif /* DC_STATS_H */
