/*
 * locks.c
 *		The counter room's own advisory locks.
 *
 * Both are held to the end of the transaction. They have classes of their own,
 * so they do not meet the advisory locks of SQL.
 *
 *	- The lock on a key serializes dc_set() and dc_delete(). Two keys of one hash
 *	  share it, which costs a wait.
 *	- The lock on a table makes one compaction at a time work on it. Who sets or
 *	  deletes a key of a stock shares it with others who do, and so keeps
 *	  compaction away.
 *
 * Their holders may be transactions of users, which last as long as they like.
 * Shard rows are otherwise locked for the time of a commit only. So a writer that
 * finds all rows of a key busy asks here before it waits (locked_for_long).
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/lockclass.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "rows/locks.h"
#include "storage/lock.h"

static void key_tag(LOCKTAG *tag, DcCounter *counter, const char *data,
					uint32 len);
static void compaction_tag(LOCKTAG *tag, DcCounter *counter);
static bool is_locked(const LOCKTAG *tag);

/*
 * lock_key makes this transaction the only setter of a key; waits.
 */
void
lock_key(DcCounter *counter, const char *data, uint32 len)
{
	LOCKTAG tag;

	key_tag(&tag, counter, data, len);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/*
 * lock_compaction makes this transaction the only compaction of a table; false
 * if another one is.
 */
bool
lock_compaction(DcCounter *counter)
{
	LOCKTAG tag;

	compaction_tag(&tag, counter);
	return LockAcquire(&tag, ExclusiveLock, false, true) !=
		LOCKACQUIRE_NOT_AVAIL;
}

/*
 * lock_out_compaction keeps compactions away from a table; waits for one that is
 * in progress.
 */
void
lock_out_compaction(DcCounter *counter)
{
	LOCKTAG tag;

	compaction_tag(&tag, counter);
	(void) LockAcquire(&tag, ShareLock, false, false);
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

	compaction_tag(&tag, counter);
	holders = GetLockConflicts(&tag, ShareLock, &count);
	for (int i = 0; i < count && !TransactionIdIsValid(xid); i++)
		xid = compat_xid_of(holders[i]);
	pfree(holders);
	return xid;
}

/*
 * locked_for_long tells whether another transaction compacts the table or sets
 * the key, and so may have locked the key's rows for an unknown time.
 */
bool
locked_for_long(DcCounter *counter, const char *data, uint32 len)
{
	LOCKTAG tag;

	compaction_tag(&tag, counter);
	if (is_locked(&tag))
		return true;
	key_tag(&tag, counter, data, len);
	return is_locked(&tag);
}

static void
key_tag(LOCKTAG *tag, DcCounter *counter, const char *data, uint32 len)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, counter->relid,
						 hash_bytes((const unsigned char *) data, len),
						 KEY_LOCK_CLASS);
}

static void
compaction_tag(LOCKTAG *tag, DcCounter *counter)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, counter->relid, 0,
						 COMPACT_LOCK_CLASS);
}

/*
 * is_locked tells whether another transaction, prepared ones included, holds a
 * lock, without taking it even for a moment.
 */
static bool
is_locked(const LOCKTAG *tag)
{
	int count;

	pfree(GetLockConflicts(tag, ShareLock, &count));
	return count > 0;
}
