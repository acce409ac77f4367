/*
 * stats.c
 *		Statistics of counter tables in shared memory.
 *
 * One area holds an entry for each of up to DC_STATS_TABLES counter tables of all
 * databases. It exists only if dcounter is preloaded.
 *
 * Access:
 *
 *	- area->lock protects which table has which entry. A table takes one when it
 *	  is opened by an SQL function (stats_attach), which may wait and fail, and
 *	  never when a transaction commits. A backend remembers the entry and its
 *	  generation in its DcCounter; the generation changes whenever the entry
 *	  changes hands. So it takes no lock and no search to find it again.
 *	- The counts and buckets of an entry are atomic variables. A backend that adds
 *	  to them checks the generation first. Between the check and the addition the entry
 *	  cannot change hands: the backend has a lock on the table, and an entry is
 *	  only taken away from a table that is gone for all, locks included.
 *	- entry->lock protects the last sweep and the hot keys of an entry. To record a
 *	  hot key it is taken only if it is free. It is held for a few comparisons.
 *
 * Entries are given back when a table is dropped (statsxact.c). Some drops escape that:
 * those of a database, and those by a prepared transaction. Their entries are found when
 * all are taken. If there is none left, a table is not counted.
 *
 * At a clean shutdown the cumulative numbers go to a file (statsfile.c).
 * statscount.c says how things are counted.
 */
#include "postgres.h"

#include "base/shmem.h"
#include "miscadmin.h"
#include "stats/statsarea.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Looking for entries of tables that are gone is not tried more often. */
#define RECLAIM_MS 10000

/* In DcCounter: no entry was left. */
#define NO_ENTRY (-1)

DcStatsArea *stats_area = NULL;

static void area_init(void *new_area);
static void area_save(int code, Datum arg);
static DcStatsOwner *owner_of(const DcStatsEntry *entry);
static bool owner_in_use(DcStatsOwner *owner);
static void sweep_load(DcStatsEntry *entry, const DcSweepTimes *saved);
static DcStatsEntry *entry_take(Oid database, Oid counter);
static void entry_give_back(DcStatsEntry *entry);
static DcStatsEntry *find_or_take(Oid counter);
static void reclaim(void);
static bool table_is_gone(Oid database, Oid counter);
static void log_full(Oid counter);

/*
 * stats_init asks for the area; called once, when the library is preloaded.
 */
void
stats_init(void)
{
	static const DcStatsHooks hooks = {
		.attach = stats_attach,
		.dropped = stats_dropped,
		.read = stats_read,
		.applied = stats_applied,
		.hot_key = stats_hot_key,
		.compacted = stats_compacted,
		.swept = stats_swept,
	};

	stats_hooks = &hooks;
	stats_xact_init();
	shmem_add("dcounter statistics", sizeof(DcStatsArea), (void **) &stats_area,
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
	static DcTableStats saved[DC_STATS_TABLES];
	int count;

	shmem_init_lock(&init->lock);
	pg_atomic_init_u32(&init->given_back, 0);
	for (int i = 0; i < DC_STATS_TABLES; i++)
	{
		DcStatsEntry *entry = &init->entries[i];

		shmem_init_lock(&entry->lock);
		pg_atomic_init_u32(&init->owners[i].generation, 0);
		pg_atomic_init_u64(&entry->reset_at, 0);
		pg_atomic_init_u64(&entry->since, 0);
		for (int c = 0; c < DC_NUM_STATS; c++)
			pg_atomic_init_u64(&entry->counts[c], 0);
		for (int b = 0; b < DC_STATS_BUCKETS; b++)
			pg_atomic_init_u64(&entry->buckets[b], 0);
	}

	count = statsfile_load(saved, DC_STATS_TABLES);
	for (int i = 0; i < count; i++)
	{
		DcStatsEntry *entry = entry_take(saved[i].database, saved[i].counter);

		for (int c = 0; c < DC_NUM_STATS; c++)
			pg_atomic_write_u64(&entry->counts[c], saved[i].counts[c]);
		pg_atomic_write_u64(&entry->reset_at, (uint64) saved[i].reset_at);
		sweep_load(entry, &saved[i].sweep);
	}
	on_shmem_exit(area_save, (Datum) 0);
}

/*
 * sweep_load takes over the last sweep of before a restart. Its age is known from the
 * wall clock only. If that was set back meanwhile, the sweep counts as just ended.
 */
static void
sweep_load(DcStatsEntry *entry, const DcSweepTimes *saved)
{
	int64 age = Max(GetCurrentTimestamp() - saved->ended_at, 0);

	entry->sweep = *saved;
	entry->sweep.started = moment_after(moment_now(), -age - saved->us);
}

/*
 * area_save writes the file when the postmaster exits. No other process is left.
 */
static void
area_save(int code, Datum arg)
{
	static DcTableStats saved[DC_STATS_TABLES];
	int count = 0;

	if (code != 0 || stats_area == NULL)
		return;
	for (int i = 0; i < DC_STATS_TABLES; i++)
	{
		DcStatsEntry *entry = &stats_area->entries[i];
		DcStatsOwner *owner = &stats_area->owners[i];
		DcTableStats *stats = &saved[count];

		if (!owner_in_use(owner))
			continue;
		memset(stats, 0, sizeof(*stats));
		stats->database = owner->database;
		stats->counter = owner->counter;
		for (int c = 0; c < DC_NUM_STATS; c++)
			stats->counts[c] = pg_atomic_read_u64(&entry->counts[c]);
		stats->reset_at = (TimestampTz) pg_atomic_read_u64(&entry->reset_at);
		stats->sweep = entry->sweep;
		stats->sweep.started = DC_LONG_AGO;
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
	return stats_area != NULL;
}

/*
 * stats_attach sees to it that a counter table that was opened has an entry, if
 * there is one for it. If there was none, it is tried again when one is given
 * back. Called inside a transaction, with a lock on the table.
 *
 * This is part of each transaction, so it does not look at shared memory if an
 * entry is remembered. Should that have changed hands, the commit will notice, and
 * the next transaction get another one.
 */
void
stats_attach(DcCounter *counter)
{
	DcStatsEntry *entry;
	uint32 given_back;

	if (stats_area == NULL ||
		(counter->stats_entry != NO_ENTRY && counter->stats_generation != 0))
		return;
	given_back = pg_atomic_read_u32(&stats_area->given_back);
	if (counter->stats_entry == NO_ENTRY &&
		counter->stats_generation == given_back)
		return;

	entry = find_or_take(counter->relid);
	if (entry == NULL)
	{
		reclaim();
		given_back = pg_atomic_read_u32(&stats_area->given_back);
		entry = find_or_take(counter->relid);
	}
	if (entry == NULL)
	{
		counter->stats_entry = NO_ENTRY;
		counter->stats_generation = given_back;
		log_full(counter->relid);
		return;
	}
	counter->stats_entry = entry - stats_area->entries;
	counter->stats_generation = pg_atomic_read_u32(&owner_of(entry)->generation);
}

/*
 * stats_free gives back the entry of a table of this database that is gone. Does
 * not throw: called when the transaction that dropped it commits.
 */
void
stats_free(Oid counter)
{
	DcStatsEntry *entry;

	if (stats_area == NULL)
		return;
	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	entry = stats_entry_find(MyDatabaseId, counter);
	if (entry != NULL)
		entry_give_back(entry);
	LWLockRelease(&stats_area->lock);
}

/*
 * stats_entry_of returns the entry that a backend remembers, if it is still the
 * one of its table.
 */
DcStatsEntry *
stats_entry_of(DcCounter *counter)
{
	int i = counter->stats_entry;

	if (stats_area == NULL || i == NO_ENTRY || counter->stats_generation == 0)
		return NULL;
	if (pg_atomic_read_u32(&stats_area->owners[i].generation) != counter->stats_generation)
	{
		counter->stats_generation = 0;
		return NULL;
	}
	return &stats_area->entries[i];
}

static DcStatsOwner *
owner_of(const DcStatsEntry *entry)
{
	return &stats_area->owners[entry - stats_area->entries];
}

static bool
owner_in_use(DcStatsOwner *owner)
{
	return pg_atomic_read_u32(&owner->generation) % 2 == 1;
}

/*
 * stats_entry_find searches for the entry of a table; under area->lock.
 */
DcStatsEntry *
stats_entry_find(Oid database, Oid counter)
{
	for (int i = 0; i < DC_STATS_TABLES; i++)
	{
		DcStatsOwner *owner = &stats_area->owners[i];

		if (owner->counter == counter && owner->database == database &&
			owner_in_use(owner))
			return &stats_area->entries[i];
	}
	return NULL;
}

/*
 * entry_take gives a free entry to a table, or returns NULL; under area->lock in
 * exclusive mode.
 */
static DcStatsEntry *
entry_take(Oid database, Oid counter)
{
	for (int i = 0; i < DC_STATS_TABLES; i++)
	{
		DcStatsEntry *entry = &stats_area->entries[i];
		DcStatsOwner *owner = &stats_area->owners[i];

		if (owner_in_use(owner))
			continue;
		owner->database = database;
		owner->counter = counter;
		stats_entry_clear(entry);
		memset(&entry->sweep, 0, sizeof(entry->sweep));
		pg_atomic_fetch_add_u32(&owner->generation, 1);
		return entry;
	}
	return NULL;
}

/*
 * entry_give_back makes an entry free; under area->lock in exclusive mode.
 */
static void
entry_give_back(DcStatsEntry *entry)
{
	pg_atomic_fetch_add_u32(&owner_of(entry)->generation, 1);
	pg_atomic_fetch_add_u32(&stats_area->given_back, 1);
}

/*
 * find_or_take returns the entry of a table of this database, a new one if it has
 * none, or NULL if none is free.
 */
static DcStatsEntry *
find_or_take(Oid counter)
{
	DcStatsEntry *entry;

	LWLockAcquire(&stats_area->lock, LW_SHARED);
	entry = stats_entry_find(MyDatabaseId, counter);
	LWLockRelease(&stats_area->lock);
	if (entry != NULL)
		return entry;

	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	entry = stats_entry_find(MyDatabaseId, counter);
	if (entry == NULL)
		entry = entry_take(MyDatabaseId, counter);
	LWLockRelease(&stats_area->lock);
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
	} seen[DC_STATS_TABLES];
	bool recently;

	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	recently = !moment_is_reached(stats_area->may_reclaim);
	if (!recently)
		stats_area->may_reclaim = moment_in(RECLAIM_MS);
	for (int i = 0; i < DC_STATS_TABLES; i++)
	{
		seen[i].generation = pg_atomic_read_u32(&stats_area->owners[i].generation);
		seen[i].database = stats_area->owners[i].database;
		seen[i].counter = stats_area->owners[i].counter;
	}
	LWLockRelease(&stats_area->lock);
	if (recently)
		return;

	for (int i = 0; i < DC_STATS_TABLES; i++)
	{
		DcStatsOwner *owner = &stats_area->owners[i];

		if (!table_is_gone(seen[i].database, seen[i].counter))
			continue;
		LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
		if (owner_in_use(owner) &&
			pg_atomic_read_u32(&owner->generation) == seen[i].generation)
			entry_give_back(&stats_area->entries[i]);
		LWLockRelease(&stats_area->lock);
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

	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	logged = stats_area->full_logged;
	stats_area->full_logged = true;
	LWLockRelease(&stats_area->lock);
	if (!logged)
		ereport(LOG,
				(errmsg("no statistics of counter table \"%s\"",
						get_rel_name(counter)),
				 errdetail("There are statistics of %d counter tables, which is the limit. Further ones are counted exactly as before, but their statistics are not collected.",
						   DC_STATS_TABLES)));
}
