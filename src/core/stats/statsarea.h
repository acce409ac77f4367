/*
 * statsarea.h
 *		The statistics in shared memory (see statsarea.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_STATSAREA_H
#define DC_STATSAREA_H

#include "port/atomics.h"
#include "storage/lwlock.h"

#include "core/stats/stats.h"

#define DC_STATS_BUCKETS 12
#define DC_STATS_NONE (-1) /* no entry */

/*
 * The table that an entry belongs to. Every commit looks at the generation and changes
 * the counts. They are kept apart, since a cache line that changes has to travel.
 */
typedef struct DcStatsOwner
{
	pg_atomic_uint32 generation; /* odd: in use. Written under area->lock */
	Oid database;				 /* protected by area->lock, */
	Oid counter;				 /* as is this, */
	int next;					 /* and this: in its bucket, or among the free ones */
} DcStatsOwner;

/* Aligned with cache lines, so that busy tables do not share one. */
typedef struct DcStatsEntry
{
	pg_atomic_uint64 counts[DC_NUM_STATS];
	pg_atomic_uint64 buckets[DC_STATS_BUCKETS];
	pg_atomic_uint64 reset_at;	 /* TimestampTz, to be shown */
	pg_atomic_uint64 since;		 /* DcMoment: the buckets count since then */
	pg_atomic_uint64 used_at;	 /* DcMoment, to a second or so: of increments and reads */
	pg_atomic_uint64 changed_at; /* DcMoment: of the last commit that changed shard rows */
	pg_atomic_uint64 lag_since;	 /* DcMoment; 0: all is compacted. See statscount.c */
	LWLock lock;				 /* protects what follows, and the hot keys */
	bool has_hot;				 /* false: the summary is empty, and not prepared */
	DcSweepTimes sweep;			 /* the last one */
	DcMoment hot_since;			 /* start of the hot keys */
	int64 hot_window;			 /* the number of the window that is open */
	DcMoment decayed_at;		 /* hot_since plus some half-lives */
} DcStatsEntry;

typedef union DcStatsEntryPadded
{
	DcStatsEntry entry;
	char pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(DcStatsEntry))];
} DcStatsEntryPadded;

/* To which entry a session is adding, as its number plus one; 0: to none. */
typedef union DcStatsAdding
{
	pg_atomic_uint32 entry;
	char pad[PG_CACHE_LINE_SIZE];
} DcStatsAdding;

typedef struct DcStatsArea
{
	LWLock lock;
	pg_atomic_uint32 given_back;  /* how many entries, ever */
	pg_atomic_uint64 may_reclaim; /* DcMoment, not to be tried before; written under the lock */
	/* protected by the lock */
	bool full_logged;
	int used;	   /* entries in use */
	int fresh;	   /* entries from here on were never used */
	int free;	   /* the first of those that were, or DC_STATS_NONE */
	int64 evicted; /* tables whose entry went to another one */
	/* fixed from here on */
	int nentries;
	uint32 bucket_mask;
	DcStatsAdding *adding; /* by number of the backend */
	int *buckets;		   /* the owners in them are protected by the lock */
	DcStatsOwner *owners;
	DcStatsEntryPadded *entries;
	DcHotKeys *hot; /* of the entries, in their order, as are the owners */
} DcStatsArea;

extern DcStatsArea *stats_area;

extern Size stats_area_size(void);
extern void stats_area_init(void *new_area);
extern DcStatsEntry *stats_entry(int number);
extern int stats_entry_number(const DcStatsEntry *entry);
extern bool stats_entry_in_use(int number);
extern DcStatsEntry *stats_entry_find(Oid database, Oid counter);
extern DcStatsEntry *stats_entry_take(Oid database, Oid counter);
extern bool stats_entry_give_back(DcStatsEntry *entry);
extern void stats_reclaim(void);

/* statscount.c */
extern void stats_entry_clear(DcStatsEntry *entry);
extern void stats_entry_read(DcStatsEntry *entry, DcTableStats *stats);

#endif /* DC_STATSAREA_H */
