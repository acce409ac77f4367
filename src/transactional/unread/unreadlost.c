/*
 * unreadlost.c
 *		Increments that are not in a counter's rows any more, and functions for the other functions
 *		of counters.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * What a member has read of a key is compared with how many increments the key has ever had, which
 * must not fall (unread.c). Where a function of the counter takes increments away, it notes here
 * how many: for each unread table, in the row of the member '' and the key. That is one write,
 * however many members there are, and it is in the same transaction: a snapshot shows the
 * increments in their rows or here.
 *
 * The caller has locked the counter table and the key, so the sums are final. Any role may be
 * the one that deletes keys, without rights on these tables, which are the counter owner's: the
 * rows are written without SQL, and run no code. A table that cannot be written makes the call
 * fail; one of another owner is skipped. The list of tables is read each time: dc_unread_create()
 * and dc_unread_adopt() lock the counter table against writers until their row is committed, so a
 * caller that has it locked misses none.
 *
 * TRUNCATE of the counter empties the tables, and that of a partition deletes the rows of its keys
 * (core/table/protect.c): both sides begin at 0.
 */
#include "postgres.h"

#include "core/rows/sums.h"
#include "transactional/unread/unread.h"

/*
 * Return true if a counter table has unread tables.
 */
bool
unread_is_watched(Oid counter)
{
	return unread_read_of(counter) != NIL;
}

/*
 * unread_tables lists those of the counter's owner, for which the caller acts; they are about to be
 * emptied, or rows in them deleted.
 */
List *
unread_tables(Oid counter)
{
	List *all = unread_read_of(counter);
	List *own = NIL;
	ListCell *lc;

	later_write();
	foreach(lc, all)
	{
		if (relation_owner(lfirst_oid(lc)) == relation_owner(counter))
			own = lappend_oid(own, lfirst_oid(lc));
	}
	return own;
}

/*
 * unread_lost notes that a key has lost increments.
 */
void
unread_lost(DcCounter *counter, Datum key, const DcSums *sums)
{
	List *tables = unread_read_of(counter->relid);
	DcSeenChange change = {0};
	ListCell *lc;

	if (!sums_fit(sums->inc, &change.add))
		change.add = PG_INT64_MAX; /* they are amounts that were added */
	if (change.add <= 0)
		return;
	foreach(lc, tables)
	{
		DcSeenRel rel;

		if (!seenrel_open_at(lfirst_oid(lc), counter, &rel))
			continue;
		change.late = false;
		(void) seen_write(&rel, seen_channel(), key, &change);
		seenrel_close(&rel);
	}
}
