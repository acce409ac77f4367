/*
 * windowaside.c
 *		Slots that the worker leaves to their owner, as they have rows that were written by hand.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An owner may write rows into the tables of a window by hand. Rows whose keys belong to no bucket
 * cannot be moved. They stay, and the worker would read all of them in each round. So it remembers
 * one of them, and leaves the slot alone while that row is there, or, if its key is one of a
 * bucket, until the floor has passed that bucket. Other slots go on. Reading a window stays exact
 * meanwhile: rows that are not moved are read where they are.
 *
 * The list is private to the process, and lost with it. An owner's own dc_maintain() and
 * dc_window_rotate() do not use it: they move what can be moved, and warn.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/args.h"
#include "core/counter/sqlpath.h"
#include "time/window/window.h"

/* key: whether a row is there */
static const DcStatement sql_aside_row = {
	.text = "SELECT (SELECT count(*) FROM @totals AS t WHERE t.key = $1)"
			" + (SELECT count(*) FROM (SELECT FROM @shards AS s WHERE s.key = $1 LIMIT 1) AS a)",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("rows")}};

/* A slot that is put aside. */
typedef struct DcAside
{
	Oid slot;
	int len;
	char key[FLEXIBLE_ARRAY_MEMBER]; /* of the row that is in the way */
} DcAside;

/* Members are in TopMemoryContext. */
static List *asides = NIL;

static DcAside *windowaside_find(Oid slot);
static bool is_in_the_way(DcWindow *window, const DcWindowMove *move, const DcAside *aside);
static void windowaside_forget(DcAside *aside);
static void windowaside_forget_dropped(void);

/*
 * Return the entry of a slot that was put aside, or NULL.
 */
static DcAside *
windowaside_find(Oid slot)
{
	ListCell *lc;

	foreach(lc, asides)
	{
		if (((DcAside *) lfirst(lc))->slot == slot)
			return lfirst(lc);
	}
	return NULL;
}

/*
 * window_is_aside returns true if the slot of a turn is still to be left alone.
 */
bool
window_is_aside(DcWindow *window, const DcWindowMove *move)
{
	DcAside *aside = windowaside_find(window->slots[window_turn_slot(move->level, move->turn)]);

	if (aside == NULL)
		return false;
	if (is_in_the_way(window, move, aside))
		return true;
	windowaside_forget(aside);
	return false;
}

/*
 * Return true if the row for which the slot was put aside is still there and cannot be moved. A
 * slot that cannot be opened now counts as such.
 */
static bool
is_in_the_way(DcWindow *window, const DcWindowMove *move, const DcAside *aside)
{
	const DcLevels *levels = &window->row.levels;
	DcKey whole = {.data = aside->key, .len = aside->len};
	DcCounter *counter;
	DcSqlSession session;
	Datum value;
	DcKey key;
	int64 bucket;
	bool found;

	if (slot_key_split(&whole, &key, &bucket) &&
		bucket < level_bucket(levels, move->level, levels->floors[move->level]))
		return false;
	counter = window_open_slot(window, window_turn_slot(move->level, move->turn), true);
	if (counter == NULL)
		return true;
	value = key_text_datum(&whole);
	sql_begin(&session, counter);
	(void) sql_run(&session, &sql_aside_row, &value);
	found = rows_bigint(&session.rows, 0, 1) > 0;
	sql_end(&session);
	return found;
}

/*
 * window_tell_foreign reports the rows that a move has found in the way. The worker puts the slot
 * aside.
 */
void
window_tell_foreign(DcWindow *window, const DcWindowMove *move, bool in_worker)
{
	Oid slot = window->slots[window_turn_slot(move->level, move->turn)];
	MemoryContext old;
	DcAside *aside;

	if (move->foreign->len == 0)
		return;
	if (in_worker && windowaside_find(slot) == NULL)
	{
		windowaside_forget_dropped();
		aside = MemoryContextAlloc(TopMemoryContext, offsetof(DcAside, key) + move->foreign->len);
		aside->slot = slot;
		aside->len = move->foreign->len;
		memcpy(aside->key, move->foreign->data, aside->len);
		old = MemoryContextSwitchTo(TopMemoryContext);
		asides = lappend(asides, aside);
		MemoryContextSwitchTo(old);
	}
	ereport(in_worker ? LOG : WARNING,
			(in_worker ? errmsg("dcounter worker leaves table \"%s\" of windowed counter \"%s\" to its owner",
								get_rel_name(slot), get_rel_name(window->relid))
					   : errmsg("table \"%s\" of windowed counter \"%s\" cannot be emptied",
								get_rel_name(slot), get_rel_name(window->relid)),
			 errdetail("It has rows that were not written by increments."),
			 errhint("Use DELETE FROM %s WHERE dcounter.window_key(key) IS NULL, and then dc_window_rotate().",
					 relation_sql_name(slot))));
}

/*
 * Take a slot off the list.
 */
static void
windowaside_forget(DcAside *aside)
{
	asides = list_delete_ptr(asides, aside);
	pfree(aside);
}

/*
 * windowaside_forget_dropped forgets tables that are gone.
 */
static void
windowaside_forget_dropped(void)
{
	ListCell *lc;

	foreach(lc, asides)
	{
		DcAside *aside = lfirst(lc);

		if (get_rel_name(aside->slot) != NULL)
			continue;
		asides = foreach_delete_current(asides, lc);
		pfree(aside);
	}
}
