/*
 * compactstuck.c
 *		Keys that compaction cannot move, as the worker remembers them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The amounts of a key whose sum of increments or of decrements overflows bigint stay in its shard
 * rows, where they are safe, until the key is set or deleted (set.c). The worker sweeps all the
 * time. So it remembers such a key, and leaves it out of its sweeps for RETRY, instead of locking
 * its rows for nothing. Then it tries again, and warns only of a key that it has not known. A key
 * that was tried and found in order is forgotten, and would be warned of again.
 *
 * The list is private to the process, and lost with it. Keys of tables that are gone make
 * room for others. A key that does not fit is not remembered, and not warned of. The keys of one
 * owner's tables take a part of it, so that those of others fit.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "base/args.h"
#include "base/catrow.h"
#include "core/compact/compactbatch.h"
#include "core/compact/compactstuck.h"

#define RETRY (10 * INT64CONST(1000000)) /* us */
#define FORGET (60 * RETRY)
#define MAX_STUCK 1000
#define MAX_STUCK_OF_OWNER (MAX_STUCK / 8)

typedef struct DcStuckKey
{
	Oid table;
	Oid owner;		/* of the table */
	Datum key;		/* text */
	DcMoment tried; /* last time that it was found stuck */
} DcStuckKey;

/* Members and keys are in TopMemoryContext. */
static List *stuck_keys = NIL;

static void forget_older(int64 age);
static void stuck_free(DcStuckKey *stuck);

/*
 * stuck_note remembers that a key was found stuck. Returns whether to report it.
 */
bool
stuck_note(Oid table, Datum key)
{
	MemoryContext old;
	Oid owner = relation_owner(table);
	DcStuckKey *stuck;
	int of_owner = 0;
	ListCell *lc;

	foreach(lc, stuck_keys)
	{
		stuck = lfirst(lc);
		of_owner += stuck->owner == owner;
		if (stuck->table == table && batch_key_equal(stuck->key, key))
		{
			stuck->tried = moment_now();
			return false;
		}
	}
	/* those of tables that are gone are not tried any more */
	forget_older(list_length(stuck_keys) >= MAX_STUCK ? 2 * RETRY : FORGET);
	if (list_length(stuck_keys) >= MAX_STUCK || of_owner >= MAX_STUCK_OF_OWNER)
		return false;
	old = MemoryContextSwitchTo(TopMemoryContext);
	stuck = palloc(sizeof(DcStuckKey));
	*stuck = (DcStuckKey){table, owner, datumCopy(key, false, -1), moment_now()};
	stuck_keys = lappend(stuck_keys, stuck);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * forget_older forgets the keys that were tried longer ago than this.
 */
static void
forget_older(int64 age)
{
	ListCell *lc;

	foreach(lc, stuck_keys)
	{
		if (moment_age(((DcStuckKey *) lfirst(lc))->tried) < age)
			continue;
		stuck_free(lfirst(lc));
		stuck_keys = foreach_delete_current(stuck_keys, lc);
	}
}

/*
 * Free an entry, which is no longer in the list.
 */
static void
stuck_free(DcStuckKey *stuck)
{
	pfree(DatumGetPointer(stuck->key));
	pfree(stuck);
}

/*
 * stuck_to_leave_out returns the keys of a table, a text[], that are not to be tried
 * now.
 */
Datum
stuck_to_leave_out(Oid table)
{
	Datum *keys = palloc(list_length(stuck_keys) * sizeof(Datum));
	ListCell *lc;
	int n = 0;

	foreach(lc, stuck_keys)
	{
		const DcStuckKey *stuck = lfirst(lc);

		if (stuck->table == table && moment_age(stuck->tried) < RETRY)
			keys[n++] = stuck->key;
	}
	return array_datum(keys, n, TEXTOID);
}

/*
 * Return true if a key of a table is not to be tried now.
 */
bool
stuck_is_left_out(Oid table, Datum key)
{
	ListCell *lc;

	foreach(lc, stuck_keys)
	{
		const DcStuckKey *stuck = lfirst(lc);

		if (stuck->table == table && batch_key_equal(stuck->key, key))
			return moment_age(stuck->tried) < RETRY;
	}
	return false;
}

/*
 * stuck_swept forgets the keys of a table that a sweep has tried, from its beginning to its end,
 * and that it has not found stuck. Returns the number of keys left.
 */
int
stuck_swept(Oid table, DcMoment started)
{
	ListCell *lc;
	int left = 0;

	foreach(lc, stuck_keys)
	{
		DcStuckKey *stuck = lfirst(lc);

		if (stuck->table != table)
			continue;
		if (moment_diff(stuck->tried, started) < RETRY)
		{
			left++;
			continue;
		}
		stuck_keys = foreach_delete_current(stuck_keys, lc);
		stuck_free(stuck);
	}
	return left;
}
