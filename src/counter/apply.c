/*
 * apply.c
 *		Writing the pending deltas to the shard tables.
 *
 * At PRE_COMMIT the pending deltas are written in the order of counter and key,
 * one row per key. Until then no row was touched, so a shard row is locked only
 * for the time that a commit takes. There are three ways to write:
 *
 * Directly (direct.c): a commit, at any isolation level, on plain local tables.
 * The transaction adds to a row of the key that nobody has locked. If all are
 * locked it inserts one more, and only if the key has max_shards rows already
 * does it wait, for its first choice. Whoever waits holds nothing but rows of
 * lower keys, taken in this same phase, so committing transactions cannot
 * deadlock with each other. A SERIALIZABLE transaction inserts a row in any
 * case, by which it and those who read the key find each other (serial.c).
 *
 * Shared rows by SQL (sqlwrite.c): the same, for other tables, under READ
 * COMMITTED.
 *
 * Blind rows by SQL (sqlwrite.c): everything else. The transaction inserts a row
 * of its own, whose shard number is derived from its transaction id, or adds to
 * that row if it has written it before. This never waits, never reads what
 * others write, and so can neither deadlock nor fail with a serialization error.
 * It is used
 *	- for early writes, whose rows stay locked until the transaction ends, an
 *	  unknown time from now;
 *	- for PREPARE TRANSACTION, for the same reason: a forgotten prepared
 *	  transaction then blocks nobody;
 *	- by SQL under REPEATABLE READ and SERIALIZABLE, where an UPDATE of a row
 *	  that has changed since the snapshot would fail;
 *	- for foreign tables, where SKIP LOCKED is not available.
 * max_shards does not bound blind rows; compaction removes them.
 *
 * Two live transactions of one cluster cannot derive the same shard number (it
 * repeats after 2^30 transaction ids), and clusters that write to the same
 * foreign table start from different points. Blind rows and others have
 * different ranges. Should a row with that number be left over, adding to it is
 * right as well.
 *
 * foreign.c has what foreign tables need beyond that.
 *
 * The deltas of a buffered table go to memory instead when the transaction commits
 * (buffering.h), unless there is no room.
 *
 * A stock is always written directly, to rows of the transaction's own in all
 * cases in which the above takes blind rows (units.c).
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/compat.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "counter/access.h"
#include "counter/apply.h"
#include "counter/buffering.h"
#include "counter/counter.h"
#include "counter/direct.h"
#include "counter/foreign.h"
#include "counter/layout.h"
#include "counter/pending.h"
#include "counter/sqlpath.h"
#include "counter/sqlwrite.h"
#include "counter/stats.h"
#include "counter/units.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

const DcBuffering *buffering = NULL;

/* This transaction has written blind rows. */
static bool wrote_blind = false;

/* The callback that writes this transaction's pending deltas has run. */
static bool past_pre_commit = false;

/* When pending deltas are written. */
typedef enum DcApplyWhen
{
	APPLY_EARLY,
	APPLY_WHEN_FULL, /* early too, since memory ran out */
	APPLY_AT_PREPARE,
	APPLY_AT_COMMIT
} DcApplyWhen;

static void apply_pending(DcApplyWhen when);
static void apply_begin(bool *begun);
static void apply_group(DcCounter *counter, DcDelta **deltas, int count,
						DcApplyWhen when);
static void apply_direct(DcCounter *counter, DcDelta **deltas, int count,
						 bool committing, DcApplyStats *stats);
static void add_direct(DcShardRel *rel, const DcDelta *delta, bool committing);
static void apply_by_sql(DcCounter *counter, DcDelta **deltas, int count,
						 bool committing, DcApplyStats *stats);
static void count_deltas(DcCounter *counter, DcDelta **deltas, int count,
						 DcApplyStats *stats);
static DcShardChoice shard_choice(const DcCounter *counter,
								  const DcDelta *delta);
static void apply_error_context(void *arg);
static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId subid,
							 SubTransactionId parent, void *arg);

/*
 * counter_xact_init registers the transaction callbacks; called once.
 */
void
counter_xact_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}

/*
 * xact_callback_move makes ours the first of the transaction callbacks.
 */
void
xact_callback_move(void)
{
	UnregisterXactCallback(xact_callback, NULL);
	RegisterXactCallback(xact_callback, NULL);
}

/*
 * apply_early writes the pending deltas now, in the current subtransaction.
 */
void
apply_early(void)
{
	apply_pending(APPLY_EARLY);
}

/*
 * apply_when_full is the same, for when dcounter.pending_memory is used up.
 */
void
apply_when_full(void)
{
	apply_pending(APPLY_WHEN_FULL);
}

/*
 * apply_if_late writes the pending deltas now if the callback that would have
 * written them has run already: another module may run SQL in a callback of its
 * own, after ours.
 */
void
apply_if_late(void)
{
	if (past_pre_commit)
		apply_pending(APPLY_EARLY);
}

/*
 * apply_blind adds one amount at once to this transaction's own row of a key.
 */
void
apply_blind(DcCounter *counter, const DcKey *key, int64 inc, int64 dec)
{
	DcDelta delta = {0};
	DcDelta *deltas = &delta;

	delta.key.counter = counter->relid;
	delta.key.data = key->data;
	delta.key.len = key->len;
	delta.inc = inc;
	delta.dec = dec;
	apply_group(counter, &deltas, 1, APPLY_EARLY);
}

/*
 * apply_amounts adds amounts of a table's keys, in the order of the keys, to this
 * transaction's own rows. It never waits.
 */
void
apply_amounts(DcCounter *counter, DcDelta **deltas, int count)
{
	apply_group(counter, deltas, count, APPLY_EARLY);
}

/*
 * apply_pending writes all pending deltas. A counter table that was dropped in
 * this transaction took its counts with it.
 */
static void
apply_pending(DcApplyWhen when)
{
	DcDelta **deltas;
	int count;
	int start = 0;
	bool writing = false;
	bool read_only = XactReadOnly;

	if (pending_is_empty())
		return;
	/* the transaction may have been declared read-only since */
	if (when == APPLY_AT_PREPARE || when == APPLY_AT_COMMIT)
		XactReadOnly = false;
	deltas = pending_sorted(&count);
	while (start < count)
	{
		Oid relid = deltas[start]->key.counter;
		int end = start;

		while (end < count && deltas[end]->key.counter == relid)
			end++;
		if (counter_exists(relid))
		{
			DcCounter *counter = counter_lookup(relid);

			if (when != APPLY_AT_COMMIT || !counter_is_buffered(counter) ||
				buffering == NULL ||
				!buffering->reserve(counter, deltas + start, end - start))
			{
				/* what the table promises holds for rows, too */
				if (counter_is_buffered(counter) &&
					counter->row.durability == DC_DURABILITY_SYNC)
					ForceSyncCommit();
				apply_begin(&writing);
				apply_group(counter, deltas + start, end - start, when);
			}
		}
		start = end;
	}
	pending_mark_applied();
	if (writing)
		PopActiveSnapshot();
	XactReadOnly = read_only;
}

/*
 * apply_begin prepares for writing rows, once.
 */
static void
apply_begin(bool *begun)
{
	if (*begun)
		return;
	*begun = true;
	/* in the end, what the last statement has written must be visible, ... */
	CommandCounterIncrement();
	/* ... and there is no snapshot */
	PushActiveSnapshot(GetTransactionSnapshot());
}

/*
 * apply_group writes the deltas of one counter table.
 */
static void
apply_group(DcCounter *counter, DcDelta **deltas, int count, DcApplyWhen when)
{
	ErrorContextCallback context;
	DcApplyStats stats = {0};
	bool committing = (when == APPLY_AT_COMMIT);

	context.callback = apply_error_context;
	context.arg = get_rel_name(counter->relid);
	context.previous = error_context_stack;
	error_context_stack = &context;

	if (counter->foreign && !committing)
		foreign_note_early(counter);
	counter_layout(counter);
	if (counter_is_stock(counter))
		units_check(counter);
	if (counter_is_stock(counter) || (committing && counter->direct_write))
		apply_direct(counter, deltas, count, committing, &stats);
	else
		apply_by_sql(counter, deltas, count, committing, &stats);

	if (stats_enabled())
	{
		count_deltas(counter, deltas, count, &stats);
		stats.early = (when == APPLY_WHEN_FULL);
		stats_applied(counter, &stats);
	}
	error_context_stack = context.previous;
}

/*
 * apply_direct writes the deltas of one counter table without SQL.
 */
static void
apply_direct(DcCounter *counter, DcDelta **deltas, int count, bool committing,
			 DcApplyStats *stats)
{
	/* kept from one commit to the next: making them costs more than they do */
	static MemoryContext table_cxt = NULL;
	static MemoryContext row_cxt = NULL;
	MemoryContext old = CurrentMemoryContext;
	DcShardRel rel;

	if (row_cxt == NULL)
	{
		table_cxt = AllocSetContextCreate(TopMemoryContext, "dcounter apply",
										  ALLOCSET_DEFAULT_SIZES);
		row_cxt = AllocSetContextCreate(TopMemoryContext, "dcounter apply row",
										ALLOCSET_DEFAULT_SIZES);
	}
	/* an error may have left something */
	MemoryContextReset(table_cxt);
	MemoryContextReset(row_cxt);

	MemoryContextSwitchTo(table_cxt);
	shardrel_open(&rel, counter, true);
	MemoryContextSwitchTo(row_cxt);
	for (int i = 0; i < count; i++)
	{
		if (deltas[i]->inc == 0 && deltas[i]->dec == 0)
			continue;
		add_direct(&rel, deltas[i], committing);
		MemoryContextReset(row_cxt);
	}
	*stats = rel.stats;
	shardrel_close(&rel);
	MemoryContextSwitchTo(old);
	CommandCounterIncrement();
}

/*
 * add_direct writes one of them.
 */
static void
add_direct(DcShardRel *rel, const DcDelta *delta, bool committing)
{
	DcShardChoice choice = shard_choice(rel->counter, delta);
	bool own = !committing || IsolationIsSerializable();

	if (counter_is_stock(rel->counter))
		units_add(rel, delta, choice, own_shard(true), own);
	else if (own)
		direct_insert(rel, delta, own_shard(true));
	else
		direct_add(rel, delta, choice, own_shard(true));
}

/*
 * apply_by_sql writes them with SQL, to shared rows or to blind ones.
 */
static void
apply_by_sql(DcCounter *counter, DcDelta **deltas, int count, bool committing,
			 DcApplyStats *stats)
{
	DcSqlSession session;

	sql_begin(&session, counter);
	if (!committing || counter->foreign || IsolationUsesXactSnapshot())
	{
		sql_add_blind(&session, deltas, count, own_shard(false), wrote_blind);
		wrote_blind = true;
	}
	else
	{
		for (int i = 0; i < count; i++)
			stats->waits += sql_add_shared(&session, deltas[i],
										   shard_choice(counter, deltas[i]).seed,
										   own_shard(true));
	}
	sql_end(&session);
}

/*
 * count_deltas adds to the statistics what was written. What has no calls was
 * written for dc_set(), and what has no amount was not written.
 */
static void
count_deltas(DcCounter *counter, DcDelta **deltas, int count,
			 DcApplyStats *stats)
{
	for (int i = 0; i < count; i++)
	{
		const DcDelta *delta = deltas[i];

		if (delta->calls == 0 || (delta->inc == 0 && delta->dec == 0))
			continue;
		stats->keys++;
		stats->increments += delta->calls;
		stats_hot_key(counter, delta->key.data, delta->key.len, delta->calls);
	}
}

/*
 * shard_choice says, once for a delta, which of the key's rows to try first.
 */
static DcShardChoice
shard_choice(const DcCounter *counter, const DcDelta *delta)
{
	DcShardChoice choice;

	if (delta->hint != DC_NO_HINT)
	{
		choice.by = DC_SHARD_BY_HASH;
		choice.seed = delta->hint;
	}
	else if (counter->row.shard_by == DC_SHARD_BY_BACKEND)
	{
		choice.by = DC_SHARD_BY_BACKEND;
		choice.seed = murmurhash32((uint32) compat_backend_number());
	}
	else
	{
		choice.by = DC_SHARD_BY_RANDOM;
		choice.seed = pg_prng_uint64(&pg_global_prng_state);
	}
	return choice;
}

/*
 * own_shard returns the number of a row that this transaction inserts.
 */
int32
own_shard(bool shared)
{
	static uint32 start = 0;

	if (start == 0)
	{
		uint64 cluster = GetSystemIdentifier() ^ MyDatabaseId;

		start = murmurhash32((uint32) cluster ^ (uint32) (cluster >> 32));
	}
	return own_shard_number(GetTopTransactionId() + start, shared);
}

static void
apply_error_context(void *arg)
{
	errcontext("writing increments of counter table \"%s\"", (char *) arg);
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			apply_pending(APPLY_AT_COMMIT);
			foreign_check_alive();
			stats_before_commit();
			past_pre_commit = true;
			break;
		case XACT_EVENT_PRE_PREPARE:
			apply_pending(APPLY_AT_PREPARE);
			past_pre_commit = true;
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			stats_end_xact(event != XACT_EVENT_ABORT,
						   event == XACT_EVENT_PREPARE);
			pending_end_xact();
			counter_forget_open();
			wrote_blind = false;
			foreign_end_xact();
			past_pre_commit = false;
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent, void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			pending_commit_subxact();
			stats_commit_subxact();
			counter_forget_open();
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			pending_abort_subxact();
			stats_abort_subxact();
			counter_forget_open();
			break;
		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}
