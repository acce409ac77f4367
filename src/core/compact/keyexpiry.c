/*
 * keyexpiry.c
 *		Keys that expire: deleting those that were not written for long, as a job.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A counter table may have the setting idle. A key that was not written for so long is deleted then, as by
 * dc_delete(). Writing is what changes updated_at of its row of totals: increments that are committed there, those that
 * compaction moves there, and setters. An index on that column would make each of these several times as expensive, so a
 * sweep reads the table instead, a range of blocks in each transaction. The worker goes over a table once in a
 * sixteenth of the time, evenly, so a key goes that much too late at most; dc_maintain() goes over all of it. Nothing is
 * remembered on disk: a new worker begins anywhere, or one that is often restarted would never come to the end.
 *
 * No increment is lost. A row of totals is deleted if it can be locked at once, if its latest version is
 * still old enough, and if the key has no shard rows; these are never touched. For each way that an increment and
 * the sweep can meet:
 *
 *	it is in the row of totals, committed before the sweep has locked that: updated_at of the latest version is new, so
 *		the key stays.
 *	it is in that row, in progress: the row is locked, and passed over.
 *	it comes later: the row is busy until the sweep's transaction ends, so the increment goes to a shard row, which stays. The
 *		key has that alone, as if it had expired before.
 *	it is in a shard row that the sweep's snapshot does not show (in progress, prepared, or in memory of a buffered
 *		table): the same.
 *	it is in a shard row and being compacted: no compaction is in progress, as the sweep has its lock.
 *	dc_set() and dc_delete() wait for the row, and find none; or have locked it, and it is passed over.
 *
 * If the clock is set forward, all keys are old at once. So a sweep that notices that the clock has gone forward by more than
 * half of the time while it paused, leaves the table alone for a day, and says so. Whoever set it by mistake has set
 * it back by then.
 *
 * A job of its own, not a step of compaction: what keeps keys from being deleted, such as a foreign key that
 * refers to them, must not keep compaction away.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/guc.h"
#include "base/hooks.h"
#include "base/key.h"
#include "base/relopen.h"
#include "core/compact/compact.h"
#include "core/compact/keyexpiry.h"
#include "core/counter/serial.h"
#include "core/counter/sqlpath.h"
#include "core/rows/locks.h"
#include "core/table/table.h"
#include "core/table/tablejob.h"

/* Blocks in a range, and keys that are deleted, at most, in a transaction. */
#define RANGE_BLOCKS 1024
#define RANGE_BLOCKS_MAX 8192
#define RANGE_KEYS 500

/* In which part of the time a table is gone over. */
#define SWEEPS_IN_IDLE 16

/* us: ranges are not closer than this, but larger. */
#define RANGE_PAUSE_MIN USECS_PER_SEC

/* How far the worker has come with a table. */
typedef struct DcKeySweep
{
	Oid table;
	BlockNumber next; /* InvalidBlockNumber: it has not begun */
	int64 idle;		  /* us; the setting as it was then */
	DcMoment until;	  /* the next range */
	DcMoment began;	  /* the last one; by the wall clock: */
	TimestampTz began_at;
} DcKeySweep;

/* In TopMemoryContext, in the worker. */
static List *key_sweeps = NIL;

/* The table at hand of dc_maintain(). */
static DcKeySweep here;

static DcTableJob job;

/* first block, block after the last, written before, how many */
static const DcStatement sql_expire_keys = {
	.text = "DELETE FROM @totals AS t WHERE t.key IN (SELECT k.key FROM @totals AS k"
			" WHERE k.ctid >= $1 AND k.ctid < $2 AND k.updated_at < $3"
			" AND NOT EXISTS (SELECT FROM @shards AS s WHERE s.key = k.key)"
			" LIMIT $4 FOR UPDATE OF k SKIP LOCKED) RETURNING t.key, t.ctid",
	.argtypes = {TIDOID, TIDOID, TIMESTAMPTZOID, INT4OID},
	.columns = {DC_TEXT("key"), DC_COLUMN("ctid", TIDOID)}};

static DcKeySweep *keysweep_find(Oid table);
static void keysweep_forget(Oid table);
static bool clock_has_jumped(DcKeySweep *sweep, const DcCounter *counter);
static bool keys_must_stay(const DcCounter *counter, BlockNumber *blocks);
static bool expire_range(DcCounter *counter, DcKeySweep *sweep, BlockNumber end);
static void keys_expired(DcSqlSession *session, Datum *keys, int n);

static bool
keyexpiry_wants(const DcCounterRow *row)
{
	return row->idle > 0;
}

static void
keyexpiry_start(MemoryContext cxt)
{
	memset(&here, 0, sizeof(here));
}

/*
 * keyexpiry_step goes over the next range of a table.
 */
static DcTableStep
keyexpiry_step(Oid table, bool all_owners)
{
	DcCounter *counter = compact_open(table, all_owners);
	DcKeySweep *sweep = all_owners ? keysweep_find(table) : &here;
	BlockNumber range = RANGE_BLOCKS;
	BlockNumber blocks;
	BlockNumber end;
	int64 pause;

	if (counter == NULL || counter->row.idle == 0 || keys_must_stay(counter, &blocks))
	{
		if (all_owners)
			keysweep_forget(table);
		return TABLE_DONE;
	}
	if (sweep->idle != counter->row.idle) /* the old one may have been a long time to wait */
	{
		sweep->idle = counter->row.idle;
		sweep->until = DC_LONG_AGO;
	}
	if (all_owners && !moment_is_reached(sweep->until))
	{
		job.until = sweep->until;
		return TABLE_IDLE;
	}
	if (all_owners && clock_has_jumped(sweep, counter))
	{
		sweep->until = job.until = moment_after(moment_now(), USECS_PER_DAY);
		return TABLE_IDLE;
	}
	if (!lock_compaction(counter) || (counter_has_trend(counter) && !trend_hooks->ready(counter)))
		return TABLE_DONE;
	pause = counter->row.idle / SWEEPS_IN_IDLE / (blocks / range + 1);
	if (pause < RANGE_PAUSE_MIN)
	{
		range = (BlockNumber) Min(range * (RANGE_PAUSE_MIN / Max(pause, 1) + 1), RANGE_BLOCKS_MAX);
		pause = Min(RANGE_PAUSE_MIN, counter->row.idle / SWEEPS_IN_IDLE);
	}
	if (sweep->next == InvalidBlockNumber)
		sweep->next = pg_prng_uint32(&pg_global_prng_state) % (blocks / range + 1) * range;
	if (sweep->next >= blocks)
		sweep->next = 0;
	end = Min(sweep->next + range, blocks);
	if (!expire_range(counter, sweep, end))
		return TABLE_GOES_ON;
	if (!all_owners)
		return end < blocks ? TABLE_GOES_ON : TABLE_IDLE;
	sweep->until = job.until = moment_after(moment_now(), pause);
	return TABLE_IDLE;
}

/*
 * keysweep_find returns what the worker remembers of a table.
 */
static DcKeySweep *
keysweep_find(Oid table)
{
	MemoryContext old;
	DcKeySweep *sweep;
	ListCell *lc;

	foreach(lc, key_sweeps)
	{
		sweep = lfirst(lc);
		if (sweep->table == table)
			return sweep;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	sweep = palloc0(sizeof(DcKeySweep));
	sweep->table = table;
	sweep->next = InvalidBlockNumber;
	key_sweeps = lappend(key_sweeps, sweep);
	MemoryContextSwitchTo(old);
	return sweep;
}

static void
keysweep_forget(Oid table)
{
	DcKeySweep *sweep = keysweep_find(table);

	key_sweeps = list_delete_ptr(key_sweeps, sweep);
	pfree(sweep);
}

/*
 * clock_has_jumped tells whether the clock was set forward since the last range by more than half of the time after which keys
 * expire, and notes the time.
 */
static bool
clock_has_jumped(DcKeySweep *sweep, const DcCounter *counter)
{
	TimestampTz last = sweep->began_at;
	DcMoment began = sweep->began;
	TimestampTz now = GetCurrentTimestamp();

	sweep->began = moment_now();
	sweep->began_at = now;
	if (last == 0 || now - last - moment_diff(began, sweep->began) <= Max(counter->row.idle / 2, USECS_PER_SEC))
		return false;
	ereport(WARNING,
			(errmsg("keys of counter table \"%s\" do not expire for a day: the clock was set forward", get_rel_name(counter->relid))));
	return true;
}

/*
 * keys_must_stay tells whether keys of a table cannot be deleted here, and else how many blocks its totals have. A row trigger
 * of deletion is an owner's, or that of a foreign key that refers to the keys.
 */
static bool
keys_must_stay(const DcCounter *counter, BlockNumber *blocks)
{
	Relation rel;
	bool stay;

	if (idle_refused(counter) != NULL || relation_lacks_indexes(counter->relid))
		return true;
	rel = table_open_present(counter->relid, NoLock);
	stay = rel->trigdesc != NULL &&
		(rel->trigdesc->trig_delete_before_row || rel->trigdesc->trig_delete_after_row);
	*blocks = RelationGetNumberOfBlocks(rel);
	table_close(rel, NoLock);
	return stay;
}

/*
 * Delete keys that have expired from where a sweep is up to a block. Return true if that was all
 * of them; false if there may be more, which begin in the block of the last one.
 */
static bool
expire_range(DcCounter *counter, DcKeySweep *sweep, BlockNumber end)
{
	ItemPointerData from;
	ItemPointerData upto;
	DcSqlSession session;
	Datum values[4];
	Datum *keys;
	uint64 n;

	ItemPointerSet(&from, sweep->next, 0);
	ItemPointerSet(&upto, end, 0);
	values[0] = PointerGetDatum(&from);
	values[1] = PointerGetDatum(&upto);
	values[2] = TimestampTzGetDatum(GetCurrentTimestamp() - counter->row.idle);
	values[3] = Int32GetDatum(RANGE_KEYS);
	sql_begin(&session, counter);
	n = sql_run(&session, &sql_expire_keys, values);
	keys = palloc(Max(n, 1) * sizeof(Datum));
	for (uint64 i = 0; i < n; i++)
	{
		ItemPointer ctid = (ItemPointer) DatumGetPointer(rows_datum(&session.rows, i, 2));
		BlockNumber block = ItemPointerGetBlockNumber(ctid);

		keys[i] = datumCopy(rows_datum(&session.rows, i, 1), false, -1);
		/* the latest version of a row that was just written may be in another range */
		if (block > sweep->next && block < end)
			sweep->next = block;
	}
	if (n > 0)
		keys_expired(&session, keys, (int) n);
	sql_end(&session);
	if (n == RANGE_KEYS)
		return false;
	sweep->next = end;
	return true;
}

/*
 * keys_expired does what else dc_delete() does for a key.
 */
static void
keys_expired(DcSqlSession *session, Datum *keys, int n)
{
	DcCounter *counter = session->counter;

	for (int i = 0; i < n; i++)
	{
		DcKey key;

		key_from_text(keys[i], &key);
		if (cache_hooks != NULL)
			cache_hooks->key_set(counter, &key);
		if (counter_has_trend(counter))
			trend_hooks->deleted(session, keys[i]);
		serial_mark_key(session, &key);
	}
	counter_changed(counter, keys, n);
}

static DcTableJob job = {.wants = keyexpiry_wants, .start = keyexpiry_start, .state = &here, .state_size = sizeof(here), .step = keyexpiry_step};

/*
 * keyexpiry_job goes over the tables whose keys expire; true if it has yielded.
 */
static bool
keyexpiry_job(DcJobRun *run)
{
	return table_job_run(&job, run);
}

/*
 * keyexpiry_init is called once.
 */
void
keyexpiry_init(void)
{
	job_register((DcJob){.name = "keys", .interval = &dc_compact_interval, .run = keyexpiry_job});
}
