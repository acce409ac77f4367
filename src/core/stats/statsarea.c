/*
 * statsarea.c
 *		The assignment of statistics entries to counter tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * One area has entries for counter tables of all databases, as many as fit into
 * dcounter.stats_size. It exists only if dcounter is preloaded. The memory of an entry is not
 * touched until the entry is taken; that of its hot keys, which is most of it, not until a key is
 * written.
 *
 * Access:
 *
 *	- area->lock protects which table has which entry: exclusive to take and to give back,
 *	  shared to look. A table takes one when it is opened by an SQL function (stats_attach),
 *	  which may wait and fail, and never when a transaction commits.
 *	- A backend remembers the entry and its generation in its DcCounter; the generation
 *	  changes whenever the entry changes hands. So neither a lock nor a search is needed to find it
 *	  again, and a commit accesses only the generation and the counts.
 *	- The counts and buckets of an entry are atomic variables. A backend that adds to them
 *	  checks the generation first; see below.
 *	- entry->lock protects the last sweep and the hot keys of an entry. To record a hot key
 *	  it is taken only if it is free. It is held for a few comparisons.
 *
 * Entries are given back when a table or its database is dropped (statsxact.c). Some drops
 * escape that, such as those by a prepared transaction. Once all entries are in use,
 * stats_reclaim() looks for those of tables that no longer exist. If there are none, it evicts the
 * tables that have been unused for longest, at least for IDLE_MS. Otherwise a table that is opened
 * has no statistics for now. It tries again every RECLAIM_MS. So tables in constant use keep their
 * entries, however many more there are.
 *
 * Why no session adds to an entry that has changed hands: a session that adds says so first, in
 * its slot (area->adding), then checks the generation, and clears the slot when it has added. A
 * session that takes an entry away changes the generation first, and then looks at all slots.
 * Both have a full barrier between the two. If no slot has the entry, all that were adding have
 * added, and all that begin from now on see the new generation. Otherwise the old generation
 * comes back, and the entry stays. Adding waits for no more than entry->lock, and nothing fails
 * or is interrupted in the meantime. A slot is a cache line that its session alone writes to, so
 * commits do not meet there. A commit that finds another generation is not counted, so nothing is
 * ever counted for another table. That is rare, since entries of tables that are locked are not
 * evicted.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/shmem.h"
#include "core/stats/statsarea.h"

/* The least time between two searches for entries that may go. */
#define RECLAIM_MS 10000

/* A table that was used since then keeps its entry. */
#define IDLE_MS 60000

/* At most one in this many entries goes at a time. */
#define EVICT_PART 16

DcStatsArea *stats_area = NULL;

/* An entry as stats_reclaim() saw it. */
typedef struct DcStatsSeen
{
	int number;
	uint32 generation;
	Oid database;
	Oid counter;
	DcMoment used_at;
} DcStatsSeen;

static int statsarea_slots(void);
static int entries_that_fit(Size size, uint32 *nbuckets);
static int *bucket_of(Oid database, Oid counter);
static bool anybody_adds(int number);
static void entry_unlink(DcStatsEntry *entry);
static int see_all(DcStatsSeen **seen);
static int reclaim_gone(DcStatsSeen *seen, int count);
static void evict_idle(DcStatsSeen *seen, int count);
static int areas_by_use(const void *a, const void *b);
static bool entry_evict(const DcStatsSeen *seen);
static bool anybody_has_locked(Oid database, Oid counter);
static bool table_is_gone(Oid database, Oid counter);

/*
 * statsarea_slots returns how many sessions there may be, and one more, as some versions count from
 * one.
 */
static int
statsarea_slots(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + 1;
}

/*
 * stats_area_size returns the size of the area: dcounter.stats_size, and the sessions' slots.
 */
Size
stats_area_size(void)
{
	return (Size) dc_stats_size * 1024 + mul_size(statsarea_slots(), sizeof(DcStatsAdding));
}

/*
 * entries_that_fit returns how many entries the area has room for, with a bucket each or
 * more.
 */
static int
entries_that_fit(Size size, uint32 *nbuckets)
{
	Size header = CACHELINEALIGN(sizeof(DcStatsArea));
	Size each = sizeof(DcStatsOwner) + sizeof(DcStatsEntryPadded) + sizeof(DcHotKeys);
	Size count = size / (each + sizeof(int));

	for (;; count--)
	{
		*nbuckets = pg_nextpower2_32(Max(count, 1));
		if (header + CACHELINEALIGN(*nbuckets * sizeof(int)) +
				CACHELINEALIGN(count * sizeof(DcStatsOwner)) +
				count * (sizeof(DcStatsEntryPadded) + sizeof(DcHotKeys)) <=
			size)
			return (int) count;
	}
}

/*
 * stats_area_init prepares the area, without entries.
 */
void
stats_area_init(void *new_area)
{
	DcStatsArea *area = new_area;
	char *next = (char *) area + CACHELINEALIGN(sizeof(DcStatsArea));
	uint32 nbuckets;

	memset(area, 0, sizeof(*area));
	shmem_init_lock(&area->lock);
	pg_atomic_init_u32(&area->given_back, 0);
	pg_atomic_init_u64(&area->may_reclaim, 0);
	area->nentries = entries_that_fit((Size) dc_stats_size * 1024, &nbuckets);
	area->bucket_mask = nbuckets - 1;
	area->free = DC_STATS_NONE;

	area->adding = (DcStatsAdding *) next;
	next += statsarea_slots() * sizeof(DcStatsAdding);
	area->buckets = (int *) next;
	next += CACHELINEALIGN(nbuckets * sizeof(int));
	area->owners = (DcStatsOwner *) next;
	next += CACHELINEALIGN(area->nentries * sizeof(DcStatsOwner));
	area->entries = (DcStatsEntryPadded *) next;
	next += area->nentries * sizeof(DcStatsEntryPadded);
	area->hot = (DcHotKeys *) next;

	for (int i = 0; i < statsarea_slots(); i++)
		pg_atomic_init_u32(&area->adding[i].entry, 0);
	for (uint32 i = 0; i < nbuckets; i++)
		area->buckets[i] = DC_STATS_NONE;
	for (int i = 0; i < area->nentries; i++)
		pg_atomic_init_u32(&area->owners[i].generation, 0);
}

/*
 * Return the entry of a number.
 */
DcStatsEntry *
stats_entry(int number)
{
	return &stats_area->entries[number].entry;
}

/*
 * Return the number of an entry.
 */
int
stats_entry_number(const DcStatsEntry *entry)
{
	return (const DcStatsEntryPadded *) entry - stats_area->entries;
}

/*
 * Return true if an entry belongs to a table. Without area->lock the answer may be outdated.
 */
bool
stats_entry_in_use(int number)
{
	return pg_atomic_read_u32(&stats_area->owners[number].generation) % 2 == 1;
}

/*
 * bucket_of returns the bucket of a table.
 */
static int *
bucket_of(Oid database, Oid counter)
{
	uint32 hash = murmurhash32(counter ^ murmurhash32(database));

	return &stats_area->buckets[hash & stats_area->bucket_mask];
}

/*
 * stats_entry_find searches for the entry of a table; under area->lock.
 */
DcStatsEntry *
stats_entry_find(Oid database, Oid counter)
{
	int number = *bucket_of(database, counter);

	while (number != DC_STATS_NONE)
	{
		const DcStatsOwner *owner = &stats_area->owners[number];

		if (owner->counter == counter && owner->database == database)
			return stats_entry(number);
		number = owner->next;
	}
	return NULL;
}

/*
 * stats_entry_take gives a free entry to a table, or returns NULL; under area->lock in
 * exclusive mode.
 */
DcStatsEntry *
stats_entry_take(Oid database, Oid counter)
{
	int *bucket = bucket_of(database, counter);
	int number = stats_area->free;
	DcStatsOwner *owner;
	DcStatsEntry *entry;

	if (number != DC_STATS_NONE)
		stats_area->free = stats_area->owners[number].next;
	else if (stats_area->fresh < stats_area->nentries)
	{
		number = stats_area->fresh++;
		shmem_init_lock(&stats_entry(number)->lock);
	}
	else
		return NULL;
	entry = stats_entry(number);
	stats_entry_clear(entry);
	memset(&entry->sweep, 0, sizeof(entry->sweep));
	moment_write(&entry->used_at, DC_LONG_AGO);
	moment_write(&entry->changed_at, DC_LONG_AGO);
	moment_write(&entry->lag_since, DC_LONG_AGO);

	owner = &stats_area->owners[number];
	owner->database = database;
	owner->counter = counter;
	owner->next = *bucket;
	*bucket = number;
	stats_area->used++;
	pg_atomic_fetch_add_u32(&owner->generation, 1);
	return entry;
}

/*
 * stats_entry_give_back makes an entry free; under area->lock in exclusive mode. Returns false
 * if a session is just adding to it.
 */
bool
stats_entry_give_back(DcStatsEntry *entry)
{
	int number = stats_entry_number(entry);
	DcStatsOwner *owner = &stats_area->owners[number];

	pg_atomic_fetch_add_u32(&owner->generation, 1); /* a full barrier */
	if (anybody_adds(number))
	{
		pg_atomic_fetch_sub_u32(&owner->generation, 1);
		return false;
	}
	entry_unlink(entry);
	return true;
}

/*
 * Return true if a session is adding to an entry.
 */
static bool
anybody_adds(int number)
{
	for (int i = 0; i < statsarea_slots(); i++)
	{
		if (pg_atomic_read_u32(&stats_area->adding[i].entry) == (uint32) number + 1)
			return true;
	}
	pg_memory_barrier(); /* reads below see all that they have added */
	return false;
}

/*
 * entry_unlink puts an entry among the free ones.
 */
static void
entry_unlink(DcStatsEntry *entry)
{
	int number = stats_entry_number(entry);
	DcStatsOwner *owner = &stats_area->owners[number];
	int *link = bucket_of(owner->database, owner->counter);

	while (*link != number)
		link = &stats_area->owners[*link].next;
	*link = owner->next;
	owner->next = stats_area->free;
	stats_area->free = number;
	stats_area->used--;
	pg_atomic_fetch_add_u32(&stats_area->given_back, 1);
}

/*
 * stats_reclaim gives back entries of tables that are gone, or else some of those that have not
 * been used for a long time, unless that was tried just now. May read catalogs and fail.
 */
void
stats_reclaim(void)
{
	DcStatsSeen *seen;
	int count;

	if (!moment_is_reached(moment_read(&stats_area->may_reclaim)))
		return;
	count = see_all(&seen);
	if (count > 0 && reclaim_gone(seen, count) == 0)
		evict_idle(seen, count);
	if (count > 0)
		pfree(seen);
}

/*
 * see_all lists all entries in use, in memory that the caller frees. 0 if another backend has
 * begun to do so in the meantime.
 */
static int
see_all(DcStatsSeen **seen)
{
	int count = 0;

	*seen = palloc_extended(stats_area->nentries * sizeof(DcStatsSeen), MCXT_ALLOC_HUGE);
	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	if (moment_is_reached(moment_read(&stats_area->may_reclaim)))
	{
		moment_write(&stats_area->may_reclaim, moment_in(RECLAIM_MS));
		for (int i = 0; i < stats_area->fresh; i++)
		{
			DcStatsOwner *owner = &stats_area->owners[i];

			if (!stats_entry_in_use(i))
				continue;
			(*seen)[count++] = (DcStatsSeen){
				.number = i,
				.generation = pg_atomic_read_u32(&owner->generation),
				.database = owner->database,
				.counter = owner->counter,
				.used_at = moment_read(&stats_entry(i)->used_at),
			};
		}
	}
	LWLockRelease(&stats_area->lock);
	if (count == 0)
		pfree(*seen);
	return count;
}

/*
 * reclaim_gone gives back the entries of tables that are gone, and returns how many. Looking
 * that up may read catalogs, so it is done without the lock.
 */
static int
reclaim_gone(DcStatsSeen *seen, int count)
{
	int reclaimed = 0;

	for (int i = 0; i < count; i++)
	{
		DcStatsOwner *owner = &stats_area->owners[seen[i].number];

		if (!table_is_gone(seen[i].database, seen[i].counter))
			continue;
		LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
		if (pg_atomic_read_u32(&owner->generation) == seen[i].generation &&
			stats_entry_give_back(stats_entry(seen[i].number)))
			reclaimed++;
		LWLockRelease(&stats_area->lock);
	}
	return reclaimed;
}

/*
 * Return true if a table of this database, or another database, does not exist any more. A
 * table that we do not see because the transaction that creates it has not committed yet is
 * locked by that.
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
 * evict_idle takes some of the entries away that have not been used for longest.
 */
static void
evict_idle(DcStatsSeen *seen, int count)
{
	DcMoment limit = moment_in(-IDLE_MS);
	int wanted = Max(stats_area->nentries / EVICT_PART, 1);

	/* few: entries of shared memory */
	qsort(seen, count, sizeof(DcStatsSeen), areas_by_use);
	for (int i = 0; i < count && wanted > 0; i++)
	{
		if (!moment_is_before(seen[i].used_at, limit))
			break;
		CHECK_FOR_INTERRUPTS();
		if (entry_evict(&seen[i]))
			wanted--;
	}
}

/*
 * Compare two entries by when they were used, the longest unused first, for qsort().
 */
static int
areas_by_use(const void *a, const void *b)
{
	DcMoment used_a = ((const DcStatsSeen *) a)->used_at;
	DcMoment used_b = ((const DcStatsSeen *) b)->used_at;

	return moment_is_before(used_b, used_a) - moment_is_before(used_a, used_b);
}

/*
 * entry_evict takes the entry away from a table that exists, unless a transaction is using
 * the table.
 */
static bool
entry_evict(const DcStatsSeen *seen)
{
	DcStatsOwner *owner = &stats_area->owners[seen->number];
	DcStatsEntry *entry = stats_entry(seen->number);
	bool evicted;

	if (anybody_has_locked(seen->database, seen->counter))
		return false;
	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	evicted = pg_atomic_read_u32(&owner->generation) == seen->generation &&
		moment_read(&entry->used_at).us == seen->used_at.us &&
		stats_entry_give_back(entry);
	if (evicted)
		stats_area->evicted++;
	LWLockRelease(&stats_area->lock);
	return evicted;
}

/*
 * Return true if a transaction, this one or a prepared one included, has a
 * lock on a table, of any database. One that is just committing is not found.
 */
static bool
anybody_has_locked(Oid database, Oid counter)
{
	LOCKTAG tag;
	int count;

	if (database == MyDatabaseId && compat_has_locked(counter, AccessShareLock))
		return true;
	SET_LOCKTAG_RELATION(tag, database, counter);
	pfree(GetLockConflicts(&tag, AccessExclusiveLock, &count));
	return count > 0;
}
