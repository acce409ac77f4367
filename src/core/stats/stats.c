/*
 * stats.c
 *		Statistics of counter tables in shared memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * statsarea.c has the memory, and who may touch it; statscount.c says how things are counted.
 * Here sessions find the entry of a table, and give it back; and here the cumulative numbers
 * are kept over a clean shutdown, in a file (statsfile.c).
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/shmem.h"
#include "base/utility.h"
#include "core/stats/statsarea.h"

static void stats_shmem_init(void *new_area);
static void area_save(int code, Datum arg);
static void entry_load(const DcTableStats *saved);
static int stats_save_all(DcTableStats *saved);
static int by_use(const void *a, const void *b);
static void stats_around_statement(DcUtility *utility);
static bool stats_is_wanted(Oid counter);
static bool has_entry(const DcCounter *counter);
static bool stats_shmem_attach(DcCounter *counter, uint32 given_back);
static DcStatsEntry *find_or_take(Oid counter, uint32 *generation);
static uint32 generation_of(const DcStatsEntry *entry);
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
	utility_add(stats_around_statement);
	shmem_add_raw("dcounter statistics", stats_area_size, (void **) &stats_area, stats_shmem_init);
}

/*
 * stats_shmem_init prepares the area, in the postmaster, with the numbers that the last
 * clean shutdown has left. They are read once, so a crash starts from zero. If there is less
 * memory now, those of the tables that were used last are taken over.
 */
static void
stats_shmem_init(void *new_area)
{
	DcTableStats *saved;
	int count;

	stats_area_init(new_area);
	count = statsfile_load(&saved);
	count = Min(count, stats_area->nentries);
	for (int i = 0; i < count; i++)
		entry_load(&saved[i]);
	free(saved);
	on_shmem_exit(area_save, (Datum) 0);
}

/*
 * entry_load takes over the numbers of a table. The ages of before the restart are known from
 * the wall clock only. If that was set back in the meantime, things count as just done.
 */
static void
entry_load(const DcTableStats *saved)
{
	DcStatsEntry *entry = stats_entry_take(saved->database, saved->counter);
	DcMoment now = moment_now();
	TimestampTz at = GetCurrentTimestamp();

	for (int c = 0; c < DC_NUM_STATS; c++)
		pg_atomic_write_u64(&entry->counts[c], saved->counts[c]);
	pg_atomic_write_u64(&entry->reset_at, (uint64) saved->reset_at);
	entry->sweep = saved->sweep;
	entry->sweep.started = moment_after(now, -Max(at - saved->sweep.ended_at, 0) - saved->sweep.us);
	if (saved->lag_since != 0)
		moment_write(&entry->lag_since, moment_after(now, -Max(at - saved->lag_since, 0)));
	moment_write(&entry->used_at, now);
}

/*
 * area_save writes the file when the postmaster exits. No other process is left. Those that
 * were used last come first.
 */
static void
area_save(int code, Datum arg)
{
	DcTableStats *saved;

	if (code != 0 || stats_area == NULL)
		return;
	saved = calloc(Max(stats_area->used, 1), sizeof(DcTableStats));
	if (saved == NULL)
		ereport(LOG,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not save the statistics of counter tables: out of memory")));
	else
		statsfile_save(saved, stats_save_all(saved));
	free(saved);
}

/*
 * Copy all entries to `saved`, those used last first, and return how many there are. Runs when
 * the postmaster exits: must not throw, so memory is malloc()ed; returns 0 if there is none.
 */
static int
stats_save_all(DcTableStats *saved)
{
	int *numbers = calloc(Max(stats_area->used, 1), sizeof(int));
	int count = 0;

	if (numbers == NULL)
		return 0;
	for (int i = 0; i < stats_area->fresh; i++)
	{
		if (stats_entry_in_use(i) && count < stats_area->used)
			numbers[count++] = i;
	}
	/* few: entries of shared memory */
	qsort(numbers, count, sizeof(int), by_use);
	for (int i = 0; i < count; i++)
	{
		saved[i].database = stats_area->owners[numbers[i]].database;
		saved[i].counter = stats_area->owners[numbers[i]].counter;
		stats_entry_read(stats_entry(numbers[i]), &saved[i]);
		saved[i].sweep.started = DC_LONG_AGO;
	}
	free(numbers);
	return count;
}

/*
 * Compare two numbers of entries by when they were used, the latest first, for qsort().
 */
static int
by_use(const void *a, const void *b)
{
	DcMoment used_a = moment_read(&stats_entry(*(const int *) a)->used_at);
	DcMoment used_b = moment_read(&stats_entry(*(const int *) b)->used_at);

	return moment_is_before(used_a, used_b) - moment_is_before(used_b, used_a);
}

/*
 * stats_around_statement notes that a database is dropped.
 */
static void
stats_around_statement(DcUtility *utility)
{
	Oid database = InvalidOid;

	if (IsA(utility->statement, DropdbStmt))
		database = get_database_oid(((DropdbStmt *) utility->statement)->dbname, true);
	utility_run(utility);
	if (OidIsValid(database))
		stats_dropped_database(database);
}

/*
 * Return true if there are statistics at all.
 */
bool
stats_enabled(void)
{
	return stats_area != NULL;
}

/*
 * stats_attach gives a counter table that was opened an entry, if there is a free one, or one
 * that can be taken from another table. Called inside a transaction, with a lock on the table:
 * from now on the entry stays the table's.
 *
 * This is part of each transaction, so it looks at no more than the generation if an entry is
 * remembered. If there was none for it, it is tried again when one is given back, and
 * when it is time to look for entries that may go.
 */
void
stats_attach(DcCounter *counter)
{
	uint32 given_back;

	if (stats_area == NULL || has_entry(counter))
		return;
	given_back = pg_atomic_read_u32(&stats_area->given_back);
	if (counter->stats_entry == DC_STATS_NONE &&
		counter->stats_generation == given_back &&
		!moment_is_reached(moment_read(&stats_area->may_reclaim)))
		return;
	if (!stats_shmem_attach(counter, given_back))
	{
		stats_reclaim();
		if (!stats_shmem_attach(counter, pg_atomic_read_u32(&stats_area->given_back)))
		{
			log_full(counter->relid);
			return;
		}
	}
	moment_write(&stats_entry(counter->stats_entry)->used_at, moment_now());
}

/*
 * stats_attach_free does the same for a table that is only compacted: it takes no entry from
 * another table.
 */
void
stats_attach_free(DcCounter *counter)
{
	if (stats_area != NULL && !has_entry(counter))
		(void) stats_shmem_attach(counter, pg_atomic_read_u32(&stats_area->given_back));
}

/*
 * stats_attach_shown does the same for a table whose statistics are shown. It is locked for a
 * moment, at once or not at all: one that is just being dropped takes no entry.
 */
void
stats_attach_shown(Oid counter)
{
	uint32 generation;

	if (stats_area == NULL || !stats_is_wanted(counter) ||
		!ConditionalLockRelationOid(counter, AccessShareLock))
		return;
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(counter)))
		(void) find_or_take(counter, &generation);
	UnlockRelationOid(counter, AccessShareLock);
}

/*
 * Return true if a table of this database has no entry, and there is a free one.
 */
static bool
stats_is_wanted(Oid counter)
{
	bool wanted;

	LWLockAcquire(&stats_area->lock, LW_SHARED);
	wanted = stats_area->used < stats_area->nentries && stats_entry_find(MyDatabaseId, counter) == NULL;
	LWLockRelease(&stats_area->lock);
	return wanted;
}

/*
 * Return true if the entry that a backend remembers is still the one of its table.
 */
static bool
has_entry(const DcCounter *counter)
{
	return counter->stats_entry != DC_STATS_NONE && counter->stats_generation != 0 &&
		pg_atomic_read_u32(&stats_area->owners[counter->stats_entry].generation) == counter->stats_generation;
}

/*
 * stats_shmem_attach finds an entry for a table, or remembers how many had been given back when
 * there was none.
 */
static bool
stats_shmem_attach(DcCounter *counter, uint32 given_back)
{
	uint32 generation;
	DcStatsEntry *entry = find_or_take(counter->relid, &generation);

	if (entry == NULL)
	{
		counter->stats_entry = DC_STATS_NONE;
		counter->stats_generation = given_back;
		return false;
	}
	counter->stats_entry = stats_entry_number(entry);
	counter->stats_generation = generation;
	return true;
}

/*
 * find_or_take returns the entry of a table of this database, a new one if it has none, or NULL
 * if none is free. The generation is read under the same lock: a session that evicts entries
 * may have looked for locks on the table just before we took ours, and the entry may be another
 * table's at any moment from now on.
 */
static DcStatsEntry *
find_or_take(Oid counter, uint32 *generation)
{
	DcStatsEntry *entry;
	bool full;

	LWLockAcquire(&stats_area->lock, LW_SHARED);
	entry = stats_entry_find(MyDatabaseId, counter);
	full = stats_area->used == stats_area->nentries;
	if (entry != NULL)
		*generation = generation_of(entry);
	LWLockRelease(&stats_area->lock);
	if (entry != NULL || full)
		return entry;

	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	entry = stats_entry_find(MyDatabaseId, counter);
	if (entry == NULL)
		entry = stats_entry_take(MyDatabaseId, counter);
	if (entry != NULL)
		*generation = generation_of(entry);
	LWLockRelease(&stats_area->lock);
	return entry;
}

/*
 * Return the generation of an entry, which changes when it goes to another table.
 */
static uint32
generation_of(const DcStatsEntry *entry)
{
	return pg_atomic_read_u32(&stats_area->owners[stats_entry_number(entry)].generation);
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
		(void) stats_entry_give_back(entry); /* if it fails, the entry is reclaimed when it is needed */
	LWLockRelease(&stats_area->lock);
}

/*
 * stats_free_database gives back the entries of all tables of another database.
 */
void
stats_free_database(Oid database)
{
	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	for (int i = 0; i < stats_area->fresh; i++)
	{
		if (stats_entry_in_use(i) && stats_area->owners[i].database == database)
			(void) stats_entry_give_back(stats_entry(i));
	}
	LWLockRelease(&stats_area->lock);
}

/*
 * stats_get_room copies how many tables have statistics; false without preload.
 */
bool
stats_get_room(DcStatsRoom *room)
{
	if (stats_area == NULL)
		return false;
	LWLockAcquire(&stats_area->lock, LW_SHARED);
	room->tables = stats_area->used;
	room->max_tables = stats_area->nentries;
	room->evicted = stats_area->evicted;
	LWLockRelease(&stats_area->lock);
	return true;
}

/*
 * Return true if a table of this database has statistics.
 */
bool
stats_has(Oid counter)
{
	DcStatsEntry *entry;

	LWLockAcquire(&stats_area->lock, LW_SHARED);
	entry = stats_entry_find(MyDatabaseId, counter);
	LWLockRelease(&stats_area->lock);
	return entry != NULL;
}

/*
 * log_full logs once that there are more counter tables in use than entries.
 */
static void
log_full(Oid counter)
{
	bool logged;

	if (stats_area->full_logged)
		return; /* the lock is not needed to see that */
	LWLockAcquire(&stats_area->lock, LW_EXCLUSIVE);
	logged = stats_area->full_logged;
	stats_area->full_logged = true;
	LWLockRelease(&stats_area->lock);
	if (!logged)
		ereport(LOG,
				(errmsg("no statistics are collected for counter table \"%s\"",
						get_rel_name(counter)),
				 errdetail("Statistics are collected for %d counter tables, which is the limit. Other tables work as before, but without statistics.",
						   stats_area->nentries),
				 errhint("Consider increasing the configuration parameter \"dcounter.stats_size\".")));
}
