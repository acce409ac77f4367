/*
 * keyexpiry.c
 *		Keys that expire: deleting those that have not been written for a long time, as a job.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A counter table may have the setting idle. A key that was not written for so long is deleted
 * then, as by dc_delete(). Writing is what changes updated_at of its row of totals: increments that
 * are committed there, those that compaction moves there, and setters. An index on that column
 * would make each of these several times as expensive, so a sweep reads the table instead, a range
 * of blocks in each transaction. The worker goes over a table once in a sixteenth of the time,
 * evenly, so a key goes that much too late at most (but it takes a second for each RANGE_BLOCKS_MAX
 * blocks); dc_maintain() goes over all of it. Nothing is remembered on disk: a new worker begins
 * anywhere, or one that is often restarted would never come to the end.
 *
 * No increment is lost. A row of totals is deleted if it can be locked at once, if its latest
 * version is still old enough, and if the key has no shard rows and nothing in memory; these are
 * never touched. For each way that an increment and the sweep can meet:
 *
 *	it is in the row of totals, committed before the sweep has locked that: updated_at of the
 *		latest version is new, so the key stays.
 *	it is in that row, in progress: the row is locked, and skipped.
 *	it comes later: the row is busy until the sweep's transaction ends, so the increment goes to a
 *		shard row, or to memory, which stays. The key has that alone, as if it had expired before.
 *	it is in a shard row that the sweep's snapshot does not show (in progress, or prepared): the
 *		same.
 *	it is in a shard row and being compacted: no compaction is in progress, as the sweep has its
 *		lock.
 *	dc_set() and dc_delete() wait for the row, and find none; or have locked it, and it is passed
 *		over.
 *
 * The sweep waits for nobody once it has a row: not for rows of totals, and not for weights of a
 * trend, which are locked first. So it has no part in a deadlock.
 *
 * If the clock is set forward, all keys are old at once. So the sweep leaves a table alone for a
 * while, and says so, if the clock was set forward not long ago, or if that may have been before
 * the server was started: most of a batch would expire, and no key was written lately (keyclock.c;
 * for a large table a sample is used).
 *
 * This is a separate job, not a step of compaction: something that prevents the deletion of keys,
 * such as a foreign key that refers to them, must not prevent compaction.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/interval.h"
#include "base/key.h"
#include "base/relopen.h"
#include "core/compact/compact.h"
#include "core/compact/keyclock.h"
#include "core/compact/keyexpiry.h"
#include "core/counter/read.h"
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

/* Blocks that are checked for keys that were written lately, about. */
#define SAMPLE_BLOCKS 8192

/* How far a sweep has come with a table. */
typedef struct DcKeySweep
{
	Oid table;		  /* hash key */
	BlockNumber next; /* InvalidBlockNumber: it has not begun */
	int64 idle;		  /* us; the setting as it was then */
	DcMoment until;	  /* the next range */
	DcMoment trusted; /* the clock is trusted, as it was then */
} DcKeySweep;

/* What came of a range. */
typedef enum DcRangeResult
{
	RANGE_DONE,
	RANGE_HAS_MORE, /* from where the sweep is now */
	RANGE_IN_DOUBT	/* nothing was deleted, as the clock may be wrong */
} DcRangeResult;

/* DcKeySweep: of the worker. Those of dropped tables are removed when there are many. */
static HTAB *key_sweeps = NULL;

#define SWEEPS_MIN 64

/* How many there may be before that. */
static long sweeps_max = SWEEPS_MIN;

/* The table at hand of dc_maintain(). */
static DcKeySweep here;

static DcTableJob job;

/* first block, block after the last, written before, how many */
static const DcStatement sql_idle_keys = {
	.text = "SELECT k.key, k.ctid FROM @totals AS k WHERE k.ctid >= $1 AND k.ctid < $2 AND k.updated_at < $3 LIMIT $4",
	.argtypes = {TIDOID, TIDOID, TIMESTAMPTZOID, INT4OID},
	.columns = {DC_TEXT("key"), DC_COLUMN("ctid", TIDOID)}};

/* the same; of the others */
static const DcStatement sql_used_keys = {
	.text = "SELECT count(*) FROM (SELECT FROM @totals AS k WHERE k.ctid >= $1 AND k.ctid < $2 AND k.updated_at >= $3 LIMIT $4) AS k",
	.argtypes = {TIDOID, TIDOID, TIMESTAMPTZOID, INT4OID},
	.columns = {DC_BIGINT("key")}};

/* a time, another, how much of the table, in percent */
static const DcStatement sql_any_written = {
	.text = "(SELECT s.updated_at FROM @shards AS s WHERE s.updated_at BETWEEN $1 AND $2 LIMIT 1)"
			" UNION ALL (SELECT t.updated_at FROM @totals AS t TABLESAMPLE SYSTEM ($3) WHERE t.updated_at BETWEEN $1 AND $2 LIMIT 1)"
			" LIMIT 1",
	.argtypes = {TIMESTAMPTZOID, TIMESTAMPTZOID, FLOAT4OID},
	.reads_all = true,
	.columns = {DC_TIME("updated_at")}};

/* keys, written before */
static const DcStatement sql_expire_keys = {
	.text = "DELETE FROM @totals AS t WHERE t.key IN (SELECT k.key FROM @totals AS k"
			" WHERE k.key = ANY ($1) AND k.updated_at < $2"
			" AND NOT EXISTS (SELECT FROM @shards AS s WHERE s.key = k.key)"
			" FOR UPDATE OF k SKIP LOCKED) RETURNING t.key",
	.argtypes = {TEXTARRAYOID, TIMESTAMPTZOID},
	.columns = {DC_TEXT("key")}};

static BlockNumber keysweep_range(DcKeySweep *sweep, BlockNumber blocks, int64 *pause);
static DcKeySweep *keysweep_find(Oid table);
static void keysweep_forget_dropped(void);
static bool keys_must_stay(const DcCounter *counter, BlockNumber *blocks);
static DcTableStep keysweep_pause(DcKeySweep *sweep, const DcCounter *counter, const char *why);
static DcRangeResult expire_range(DcCounter *counter, DcKeySweep *sweep, BlockNumber blocks, BlockNumber end);
static BlockNumber block_of_last(DcSqlSession *session, int n, BlockNumber first);
static bool keys_may_expire(DcSqlSession *session, DcKeySweep *sweep, Datum *range, BlockNumber blocks);
static int keys_not_in_memory(DcCounter *counter, Datum *keys, int n);
static int expire_keys(DcSqlSession *session, Datum *keys, int n, Datum before);

/*
 * Return true for a table whose keys expire.
 */
static bool
keyexpiry_wants(const DcCounterRow *row)
{
	return row->idle > 0;
}

/*
 * Begin with a table in dc_maintain(), at its first block.
 */
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
	BlockNumber blocks;
	BlockNumber end;
	int64 pause;

	if (counter == NULL || counter->row.idle <= 0 || keys_must_stay(counter, &blocks))
	{
		if (all_owners)
			(void) hash_search(key_sweeps, &table, HASH_REMOVE, NULL);
		return TABLE_DONE;
	}
	if (sweep->idle != counter->row.idle) /* the old one may have been a long time to wait */
	{
		if (sweep->idle > 0) /* whoever alters it has looked at the clock */
			sweep->trusted = moment_now();
		sweep->idle = counter->row.idle;
		sweep->until = DC_LONG_AGO;
	}
	if (all_owners && !moment_is_reached(sweep->until))
	{
		job.until = sweep->until;
		return TABLE_IDLE;
	}
	if (keyclock_trust(sweep->idle, sweep->trusted).state == CLOCK_STEPPED)
		return keysweep_pause(sweep, counter, _("The clock was set forward."));
	if (!lock_compaction(counter) || (counter_has_trend(counter) && !trend_hooks->ready(counter)))
		return TABLE_DONE;
	end = keysweep_range(sweep, blocks, &pause);
	switch (expire_range(counter, sweep, blocks, end))
	{
		case RANGE_HAS_MORE:
			return TABLE_GOES_ON;
		case RANGE_IN_DOUBT:
			return keysweep_pause(sweep, counter, _("Most of them would, and the clock may have been set forward before the server was started."));
		case RANGE_DONE:
			break;
	}
	if (!all_owners)
		return end < blocks ? TABLE_GOES_ON : TABLE_IDLE;
	sweep->until = job.until = moment_after(moment_now(), pause);
	return TABLE_IDLE;
}

/*
 * keysweep_range returns the end of the next range, and sets *pause to the time (us) until the one
 * after it.
 */
static BlockNumber
keysweep_range(DcKeySweep *sweep, BlockNumber blocks, int64 *pause)
{
	BlockNumber range = RANGE_BLOCKS;

	*pause = sweep->idle / SWEEPS_IN_IDLE / (blocks / range + 1);
	if (*pause < RANGE_PAUSE_MIN)
	{
		range = (BlockNumber) Min(range * (RANGE_PAUSE_MIN / Max(*pause, 1) + 1), RANGE_BLOCKS_MAX);
		*pause = Min(RANGE_PAUSE_MIN, sweep->idle / SWEEPS_IN_IDLE);
		*pause = Max(*pause, Min(RANGE_PAUSE_MIN, INT64CONST(1000) * dc_compact_interval)); /* an owner cannot keep the worker busy */
	}
	if (sweep->next == InvalidBlockNumber)
		sweep->next = pg_prng_uint32(&pg_global_prng_state) % (blocks / range + 1) * range;
	if (sweep->next >= blocks)
		sweep->next = 0;
	return Min(sweep->next + range, blocks);
}

/*
 * keysweep_find returns what the worker remembers of a table.
 */
static DcKeySweep *
keysweep_find(Oid table)
{
	DcKeySweep *sweep;
	bool found;

	if (key_sweeps == NULL)
	{
		HASHCTL ctl = {0};

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(DcKeySweep);
		ctl.hcxt = TopMemoryContext;
		key_sweeps = hash_create("dcounter key sweeps", SWEEPS_MIN, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	sweep = hash_search(key_sweeps, &table, HASH_FIND, NULL);
	if (sweep != NULL)
		return sweep;
	if (hash_get_num_entries(key_sweeps) >= sweeps_max)
		keysweep_forget_dropped();
	sweep = hash_search(key_sweeps, &table, HASH_ENTER, &found);
	*sweep = (DcKeySweep){.table = table, .next = InvalidBlockNumber};
	return sweep;
}

/*
 * keysweep_forget_dropped forgets tables that were dropped.
 */
static void
keysweep_forget_dropped(void)
{
	HASH_SEQ_STATUS status;
	DcKeySweep *sweep;

	hash_seq_init(&status, key_sweeps);
	while ((sweep = hash_seq_search(&status)) != NULL)
	{
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(sweep->table)))
			(void) hash_search(key_sweeps, &sweep->table, HASH_REMOVE, NULL);
	}
	sweeps_max = Max(2 * hash_get_num_entries(key_sweeps), SWEEPS_MIN);
}

/*
 * keysweep_pause leaves a table alone until the clock is to be trusted, and says why.
 */
static DcTableStep
keysweep_pause(DcKeySweep *sweep, const DcCounter *counter, const char *why)
{
	int64 left;

	sweep->until = job.until = keyclock_trust(sweep->idle, sweep->trusted).until;
	left = Max(moment_diff(moment_now(), sweep->until), 0);
	left += USECS_PER_SEC - left % USECS_PER_SEC;
	ereport(WARNING,
			(errmsg("keys of counter table \"%s\" do not expire for now", get_rel_name(counter->relid)),
			 errdetail_internal("%s", why),
			 keyclock_is_shared() ? errhint("If the clock is right, the worker goes on in %s, or when \"idle\" is altered.",
											DatumGetCString(DirectFunctionCall1(interval_out, PointerGetDatum(interval_from_us(left)))))
								  : errhint("If the clock is right, write to one of its keys, and try again.")));
	return TABLE_IDLE;
}

/*
 * keys_must_stay returns true if keys of a table cannot be deleted here; else *blocks is how many
 * blocks its totals have. A row trigger of deletion is an owner's, or that of a foreign key that refers to the
 * keys. A rule may do anything instead.
 */
static bool
keys_must_stay(const DcCounter *counter, BlockNumber *blocks)
{
	Relation rel;
	bool stay;

	if (idle_refused(counter) != NULL || relation_lacks_indexes(counter->relid))
		return true;
	rel = table_open_present(counter->relid, NoLock);
	stay = rel->rd_rules != NULL ||
		(rel->trigdesc != NULL && (rel->trigdesc->trig_delete_before_row || rel->trigdesc->trig_delete_after_row));
	*blocks = RelationGetNumberOfBlocks(rel);
	table_close(rel, NoLock);
	return stay;
}

/*
 * expire_range deletes keys that have expired, from where the sweep is up to a block. If there are
 * more than it deletes at a time, the sweep is then at the block of the last one that it has looked
 * at.
 */
static DcRangeResult
expire_range(DcCounter *counter, DcKeySweep *sweep, BlockNumber blocks, BlockNumber end)
{
	ItemPointerData from;
	ItemPointerData upto;
	Datum range[4] = {PointerGetDatum(&from), PointerGetDatum(&upto)};
	BlockNumber next = end;
	DcSqlSession session;
	Datum *keys;
	int n;

	ItemPointerSet(&from, sweep->next, 0);
	ItemPointerSet(&upto, end, 0);
	range[2] = TimestampTzGetDatum(GetCurrentTimestamp() - sweep->idle); /* wall time */
	range[3] = Int32GetDatum(RANGE_KEYS);
	sql_begin(&session, counter);
	n = (int) sql_run(&session, &sql_idle_keys, range);
	keys = palloc(Max(n, 1) * sizeof(Datum));
	for (int i = 0; i < n; i++)
		keys[i] = rows_datum(&session.rows, i, 1);
	if (n == RANGE_KEYS)
	{
		next = block_of_last(&session, n, sweep->next);
		ItemPointerSet(&upto, next > sweep->next ? next + 1 : end, 0);
	}
	range[3] = Int32GetDatum(n);
	if (n > 0 && !keys_may_expire(&session, sweep, range, blocks))
	{
		sql_end(&session);
		return RANGE_IN_DOUBT;
	}
	if (expire_keys(&session, keys, n, range[2]) == 0 && next == sweep->next)
		next = end; /* they must stay */
	sql_end(&session);
	sweep->next = next;
	return n == RANGE_KEYS && next < end ? RANGE_HAS_MORE : RANGE_DONE;
}

/*
 * block_of_last returns the block of the last of n keys, with which the sweep continues. If they
 * are not in the order of blocks, as with a plan that uses an index of the owner's, it is the first
 * block of the range again.
 */
static BlockNumber
block_of_last(DcSqlSession *session, int n, BlockNumber first)
{
	BlockNumber block = first;
	BlockNumber before = first;

	for (int i = 0; i < n; i++)
	{
		block = ItemPointerGetBlockNumber((ItemPointer) DatumGetPointer(rows_datum(&session->rows, i, 2)));
		if (block < before)
			return first;
		before = block;
	}
	return block;
}

/*
 * Return true if the keys of a range (the parameters of sql_used_keys) may expire: if the clock is
 * to be trusted, or few of them would.
 */
static bool
keys_may_expire(DcSqlSession *session, DcKeySweep *sweep, Datum *range, BlockNumber blocks)
{
	DcClockTrust trust = keyclock_trust(sweep->idle, sweep->trusted);
	Datum values[3];

	if (trust.state == CLOCK_TRUSTED)
		return true;
	sql_run(session, &sql_used_keys, range);
	if (rows_bigint(&session->rows, 0, 1) >= DatumGetInt32(range[3]))
		return true;
	values[0] = TimestampTzGetDatum(GetCurrentTimestamp() - sweep->idle / 2); /* wall time */
	values[1] = TimestampTzGetDatum(trust.written_before);
	values[2] = Float4GetDatum((float4) Min(100.0, 100.0 * SAMPLE_BLOCKS / Max(blocks, 1)));
	if (sql_run(session, &sql_any_written, values) == 0)
		return false;
	sweep->trusted = moment_now();
	return true;
}

/*
 * expire_keys deletes the keys that still have expired and that nobody is writing to, and returns
 * their number. It does what else dc_delete() does.
 */
static int
expire_keys(DcSqlSession *session, Datum *keys, int n, Datum before)
{
	DcCounter *counter = session->counter;
	Datum values[2];

	if (n > 0)
		n = keys_not_in_memory(counter, keys, n);
	if (n > 0 && counter_has_trend(counter))
		n = trend_hooks->lock_keys(session, keys, n);
	if (n == 0)
		return 0;
	values[0] = array_datum(keys, n, TEXTOID);
	values[1] = before;
	n = (int) sql_run(session, &sql_expire_keys, values);
	for (int i = 0; i < n; i++)
		keys[i] = rows_datum(&session->rows, i, 1);
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
	if (n > 0)
		counter_changed(counter, keys, n);
	return n;
}

/*
 * keys_not_in_memory leaves out keys with amounts that are committed, and not in rows yet. It
 * returns how many remain.
 */
static int
keys_not_in_memory(DcCounter *counter, Datum *keys, int n)
{
	DcBuffered *amounts;
	DcKey *views;
	int left = 0;

	if (!counter_may_be_buffered(counter))
		return n;
	amounts = palloc0(n * sizeof(DcBuffered));
	views = palloc(n * sizeof(DcKey));
	for (int i = 0; i < n; i++)
	{
		key_from_text(keys[i], &views[i]);
		amounts[i].key = &views[i];
	}
	if (!buffer_hooks->read_keys(counter, amounts, n))
		return n;
	PopActiveSnapshot();
	for (int i = 0; i < n; i++)
	{
		if (amounts[i].inc == 0 && amounts[i].dec == 0)
			keys[left++] = keys[i];
	}
	return left;
}

static DcTableJob job = {.wants = keyexpiry_wants, .start = keyexpiry_start, .state = &here, .state_size = sizeof(here), .step = keyexpiry_step};

/*
 * keyexpiry_job goes over the tables whose keys expire; true if it has yielded.
 */
static bool
keyexpiry_job(DcJobRun *run)
{
	keyclock_look();
	return table_job_run(&job, run);
}

/*
 * keyexpiry_init is called once.
 */
void
keyexpiry_init(bool preloading)
{
	keyclock_init(preloading);
	job_register((DcJob){.name = "keys", .interval = &dc_compact_interval, .run = keyexpiry_job});
}
