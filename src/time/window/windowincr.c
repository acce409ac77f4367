/*
 * windowincr.c
 *		dc_incr_at(): counting at a time.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The increment goes to the slot of its bucket, as to any counter table: it waits in the
 * transaction's pending deltas, and is written at commit like all others (core/counter/write.c).
 * This file finds the slot:
 *
 *	1. by what is remembered of the window, whether the time is neither in the future, nor sealed,
 *	   nor too old, and which level it goes to;
 *	2. lock the slot, ROW EXCLUSIVE, to the end of the transaction;
 *	3. if the window has changed meanwhile, begin again. Taking a new lock processes the
 *	   invalidations of all transactions that have ended before; a lock that the transaction had
 *	   already is respected by others: dc_seal() waits for it, and a slot is not emptied under it;
 *	4. claim the turn: ensure that a committed row of dcounter.window_claim, or one of this
 *	   transaction's, says that the slot may have rows of it. Then nobody empties the slot for an
 *	   older turn. Usually there is such a row, and it is known. Otherwise each transaction inserts
 *	   one of its own and waits for nobody: once one has committed, no more are needed.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/interval.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(dc_incr_at);

static int windowincr_place(const DcWindow *window, TimestampTz at, TimestampTz now, const char **late);
static bool is_ahead(const DcLevels *levels, TimestampTz at, TimestampTz now);
static void future_error(const DcWindow *window, TimestampTz at);
static void late_error(const DcWindow *window, TimestampTz at, const char *late);
static void count_dropped(DcWindow *window);

/*
 * dc_incr_at(counter regclass, key text|bigint|uuid, delta bigint, at timestamptz) -> boolean:
 * whether it counts. False: it came too late, and was dropped and counted as such.
 *
 * Errors: those of dc_incr(), 54000 for a key that leaves no room for the bucket, 22008 for a time
 * that is more than a bucket ahead, or that is sealed or too old if the window says so.
 */
Datum
dc_incr_at(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	Oid relid = window_arg(fcinfo);
	int64 delta = amount_arg(fcinfo, 2, "delta");
	DcSlotKey slot_key;
	DcCounter *counter;
	DcWindow *window;
	TimestampTz at;
	uint32 generation;
	int64 bucket;
	int64 turn;
	int level;

	arg_not_null(fcinfo, 3, "at");
	at = PG_GETARG_TIMESTAMPTZ(3);
	prevent_write("dc_incr_at()");
	check_length("counter key", key->len, 0, WINDOW_MAX_KEY_BYTES);
	window = window_open(relid, ACL_INSERT | ACL_UPDATE);
	do
	{
		const char *late;

		generation = window->generation;
		level = windowincr_place(window, at, GetCurrentTimestamp(), &late);
		if (level < 0)
		{
			if (window->row.late == DC_LATE_ERROR)
				late_error(window, at, late);
			count_dropped(window);
			PG_RETURN_BOOL(false);
		}
		bucket = level_bucket(&window->row.levels, level, at);
		turn = bucket_turn(&window->row.levels, level, bucket);
		counter = window_counter(window, window->slots[window_turn_slot(level, turn)], RowExclusiveLock);
		window = window_lookup(relid); /* the same entry, filled again if it has changed */
	} while (window->generation != generation);
	if (window->claimed[window_turn_slot(level, turn)] != turn)
		window_claim(window, level, turn);
	slot_key_make(key, bucket, &slot_key);
	counter_add(counter, &slot_key.key, DC_NO_HINT, delta, false);
	PG_RETURN_BOOL(true);
}

/*
 * windowincr_place returns the level that an increment goes to; -1, and why, if it comes too late.
 */
static int
windowincr_place(const DcWindow *window, TimestampTz at, TimestampTz now, const char **late)
{
	const DcLevels *levels = &window->row.levels;

	if (TIMESTAMP_NOT_FINITE(at) || (at > now && is_ahead(levels, at, now)) ||
		level_bucket(levels, 0, at) > BUCKET_MAX)
		future_error(window, at);
	*late = NULL;
	if (at < window->row.refuses)
		*late = _("Its bucket is sealed.");
	else if (level_of(levels, at) < 0 || !levels_keep(levels, at, now))
		*late = _("It is older than the windowed counter keeps.");
	return *late != NULL ? -1 : level_of(levels, at);
}

/*
 * Return true if a time is more than a bucket ahead of the clock.
 */
static bool
is_ahead(const DcLevels *levels, TimestampTz at, TimestampTz now)
{
	if (levels->units[0] == DC_UNIT_TIME)
		return at > now + levels->widths[0];
	return at >= level_end(levels, 0, level_bucket(levels, 0, now) + 1);
}

/*
 * Raise the error that the time is too far ahead of the clock (22008).
 */
static void
future_error(const DcWindow *window, TimestampTz at)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("cannot count in \"%s\" at %s", get_rel_name(window->relid), timestamptz_to_str(at)),
			 errdetail("A time may be at most one bucket ahead of the clock.")));
}

/*
 * Raise the error that the time is too old or sealed (22008); `late` says which.
 */
static void
late_error(const DcWindow *window, TimestampTz at, const char *late)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("cannot count in \"%s\" at %s", get_rel_name(window->relid), timestamptz_to_str(at)),
			 errdetail_internal("%s", late),
			 errhint("dc_window_alter(..., late => 'drop') drops and counts such increments instead.")));
}

/*
 * count_dropped counts an increment that is dropped, in a counter table, so that concurrent ones do
 * not wait for each other.
 */
static void
count_dropped(DcWindow *window)
{
	DcKey key = {.data = "dropped", .len = strlen("dropped")};

	counter_add(window_counter(window, window->dropped, RowExclusiveLock), &key, DC_NO_HINT, 1, false);
}

/*
 * window_claim claims a turn for this transaction, which has the slot locked, unless that is done.
 * A claim that another transaction has committed is remembered; this transaction's own may still be
 * rolled back.
 */
void
window_claim(DcWindow *window, int level, int64 turn)
{
	List *claims = window_claims_read(window->relid);
	bool found = false;
	ListCell *lc;

	foreach(lc, claims)
	{
		const DcWindowClaim *claim = lfirst(lc);

		if (claim->emptied || claim->level != level || claim->turn != turn)
			continue;
		found = true;
		if (!TransactionIdIsCurrentTransactionId(claim->made_by))
			window->claimed[window_turn_slot(level, turn)] = turn;
	}
	list_free_deep(claims);
	if (!found)
		window_claim_insert(window->relid, level, turn, false);
}
