/*
 * statscount.c
 *		Counting for a counter table, in its entry of the statistics.
 *
 * stats.c says which lock protects what.
 *
 * Cumulative numbers are atomic variables. Writes lately are counted in buckets of
 * a few seconds each, one after the other around a ring. A bucket is one variable,
 * with the number of the period that it is about in its upper bits, so the backend that
 * comes first in a new period starts it over.
 *
 * The hot keys (hotkeys.c) are those of a sample of the writes: 1 in SAMPLE, which
 * then counts SAMPLE times. Their counts are halved every HALF_LIFE, by the backend that
 * looks at them next.
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "stats/statsarea.h"

#define PERIOD (5 * USECS_PER_SEC)
#define PERIOD_SHIFT 40 /* below are 40 bits of count */
#define BUCKET_COUNT_MASK ((UINT64CONST(1) << PERIOD_SHIFT) - 1)
#define BUCKET_ADD_MAX (UINT64CONST(1) << 36)

#define SAMPLE 16
#define HALF_LIFE (30 * USECS_PER_SEC)

static DcStatsEntry *entry_lock(Oid counter);
static void entry_unlock(DcStatsEntry *entry);
static void bucket_add(DcStatsEntry *entry, uint64 writes, DcMoment at);
static double writes_lately(DcStatsEntry *entry, DcMoment now);
static void hot_decay(DcStatsEntry *entry, DcMoment now);
static double hot_seconds(const DcStatsEntry *entry, DcMoment now);

/*
 * stats_add adds to the counts of a table. Takes no lock and does not throw.
 */
void
stats_add(DcCounter *counter, const uint64 *counts, DcMoment at)
{
	DcStatsEntry *entry = stats_entry_of(counter);

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
 * stats_count adds to one count of a table, whatever becomes of the transaction.
 * Takes no lock and does not throw.
 */
void
stats_count(DcCounter *counter, DcStatsCount count, uint64 n)
{
	DcStatsEntry *entry = stats_entry_of(counter);

	if (entry != NULL)
		pg_atomic_fetch_add_u64(&entry->counts[count], n);
}

/*
 * stats_add_sweep records a sweep, unless a later one is known.
 */
void
stats_add_sweep(DcCounter *counter, const DcSweepTimes *sweep)
{
	DcStatsEntry *entry = stats_entry_of(counter);

	if (entry == NULL)
		return;
	LWLockAcquire(&entry->lock, LW_EXCLUSIVE);
	if (entry->sweep.ended_at == 0 ||
		moment_is_before(entry->sweep.started, sweep->started))
		entry->sweep = *sweep;
	LWLockRelease(&entry->lock);
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
	entry = stats_entry_of(counter);
	if (entry == NULL)
		return;
	hash = hash_bytes_extended((const unsigned char *) data, len, 0);
	shown = pg_mbcliplen(data, len, DC_HOT_KEY_BYTES);
	now = moment_now();
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
stats_read(DcCounter *counter, DcMoment started)
{
	DcStatsEntry *entry = stats_entry_of(counter);

	if (entry == NULL)
		return;
	pg_atomic_fetch_add_u64(&entry->counts[DC_STATS_READS], 1);
	pg_atomic_fetch_add_u64(&entry->counts[DC_STATS_READ_TIME],
							(uint64) moment_age(started));
}

/*
 * stats_get copies the numbers of a table of this database, and its writes a
 * second lately. False if it has no entry.
 */
bool
stats_get(Oid counter, DcTableStats *stats, double *writes)
{
	DcStatsEntry *entry = entry_lock(counter);

	if (entry == NULL)
		return false;
	for (int i = 0; i < DC_NUM_STATS; i++)
		stats->counts[i] = pg_atomic_read_u64(&entry->counts[i]);
	stats->reset_at = (TimestampTz) pg_atomic_read_u64(&entry->reset_at);
	*writes = writes_lately(entry, moment_now());
	stats->sweep = entry->sweep;
	entry_unlock(entry);
	return true;
}

/*
 * stats_get_hot_keys copies the hot keys of a table of this database. False if it
 * has no entry.
 */
bool
stats_get_hot_keys(Oid counter, DcHotStats *hot)
{
	DcMoment now = moment_now();
	DcStatsEntry *entry = entry_lock(counter);

	if (entry == NULL)
		return false;
	hot_decay(entry, now);
	hot->keys = entry->hot;
	hot->seconds = hot_seconds(entry, now);
	entry_unlock(entry);
	return true;
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
	entry->hot.nkeys = 0;
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
 * hot_decay halves the counts of hot keys as often as the time since the last
 * time asks for; under entry->lock. `now` may be from before it was taken.
 */
static void
hot_decay(DcStatsEntry *entry, DcMoment now)
{
	int64 halvings = moment_diff(entry->decayed_at, now) / HALF_LIFE;

	if (halvings <= 0)
		return;
	hotkeys_decay(&entry->hot, halvings);
	entry->decayed_at = moment_after(entry->decayed_at, halvings * HALF_LIFE);
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
