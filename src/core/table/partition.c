/*
 * partition.c
 *		Rotating partitions: old rows are removed with their partition, never one by one.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Events (events/outbox/ring.c), ops (transactional/once/opjob.c) and entries by month
 * (transactional/ledger/entrymonth.c) are written to one partition of several. As time passes,
 * another one becomes current, and partitions whose rows are no longer needed are emptied or
 * detached. Each room says when; this file says how, and why that loses nothing.
 *
 *	1. One transaction at a time rotates, and makes one change: it holds SHARE UPDATE EXCLUSIVE
 *	   on the parent, or on the table that says which partition is the current one, until
 *	   it ends (turn_begin). Writers and readers continue. A transaction that does not
 *	   get that lock at once leaves the work to the one that has it.
 *	2. A writer holds ROW EXCLUSIVE on the parent until its transaction ends, and learns only
 *	   after taking that lock which partition is current. So a session that may have missed a
 *	   change has held its lock since before the change was committed. These sessions are listed
 *	   once, after the commit, and all of them have ended when none of the list is left
 *	   (writers_have_ended). Nobody waits for later ones, so the wait ends however many there
 *	   are. Prepared transactions keep their locks, and are listed as well. Ops need this,
 *	   because two writers of one op must meet in one index, and so do months before entries are
 *	   carried forward. For events, the current partition is only a hint: a reader reads all.
 *	3. A partition is emptied by TRUNCATE under ACCESS EXCLUSIVE. Then no other session uses it,
 *	   not even to read, and all writers of its rows have ended. Whether its rows may be
 *	   removed is known, or looked up, under that lock. It is taken without waiting, because a
 *	   queue behind it would stop everybody (partition_lock_at_once).
 *	4. A partition without a page has no rows, not even rows of a transaction in progress
 *	   (relation_is_empty). Only then can it become current, so a slow reader makes
 *	   partitions grow, but loses no rows.
 *	5. A new partition is created as a table and then attached (partition_attach). CREATE TABLE
 *	   ... PARTITION OF would wait for all writers, and make other sessions wait behind it.
 *
 * All DDL runs as the owner of the tables, in a security-restricted operation: the caller
 * has become that (runas_begin).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/clock.h"
#include "base/relcached.h"
#include "base/runas.h"
#include "core/table/ownstatement.h"
#include "core/table/partition.h"
#include "core/table/protect.h"

/* How long a step waits for writers, and how often it looks. */
#define WAIT_MS 500
#define LOOK_US 2000

/* The writers that are waited for. */
typedef struct DcWriters
{
	Oid parent;			  /* hash key */
	TransactionId change; /* the one that they may not know, */
	TimestampTz at;		  /* and when; so a frozen row is not taken for another change */
	int count;
	VirtualTransactionId *vxids; /* in TopMemoryContext, or NULL */
} DcWriters;

static DcRelCached waiting = {
	.name = "dcounter writers",
	.keysize = sizeof(Oid),
	.size = sizeof(DcWriters),
};

static DcWriters *writers_of(Oid parent, TransactionId change, TimestampTz at);
static LOCKTAG lock_of(Oid relid);

/*
 * turn_begin makes this transaction the one that turns; false if another one is.
 */
bool
turn_begin(Oid parent)
{
	return ConditionalLockRelationOid(parent, ShareUpdateExclusiveLock);
}

/*
 * Return true if all transactions have ended that may not know a change.
 * The change was made by a transaction at a time, and is committed. The function does not
 * wait for long; then the list is kept for the next time.
 */
bool
writers_have_ended(Oid parent, TransactionId change, TimestampTz at)
{
	DcMoment until = moment_in(WAIT_MS);
	DcWriters *writers = writers_of(parent, change, at);

	for (;;)
	{
		int left = 0;

		for (int i = 0; i < writers->count; i++)
		{
			if (!VirtualXactLock(writers->vxids[i], false))
				writers->vxids[left++] = writers->vxids[i];
		}
		writers->count = left;
		if (left == 0)
		{
			pfree(writers->vxids);
			(void) hash_search(waiting.hash, &parent, HASH_REMOVE, NULL);
			return true;
		}
		if (moment_is_reached(until))
			return false;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(LOOK_US);
	}
}

/*
 * writers_of finds the list of a change, or makes it of those that have the lock of writers
 * now.
 */
static DcWriters *
writers_of(Oid parent, TransactionId change, TimestampTz at)
{
	DcWriters *writers = relcached_enter(&waiting, &parent);
	LOCKTAG tag = lock_of(parent);
	VirtualTransactionId *vxids;
	int count;

	if (writers->vxids != NULL && writers->change == change && writers->at == at)
		return writers;
	vxids = GetLockConflicts(&tag, ShareLock, &count);
	if (writers->vxids != NULL)
		pfree(writers->vxids);
	writers->vxids = NULL;
	writers->vxids = MemoryContextAlloc(TopMemoryContext, (count + 1) * sizeof(VirtualTransactionId));
	memcpy(writers->vxids, vxids, count * sizeof(VirtualTransactionId));
	writers->count = count;
	writers->change = change;
	writers->at = at;
	pfree(vxids);
	return writers;
}

/*
 * writers_wait waits for all transactions that are writing now. Those that begin later are
 * not kept waiting.
 */
void
writers_wait(Oid parent)
{
	WaitForLockers(lock_of(parent), ShareLock, false);
}

/*
 * Return the lock tag of a table of this database.
 */
static LOCKTAG
lock_of(Oid relid)
{
	LOCKTAG tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return tag;
}

/*
 * partition_lock_at_once locks a partition that is to be emptied; false if it is in use.
 */
bool
partition_lock_at_once(Oid partition)
{
	return ConditionalLockRelationOid(partition, AccessExclusiveLock);
}

/*
 * partition_empty empties a partition that is locked, as the current user. The guard of a
 * ledger lets that pass.
 */
void
partition_empty(Oid partition)
{
	if (!relation_is_empty(partition))
		own_truncate(partition, true);
}

/*
 * partition_attach creates a partition as the current user. `like` says what it copies from the
 * parent (INCLUDING ...), or which additional constraints it has; `options` are its storage
 * options (USING ..., WITH ...); `bound` is the text after FOR VALUES.
 */
void
partition_attach(const char *schema, const char *parent, const char *name, const char *like,
				 const char *options, const char *bound)
{
	char *whole = pstrdup(quote_qualified_identifier(schema, parent));
	char *part = pstrdup(quote_qualified_identifier(schema, name));

	run_ddl(psprintf("CREATE TABLE %s (LIKE %s %s) %s", part, whole, like, options));
	run_ddl(psprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES %s", whole, part, bound));
}
