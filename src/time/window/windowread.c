/*
 * windowread.c
 *		Reading windows: one snapshot, all levels.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Invariant: in every snapshot each increment is in exactly one row of exactly one level, or in
 * this transaction's pending deltas. Compaction and the mover take an increment from one row and
 * add it to another in one transaction. So the sum over all slots that may have rows of a time is
 * exact, and it does not matter how far a move has come.
 *
 * But TRUNCATE is not MVCC-safe: an older snapshot would lack rows. The transaction that truncates
 * a slot raises `gone` of its level in the window's row, while it has the slot locked exclusively.
 * So a reader
 *
 *	1. locks the slots that may matter, ACCESS SHARE. Slots that are truncated later are truncated
 *	   after this transaction;
 *	2. reads the window's row as it is committed now, not as it is remembered: a commit is visible
 *	   before its invalidations are sent. It shows all truncations before step 1;
 *	3. if the row's writer is not visible in the snapshot, reads the row as the snapshot shows it.
 *	   If `gone` has been raised since, beyond the start of what is to be read, the snapshot cannot
 *	   be used: under READ COMMITTED a new one is taken; otherwise that is a serialization failure
 *	   (40001), also on a standby.
 *
 * Which levels matter comes from the row as the snapshot shows it: an increment goes to a level
 * above the first one only after the floor that it is below has been committed, so a snapshot that
 * shows the increment shows the floor, or a lowered one that it is below as well (windowreopen.c).
 * If that requires slots that are not locked, the reader begins again.
 *
 * Times that cannot have rows are not looked at, so a span of a thousand years costs no more than
 * the time that is kept.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/errors.h"
#include "core/counter/range.h"
#include "core/table/access.h"
#include "time/window/window.h"

/* Which amounts are looked for. */
typedef struct DcSlotVisit
{
	const DcKey *key;
	int level;
	int64 first;
	int64 end;
	DcWindowVisit visit;
	void *arg;
} DcSlotVisit;

static void set_times(DcWindowReading *reading);
static void list_slots(DcWindowReading *reading);
static void windowread_add_slots(DcWindowReading *reading, const DcLevels *levels, int level);
static void lock_slots(DcWindowReading *reading);
static bool windowread_settle(DcWindowReading *reading);
static bool lacks_rows(const DcWindowReading *reading, const DcWindowRow *now);
static void read_slot(DcWindowReading *reading, int number, const DcKey *key, DcWindowVisit visit,
					  void *arg);
static void visit_row(void *arg, const DcKey *whole, int64 inc, int64 dec);

/*
 * window_span_start returns when a span begins that ends at a time. Days and months of a windowed
 * counter by calendar are those of its time zone; otherwise days have 24 hours, and months are an
 * error. Raises 22023 for a span that is not positive.
 */
TimestampTz
window_span_start(const DcWindow *window, const Interval *span, TimestampTz until)
{
	const DcLevels *levels = &window->row.levels;
	bool positive;
	TimestampTz from;

	/* the last level has the widest unit */
	if (levels->units[levels->n - 1] != DC_UNIT_TIME)
	{
		/* of an infinite time, too, a span that is not positive is an error */
		TimestampTz at = TIMESTAMP_NOT_FINITE(until) ? GetCurrentTimestamp() : until;

		from = calendar_before(at, span, levels->zone);
		positive = from < at;
		if (at != until)
			from = until;
	}
	else
	{
		int64 us = interval_to_duration(span, "span");

		positive = us > 0;
		if (TIMESTAMP_IS_NOEND(until) || pg_sub_s64_overflow(until, us, &from))
			from = TIMESTAMP_IS_NOEND(until) ? until : DT_NOBEGIN;
	}
	if (!positive)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("span must be positive")));
	return from;
}

/*
 * Prepare for reading what was counted from one time up to another one, which need not be borders
 * of buckets; if `whole`, the buckets that contain the two are read to their borders. Leave a
 * snapshot active, until window_read_end().
 */
void
window_read_begin(DcWindow *window, TimestampTz from, TimestampTz to, bool whole, DcWindowReading *reading)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot read a windowed counter in a parallel worker")));
	*reading = (DcWindowReading){.window = window, .asked_from = from, .asked_to = to, .whole = whole};
	reading->row = window->row;
	for (int tries = 0;; tries++)
	{
		list_slots(reading);
		lock_slots(reading);
		if (tries == 0)
			read_snapshot_push();
		else
			latest_snapshot_push();
		if (windowread_settle(reading))
			return;
		PopActiveSnapshot();
		if (IsolationUsesXactSnapshot())
			serialization_error();
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * windowread_settle does steps 2 and 3, and sets reading->row to what the snapshot shows. False if
 * a newer snapshot, or further locks, are needed.
 */
static bool
windowread_settle(DcWindowReading *reading)
{
	Oid relid = reading->window->relid;
	Snapshot snapshot = GetActiveSnapshot();
	int nslots = reading->nslots;
	int slots[lengthof(reading->slots)];
	DcWindowRow now;

	if (!window_row_read(relid, &now))
		(void) window_lookup(relid); /* raises an error */
	if (TransactionIdIsCurrentTransactionId(now.changed_by) || !XidInMVCCSnapshot(now.changed_by, snapshot))
		reading->row = now;
	else if (!window_row_read_in(relid, snapshot, &reading->row))
	{
		reading->row = now;
		return false;
	}
	memcpy(slots, reading->slots, sizeof(slots));
	list_slots(reading);
	if (lacks_rows(reading, &now))
	{
		reading->row = now;
		return false;
	}
	if (nslots == reading->nslots && memcmp(slots, reading->slots, nslots * sizeof(int)) == 0)
		return true;
	/* a floor was raised meanwhile; these locks never conflict with those of writers and movers */
	lock_slots(reading);
	if (!window_row_read(relid, &now))
		(void) window_lookup(relid);
	return !lacks_rows(reading, &now);
}

/*
 * Return true if rows that the snapshot has to show may have been truncated.
 */
static bool
lacks_rows(const DcWindowReading *reading, const DcWindowRow *now)
{
	const DcLevels *seen = &reading->row.levels;

	for (int l = 0; l < seen->n; l++)
	{
		if (l > 0 && reading->from >= seen->floors[l - 1])
			break; /* that level has nothing of the time, in this snapshot */
		if (now->levels.gone[l] > seen->gone[l] && reading->from < now->levels.gone[l] &&
			reading->to > seen->floors[seen->n - 1])
			return true;
	}
	return false;
}

/*
 * Set the times that are read, by the levels of the row. Rows of a wide bucket may still be in all
 * slots of the finer levels.
 */
static void
set_times(DcWindowReading *reading)
{
	const DcLevels *levels = &reading->row.levels;

	reading->from = reading->asked_from;
	reading->to = reading->asked_to;
	if (!reading->whole)
		return;
	reading->from = Max(reading->from, levels->floors[levels->n - 1]);
	if (reading->from >= reading->to)
		return;
	reading->from = shown_start(levels, reading->from);
	if (reading->to - 1 < level_start(levels, 0, BUCKET_MAX))
		reading->to = shown_end(levels, reading->to - 1);
}

/*
 * List the slots that may have rows of the time.
 */
static void
list_slots(DcWindowReading *reading)
{
	const DcLevels *levels = &reading->row.levels;

	set_times(reading);
	reading->nslots = 0;
	for (int l = 0; l < levels->n; l++)
	{
		/* increments later than the floor are in the levels before */
		if (l == 0 || reading->from < levels->floors[l - 1])
			windowread_add_slots(reading, levels, l);
	}
}

/*
 * Add the slots of a level that may have rows of the time to be read. The ring has at most
 * WINDOW_SLOTS of them.
 */
static void
windowread_add_slots(DcWindowReading *reading, const DcLevels *levels, int level)
{
	TimestampTz from = Max(reading->from, levels->floors[levels->n - 1]);
	bool wanted[WINDOW_SLOTS] = {false};
	int64 first;
	int64 last;

	if (reading->to <= from)
		return;
	first = time_turn(levels, level, from);
	last = time_turn(levels, level, reading->to - 1);
	last = Min(last, first + WINDOW_SLOTS - 1);
	for (int64 turn = first; turn <= last; turn++)
		wanted[window_turn_slot(level, turn) % WINDOW_SLOTS] = true;
	for (int i = 0; i < WINDOW_SLOTS; i++)
	{
		if (wanted[i])
			reading->slots[reading->nslots++] = level * WINDOW_SLOTS + i;
	}
}

/*
 * Lock the slots to be read, ACCESS SHARE, until the transaction ends. A missing one is an error.
 */
static void
lock_slots(DcWindowReading *reading)
{
	DcWindow *window = reading->window;

	for (int i = 0; i < reading->nslots; i++)
		(void) window_counter(window, window->slots[reading->slots[i]], AccessShareLock);
}

/*
 * window_read_key calls a function for each row of a key, and for each of this transaction's
 * pending deltas.
 */
void
window_read_key(DcWindowReading *reading, const DcKey *key, DcWindowVisit visit, void *arg)
{
	if (key->len > WINDOW_MAX_KEY_BYTES)
		return; /* nobody can have counted it */
	for (int i = 0; i < reading->nslots; i++)
		read_slot(reading, reading->slots[i], key, visit, arg);
}

/*
 * Visit the rows of a key, or of all keys, in one slot, and then what this transaction has pending
 * there.
 */
static void
read_slot(DcWindowReading *reading, int number, const DcKey *key, DcWindowVisit visit, void *arg)
{
	const DcLevels *levels = &reading->row.levels;
	int level = number / WINDOW_SLOTS;
	DcSlotVisit what = {.key = key, .level = level, .visit = visit, .arg = arg};
	DcCounter *counter = window_counter(reading->window, reading->window->slots[number], AccessShareLock);
	DcSlotKey first;
	DcSlotKey end;

	what.first = Max(level_bucket(levels, level, Max(reading->from, levels->floors[levels->n - 1])), 0);
	what.end = Min(level_bucket(levels, level, reading->to - 1), BUCKET_MAX) + 1;
	if (what.first >= what.end)
		return;
	slot_key_bound(key, what.first, &first);
	slot_key_bound(key, what.end, &end);
	counter_range_read(counter, &first.key, &end.key, visit_row, &what);
}

/*
 * visit_row passes a row on, if it is one of the key and the time.
 */
static void
visit_row(void *arg, const DcKey *whole, int64 inc, int64 dec)
{
	const DcSlotVisit *what = arg;
	DcKey key;
	int64 bucket;

	if (slot_key_split(whole, &key, &bucket) && bucket >= what->first && bucket < what->end &&
		key_compare(&key, what->key) == 0)
		what->visit(what->arg, what->level, bucket, inc, dec);
}

/*
 * window_read_end pops the snapshot.
 */
void
window_read_end(DcWindowReading *reading)
{
	PopActiveSnapshot();
}
