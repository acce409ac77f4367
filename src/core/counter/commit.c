/*
 * commit.c
 *		Deciding when the pending deltas are written, and which of them go to memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are written early, if they are too many or must be in the tables (dc_apply(), dc_set(),
 * DDL); at PREPARE TRANSACTION; otherwise at PRE_COMMIT. apply.c says how they are written, and why
 * transactions that write at PRE_COMMIT cannot deadlock.
 *
 * Buffered tables. Their deltas go to memory instead when the transaction commits
 * (hooks.h), with two exceptions. First, there may be no flusher. Second, the table may have
 * durability "sync" and the transaction an id: then it writes other things, which its commit
 * makes durable, and after a crash both or neither must be there. In these cases the deltas
 * are written like those of other tables, in their place in the order.
 *
 * Deltas for memory are handed over last of all, in a callback of their own that runs after
 * those of the other rooms. So a transaction that waits or fails has nothing in memory, and the
 * check for a flusher comes as late as possible. Only then may a table be refused: there is no
 * room or no flusher, or the transaction has got an id in the meantime. By that time rows with
 * higher keys may already be locked, so the table's deltas go to rows of the transaction's own,
 * without waiting. All deltas handed over before are taken back first, so that nothing is written
 * while something is reserved. Then they are handed over again, and an id that the transaction has
 * got in the meantime counts.
 *
 * Where a table has columns or indexes of its owner's, SQL writes these rows, and can wait for
 * others. That must not happen while commits or readers of others wait for this transaction, as
 * they do from the callbacks of events and regions on. So in a transaction with either, the deltas
 * of such a table are written in their place in the order.
 *
 * An increment of a table that Citus distributes is also written this late, if the transaction has
 * nothing else: then one statement commits it on the worker (core/table/distribution.c).
 *
 * dcounter does not control the rest of the commit: callbacks of libraries loaded before this
 * one, ON COMMIT actions, the lock of NOTIFY, the check of SERIALIZABLE, the disk and
 * synchronous standbys. reserve.c says why that does no harm.
 * If such a callback writes something in a transaction without an id, a crash can
 * separate that from the increments of "sync" tables.
 */
#include "postgres.h"

#include "access/xact.h"

#include "base/hooks.h"
#include "base/xactrooms.h"
#include "core/counter/apply.h"
#include "core/counter/applying.h"
#include "core/counter/counter.h"
#include "core/counter/foreign.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/layout.h"

/* The callback that writes this transaction's pending deltas has run. */
static bool past_pre_commit = false;

static void write_distinct(bool committing);
static void apply_pending(DcApplyWhen when);
static void apply_at_commit(void);
static void apply_buffered(void);
static bool reserve_all(DcApplying *applying, DcDelta **deltas, int count);
static bool goes_to_rows(Oid relid);
static bool others_will_wait(void);
static bool must_not_wait_later(Oid relid);
static bool is_alone(DcDelta **deltas, int count);
static bool any_amount(DcDelta **deltas, int count, int64 above);
static int group_end(DcDelta **deltas, int count, int start);
static bool commit_is_idle(void);
static void commit_xact_callback(XactEvent event, void *arg);
static void last_callback(XactEvent event, void *arg);
static void commit_subxact_callback(SubXactEvent event, SubTransactionId subid,
									SubTransactionId parent, void *arg);

/*
 * counter_xact_init registers the transaction callbacks; called once.
 */
void
counter_xact_init(void)
{
	static const DcCounterHooks hooks = {.apply_early = apply_early};

	counter_hooks = &hooks;
	xact_room_add(DC_XACT_COUNTER, commit_xact_callback, commit_subxact_callback, commit_is_idle);
	xact_room_add(DC_XACT_LAST, last_callback, NULL, pending_is_idle);
}

/*
 * xact_callback_move makes our callback the first of the transaction callbacks. The one that was
 * registered before stays, since its memory may be in use if another extension's callback runs SQL
 * that leads to here. It finds nothing left to do.
 */
void
xact_callback_move(void)
{
	RegisterXactCallback(commit_xact_callback, NULL);
}

/*
 * apply_early writes the pending deltas now, in the current subtransaction.
 */
void
apply_early(void)
{
	if (distinct_hooks != NULL)
		distinct_hooks->write_early();
	write_distinct(false);
	apply_pending(APPLY_EARLY);
}

/*
 * apply_when_full does the same, when dcounter.pending_memory is used up.
 */
void
apply_when_full(void)
{
	apply_pending(APPLY_WHEN_FULL);
}

/*
 * apply_if_late writes the pending deltas now if the callback that would have written them has
 * already run: another extension may run SQL in its own callback, after ours.
 */
void
apply_if_late(void)
{
	if (past_pre_commit || xact_has_passed(DC_XACT_COUNTER))
		apply_pending(APPLY_EARLY);
}

/*
 * write_distinct writes the reference counts of bound counter tables, which produces deltas.
 */
static void
write_distinct(bool committing)
{
	if (bound_hooks != NULL)
		bound_hooks->write(committing);
}

/*
 * apply_pending writes all pending deltas to rows.
 */
static void
apply_pending(DcApplyWhen when)
{
	DcApplying applying;
	DcDelta **deltas;
	int count;

	if (pending_is_empty())
		return;
	apply_begin(&applying, when);
	deltas = pending_sorted(&count);
	for (int start = 0, end; start < count; start = end)
	{
		end = group_end(deltas, count, start);
		apply_rows(&applying, deltas + start, end - start);
	}
	pending_mark_applied();
	apply_end(&applying);
}

/*
 * apply_at_commit writes to rows all deltas that are not to be handed over to shared memory.
 * Writing gives the transaction an id.
 */
static void
apply_at_commit(void)
{
	DcApplying applying;
	DcDelta **deltas;
	List *left = NIL;
	int count;

	if (!pending_any(goes_to_rows, DC_MAX_BUFFERED) && !pending_any(must_not_wait_later, PG_INT64_MAX))
		return;
	apply_begin(&applying, APPLY_AT_COMMIT);
	deltas = pending_sorted(&count);
	for (int start = 0, end; start < count; start = end)
	{
		Oid relid = deltas[start]->key.counter;

		end = group_end(deltas, count, start);
		if (is_alone(deltas, count))
			left = lappend_oid(left, relid);
		else if (goes_to_rows(relid) || counter_is_sync(counter_lookup(relid)) || must_not_wait_later(relid) ||
				 any_amount(deltas + start, end - start, DC_MAX_BUFFERED))
			apply_rows(&applying, deltas + start, end - start);
		else
			left = lappend_oid(left, relid);
	}
	/* what was written may have made events */
	for (int start = 0, end; start < count && left != NIL; start = end)
	{
		Oid relid = deltas[start]->key.counter;

		end = group_end(deltas, count, start);
		if (!list_member_oid(left, relid) || !must_not_wait_later(relid))
			continue;
		apply_rows(&applying, deltas + start, end - start);
		left = list_delete_oid(left, relid);
	}
	if (left == NIL)
		pending_mark_applied();
	else
		pending_keep(left);
	apply_end(&applying);
}

/*
 * apply_buffered hands the remaining deltas over to shared memory, and writes them to this
 * transaction's own rows where that is refused.
 */
static void
apply_buffered(void)
{
	DcApplying applying;
	DcDelta **deltas;
	int count;

	if (pending_is_empty())
		return;
	apply_begin(&applying, APPLY_LAST);
	deltas = pending_sorted(&count);
	while (!reserve_all(&applying, deltas, count))
		;
	pending_mark_applied();
	apply_end(&applying);
}

/*
 * reserve_all hands over the deltas of all tables that have amounts. If one is
 * refused, it takes all of them back, writes rows for that one, sets its deltas to
 * nothing, and returns false.
 */
static bool
reserve_all(DcApplying *applying, DcDelta **deltas, int count)
{
	for (int start = 0, end; start < count; start = end)
	{
		Oid relid = deltas[start]->key.counter;

		end = group_end(deltas, count, start);
		if (!any_amount(deltas + start, end - start, 0) ||
			(!goes_to_rows(relid) &&
			 buffer_hooks->reserve(counter_lookup(relid), deltas + start, end - start)))
			continue;
		if (buffer_hooks != NULL)
			buffer_hooks->give_back();
		distribution_write_alone(is_alone(deltas, count));
		apply_rows(applying, deltas + start, end - start);
		distribution_write_alone(false);
		for (int i = start; i < end; i++)
			deltas[i]->inc = deltas[i]->dec = 0;
		return false;
	}
	return true;
}

/*
 * Return true if all deltas of a counter table must be written to rows
 * when this transaction commits, by its present state. (Large amounts go to rows in any case.)
 */
static bool
goes_to_rows(Oid relid)
{
	DcCounter *counter;

	if (buffer_hooks == NULL || !counter_exists(relid))
		return true;
	counter = counter_lookup(relid);
	return !counter_is_buffered(counter) || counter->foreign ||
		!buffer_hooks->flushes() ||
		(counter_is_sync(counter) &&
		 TransactionIdIsValid(GetTopTransactionIdIfAny()));
}

/*
 * Return true if others wait for this transaction from the callbacks of events and regions on.
 */
static bool
others_will_wait(void)
{
	return xact_is_marked(DC_XACT_OUTBOX) || xact_is_marked(DC_XACT_REGION);
}

/*
 * Return true if that is so, and writing new rows of a counter table may wait for another
 * transaction: SQL writes them, and indexes of the owner, or a row with the same shard number, are
 * in the way.
 */
static bool
must_not_wait_later(Oid relid)
{
	DcCounter *counter;

	if (!others_will_wait() || !counter_exists(relid))
		return false;
	counter = counter_lookup(relid);
	return !counter_has_layout(counter) || !counter->direct_write;
}

/*
 * Return true if the deltas are a single one, of a table that Citus distributes, and there is
 * nothing else to commit. Returns false at isolation levels with one snapshot, and with events, as
 * other transactions may be waiting for this one.
 */
static bool
is_alone(DcDelta **deltas, int count)
{
	return count == 1 && !IsolationUsesXactSnapshot() && !others_will_wait() && counter_exists(deltas[0]->key.counter) &&
		counter_lookup(deltas[0]->key.counter)->distributed && distribution_may_write_alone();
}

/*
 * Return true if one of the amounts is greater than `above`.
 */
static bool
any_amount(DcDelta **deltas, int count, int64 above)
{
	for (int i = 0; i < count; i++)
	{
		if (deltas[i]->inc > above || deltas[i]->dec > above)
			return true;
	}
	return false;
}

/*
 * group_end returns where, in sorted deltas, those of a table end.
 */
static int
group_end(DcDelta **deltas, int count, int start)
{
	int end = start + 1;

	while (end < count && deltas[end]->key.counter == deltas[start]->key.counter)
		end++;
	return end;
}

/*
 * commit_is_idle returns true if nothing is left for commit_xact_callback() to forget.
 */
static bool
commit_is_idle(void)
{
	return pending_is_idle() && !apply_is_writing() && !past_pre_commit;
}

/*
 * Write the pending deltas before the transaction commits or is prepared, and forget all of it
 * when it ends.
 */
static void
commit_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (past_pre_commit)
				break; /* registered twice */
			write_distinct(true);
			apply_at_commit();
			foreign_check_alive();
			xact_mark(DC_XACT_COUNTER);
			past_pre_commit = true;
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (past_pre_commit)
				break;
			write_distinct(true);
			apply_pending(APPLY_AT_PREPARE);
			xact_mark(DC_XACT_COUNTER);
			past_pre_commit = true;
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			pending_end_xact();
			counter_forget_open();
			apply_forget();
			foreign_end_xact();
			distribution_end_xact();
			past_pre_commit = false;
			break;
		default:
			break;
	}
}

/*
 * last_callback comes after all others of this library that write.
 */
static void
last_callback(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT)
		return;
	apply_buffered();
	distribution_before_commit();
}

/*
 * Give the deltas of a subtransaction to its parent, or drop them. Must not throw.
 */
static void
commit_subxact_callback(SubXactEvent event, SubTransactionId subid,
						SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		pending_commit_subxact();
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		pending_abort_subxact();
		apply_abort_subxact();
	}
	else
		return;
	counter_forget_open();
}
