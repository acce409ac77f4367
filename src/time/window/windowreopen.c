/*
 * windowreopen.c
 *		dc_window_reopen(): moving floors that a wrong clock has raised back to where they belong.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A clock that was ahead for longer than window_advance() tolerates leaves floors in the future:
 * increments that are in time are refused, or counted in wider buckets, until that time. This
 * lowers them to where the clock says now, in one transaction under the window's lock. Why nothing
 * is lost or counted twice:
 *
 *	- Readers look into a level only for times below the floor of the level before. Rows that have
 *	  been moved to a wider level stay there, so a floor is lowered no further than to the end of
 *	  the latest row of the levels behind it, as dc_window_adopt() places it. That holds for each
 *	  snapshot: one that shows the lowered floor shows no row above it in a wider level, and an
 *	  older one has the old floor.
 *	- Writers that have placed an increment by the old floor may not have committed. They hold ROW
 *	  EXCLUSIVE on its slot. So this locks all slots of the wider levels, SHARE, to the end of the
 *	  transaction, before it looks for rows: it waits for writers in progress, including prepared
 *	  transactions, and later ones see the new floor when they get their lock (windowincr.c). The
 *	  first level needs no lock: it may have rows of any time.
 *	- The mover works under the window's lock as well. A turn that it was emptying in steps may be
 *	  above the floor again, and get increments: the mover drops it (windowjob.c). The note that all
 *	  rows of such a turn have been moved is no longer true, and is deleted here.
 *	- Claims of turns stay: a turn whose slot was emptied has none, and sessions forget which claims
 *	  they know when the row changes.
 *	- `gone` stays, and is raised by each TRUNCATE, whatever the floor is (windowmove.c): readers
 *	  notice all of them.
 *	- The floor of the last level is the start of the time that is kept. It can be lowered at once:
 *	  rows that were not truncated or deleted yet count again.
 *	- `advanced` is set to now, as if the floors had been raised in time: the next floor rises when
 *	  its turn is over.
 *
 * Truncated rows are gone. Sealed buckets stay sealed.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "core/counter/sqlpath.h"
#include "core/table/access.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(dc_window_reopen);

/* number of the last bucket that can be: that of the latest bucket of which a slot has a row */
static const DcStatement sql_reopen_last = {
	.text = "SELECT max(right(r.key, 8) COLLATE \"C\") FROM"
			" (SELECT t.key FROM @totals AS t UNION ALL SELECT s.key FROM @shards AS s) AS r"
			" WHERE dcounter.window_key(r.key) IS NOT NULL AND right(r.key, 8) <= $1 COLLATE \"C\"",
	.argtypes = {TEXTOID},
	.reads_all = true,
	.columns = {DC_NULLABLE("bucket", TEXTOID)}};

static bool lower_floors(DcLevels *levels, const DcLevels *to, TimestampTz now);
static void raise_above_rows(DcWindow *window, DcLevels *levels);
static bool may_have_later(const DcLevels *levels, const List *claims, int number);
static void raise_above_slot(DcCounter *counter, DcLevels *levels, int level);
static void delete_notes(const DcWindowRow *row);

/*
 * dc_window_reopen(counter regclass) -> boolean: whether a floor was lowered
 *
 * For the owner. It waits for increments in progress, and others wait for it. Errors: 55000 if a
 * table is missing.
 */
Datum
dc_window_reopen(PG_FUNCTION_ARGS)
{
	Oid relid = window_arg(fcinfo);
	TimestampTz now = GetCurrentTimestamp();
	DcWindow *window;
	DcWindowRow row;
	DcLevels lower;
	DcLevels ignored;

	prevent_write("dc_window_reopen()");
	(void) window_open_own(relid);
	counter_hooks->apply_early();
	window = window_lookup(relid);
	if (!window_is_whole(window) || !window_row_read(relid, &row))
		window_slot_gone(window);
	ignored = lower = row.levels;
	levels_set_floors(&lower, now);
	if (!lower_floors(&ignored, &lower, now))
		PG_RETURN_BOOL(false);
	raise_above_rows(window, &lower);
	if (!lower_floors(&row.levels, &lower, now))
		PG_RETURN_BOOL(false);
	(void) window_row_update(&row);
	delete_notes(&row);
	PG_RETURN_BOOL(true);
}

/*
 * Lower the floors that are above those of `to`. Return true if there are any.
 */
static bool
lower_floors(DcLevels *levels, const DcLevels *to, TimestampTz now)
{
	bool lowered = false;

	for (int l = 0; l < levels->n; l++)
	{
		if (levels->floors[l] <= to->floors[l])
			continue;
		levels->floors[l] = to->floors[l];
		levels->advanced[l] = now;
		lowered = true;
	}
	return lowered;
}

/*
 * Lock the slots of all levels but the first, and raise the floors of levels above the rows of
 * those behind.
 */
static void
raise_above_rows(DcWindow *window, DcLevels *levels)
{
	DcCounter *counters[WINDOW_MAX_LEVELS * WINDOW_SLOTS];
	int n = levels->n * WINDOW_SLOTS;
	List *claims;

	for (int i = WINDOW_SLOTS; i < n; i++)
		counters[i] = window_counter(window, window->slots[i], ShareLock);
	claims = window_claims_read(window->relid);
	PushActiveSnapshot(GetLatestSnapshot());
	for (int i = WINDOW_SLOTS; i < n; i++)
	{
		if (may_have_later(levels, claims, i))
			raise_above_slot(counters[i], levels, i / WINDOW_SLOTS);
	}
	PopActiveSnapshot();
	list_free_deep(claims);
}

/*
 * Return true if a slot may have rows that are not below the floor of the level before.
 */
static bool
may_have_later(const DcLevels *levels, const List *claims, int number)
{
	int level = number / WINDOW_SLOTS;
	ListCell *lc;

	foreach(lc, claims)
	{
		const DcWindowClaim *claim = lfirst(lc);

		if (claim->level == level && window_turn_slot(level, claim->turn) == number &&
			window_turn_end(levels, level, claim->turn) > levels->floors[level - 1])
			return true;
	}
	return false;
}

/*
 * Raise the floors of the levels before this one to the end of the slot's latest bucket, if it has
 * rows.
 */
static void
raise_above_slot(DcCounter *counter, DcLevels *levels, int level)
{
	Datum last = window_digits(level_bucket(levels, level, END_TIMESTAMP - 1));
	DcSqlSession session;
	Datum bucket;
	bool isnull;

	sql_begin(&session, counter);
	(void) sql_read(&session, &sql_reopen_last, &last);
	bucket = rows_nullable(&session.rows, 0, 1, &isnull);
	if (!isnull)
		levels_raise_floors(levels, level, level_end(levels, level, window_number(bucket)));
	sql_end(&session);
}

/*
 * Delete the notes that turns are empty which may get increments again.
 */
static void
delete_notes(const DcWindowRow *row)
{
	List *claims = window_claims_read(row->windowed);
	ListCell *lc;

	foreach(lc, claims)
	{
		const DcWindowClaim *claim = lfirst(lc);

		if (claim->emptied && claim->level >= 0 && claim->level < row->levels.n &&
			window_turn_end(&row->levels, claim->level, claim->turn) > row->levels.floors[claim->level])
			window_claims_delete(row->windowed, claim->level, claim->turn, true);
	}
	list_free_deep(claims);
}
