/*
 * statscount.c
 *		Counting for a counter table, in its entry of the statistics.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * statsarea.c says which lock protects what, and why no session adds to the entry of another
 * table.
 *
 * Cumulative numbers are atomic variables. Recent writes are counted in a ring of buckets of a
 * few seconds each. A bucket is one variable, with the number of its period in the upper bits,
 * so the first backend in a new period resets it.
 *
 * The lag of compaction is known without reading rows: entry->lag_since is a time before which
 * no change is left to compact. If it is not set, the first commit that changes shard rows sets
 * it. A sweep that has moved all keys has compacted everything that was committed before it began
 * (except for locked rows: dc_stat_shards shows these). So it clears lag_since, and
 * sets it to its own start if a commit has come since. A commit notes its time before it reads
 * lag_since, and the sweep reads that time after it has cleared lag_since, each with a
 * full barrier in between, so at least one of them sees the other. A commit that finds a later
 * time noted leaves the rest to the commit that noted it.
 *
 * The hot keys (hotkeys.c) come from a sample of the writes: 1 in SAMPLE, which
 * then counts SAMPLE times. Their counts are halved every HALF_LIFE, by the next backend that
 * looks at them. Their windows (DC_HOT_WINDOW) begin and end in the same way: the clock determines
 * the number of a window.
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "base/compat.h"
#include "core/stats/statsarea.h"

#define PERIOD (5 * USECS_PER_SEC)
#define PERIOD_SHIFT 40 /* below are 40 bits of count */
#define BUCKET_COUNT_MASK ((UINT64CONST(1) << PERIOD_SHIFT) - 1)
#define BUCKET_ADD_MAX (UINT64CONST(1) << 36)

#define SAMPLE 16
#define HALF_LIFE (30 * USECS_PER_SEC)

/* The precision of used_at. */
#define USE_STEP USECS_PER_SEC

static DcStatsEntry *begin_adding(DcCounter *counter);
static void end_adding(void);
static pg_atomic_uint32 *my_slot(void);
static void statscount_note_change(DcStatsEntry *entry, DcMoment at);
static void note_use(DcStatsEntry *entry, DcMoment at);
static void note_swept(DcStatsEntry *entry, const DcSweepTimes *sweep);
static DcHotKeys *hot_of(DcStatsEntry *entry);
static DcStatsEntry *entry_lock(Oid counter);
static void entry_unlock(DcStatsEntry *entry);
static void bucket_add(DcStatsEntry *entry, uint64 writes, DcMoment at);
static double writes_lately(DcStatsEntry *entry, DcMoment now);
static void hot_decay(DcStatsEntry *entry, DcMoment now);
static void hot_roll(DcStatsEntry *entry, DcMoment now);
static double hot_seconds(const DcStatsEntry *entry, DcMoment now);

/*
 * begin_adding returns the entry that a backend remembers, which stays that of the table until
 * end_adding(); NULL if it no longer is.
 */
static DcStatsEntry *
begin_adding(DcCounter *counter)
{
	int number = counter->stats_entry;

	if (stats_area == NULL || number == DC_STATS_NONE || counter->stats_generation == 0)
		return NULL;
	pg_atomic_exchange_u32(my_slot(), (uint32) number + 1); /* a full barrier */
	if (pg_atomic_read_u32(&stats_area->owners[number].generation) == counter->stats_generation)
		return stats_entry(number);
	end_adding();
	counter->stats_generation = 0;
	return NULL;
}

/*
 * End what begin_adding() has begun; after that the entry may change hands.
 */
static void
end_adding(void)
{
	pg_write_barrier();
	pg_atomic_write_u32(my_slot(), 0);
}

/*
 * Return the slot in which this session says to which entry it is adding.
 */
static pg_atomic_uint32 *
my_slot(void)
{
	return &stats_area->adding[compat_backend_number()].entry;
}

/*
 * stats_add adds to the counts of a table. Takes no lock and does not throw.
 */
void
stats_add(DcCounter *counter, const uint64 *counts, DcMoment at)
{
	DcStatsEntry *entry = begin_adding(counter);

	if (entry == NULL)
		return;
	for (int i = 0; i < DC_NUM_STATS; i++)
	{
		if (counts[i] != 0)
			pg_atomic_fetch_add_u64(&entry->counts[i], counts[i]);
	}
	if (counts[DC_STATS_INCREMENTS] != 0)
	{
		bucket_add(entry, counts[DC_STATS_INCREMENTS], at);
		note_use(entry, at);
	}
	if (counts[DC_STATS_KEYS] > counts[DC_STATS_TOTALS]) /* of a commit that has changed shard rows */
		statscount_note_change(entry, at);
	end_adding();
}

/*
 * statscount_note_change notes that shard rows were changed by a commit, at a time when other
 * sessions could see it.
 */
static void
statscount_note_change(DcStatsEntry *entry, DcMoment at)
{
	uint64 old = pg_atomic_read_u64(&entry->changed_at);
	uint64 none = 0;

	while (old < (uint64) at.us &&
		   !pg_atomic_compare_exchange_u64(&entry->changed_at, &old, (uint64) at.us))
		;
	if (moment_read(&entry->lag_since).us == 0)
		pg_atomic_compare_exchange_u64(&entry->lag_since, &none, (uint64) at.us);
}

/*
 * note_use notes when a table was used.
 */
static void
note_use(DcStatsEntry *entry, DcMoment at)
{
	if (moment_diff(moment_read(&entry->used_at), at) > USE_STEP)
		moment_write(&entry->used_at, at);
}

/*
 * stats_count adds to one count of a table at once, whether the transaction commits or not; it
 * need not have locked the table. Takes no lock and does not throw.
 */
void
stats_count(DcCounter *counter, DcStatsCount count, uint64 n)
{
	DcStatsEntry *entry = begin_adding(counter);

	if (entry == NULL)
		return;
	pg_atomic_fetch_add_u64(&entry->counts[count], n);
	end_adding();
}

/*
 * stats_add_sweep records a sweep, unless a later one is known.
 */
void
stats_add_sweep(DcCounter *counter, const DcSweepTimes *sweep)
{
	DcStatsEntry *entry = begin_adding(counter);

	if (entry == NULL)
		return;
	LWLockAcquire(&entry->lock, LW_EXCLUSIVE);
	if (entry->sweep.ended_at == 0 ||
		moment_is_before(entry->sweep.started, sweep->started))
	{
		entry->sweep = *sweep;
		note_swept(entry, sweep);
	}
	LWLockRelease(&entry->lock);
	end_adding();
}

/*
 * note_swept notes that all changes of before a sweep are compacted; under entry->lock.
 */
static void
note_swept(DcStatsEntry *entry, const DcSweepTimes *sweep)
{
	DcMoment since = moment_read(&entry->lag_since);
	uint64 none = 0;

	if (sweep->overflowed > 0 || since.us == 0 || !moment_is_before(since, sweep->started))
		return;
	pg_atomic_exchange_u64(&entry->lag_since, 0); /* a full barrier */
	if (!moment_is_before(moment_read(&entry->changed_at), sweep->started))
		pg_atomic_compare_exchange_u64(&entry->lag_since, &none, (uint64) sweep->started.us);
}

/*
 * stats_hot_key records that a key was written, if it is in the sample and no other
 * backend is recording.
 */
void
stats_hot_key(DcCounter *counter, const char *data, uint32 len,
			  uint64 increments)
{
	DcStatsEntry *entry;
	uint64 hash;
	int shown;
	DcMoment now;

	if (pg_prng_uint32(&pg_global_prng_state) % SAMPLE != 0)
		return;
	hash = hash_bytes_extended((const unsigned char *) data, len, 0);
	shown = pg_mbcliplen(data, len, DC_HOT_KEY_BYTES);
	now = moment_now();
	entry = begin_adding(counter);
	if (entry == NULL)
		return;
	if (LWLockConditionalAcquire(&entry->lock, LW_EXCLUSIVE))
	{
		hot_decay(entry, now);
		hot_roll(entry, now);
		hotkeys_add(hot_of(entry), hash, data, shown, increments * SAMPLE);
		LWLockRelease(&entry->lock);
	}
	end_adding();
}

/*
 * stats_read counts a read function that has started at the time given.
 */
void
stats_read(DcCounter *counter, DcMoment started)
{
	DcMoment now = moment_now();
	DcStatsEntry *entry = begin_adding(counter);

	if (entry == NULL)
		return;
	pg_atomic_fetch_add_u64(&entry->counts[DC_STATS_READS], 1);
	pg_atomic_fetch_add_u64(&entry->counts[DC_STATS_READ_TIME], (uint64) moment_diff(started, now));
	note_use(entry, now);
	end_adding();
}

/*
 * stats_get copies the numbers of a table of this database, and further numbers that are shown.
 * Returns false if it has no entry. Before a sweep is known, there may be changes from before
 * the statistics began.
 */
bool
stats_get(Oid counter, DcTableStats *stats, DcStatsNow *now)
{
	DcStatsEntry *entry = entry_lock(counter);
	DcMoment at = moment_now();
	DcMoment since;

	if (entry == NULL)
		return false;
	stats_entry_read(entry, stats);
	now->writes = writes_lately(entry, at);
	since = moment_read(&entry->lag_since);
	now->has_lag = since.us != 0 || entry->sweep.ended_at != 0;
	now->lag = since.us != 0 ? Max(moment_diff(since, at), 0) : 0;
	entry_unlock(entry);
	return true;
}

/*
 * stats_entry_read copies the numbers of an entry, which is locked.
 */
void
stats_entry_read(DcStatsEntry *entry, DcTableStats *stats)
{
	DcMoment since = moment_read(&entry->lag_since);

	for (int i = 0; i < DC_NUM_STATS; i++)
		stats->counts[i] = pg_atomic_read_u64(&entry->counts[i]);
	stats->reset_at = (TimestampTz) pg_atomic_read_u64(&entry->reset_at);
	stats->lag_since = since.us != 0 ? GetCurrentTimestamp() - moment_age(since) : 0;
	stats->sweep = entry->sweep;
}

/*
 * stats_get_hot_keys copies the hot keys of a table of this database. Returns false if it has
 * no entry.
 */
bool
stats_get_hot_keys(Oid counter, DcHotStats *hot)
{
	DcMoment now = moment_now();
	DcStatsEntry *entry = entry_lock(counter);

	if (entry == NULL)
		return false;
	hot->keys.nkeys = 0;
	if (entry->has_hot)
	{
		hot_decay(entry, now);
		hot_roll(entry, now);
		hot->keys = *hot_of(entry);
	}
	hot->seconds = hot_seconds(entry, now);
	entry_unlock(entry);
	return true;
}

/*
 * stats_set_hot notes whether a key is hot, as the alert has reported. Takes a lock, and does
 * not throw.
 */
void
stats_set_hot(Oid counter, uint64 hash, bool is_hot)
{
	DcStatsEntry *entry = entry_lock(counter);

	if (entry == NULL)
		return;
	for (int i = 0; entry->has_hot && i < hot_of(entry)->nkeys; i++)
	{
		DcHotKey *key = &hot_of(entry)->keys[i];

		if (key->hash == hash)
			key->is_hot = is_hot;
	}
	entry_unlock(entry);
}

/*
 * stats_reset sets the numbers of a table of this database to zero. The time of
 * the last sweep stays: how old uncompacted changes can be depends on it.
 */
void
stats_reset(Oid counter)
{
	DcStatsEntry *entry = entry_lock(counter);

	if (entry == NULL)
		return;
	stats_entry_clear(entry);
	entry_unlock(entry);
}

/*
 * entry_lock returns the entry of a table of this database, locked so that it stays
 * the table's; NULL if it has none.
 */
static DcStatsEntry *
entry_lock(Oid counter)
{
	DcStatsEntry *entry;

	if (stats_area == NULL)
		return NULL;
	LWLockAcquire(&stats_area->lock, LW_SHARED);
	entry = stats_entry_find(MyDatabaseId, counter);
	if (entry != NULL)
		LWLockAcquire(&entry->lock, LW_EXCLUSIVE);
	else
		LWLockRelease(&stats_area->lock);
	return entry;
}

/*
 * Undo entry_lock().
 */
static void
entry_unlock(DcStatsEntry *entry)
{
	LWLockRelease(&entry->lock);
	LWLockRelease(&stats_area->lock);
}

/*
 * stats_entry_clear sets to zero the numbers that dc_stat_reset() resets.
 */
void
stats_entry_clear(DcStatsEntry *entry)
{
	DcMoment now = moment_now();

	for (int i = 0; i < DC_NUM_STATS; i++)
		pg_atomic_write_u64(&entry->counts[i], 0);
	for (int i = 0; i < DC_STATS_BUCKETS; i++)
		pg_atomic_write_u64(&entry->buckets[i], 0);
	pg_atomic_write_u64(&entry->reset_at, (uint64) GetCurrentTimestamp());
	moment_write(&entry->since, now);
	entry->has_hot = false;
	entry->hot_since = now;
	entry->decayed_at = now;
}

/*
 * bucket_add counts writes at a time.
 */
static void
bucket_add(DcStatsEntry *entry, uint64 writes, DcMoment at)
{
	uint64 period = (uint64) (at.us / PERIOD);
	uint64 start = period << PERIOD_SHIFT;
	pg_atomic_uint64 *bucket = &entry->buckets[period % DC_STATS_BUCKETS];
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
writes_lately(DcStatsEntry *entry, DcMoment now)
{
	int64 period = now.us / PERIOD;
	int64 since = moment_read(&entry->since).us / PERIOD;
	int periods = Min(DC_STATS_BUCKETS - 1, period - since);
	uint64 writes = 0;

	if (periods <= 0)
		return 0;
	for (int64 p = period - periods; p < period; p++)
	{
		uint64 bucket = pg_atomic_read_u64(&entry->buckets[p % DC_STATS_BUCKETS]);

		if ((bucket & ~BUCKET_COUNT_MASK) == (uint64) p << PERIOD_SHIFT)
			writes += bucket & BUCKET_COUNT_MASK;
	}
	return (double) writes * USECS_PER_SEC / (periods * PERIOD);
}

/*
 * hot_of returns the hot keys of an entry, whose memory is first touched here; under
 * entry->lock.
 */
static DcHotKeys *
hot_of(DcStatsEntry *entry)
{
	DcHotKeys *hot = &stats_area->hot[stats_entry_number(entry)];

	if (!entry->has_hot)
		hot->nkeys = 0;
	entry->has_hot = true;
	return hot;
}

/*
 * hot_decay halves the counts of hot keys, once for each half-life that has passed since the
 * last time; under entry->lock. `now` may be from before it was taken.
 */
static void
hot_decay(DcStatsEntry *entry, DcMoment now)
{
	int64 halvings = moment_diff(entry->decayed_at, now) / HALF_LIFE;

	if (halvings <= 0)
		return;
	if (entry->has_hot)
		hotkeys_decay(hot_of(entry), halvings);
	entry->decayed_at = moment_after(entry->decayed_at, halvings * HALF_LIFE);
}

/*
 * hot_roll begins the window of a moment, if it is not open yet; under entry->lock.
 */
static void
hot_roll(DcStatsEntry *entry, DcMoment now)
{
	int64 window = now.us / DC_HOT_WINDOW;

	if (window <= entry->hot_window)
		return;
	if (entry->has_hot)
		hotkeys_roll(hot_of(entry), window - entry->hot_window);
	entry->hot_window = window;
}

/*
 * hot_seconds returns the time that the decayed counts stand for: what a constant
 * rate of one write a second would have left. The time before the last decay
 * counts half, the one before that a quarter, and so on.
 */
static double
hot_seconds(const DcStatsEntry *entry, DcMoment now)
{
	double half_life = (double) HALF_LIFE / USECS_PER_SEC;
	double decays = (double) (moment_diff(entry->hot_since, entry->decayed_at) / HALF_LIFE);
	double seconds = (double) moment_diff(entry->decayed_at, now) / USECS_PER_SEC +
		half_life * (1.0 - exp2(-decays));

	return Max(seconds, 1.0);
}
