/*
 * window.c
 *		Windowed counters: the protocol, and the room's entry point.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A window is a view, and rings of ordinary counter tables below it: one ring for the buckets as
 * they are counted, and one for each step of the rollup, whose buckets are wider. Writing,
 * compaction and the rows are those of any counter table. This room only decides what goes to which
 * table, and how rows leave it.
 *
 *	- The place of a bucket never changes (windowtime.c): its level's slot number (turn mod
 *	  WINDOW_SLOTS). What changes is the level: increments before the floor of a level go to the
 *	  next one. Floors rise; only dc_window_reopen() lowers them, never below rows that are in a
 *	  wider level (windowreopen.c).
 *	- The mover (windowmove.c) raises floors as time passes, and moves rows below a floor to the
 *	  next level, some of them in each transaction. A writer that does not know the new floor yet
 *	  writes below it once more; that is moved as well. So a stale floor does no harm, and each
 *	  increment is in one level in every snapshot.
 *	- Retention is TRUNCATE. In all levels but the last, a slot is truncated when it has been found
 *	  empty, no snapshot is left that is older than that, and it is still empty under an exclusive
 *	  lock. In the last level, a slot is truncated when all of its turns are below the floor. Claims
 *	  say which turns it has: the first writer of a turn leaves one (windowincr.c). A slot that
 *	  already has rows of a later turn, because nobody has maintained the table for so long, waits
 *	  for the later turn's time.
 *	- Readers that hold an older snapshot than a TRUNCATE get 40001 (windowread.c).
 *	- dc_seal() refuses increments for old buckets, and then waits for all that were not refused
 *	  (windowseal.c).
 *
 * Locks, in this order: the window's (windowopen.c), by what changes its row or moves amounts, to
 * the end of its transaction; then its counter tables. Writers and readers take only the latter. A
 * mover waits for none of them.
 *
 * The wall clock says what is old, as rows outlive the server and events have wall time in them.
 * When it is set forward, increments that are in time by the right clock may be refused, and
 * buckets are moved, or removed, that much earlier; but at most one turn of a level that has rows
 * in half the time of a turn (window_advance). Floors that have risen nevertheless are lowered by
 * dc_window_reopen(). When the clock is set back, everything stays that much longer.
 */
#include "postgres.h"

#include "base/guc.h"
#include "base/hooks.h"
#include "core/table/ddlhooks.h"
#include "time/window/window.h"

/*
 * Return true if the view is a windowed counter.
 */
static bool
is_window(Oid relid)
{
	return window_find(relid) != NULL;
}

/*
 * Return true if the counter table is one of a windowed counter.
 */
static bool
is_slot(Oid relid)
{
	DcWindowSlot slot;

	return window_slot_read(relid, &slot);
}

/*
 * window_init is called when the library is loaded.
 */
void
window_init(void)
{
	static const DcWindowHooks hooks = {.is_window = is_window, .is_slot = is_slot};

	window_hooks = &hooks;
	ddl_hook_add(&window_ddl);
	window_job_init();
}
