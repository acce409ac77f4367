/*
 * statsarea.h
 *		The statistics in shared memory. stats.c explains the locks.
 */
#ifndef DC_STATSAREA_H
#define DC_STATSAREA_H

#include "port/atomics.h"
#include "stats/stats.h"
#include "storage/lwlock.h"

#define DC_STATS_TABLES 256
#define DC_STATS_BUCKETS 12

/*
 * The table that an entry belongs to. Every commit looks at the generation and changes
 * the counts. They are kept apart, since a cache line that changes has to travel.
 */
typedef struct DcStatsOwner
{
	pg_atomic_uint32 generation; /* odd: in use. Written under area->lock */
	Oid database;				 /* protected by area->lock, */
	Oid counter;				 /* as is this */
} DcStatsOwner;

typedef struct DcStatsEntry
{
	pg_atomic_uint64 counts[DC_NUM_STATS];
	pg_atomic_uint64 reset_at; /* TimestampTz, to be shown */
	pg_atomic_uint64 since;	   /* DcMoment: the buckets count since then */
	pg_atomic_uint64 buckets[DC_STATS_BUCKETS];
	LWLock lock;		 /* protects the fields that follow */
	DcSweepTimes sweep;	 /* the last one */
	DcMoment hot_since;	 /* start of the hot keys */
	DcMoment decayed_at; /* hot_since plus some half-lives */
	DcHotKeys hot;
} DcStatsEntry;

typedef struct DcStatsArea
{
	LWLock lock;
	pg_atomic_uint32 given_back;		  /* how many entries, ever */
	DcMoment may_reclaim;				  /* from then on; protected by lock */
	bool full_logged;					  /* protected by lock */
	DcStatsOwner owners[DC_STATS_TABLES]; /* of the entries, in their order */
	DcStatsEntry entries[DC_STATS_TABLES];
} DcStatsArea;

extern DcStatsArea *stats_area;

extern DcStatsEntry *stats_entry_of(DcCounter *counter);
extern DcStatsEntry *stats_entry_find(Oid database, Oid counter);
extern void stats_entry_clear(DcStatsEntry *entry);

#endif /* DC_STATSAREA_H */
