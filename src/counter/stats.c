/*
 * stats.c
 *		Statistics of counter tables in shared memory.
 *
 * One area holds an entry for each of up to MAX_TABLES counter tables of all
 * databases. It exists only if dcounter is preloaded.
 *
 * Who may touch what:
 *
 *	- area->lock protects which table has which entry. A table takes one when it
 *	  is opened by an SQL function (stats_attach), which may wait and fail, and
 *	  never when a transaction commits. A backend remembers the entry and its
 *	  generation in its DcCounter; the generation changes whenever the entry
 *	  changes hands. So it takes no lock and no search to find it again.
 *	- The counts and buckets of an entry are atomic variables. Whoever adds to them
 *	  checks the generation first. Between the check and the addition the entry
 *	  cannot change hands: the backend has a lock on the table, and an entry is
 *	  only taken away from a table that is gone for all, locks included.
 *	- entry->lock protects the last sweep and the hot keys of an entry. To record a
 *	  hot key it is taken only if it is free. It is held for a few comparisons.
 *
 * Entries are given back when a table is dropped (statsxact.c). What escapes that
 * (a dropped database, a drop by a prepared transaction) is found when the entries
 * are all taken. If there is none left, a table is not counted.
 *
 * At a clean shutdown the cumulative numbers go to a file (statsfile.c).
 *
 * Writes lately are counted in buckets of a few seconds each, one after the other
 * around a ring. A bucket is one variable, with the number of the period that it
 * is about in its upper bits, so whoever comes first in a new period starts it
 * over. The hot keys are those of a sample of the writes: 1 in SAMPLE, which
 * then counts SAMPLE times.
 */
#include "postgres.h"

#include <math.h>

#include "base/shmem.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "counter/stats.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define MAX_TABLES 256

#define BUCKETS 12
#define PERIOD (5 * USECS_PER_SEC)
#define PERIOD_SHIFT 40 /* below are 40 bits of count */
#define BUCKET_COUNT_MASK ((UINT64CONST(1) << PERIOD_SHIFT) - 1)
#define BUCKET_ADD_MAX (UINT64CONST(1) << 36)

#define SAMPLE 16
#define HALF_LIFE (30 * USECS_PER_SEC)

/* Looking for entries of tables that are gone is not tried more often. */
#define RECLAIM_INTERVAL (10 * USECS_PER_SEC)

typedef struct DcStatsEntry
{
	pg_atomic_uint32 generation; /* odd: in use. Written under area->lock */
	Oid database;				 /* protected by area->lock, */
	Oid counter;				 /* as is this */
	pg_atomic_uint64 counts[DC_NUM_STATS];
	pg_atomic_uint64 reset_at;
	pg_atomic_uint64 buckets[BUCKETS];
	LWLock lock;			/* protects what follows */
	DcSweep sweep;			/* the last one */
	TimestampTz hot_since;	/* start of the hot keys */
	TimestampTz decayed_at; /* hot_since plus a multiple of HALF_LIFE */
	DcHotKeys hot;
} DcStatsEntry;

typedef struct DcStatsArea
{
	LWLock lock;
	pg_atomic_uint32 given_back; /* how many entries, ever */
	TimestampTz reclaimed_at;	 /* protected by lock */
	bool full_logged;			 /* protected by lock */
	DcStatsEntry entries[MAX_TABLES];
} DcStatsArea;

/* In DcCounter: no entry was left. */
#define NO_ENTRY (-1)

static DcStatsArea *area = NULL;

static void area_init(void *new_area);
static void area_save(int code, Datum arg);
static DcStatsEntry *entry_of(const DcCounter *counter);
static bool entry_in_use(DcStatsEntry *entry);
static DcStatsEntry *entry_find(Oid database, Oid counter);
static DcStatsEntry *entry_take(Oid database, Oid counter, TimestampTz now);
static void entry_clear(DcStatsEntry *entry, TimestampTz now);
static void entry_give_back(DcStatsEntry *entry);
static DcStatsEntry *find_or_take(Oid counter);
static void reclaim(void);
static bool table_is_gone(Oid database, Oid counter);
static void log_full(Oid counter);
static void bucket_add(DcStatsEntry *entry, uint64 writes, TimestampTz at);
static double writes_lately(DcStatsEntry *entry, TimestampTz now);
static void hot_decay(DcStatsEntry *entry, TimestampTz now);
static double hot_seconds(const DcStatsEntry *entry, TimestampTz now);

/*
 * stats_init asks for the area; called once, when the library is preloaded.
 */
void
stats_init(void)
{
	shmem_add("dcounter statistics", sizeof(DcStatsArea), (void **) &area,
			  area_init);
}

/*
 * area_init prepares the area, in the postmaster, with the numbers that the last
 * clean shutdown has left. They are read once, so a crash starts from zero.
 */
static void
area_init(void *new_area)
{
	DcStatsArea *init = new_area;
	static DcTableStats saved[MAX_TABLES];
	TimestampTz now = GetCurrentTimestamp();
	int count;

	shmem_init_lock(&init->lock);
	pg_atomic_init_u32(&init->given_back, 0);
	for (int i = 0; i < MAX_TABLES; i++)
	{
		DcStatsEntry *entry = &init->entries[i];

		shmem_init_lock(&entry->lock);
		pg_atomic_init_u32(&entry->generation, 0);
		pg_atomic_init_u64(&entry->reset_at, 0);
		for (int c = 0; c < DC_NUM_STATS; c++)
			pg_atomic_init_u64(&entry->counts[c], 0);
		for (int b = 0; b < BUCKETS; b++)
			pg_atomic_init_u64(&entry->buckets[b], 0);
	}

	count = statsfile_load(saved, MAX_TABLES);
	for (int i = 0; i < count; i++)
	{
		DcStatsEntry *entry = entry_take(saved[i].database, saved[i].counter,
										 now);

		for (int c = 0; c < DC_NUM_STATS; c++)
			pg_atomic_write_u64(&entry->counts[c], saved[i].counts[c]);
		pg_atomic_write_u64(&entry->reset_at, (uint64) saved[i].reset_at);
		entry->sweep = saved[i].sweep;
	}
	on_shmem_exit(area_save, (Datum) 0);
}

/*
 * area_save writes the file when the postmaster exits. Nobody else is left.
 */
static void
area_save(int code, Datum arg)
{
	static DcTableStats saved[MAX_TABLES];
	int count = 0;

	if (code != 0 || area == NULL)
		return;
	for (int i = 0; i < MAX_TABLES; i++)
	{
		DcStatsEntry *entry = &area->entries[i];
		DcTableStats *stats = &saved[count];

		if (!entry_in_use(entry))
			continue;
		memset(stats, 0, sizeof(*stats));
		stats->database = entry->database;
		stats->counter = entry->counter;
		for (int c = 0; c < DC_NUM_STATS; c++)
			stats->counts[c] = pg_atomic_read_u64(&entry->counts[c]);
		stats->reset_at = (TimestampTz) pg_atomic_read_u64(&entry->reset_at);
		stats->sweep = entry->sweep;
		count++;
	}
	statsfile_save(saved, count);
}

/*
 * stats_enabled tells whether there are statistics at all.
 */
bool
stats_enabled(void)
{
	return area != NULL;
}

/*
 * stats_clock returns the time, or 0 if nobody wants to know.
 */
TimestampTz
stats_clock(void)
{
	return area != NULL ? GetCurrentTimestamp() : 0;
}

/*
 * stats_attach sees to it that a counter table that was opened has an entry, if
 * there is one for it. If there was none, it is tried again when one is given
 * back. Called inside a transaction, with a lock on the table.
 */
void
stats_attach(DcCounter *counter)
{
	DcStatsEntry *entry;
	uint32 given_back;

	if (area == NULL || entry_of(counter) != NULL)
		return;
	given_back = pg_atomic_read_u32(&area->given_back);
	if (counter->stats_entry == NO_ENTRY &&
		counter->stats_generation == given_back)
		return;

	entry = find_or_take(counter->relid);
	if (entry == NULL)
	{
		reclaim();
		given_back = pg_atomic_read_u32(&area->given_back);
		entry = find_or_take(counter->relid);
	}
	if (entry == NULL)
	{
		counter->stats_entry = NO_ENTRY;
		counter->stats_generation = given_back;
		log_full(counter->relid);
		return;
	}
	counter->stats_entry = entry - area->entries;
	counter->stats_generation = pg_atomic_read_u32(&entry->generation);
}

/*
 * stats_add adds to the counts of a table. Takes no lock and does not throw.
 */
void
stats_add(DcCounter *counter, const uint64 *counts, TimestampTz at)
{
	DcStatsEntry *entry = entry_of(counter);

	if (entry == NULL)
		return;
	for (int i = 0; i < DC_NUM_STATS; i++)
	{
		if (counts[i] != 0)
			pg_atomic_fetch_add_u64(&entry->counts[i], counts[i]);
	}
	if (counts[DC_STATS_INCREMENTS] != 0)
		bucket_add(entry, counts[DC_STATS_INCREMENTS], at);
}

/*
 * stats_add_sweep records a sweep, unless a later one is known.
 */
void
stats_add_sweep(DcCounter *counter, const DcSweep *sweep)
{
	DcStatsEntry *entry = entry_of(counter);

	if (entry == NULL)
		return;
	LWLockAcquire(&entry->lock, LW_EXCLUSIVE);
	if (sweep->ended > entry->sweep.ended)
		entry->sweep = *sweep;
	LWLockRelease(&entry->lock);
}

/*
 * stats_hot_key records that a key was written, if it is in the sample and
 * nobody else is recording.
 */
void
stats_hot_key(DcCounter *counter, const char *data, uint32 len,
			  uint64 increments)
{
	DcStatsEntry *entry;
	uint64 hash;
	int shown;
	TimestampTz now;

	if (pg_prng_uint32(&pg_global_prng_state) % SAMPLE != 0)
		return;
	entry = entry_of(counter);
	if (entry == NULL)
		return;
	hash = hash_bytes_extended((const unsigned char *) data, len, 0);
	shown = pg_mbcliplen(data, len, DC_HOT_KEY_BYTES);
	now = GetCurrentTimestamp();
	if (!LWLockConditionalAcquire(&entry->lock, LW_EXCLUSIVE))
		return;
	hot_decay(entry, now);
	hotkeys_add(&entry->hot, hash, data, shown, increments * SAMPLE);
	LWLockRelease(&entry->lock);
}

/*
 * stats_read counts a read function that has started at the time given.
 */
void
stats_read(DcCounter *counter, TimestampTz started)
{
	DcStatsEntry *entry = entry_of(counter);
	int64 elapsed;

	if (entry == NULL)
		return;
	elapsed = GetCurrentTimestamp() - started;
	pg_atomic_fetch_add_u64(&entry->counts[DC_STATS_READS], 1);
	pg_atomic_fetch_add_u64(&entry->counts[DC_STATS_READ_TIME],
							(uint64) Max(elapsed, 0));
}

/*
 * stats_free gives back the entry of a table of this database that is gone. Does
 * not throw: called when the transaction that dropped it commits.
 */
void
stats_free(Oid counter)
{
	DcStatsEntry *entry;

	if (area == NULL)
		return;
	LWLockAcquire(&area->lock, LW_EXCLUSIVE);
	entry = entry_find(MyDatabaseId, counter);
	if (entry != NULL)
		entry_give_back(entry);
	LWLockRelease(&area->lock);
}

/*
 * stats_get copies the numbers of a table of this database, and its writes a
 * second lately. False if it has no entry.
 */
bool
stats_get(Oid counter, DcTableStats *stats, double *writes)
{
	DcStatsEntry *entry;

	if (area == NULL)
		return false;
	LWLockAcquire(&area->lock, LW_SHARED);
	entry = entry_find(MyDatabaseId, counter);
	if (entry != NULL)
	{
		for (int i = 0; i < DC_NUM_STATS; i++)
			stats->counts[i] = pg_atomic_read_u64(&entry->counts[i]);
		stats->reset_at = (TimestampTz) pg_atomic_read_u64(&entry->reset_at);
		*writes = writes_lately(entry, GetCurrentTimestamp());
		LWLockAcquire(&entry->lock, LW_SHARED);
		stats->sweep = entry->sweep;
		LWLockRelease(&entry->lock);
	}
	LWLockRelease(&area->lock);
	return entry != NULL;
}

/*
 * stats_get_hot_keys copies the hot keys of a table of this database, most
 * writes first. False if it has no entry.
 */
bool
stats_get_hot_keys(Oid counter, DcHotStats *hot)
{
	DcStatsEntry *entry;
	TimestampTz now = GetCurrentTimestamp();

	if (area == NULL)
		return false;
	LWLockAcquire(&area->lock, LW_SHARED);
	entry = entry_find(MyDatabaseId, counter);
	if (entry != NULL)
	{
		LWLockAcquire(&entry->lock, LW_EXCLUSIVE);
		hot_decay(entry, now);
		hot->keys = entry->hot;
		hot->seconds = hot_seconds(entry, now);
		LWLockRelease(&entry->lock);
	}
	LWLockRelease(&area->lock);
	if (entry == NULL)
		return false;
	hotkeys_sort(&hot->keys);
	return true;
}

/*
 * stats_reset sets the numbers of a table of this database to zero. The time of
 * the last sweep stays: how old uncompacted changes can be depends on it.
 */
void
stats_reset(Oid counter)
{
	DcStatsEntry *entry;
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(&area->lock, LW_EXCLUSIVE);
	entry = entry_find(MyDatabaseId, counter);
	if (entry != NULL)
	{
		LWLockAcquire(&entry->lock, LW_EXCLUSIVE);
		entry_clear(entry, now);
		LWLockRelease(&entry->lock);
	}
	LWLockRelease(&area->lock);
}

/*
 * entry_of returns the entry that a backend remembers, if it is still the one of
 * its table.
 */
static DcStatsEntry *
entry_of(const DcCounter *counter)
{
	DcStatsEntry *entry;

	if (area == NULL || counter->stats_entry == NO_ENTRY ||
		counter->stats_generation == 0)
		return NULL;
	entry = &area->entries[counter->stats_entry];
	if (pg_atomic_read_u32(&entry->generation) != counter->stats_generation)
		return NULL;
	return entry;
}

static bool
entry_in_use(DcStatsEntry *entry)
{
	return pg_atomic_read_u32(&entry->generation) % 2 == 1;
}

/*
 * entry_find searches for the entry of a table; under area->lock.
 */
static DcStatsEntry *
entry_find(Oid database, Oid counter)
{
	for (int i = 0; i < MAX_TABLES; i++)
	{
		DcStatsEntry *entry = &area->entries[i];

		if (entry->counter == counter && entry->database == database &&
			entry_in_use(entry))
			return entry;
	}
	return NULL;
}

/*
 * entry_take gives a free entry to a table, or returns NULL; under area->lock in
 * exclusive mode.
 */
static DcStatsEntry *
entry_take(Oid database, Oid counter, TimestampTz now)
{
	for (int i = 0; i < MAX_TABLES; i++)
	{
		DcStatsEntry *entry = &area->entries[i];

		if (entry_in_use(entry))
			continue;
		entry->database = database;
		entry->counter = counter;
		entry_clear(entry, now);
		memset(&entry->sweep, 0, sizeof(entry->sweep));
		pg_atomic_fetch_add_u32(&entry->generation, 1);
		return entry;
	}
	return NULL;
}

/*
 * entry_clear sets to zero what dc_stat_reset() does.
 */
static void
entry_clear(DcStatsEntry *entry, TimestampTz now)
{
	for (int i = 0; i < DC_NUM_STATS; i++)
		pg_atomic_write_u64(&entry->counts[i], 0);
	for (int i = 0; i < BUCKETS; i++)
		pg_atomic_write_u64(&entry->buckets[i], 0);
	pg_atomic_write_u64(&entry->reset_at, (uint64) now);
	entry->hot.nkeys = 0;
	entry->hot_since = now;
	entry->decayed_at = now;
}

/*
 * entry_give_back makes an entry free; under area->lock in exclusive mode.
 */
static void
entry_give_back(DcStatsEntry *entry)
{
	pg_atomic_fetch_add_u32(&entry->generation, 1);
	pg_atomic_fetch_add_u32(&area->given_back, 1);
}

/*
 * find_or_take returns the entry of a table of this database, a new one if it has
 * none, or NULL if none is free.
 */
static DcStatsEntry *
find_or_take(Oid counter)
{
	DcStatsEntry *entry;

	LWLockAcquire(&area->lock, LW_SHARED);
	entry = entry_find(MyDatabaseId, counter);
	LWLockRelease(&area->lock);
	if (entry != NULL)
		return entry;

	LWLockAcquire(&area->lock, LW_EXCLUSIVE);
	entry = entry_find(MyDatabaseId, counter);
	if (entry == NULL)
		entry = entry_take(MyDatabaseId, counter, GetCurrentTimestamp());
	LWLockRelease(&area->lock);
	return entry;
}

/*
 * reclaim gives back the entries of tables that are gone. Looking that up may
 * read catalogs, so it is done without the lock.
 */
static void
reclaim(void)
{
	struct
	{
		uint32 generation;
		Oid database;
		Oid counter;
	} seen[MAX_TABLES];
	TimestampTz now = GetCurrentTimestamp();
	bool recently;

	LWLockAcquire(&area->lock, LW_EXCLUSIVE);
	recently = now >= area->reclaimed_at &&
		now - area->reclaimed_at < RECLAIM_INTERVAL;
	if (!recently)
		area->reclaimed_at = now;
	for (int i = 0; i < MAX_TABLES; i++)
	{
		seen[i].generation = pg_atomic_read_u32(&area->entries[i].generation);
		seen[i].database = area->entries[i].database;
		seen[i].counter = area->entries[i].counter;
	}
	LWLockRelease(&area->lock);
	if (recently)
		return;

	for (int i = 0; i < MAX_TABLES; i++)
	{
		DcStatsEntry *entry = &area->entries[i];

		if (!table_is_gone(seen[i].database, seen[i].counter))
			continue;
		LWLockAcquire(&area->lock, LW_EXCLUSIVE);
		if (entry_in_use(entry) &&
			pg_atomic_read_u32(&entry->generation) == seen[i].generation)
			entry_give_back(entry);
		LWLockRelease(&area->lock);
	}
}

/*
 * table_is_gone tells whether a table of this database, or another database, does
 * not exist any more. One that we do not see because the transaction that makes
 * it has not committed yet is locked by that.
 */
static bool
table_is_gone(Oid database, Oid counter)
{
	if (database != MyDatabaseId)
		return !SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database));
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(counter)) ||
		!ConditionalLockRelationOid(counter, AccessShareLock))
		return false;
	UnlockRelationOid(counter, AccessShareLock);
	return !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(counter));
}

/*
 * log_full says once that there are more counter tables than entries.
 */
static void
log_full(Oid counter)
{
	bool logged;

	LWLockAcquire(&area->lock, LW_EXCLUSIVE);
	logged = area->full_logged;
	area->full_logged = true;
	LWLockRelease(&area->lock);
	if (!logged)
		ereport(LOG,
				(errmsg("no statistics of counter table \"%s\"",
						get_rel_name(counter)),
				 errdetail("There are statistics of %d counter tables, which is the limit. Further ones are counted exactly as before, but their statistics are not collected.",
						   MAX_TABLES)));
}

/*
 * bucket_add counts writes at a time.
 */
static void
bucket_add(DcStatsEntry *entry, uint64 writes, TimestampTz at)
{
	uint64 period = (uint64) (at / PERIOD);
	uint64 start = period << PERIOD_SHIFT;
	pg_atomic_uint64 *bucket = &entry->buckets[period % BUCKETS];
	uint64 old = pg_atomic_read_u64(bucket);

	writes = Min(writes, BUCKET_ADD_MAX);
	while ((old & ~BUCKET_COUNT_MASK) != start)
	{
		if (pg_atomic_compare_exchange_u64(bucket, &old, start + writes))
			return;
	}
	pg_atomic_fetch_add_u64(bucket, writes);
}

/*
 * writes_lately returns the writes a second, in those of the last periods that
 * are over and since the counts were started.
 */
static double
writes_lately(DcStatsEntry *entry, TimestampTz now)
{
	int64 period = now / PERIOD;
	int64 since = (int64) pg_atomic_read_u64(&entry->reset_at) / PERIOD;
	int periods = Min(BUCKETS - 1, period - since);
	uint64 writes = 0;

	if (periods <= 0)
		return 0;
	for (int64 p = period - periods; p < period; p++)
	{
		uint64 bucket = pg_atomic_read_u64(&entry->buckets[p % BUCKETS]);

		if ((bucket & ~BUCKET_COUNT_MASK) == (uint64) p << PERIOD_SHIFT)
			writes += bucket & BUCKET_COUNT_MASK;
	}
	return (double) writes * USECS_PER_SEC / (periods * PERIOD);
}

/*
 * hot_decay halves the counts of hot keys as often as the time since the last
 * time asks for; under entry->lock. If the clock was set back it starts anew.
 */
static void
hot_decay(DcStatsEntry *entry, TimestampTz now)
{
	int64 halvings = (now - entry->decayed_at) / HALF_LIFE;

	if (now < entry->decayed_at)
		entry->hot_since = entry->decayed_at = now;
	if (halvings <= 0)
		return;
	hotkeys_decay(&entry->hot, halvings);
	entry->decayed_at += halvings * HALF_LIFE;
}

/*
 * hot_seconds returns the time that the decayed counts stand for: what a constant
 * rate of one write a second would have left. The time before the last decay
 * counts half, the one before that a quarter, and so on.
 */
static double
hot_seconds(const DcStatsEntry *entry, TimestampTz now)
{
	double half_life = (double) HALF_LIFE / USECS_PER_SEC;
	double decays = (double) ((entry->decayed_at - entry->hot_since) / HALF_LIFE);
	double seconds = (double) (now - entry->decayed_at) / USECS_PER_SEC +
		half_life * (1.0 - exp2(-decays));

	return Max(seconds, 1.0);
}
