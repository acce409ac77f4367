/*
 * locks.c
 *		Advisory locks of setters and of compaction.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Both are held to the end of the transaction. They have classes of their own
 * (lockclass.h), so they do not meet the advisory locks of SQL.
 *
 *	- The lock on a key serializes dc_set() and dc_delete(). Two keys with the same hash share
 *	  it, which may cost a wait.
 *	- The lock on a row of totals tells commits that another one adds to it: of tables that Citus
 *	  distributes, whose rows cannot be tried without waiting (core/counter/sqlwrite.c).
 *	- The lock on a table makes sure that only one compaction at a time works on it. Transactions
 *	  that set or delete keys of a stock share it, which keeps compaction away. So do those that
 *	  set the first key of a replicated counter, and for a moment those that open a slot.
 *	- A table that Citus distributes has a second lock on the table. Compaction takes that one, or
 *	  locks on the keys whose rows it locks (lock_compacted, lock_compacted_key), to tell commits
 *	  about itself. If it used the first lock for that, commits would add to shard rows whenever
 *	  compaction looks for work, and so create more work: it would never end.
 *
 * The holders may be transactions of users, of any length. Otherwise shard rows are
 * locked only during a commit. So a writer that finds all rows of a key busy checks these locks
 * before it waits (locked_for_long).
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"

#include "base/compat.h"
#include "base/lockclass.h"
#include "core/rows/locks.h"

/* The objects of compaction locks. */
#define WHOLE_TABLE 0
#define ALL_KEYS 1 /* of a table that Citus distributes */

static uint32 key_hash(const char *data, uint32 len);
static bool is_locked(DcCounter *counter, uint32 id, uint16 lockclass);
static bool is_locked_against(DcCounter *counter, uint32 id, uint16 lockclass, LOCKMODE mode);

/*
 * lock_key makes this transaction the only setter of a key; waits.
 */
void
lock_key(DcCounter *counter, const char *data, uint32 len)
{
	(void) advisory_lock(KEY_LOCK_CLASS, counter->relid, key_hash(data, len),
						 ExclusiveLock, true);
}

/*
 * lock_total makes this transaction the only one that adds to the row of totals of a key, where
 * only waiting would show whether that is free; false if another one does, or if the key is
 * contended: a commit that is in progress was told so. Then all commits keep away from the row
 * of totals, including the one that had it, until they no longer overlap. Otherwise that
 * session would have the row locked nearly always, and compaction, which skips it, would never get
 * to the shard rows of the others. Keys with the same hash share all that.
 */
bool
lock_total(DcCounter *counter, const char *data, uint32 len)
{
	uint32 hash = key_hash(data, len);

	if (!is_locked_against(counter, hash, CONTENDED_LOCK_CLASS, ExclusiveLock) &&
		advisory_lock(TOTAL_LOCK_CLASS, counter->relid, hash, ExclusiveLock, false))
		return true;
	lock_contended(counter, data, len);
	return false;
}

/*
 * lock_contended tells others, until this transaction ends, that a key is contended.
 */
void
lock_contended(DcCounter *counter, const char *data, uint32 len)
{
	(void) advisory_lock(CONTENDED_LOCK_CLASS, counter->relid, key_hash(data, len), ShareLock, false);
}

/*
 * lock_compaction makes this transaction the only compaction of a table; false
 * if another one is.
 */
bool
lock_compaction(DcCounter *counter)
{
	return advisory_lock(COMPACT_LOCK_CLASS, counter->relid, WHOLE_TABLE, ExclusiveLock, false);
}

/*
 * lock_compacted tells commits that the compaction of a distributed table locks rows of many
 * keys, and lock_compacted_key that it locks those of one. The latter is false if another
 * transaction sets the key. Writers for which locked_for_long() finds one of these keep away
 * from the rows. Called before these are locked.
 */
void
lock_compacted(DcCounter *counter)
{
	(void) advisory_lock(COMPACT_LOCK_CLASS, counter->relid, ALL_KEYS, ExclusiveLock, true); /* others have lock_compaction */
}

/*
 * See lock_compacted().
 */
bool
lock_compacted_key(DcCounter *counter, const char *data, uint32 len)
{
	return advisory_lock(KEY_LOCK_CLASS, counter->relid, key_hash(data, len), ExclusiveLock, false);
}

/*
 * lock_out_compaction keeps compactions away from a table; waits for one that is
 * in progress.
 */
void
lock_out_compaction(DcCounter *counter)
{
	(void) advisory_lock(COMPACT_LOCK_CLASS, counter->relid, WHOLE_TABLE, ShareLock, true);
}

/*
 * let_in_compaction undoes lock_out_compaction() before the transaction ends.
 */
void
let_in_compaction(DcCounter *counter)
{
	advisory_unlock(COMPACT_LOCK_CLASS, counter->relid, WHOLE_TABLE, ShareLock);
}

/*
 * compaction_xid returns the transaction id of the compaction that another
 * transaction is doing, or InvalidTransactionId if there is none, or it has
 * not changed anything yet.
 */
TransactionId
compaction_xid(DcCounter *counter)
{
	LOCKTAG tag;
	VirtualTransactionId *holders;
	TransactionId xid = InvalidTransactionId;
	int count;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, counter->relid, WHOLE_TABLE, COMPACT_LOCK_CLASS);
	holders = GetLockConflicts(&tag, ShareLock, &count);
	for (int i = 0; i < count && !TransactionIdIsValid(xid); i++)
		xid = compat_xid_of(holders[i]);
	pfree(holders);
	return xid;
}

/*
 * Return true if another transaction compacts the table, or the key if Citus distributes it, or
 * sets the key, and so may have locked the key's rows for an unknown time.
 */
bool
locked_for_long(DcCounter *counter, const char *data, uint32 len)
{
	return is_locked(counter, counter->distributed ? ALL_KEYS : WHOLE_TABLE, COMPACT_LOCK_CLASS) ||
		locked_by_setter(counter, data, len);
}

/*
 * Return true if another transaction sets the key. (Or compacts it, of a distributed table.)
 */
bool
locked_by_setter(DcCounter *counter, const char *data, uint32 len)
{
	return is_locked(counter, key_hash(data, len), KEY_LOCK_CLASS);
}

/*
 * Return the hash of a key that its locks go by.
 */
static uint32
key_hash(const char *data, uint32 len)
{
	return hash_bytes((const unsigned char *) data, len);
}

/*
 * Return true if another transaction, prepared ones included, holds a
 * lock, without taking it even for a moment.
 */
static bool
is_locked(DcCounter *counter, uint32 id, uint16 lockclass)
{
	return is_locked_against(counter, id, lockclass, ShareLock);
}

/*
 * is_locked_against returns true if another transaction holds it in a mode that conflicts with
 * this one.
 */
static bool
is_locked_against(DcCounter *counter, uint32 id, uint16 lockclass, LOCKMODE mode)
{
	LOCKTAG tag;
	int count;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, counter->relid, id, lockclass);
	pfree(GetLockConflicts(&tag, mode, &count));
	return count > 0;
}
