/*
 * apply.c
 *		Writing the pending deltas to the tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * At PRE_COMMIT the pending deltas are written (commit.c), in the order of counter
 * and key, one row per key. Until then no row was touched, so a row is locked
 * only for the time that a commit takes. There are four ways to write:
 *
 * Totals first (totalrow.c): a commit, below SERIALIZABLE, of a table whose totals can be
 * written without SQL (directtotals.c). The transaction updates or inserts the key's row of
 * totals, unless it knows that the key is contended. It never waits for that row; if the row is
 * not free, the amounts go to shard rows, directly.
 *
 * Directly (direct.c): a commit, at any isolation level, on plain local tables.
 * The transaction adds to a shard row of the key that is not locked. If all are locked
 * it inserts another one. It waits, for its first choice, only if the key already has
 * max_shards rows. A SERIALIZABLE transaction always inserts a row, so that SSI
 * detects its conflicts with transactions that read the key (serial.c); while an
 * old snapshot is held, that row replaces another one (again.c).
 *
 * Shared rows by SQL (sqlwrite.c): the same, for other tables, under READ
 * COMMITTED.
 *
 * Blind rows by SQL (sqlwrite.c): everything else. The transaction inserts a row
 * of its own, whose number is its own too (shardnumber.c), or adds to that row if it
 * has written it before. This never waits, and never reads rows that others write. So
 * it can neither deadlock nor fail with a serialization error. It is used
 *	- for early writes, whose rows stay locked until the transaction ends, an
 *	  unknown time from now;
 *	- for PREPARE TRANSACTION, for the same reason: a forgotten prepared transaction then blocks
 *	  no other;
 *	- by SQL under REPEATABLE READ and SERIALIZABLE, where an UPDATE of a row
 *	  that has changed since the snapshot would fail;
 *	- for foreign tables, where SKIP LOCKED is not available.
 * max_shards does not bound blind rows; compaction removes them.
 *
 * Tables that Citus distributes are written in a fifth way, by one statement per key
 * (sqlwrite.c): each session, or the transaction, has a row of the key. The rest of this comment
 * does not apply to them.
 *
 * Why committing transactions cannot deadlock (doc/internals.md has the other rooms that write at
 * commit). In this turn they wait only for a shard row of a key that has max_shards of them, and
 * only while no transaction sets the key or compacts the table (locks.c), so they wait only for
 * another committing transaction. A transaction that waits holds only rows of lower keys, totals
 * and shard rows, taken in this same phase. Along a chain of waiting transactions the keys grow,
 * so there is no cycle. Rows of totals cannot be part of a cycle, since no commit waits for one.
 * Others do wait for them: setters, users' own UPDATEs, inserters of the same key. They may hold
 * any lock, and wait for this commit, but it waits for none of them: all that they have locked
 * is a row of totals, which is then busy, or a key that they set. Only the owner can lock shard
 * rows directly, which this argument does not cover.
 *
 * foreign.c has the additional rules for foreign tables.
 *
 * A delta that is written after its turn in the order has passed (commit.c) also goes to a
 * row of the transaction's own, directly or blind, because the transaction must not wait.
 *
 * A stock is always written directly. Where other tables get blind rows, a stock gets
 * rows of the transaction's own (units.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/xactrooms.h"
#include "core/counter/apply.h"
#include "core/counter/applying.h"
#include "core/counter/foreign.h"
#include "core/counter/pending.h"
#include "core/counter/sqlpath.h"
#include "core/counter/sqlwrite.h"
#include "core/counter/units.h"
#include "core/rows/again.h"
#include "core/rows/direct.h"
#include "core/rows/remote.h"
#include "core/rows/shardnumber.h"
#include "core/rows/totalrow.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/layout.h"

/*
 * Of a table that Citus distributes, how many rows of totals a commit may lock (sqlwrite.c): memory
 * for locks is shared.
 */
#define MAX_TOTAL_LOCKS 16

/* Which shard rows a transaction adds to. */
typedef enum DcWhichRows
{
	ROWS_OF_ALL,
	ROWS_NEW,  /* it inserts them, */
	ROWS_AGAIN /* in place of others if there are any (again.c) */
} DcWhichRows;

/* This transaction has written blind rows. */
static bool wrote_blind = false;

/*
 * The nesting level of the subtransaction that is writing pending deltas, or 0. Reset by
 * apply_end(), and when the (sub)transaction ends.
 */
static int writing_level = 0;

static void apply_group(DcCounter *counter, DcDelta **deltas, int count,
						DcApplyWhen when);
static DcWhichRows which_rows(DcCounter *counter, DcApplyWhen when);
static void apply_direct(DcCounter *counter, DcDelta **deltas, int count,
						 DcWhichRows which, DcApplyStats *stats);
static void add_direct(DcDirectTables *tables, const DcDelta *delta, DcWhichRows which);
static void add_to_shards(DcDirectTables *tables, const DcDelta *delta, DcWhichRows which,
						  DcDirectTables *totals_first);
static void apply_by_sql(DcCounter *counter, DcDelta **deltas, int count,
						 DcApplyWhen when, DcApplyStats *stats);
static void count_deltas(DcCounter *counter, DcDelta **deltas, int count,
						 DcApplyStats *stats);
static DcShardChoice shard_choice(const DcCounter *counter,
								  const DcDelta *delta);
static void apply_error_context(void *arg);

/*
 * apply_blind adds one amount at once to this transaction's own row of a key.
 */
void
apply_blind(DcCounter *counter, const DcKey *key, int64 inc, int64 dec)
{
	DcDelta delta = {.key = delta_key(counter->relid, key), .inc = inc, .dec = dec};
	DcDelta *deltas = &delta;

	apply_amounts(counter, &deltas, 1);
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
 * apply_remote adds what was counted in another region at once to this transaction's own row for
 * such amounts, or to several if they overflow bigint in one. It never waits, and does not count as
 * increments of this database. Amounts of 0 also insert a row, so that compaction looks at the key.
 */
void
apply_remote(DcCounter *counter, const DcKey *key, int64 inc, int64 dec)
{
	DcDelta delta = {.key = delta_key(counter->relid, key), .inc = inc, .dec = dec};
	int32 number = remote_shard(own_shard(false));
	DcSqlSession session;
	DcDirectRel rel;

	counter_layout(counter);
	if (counter->plain_shards) /* its rows are new, or their latest version is checked */
	{
		directrel_open(&rel, counter, DC_TABLE_SHARDS, true);
		remote_add(&rel, &delta, number);
		directrel_close(&rel);
		CommandCounterIncrement();
		return;
	}
	activity_note(counter->relid);
	sql_begin(&session, counter);
	sql_add_remote(&session, &delta, number);
	sql_end(&session);
}

/*
 * Return true if increments of a counter table are on the disk when the
 * commit returns, whether they go to rows or to memory.
 */
bool
counter_is_sync(DcCounter *counter)
{
	return counter_is_buffered(counter) &&
		counter->row.durability == DC_DURABILITY_SYNC;
}

/*
 * apply_begin prepares for writing.
 */
void
apply_begin(DcApplying *applying, DcApplyWhen when)
{
	applying->when = when;
	applying->begun = false;
	applying->read_only = XactReadOnly;
	xact_mark(DC_XACT_COUNTER);
	writing_level = GetCurrentTransactionNestLevel();
	/* changes that our locks do not keep out: see directtotals.c */
	AcceptInvalidationMessages();
	/* the transaction may have been declared read-only since */
	if (when >= APPLY_AT_PREPARE)
		XactReadOnly = false;
}

/*
 * apply_end ends writing, if there was no error.
 */
void
apply_end(DcApplying *applying)
{
	if (applying->begun)
		PopActiveSnapshot();
	XactReadOnly = applying->read_only;
	writing_level = 0;
}

/*
 * Return true if pending deltas are being written. Then the caller is a trigger on a source
 * whose rows code of an owner has changed, and that code was run by the writing. Nothing may be
 * added to the pending deltas then.
 */
bool
apply_is_writing(void)
{
	return writing_level > 0;
}

/*
 * apply_rows writes the deltas of one counter table. One that was dropped in this
 * transaction took its counts with it.
 */
void
apply_rows(DcApplying *applying, DcDelta **deltas, int count)
{
	Oid relid = deltas[0]->key.counter;
	DcCounter *counter;

	if (!counter_exists(relid))
		return;
	counter = counter_lookup(relid);
	/* the promise of "sync" holds for rows, too */
	if (counter_is_sync(counter))
		ForceSyncCommit();
	if (!applying->begun)
	{
		applying->begun = true;
		/* at the end of a transaction, rows of the last statement must be visible, ... */
		CommandCounterIncrement();
		/* ... and there is no snapshot */
		PushActiveSnapshot(GetTransactionSnapshot());
	}
	apply_group(counter, deltas, count, applying->when);
}

/*
 * apply_group writes the deltas of one counter table.
 */
static void
apply_group(DcCounter *counter, DcDelta **deltas, int count, DcApplyWhen when)
{
	ErrorContextCallback context;
	DcApplyStats stats = {0};
	bool committing = when == APPLY_AT_COMMIT || when == APPLY_LAST;

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
		apply_direct(counter, deltas, count, which_rows(counter, when), &stats);
	else
		apply_by_sql(counter, deltas, count, when, &stats);

	if (stats_hooks != NULL)
	{
		count_deltas(counter, deltas, count, &stats);
		stats.early = (when == APPLY_WHEN_FULL);
		stats_hooks->applied(counter, &stats);
	}
	error_context_stack = context.previous;
}

/*
 * which_rows returns which shard rows are added to without SQL.
 */
static DcWhichRows
which_rows(DcCounter *counter, DcApplyWhen when)
{
	if (when == APPLY_AT_COMMIT && !IsolationIsSerializable())
		return ROWS_OF_ALL;
	return IsolationIsSerializable() && !counter_is_stock(counter) && inserts_again(counter)
		? ROWS_AGAIN
		: ROWS_NEW;
}

/*
 * apply_direct writes the deltas of one counter table without SQL.
 */
static void
apply_direct(DcCounter *counter, DcDelta **deltas, int count, DcWhichRows which,
			 DcApplyStats *stats)
{
	/*
	 * Kept from one commit to the next, as making them is expensive. Their content
	 * is of one call.
	 */
	static MemoryContext table_cxt = NULL;
	static MemoryContext row_cxt = NULL;
	MemoryContext old = CurrentMemoryContext;
	DcDirectTables tables;

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
	direct_tables_init(&tables, counter);
	MemoryContextSwitchTo(row_cxt);
	for (int i = 0; i < count; i++)
	{
		if (deltas[i]->inc == 0 && deltas[i]->dec == 0)
			continue;
		add_direct(&tables, deltas[i], which);
		MemoryContextReset(row_cxt);
	}
	*stats = tables.shards.stats;
	stats->totals += tables.totals.stats.totals;
	stats->busy_skips += tables.totals.stats.busy_skips;
	direct_tables_close(&tables);
	MemoryContextSwitchTo(old);
	CommandCounterIncrement();
}

/*
 * add_direct writes one delta: to the row of totals, if it may go there and the key is not known to
 * be contended, otherwise to shard rows.
 */
static void
add_direct(DcDirectTables *tables, const DcDelta *delta, DcWhichRows which)
{
	DcCounter *counter = tables->counter;

	if (which != ROWS_OF_ALL || !counter->direct_totals)
		add_to_shards(tables, delta, which, NULL);
	else if (hints_known(&delta->key))
		add_to_shards(tables, delta, which, tables);
	else if (!total_add(tables, delta))
		add_to_shards(tables, delta, which, NULL);
}

/*
 * add_to_shards writes one delta to shard rows. totals_first is as for direct_add().
 */
static void
add_to_shards(DcDirectTables *tables, const DcDelta *delta, DcWhichRows which,
			  DcDirectTables *totals_first)
{
	DcDirectRel *rel = direct_tables_open(tables, DC_TABLE_SHARDS);
	DcShardChoice choice = shard_choice(rel->counter, delta);

	if (counter_is_stock(rel->counter))
		units_add(rel, delta, choice, own_shard(true), which != ROWS_OF_ALL);
	else if (which == ROWS_NEW)
		direct_insert(rel, delta, own_shard(true));
	else if (which == ROWS_AGAIN)
		direct_insert_in_place(rel, delta);
	else
		direct_add(rel, delta, choice, own_shard(true), totals_first);
}

/*
 * apply_by_sql writes the deltas of one counter table with SQL, to shared rows or to blind
 * ones.
 */
static void
apply_by_sql(DcCounter *counter, DcDelta **deltas, int count, DcApplyWhen when,
			 DcApplyStats *stats)
{
	bool shared = when == APPLY_AT_COMMIT;
	DcSqlSession session;

	if (!counter->distributed)
		activity_note(counter->relid);
	sql_begin(&session, counter);
	if (counter->distributed)
	{
		bool totals = counter->sql_totals && count <= MAX_TOTAL_LOCKS;

		/*
		 * a transaction that has this delta and nothing else may wait, as no other can be
		 * waiting for it. That is not true of deltas that code of the owner adds in the meantime
		 */
		shared = (shared && !IsolationUsesXactSnapshot()) || (when == APPLY_LAST && distribution_is_alone());
		for (int i = 0; i < count; i++)
			sql_add_distributed(&session, deltas[i], shard_choice(counter, deltas[i]), shared, totals);
	}
	else if (!shared || counter->foreign || IsolationUsesXactSnapshot())
	{
		sql_add_blind(&session, deltas, count, own_shard(false), wrote_blind);
		xact_mark(DC_XACT_COUNTER);
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
 * count_deltas counts the deltas that were written. A delta without calls was written
 * for dc_set(), and one without an amount was not written.
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
		stats_hooks->hot_key(counter, delta->key.data, delta->key.len, delta->calls);
	}
}

/*
 * shard_choice returns, once for a delta, which of the key's rows to try first.
 */
static DcShardChoice
shard_choice(const DcCounter *counter, const DcDelta *delta)
{
	if (delta->hint != DC_NO_HINT)
		return (DcShardChoice){DC_SHARD_BY_HASH, delta->hint};
	if (counter->row.shard_by == DC_SHARD_BY_BACKEND)
		return (DcShardChoice){DC_SHARD_BY_BACKEND,
							   murmurhash32((uint32) compat_backend_number())};
	return (DcShardChoice){DC_SHARD_BY_RANDOM, pg_prng_uint64(&pg_global_prng_state)};
}

/*
 * Name the counter table in CONTEXT of errors.
 */
static void
apply_error_context(void *arg)
{
	errcontext("writing increments of counter table \"%s\"", (char *) arg);
}

/*
 * apply_forget forgets the state of a transaction that has ended, and apply_abort_subxact
 * that of a subtransaction.
 */
void
apply_forget(void)
{
	wrote_blind = false;
	writing_level = 0;
}

/*
 * See apply_forget(). Must not throw.
 */
void
apply_abort_subxact(void)
{
	if (writing_level >= GetCurrentTransactionNestLevel())
		writing_level = 0;
}
