/*
 * windowjob.c
 *		The job of windowed counters, and dc_window_rotate(), which does its work at once.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The job goes over the windows; step by step it raises floors, moves a batch of rows, or empties a
 * slot (windowmove.c). The first counter table of a window stands for it. State that is kept
 * between steps is private to this process; each step reads the catalog again, under the window's
 * lock. A window that another transaction works on, or that is not whole, is skipped; the worker
 * also skips a slot that was put aside (windowaside.c).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/job.h"
#include "core/table/access.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(dc_window_rotate);

/* Going over the turns of a window. */
typedef struct DcWindowRound
{
	MemoryContext cxt;
	DcWindowMove moving; /* the turn that is being emptied, */
	bool is_moving;
	List *tried; /* DcWindowClaim: and those that were, or cannot be now */
	bool left;	 /* a slot is put aside */
} DcWindowRound;

/* That of the job, about the window at hand. */
static DcWindowRound job_round;

static bool windowjob_next_turn(DcWindowRound *round, const DcWindow *window, const List *claims);
static bool is_over(const DcWindow *window, int level, int64 turn);
static bool was_tried(const DcWindowRound *round, int level, int64 turn);
static void note_tried(DcWindowRound *round);
static void begin_move(DcWindowRound *round, int level, int64 turn, const List *claims);
static void set_emptied(DcWindowMove *move, const List *claims);
static bool windowjob_work(DcWindow *window, bool in_worker);
static List *windowjob_list(void);
static void windowjob_start(MemoryContext cxt);
static DcTableStep windowjob_step(Oid first, bool all_owners);

static DcTableJob table_job = {.list = windowjob_list, .start = windowjob_start, .state = &job_round, .state_size = sizeof(job_round), .step = windowjob_step};

/*
 * Begin a round of the job, with nothing tried. `cxt` lives as long as the round.
 */
static void
windowjob_start(MemoryContext cxt)
{
	job_round = (DcWindowRound){.cxt = cxt};
}

/*
 * Return the tables that stand for the windows of this database; none if a subscription feeds the
 * extension's tables.
 */
static List *
windowjob_list(void)
{
	return extension_is_fed() ? NIL : windows_first_slots();
}

/*
 * windowjob_step does one thing for a window.
 */
static DcTableStep
windowjob_step(Oid first, bool all_owners)
{
	DcWindowSlot slot;
	DcWindowRow row;
	DcWindow *window;
	List *claims;

	if (!window_slot_read(first, &slot) ||
		(!all_owners && !compat_owns_relation(first, GetUserId())) ||
		!window_lock_at_once(slot.windowed))
		return TABLE_DONE;
	window = window_find(slot.windowed);
	if (window == NULL || !window_is_whole(window) || !window_row_read(slot.windowed, &row))
		return TABLE_DONE;
	claims = window_claims_read(slot.windowed);
	if (job_round.is_moving && !is_over(window, job_round.moving.level, job_round.moving.turn))
		job_round.is_moving = false; /* dc_window_reopen() has lowered the floor */
	if (!job_round.is_moving && window_advance(&row, claims, GetCurrentTimestamp(), false))
	{
		(void) window_row_update(&row);
		return TABLE_GOES_ON;
	}
	if (job_round.is_moving)
		set_emptied(&job_round.moving, claims);
	else if (!windowjob_next_turn(&job_round, window, claims))
	{
		table_job.left = job_round.left;
		return TABLE_DONE;
	}
	if (all_owners && window_is_aside(window, &job_round.moving))
	{
		job_round.is_moving = false;
		job_round.left = true;
	}
	else
	{
		job_round.is_moving = windowjob_work(window, all_owners);
		if (!job_round.is_moving)
			window_tell_foreign(window, &job_round.moving, all_owners);
	}
	if (!job_round.is_moving)
		note_tried(&job_round);
	return TABLE_GOES_ON;
}

/*
 * windowjob_work does one thing about the turn that is being emptied; false if that was all for
 * now.
 */
static bool
windowjob_work(DcWindow *window, bool in_worker)
{
	DcWindowMove *moving = &job_round.moving;
	bool last = moving->level == window->row.levels.n - 1;

	if (!last && !moving->emptied && !moving->done)
	{
		(void) window_move(window, moving, in_worker);
		return true;
	}
	return window_finish(window, moving, in_worker) && !last && !moving->emptied;
}

/*
 * windowjob_next_turn finds a turn whose time is up, that has not been tried in this round.
 */
static bool
windowjob_next_turn(DcWindowRound *round, const DcWindow *window, const List *claims)
{
	ListCell *lc;

	foreach(lc, claims)
	{
		const DcWindowClaim *claim = lfirst(lc);

		if (was_tried(round, claim->level, claim->turn) || !is_over(window, claim->level, claim->turn))
			continue;
		begin_move(round, claim->level, claim->turn, claims);
		return true;
	}
	return false;
}

/*
 * Return true if a turn is completely below the floor of its level.
 */
static bool
is_over(const DcWindow *window, int level, int64 turn)
{
	const DcLevels *levels = &window->row.levels;

	return level >= 0 && level < levels->n && window_turn_end(levels, level, turn) <= levels->floors[level];
}

/*
 * Return true if the round has tried to empty this slot for this turn.
 */
static bool
was_tried(const DcWindowRound *round, int level, int64 turn)
{
	ListCell *lc;

	foreach(lc, round->tried)
	{
		const DcWindowClaim *claim = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (claim->level == level && claim->turn == turn)
			return true;
	}
	return false;
}

/*
 * Note that the round has tried the present slot and turn, so that it goes on to others.
 */
static void
note_tried(DcWindowRound *round)
{
	MemoryContext old = MemoryContextSwitchTo(round->cxt);
	DcWindowClaim *claim = palloc0(sizeof(DcWindowClaim));

	claim->level = round->moving.level;
	claim->turn = round->moving.turn;
	round->tried = lappend(round->tried, claim);
	MemoryContextSwitchTo(old);
}

/*
 * Begin to move the rows of a turn to the next level. The claims say whether that was finished
 * before.
 */
static void
begin_move(DcWindowRound *round, int level, int64 turn, const List *claims)
{
	MemoryContext old = MemoryContextSwitchTo(round->cxt);

	round->moving = (DcWindowMove){.level = level, .turn = turn, .after = makeStringInfo(), .foreign = makeStringInfo()};
	MemoryContextSwitchTo(old);
	set_emptied(&round->moving, claims);
}

/*
 * set_emptied sets from the claims whether the rows of the turn have all been moved.
 */
static void
set_emptied(DcWindowMove *move, const List *claims)
{
	ListCell *lc;

	move->emptied = false;
	foreach(lc, claims)
	{
		const DcWindowClaim *claim = lfirst(lc);

		if (claim->emptied && claim->level == move->level && claim->turn == move->turn)
		{
			move->emptied = true;
			move->noted_by = claim->made_by;
		}
	}
}

/*
 * window_job is run by the worker, and by dc_maintain(); true if it has yielded.
 */
static bool
window_job(DcJobRun *run)
{
	return table_job_run(&table_job, run);
}

/*
 * dc_window_rotate(counter regclass, at timestamptz) -> bigint, the number of rows that were moved
 *
 * Does at once what the job would have done by that time, except for truncating slots whose rows
 * were just moved. For the owner.
 */
Datum
dc_window_rotate(PG_FUNCTION_ARGS)
{
	Oid relid = window_arg(fcinfo);
	int64 moved = 0;
	DcWindowRound round = {0};
	DcWindowMove *move = &round.moving;
	DcWindowRow row;
	DcWindow *window;
	List *claims;

	arg_not_null(fcinfo, 1, "at");
	if (TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMPTZ(1)))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range")));
	prevent_write("dc_window_rotate()");
	(void) window_open_own(relid);
	counter_hooks->apply_early();
	claims = window_claims_read(relid);
	if (window_row_read(relid, &row) && window_advance(&row, claims, PG_GETARG_TIMESTAMPTZ(1), true))
		(void) window_row_update(&row);
	window = window_lookup(relid);
	if (!window_is_whole(window))
		window_slot_gone(window);
	round.cxt = CurrentMemoryContext;
	while (windowjob_next_turn(&round, window, claims))
	{
		while (move->level < window->row.levels.n - 1 && !move->emptied && !move->done)
		{
			CHECK_FOR_INTERRUPTS();
			moved += window_move(window, move, false);
		}
		CHECK_FOR_INTERRUPTS();
		(void) window_finish(window, move, false);
		window_tell_foreign(window, move, false);
		note_tried(&round);
		list_free_deep(claims);
		claims = window_claims_read(relid); /* rows may have come to a turn that is below a floor, too */
	}
	PG_RETURN_INT64(moved);
}

/*
 * window_job_init registers the job.
 */
void
window_job_init(void)
{
	job_register((DcJob){.name = "windows", .interval = &dc_window_interval, .run = window_job, .is_needed = windows_exist});
}
