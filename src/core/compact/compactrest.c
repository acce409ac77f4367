/*
 * compactrest.c
 *		Tables that the worker skips for a while, because sweeping them takes a long time.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * While an old snapshot is held, shard rows stay when they have been compacted
 * (compactdirect.c), and each sweep visits all of them. If they are many, for many keys, the
 * worker would be busy with nothing else. So then a table rests REST times as long as the last
 * sweep over it took. Its amounts get to the totals later; every exact read counts them
 * nevertheless.
 *
 * The list is private to the process. A table that is gone is forgotten when its time is up.
 */
#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/memutils.h"

#include "core/compact/compactrest.h"

/* Rest after a sweep, in times that it took. */
#define REST 20

typedef struct DcResting
{
	Oid table;
	DcMoment until;
} DcResting;

/* Members are in TopMemoryContext. */
static List *resting = NIL;

/*
 * Return true if a table is left alone now.
 */
bool
compact_rests(Oid table)
{
	bool rests = false;
	ListCell *lc;

	foreach(lc, resting)
	{
		DcResting *entry = lfirst(lc);

		if (moment_is_reached(entry->until))
		{
			resting = foreach_delete_current(resting, lc);
			pfree(entry);
		}
		else if (entry->table == table)
			rests = true;
	}
	return rests;
}

/*
 * compact_rest leaves a table alone after a sweep over it that took this many microseconds.
 */
void
compact_rest(Oid table, int64 spent)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	DcResting *entry = palloc(sizeof(DcResting));

	*entry = (DcResting){table, moment_after(moment_now(), REST * spent)};
	resting = lappend(resting, entry);
	MemoryContextSwitchTo(old);
}
