/*
 * lockclass.h
 *		The classes of the extension's advisory locks.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A class is the last field of a lock's tag. Classes 1 and 2 belong to the SQL functions. The
 * other two fields say what is locked. Unless stated otherwise, a lock is held until the
 * transaction ends; only the worker's and that of a build are a session's. They are taken in this
 * order, after locks on tables:
 *
 *	worker		(0, 0): worker.c, by a database's only worker, as long as it lives
 *	code		(table, 0): ownercode.c. Shared by a step of the worker, which does not wait,
 *				and exclusively by DDL that adds a child or a partition, at its end
 *	opening		(ledger, hash of the key): account.c, by a call that opens an account; before
 *				a stronger lock on the ledger
 *	detach		(ledger, 0): detach.c, by a call that detaches months; before a stronger lock
 *				on the ledger
 *	making		(counter, 0): optable.c, by a call that makes or adopts the tables of ops;
 *				other sessions wait for it, and release it at once
 *	mark		(counter, hash of its name): markrow.c, by calls that make, use or remove a mark
 *	key			(counter, hash of the key): locks.c, by dc_set() and its relatives, and by compactions of few keys of a
 *				table that Citus distributes, which do not wait
 *	flush		(counter, 0): flush.c, by a flush; the worker's does not wait. Shared
 *				by reads of many keys, while they read (bufferread.c)
 *	compaction	(counter, 0): locks.c, by compactions and by flushes to totals, which do not
 *				wait; shared by dc_set() and its relatives on a stock, and on a counter of several
 *				regions: there before the key's by the first set, after it to open a slot
 *				(counter, 1), of a table that Citus distributes: by a compaction of many keys; nobody waits for it
 *	events		(counter, 0): changed.c, by rounds of the job, which do not wait, and by
 *				changes of the settings
 *				(counter, 1): changed.c, shared, by transactions that have made marks. None waits for it: the job
 *				checks whether anybody holds it
 *	consumer	(0, 0), positions: consumeraccess.c, exclusively by the retention job, which
 *				does not wait, and shared, for a moment, by calls that need events again
 *				(consumer, 0), its settings: by calls that change them
 *				(consumer, 2), shared by fetches that wait as new members: memberrow.c;
 *				others count them, and nobody waits for it
 *				(consumer, hash of the member): memberrow.c, by fetches, which do not wait,
 *				and acks, of a member
 *	position	(0, 0), and the position and one, in two halves: consumerposition.c, shared, by calls that need the events
 *				after it. None waits for it: the retention job looks which are held
 *	binding		(counter, 0): sourcerow.c, by what adds differences to a bound counter table or
 *				notes its state; the worker's jobs do not wait. Before the counter's own locks
 *				(counter, 1), before all locks on tables: build.c, by a build, until it ends
 *	rights		(counter, 0): rights.c, by calls that give units to other regions, which do not
 *				wait
 *	region		(0, 0), the identity: shared by all that publishes, exclusively by what changes it
 *				(0, 1), this region's beat: beat.c, by what has published, at the end of its commit
 *				(hash of region and epoch, 2): beatmerge.c, by an apply worker that inserts a beat
 *	limit		(role, hash of the name, with its highest bit set): ruleddl.c, by calls of a role that create a limit
 *				(its id, 0): by calls that change it
 *	presence	(role, hash of the name, with its highest bit set): ruleddl.c, by calls of a role that create a presence
 *				(its id, 0): by calls that change it
 *				(its id, 1): presenceevents.c, by transactions that make its events, which do not wait
 *	window		(windowed counter, 0): windowopen.c, by what changes its row or moves its amounts; the
 *				worker's job does not wait. Before locks on its tables
 *	distinct	(table, 0): distinctfold.c, by what takes rows of a distinct table away or puts them
 *				together; the worker does not wait. After the locks on the tables
 *	total		(counter, hash of the key): locks.c, by commits that write a row of totals of a table that Citus
 *				distributes, which do not wait
 *	contended	(counter, hash of the key): locks.c, shared, by commits that found that one held; nobody waits for it
 *	hot			(counter, 0): hotalarm.c, by a transaction that tells of hot keys, which does not wait
 *	writer		(the first number, in two halves): registry.c, shared, by transactions that
 *				have drawn numbers of events. None waits for it: readers look which hold it
 */
#ifndef DC_LOCKCLASS_H
#define DC_LOCKCLASS_H

#include "miscadmin.h"
#include "storage/lock.h"

#define KEY_LOCK_CLASS 77
#define COMPACT_LOCK_CLASS 78
#define WORKER_LOCK_CLASS 79
#define CONSUMER_LOCK_CLASS 80
#define EVENTS_LOCK_CLASS 81
#define WRITER_LOCK_CLASS 82
#define FLUSH_LOCK_CLASS 83
#define DETACH_LOCK_CLASS 84
#define OPENING_LOCK_CLASS 85
#define MAKING_LOCK_CLASS 86
#define CODE_LOCK_CLASS 87
#define BOUND_LOCK_CLASS 88
#define MARK_LOCK_CLASS 89
#define RIGHTS_LOCK_CLASS 90
#define REGION_LOCK_CLASS 91
#define LIMIT_LOCK_CLASS 92
#define PRESENCE_LOCK_CLASS 93
#define WINDOW_LOCK_CLASS 96
#define DISTINCT_LOCK_CLASS 95
#define HOT_LOCK_CLASS 97
#define TOTAL_LOCK_CLASS 98
#define CONTENDED_LOCK_CLASS 99
#define POSITION_LOCK_CLASS 100

/*
 * advisory_lock takes a lock until the transaction ends. Returns false if it would have to
 * wait, and `wait` is false.
 */
static inline bool
advisory_lock(uint16 lockclass, uint32 id1, uint32 id2, LOCKMODE mode, bool wait)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, id1, id2, lockclass);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

/*
 * advisory_unlock releases a lock earlier.
 */
static inline void
advisory_unlock(uint16 lockclass, uint32 id1, uint32 id2, LOCKMODE mode)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, id1, id2, lockclass);
	(void) LockRelease(&tag, mode, false);
}

#endif /* DC_LOCKCLASS_H */
