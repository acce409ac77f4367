/*
 * memberrow.c
 *		Rows of dcounter.consumer_member: positions of consumers and members.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A row changes with every fetch and every acknowledgement. An update in place would
 * leave a chain of dead versions that grows while any snapshot is held, and each reader
 * would have to walk it. So each version has a number, which is part of the primary key
 * and grows forever. The newest version is the last entry of (consumer, member). One descent of the
 * index, backwards, finds it, however many dead ones there are before it. All members of a consumer
 * are found the same way: the last entry of the consumer, then the last one before that member, and
 * so on, never through the dead ones.
 *
 * A transaction that reads a row in order to change it, or to act upon it, first takes
 * the lock on (consumer, member), and keeps it to the end. A fetch takes
 * it without waiting, an acknowledgement waits. With the lock held all earlier
 * changes are committed or undone. So SnapshotSelf shows the one row there is,
 * whatever the isolation level, and no update can fail. Without the lock a read may
 * miss a row that is being replaced. Then it looks for the row again.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "base/lockclass.h"
#include "events/consumer/consumer.h"

/* Columns of dcounter.consumer_member */
#define COL_CONSUMER 1
#define COL_MEMBER 2

static void member_tag(LOCKTAG *tag, int32 consumer, const char *name);
static void joining_tag(LOCKTAG *tag, int32 consumer);
static bool read_last(const ScanKeyData *keys, int nkeys, Snapshot snapshot, DcMember *member);
static void member_columns(DcCatRow *io, void *data);
static bool is_level(const DcMember *member, int64 acked);

static const DcCatalog members = {
	.table = "consumer_member",
	.pkey = "consumer_member_pkey",
	.size = sizeof(DcMember),
	.columns = member_columns,
	.keeps_lock = true,
};

/*
 * member_lock makes this transaction the only one that works on a member; false
 * if it would have to wait, and may not. *held_before, unless NULL, is set to true if the
 * transaction had the lock already.
 */
bool
member_lock(int32 consumer, const char *name, bool wait, bool *held_before)
{
	LOCKTAG tag;
	LockAcquireResult result;

	member_tag(&tag, consumer, name);
	result = LockAcquire(&tag, ExclusiveLock, false, !wait);
	if (held_before != NULL)
		*held_before = result == LOCKACQUIRE_ALREADY_HELD ||
			result == LOCKACQUIRE_ALREADY_CLEAR;
	return result != LOCKACQUIRE_NOT_AVAIL;
}

/*
 * member_unlock releases the lock of member_lock, if nothing was changed under it.
 */
void
member_unlock(int32 consumer, const char *name)
{
	LOCKTAG tag;

	member_tag(&tag, consumer, name);
	(void) LockRelease(&tag, ExclusiveLock, false);
}

/*
 * member_tag makes the tag of a member's lock. Two names of one hash share it, which
 * costs a wait.
 */
static void
member_tag(LOCKTAG *tag, int32 consumer, const char *name)
{
	uint32 number = CONSUMER_LOCK_SELF;

	if (name[0] != '\0')
	{
		number = hash_bytes((const unsigned char *) name, strlen(name));
		number = Max(number, CONSUMER_LOCK_JOINING + 1);
	}
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, (uint32) consumer, number, CONSUMER_LOCK_CLASS);
}

/*
 * Set the tag of the lock by which a member that joins is seen by the consumer's other members.
 */
static void
joining_tag(LOCKTAG *tag, int32 consumer)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, (uint32) consumer, CONSUMER_LOCK_JOINING,
						 CONSUMER_LOCK_CLASS);
}

/*
 * member_lock_joining makes a new member known to the others until the transaction ends, as they do
 * not see its row yet, or not as that of a live member.
 */
void
member_lock_joining(int32 consumer)
{
	LOCKTAG tag;

	joining_tag(&tag, consumer);
	(void) LockAcquire(&tag, AccessShareLock, false, false);
}

/*
 * member_count_joining returns how many other sessions hold the lock of member_lock_joining. Nobody
 * waits for it.
 */
int
member_count_joining(int32 consumer)
{
	LOCKTAG tag;
	int count;

	joining_tag(&tag, consumer);
	(void) GetLockConflicts(&tag, AccessExclusiveLock, &count);
	return count;
}

/*
 * member_read reads the newest row of a member; false if there is none.
 */
bool
member_read(int32 consumer, const char *name, DcMember *member)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], COL_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(consumer));
	ScanKeyInit(&keys[1], COL_MEMBER, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	return read_last(keys, 2, SnapshotSelf, member) || read_last(keys, 2, SnapshotSelf, member);
}

/*
 * member_try_open locks and reads a member; false, and it is not locked, if that
 * would have to wait or there is none.
 */
bool
member_try_open(int32 consumer, const char *name, DcMember *member)
{
	if (!member_lock(consumer, name, false, NULL))
		return false;
	if (member_read(consumer, name, member))
		return true;
	member_unlock(consumer, name);
	return false;
}

/*
 * member_read_all returns the newest rows of all members of a consumer (DcMember *),
 * the consumer itself included. With SnapshotSelf some may be missing. list_free_deep() frees all
 * of its memory.
 */
List *
member_read_all(int32 consumer, Snapshot snapshot)
{
	List *all = NIL;
	DcMember member;
	ScanKeyData keys[2];
	int nkeys = 1;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter members", ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(cxt);

	ScanKeyInit(&keys[0], COL_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(consumer));
	while (read_last(keys, nkeys, snapshot, &member))
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(caller);
		all = lappend(all, memcpy(palloc(sizeof(DcMember)), &member, sizeof(DcMember)));
		if (member.name[0] == '\0')
			break; /* nothing sorts before it */
		MemoryContextReset(cxt);
		MemoryContextSwitchTo(cxt);
		ScanKeyInit(&keys[1], COL_MEMBER, BTLessStrategyNumber, F_TEXT_LT,
					CStringGetTextDatum(member.name));
		nkeys = 2;
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(cxt);
	return all;
}

/*
 * read_last reads the last visible row, by the primary key, that fits the keys.
 */
static bool
read_last(const ScanKeyData *keys, int nkeys, Snapshot snapshot, DcMember *member)
{
	DcCatScan scan;
	bool found;

	cat_scan_begin_ordered(&scan, &members, members.pkey, snapshot, keys, nkeys);
	found = cat_scan_next(&scan, BackwardScanDirection, member);
	cat_scan_end(&scan);
	return found;
}

/*
 * Read or write the columns of dcounter.consumer_member, in their order. Positions are stored one
 * by one only if they differ.
 */
static void
member_columns(DcCatRow *io, void *data)
{
	DcMember *member = data;
	char *name = member->name;
	int64 acked = member_acked(member);
	int npositions = is_level(member, acked) ? 0 : LANES;
	int nattempts = 2 * member->nattempts;

	cat_int4(io, &member->consumer);
	cat_string(io, &name);
	cat_int8(io, &member->version);
	cat_int8(io, (int64 *) &member->lanes);
	cat_int8(io, &acked);
	cat_int8s(io, member->positions, &npositions, LANES);
	cat_int8(io, &member->fetched);
	cat_int8(io, &member->delivered);
	cat_int8s(io, (int64 *) member->attempts, &nattempts, 2 * ATTEMPTS_MAX);
	cat_bool(io, &member->skip);
	cat_int8s(io, member->retries, &member->nretries, RETRIES_MAX);
	cat_time(io, &member->lease_until);
	cat_time(io, &member->retry_due);
	cat_int8(io, &member->retry_first);
	cat_int8(io, &member->retry_last);
	cat_int8(io, &member->revived);
	if (!io->reading)
		return;
	member->tid = io->tid;
	strlcpy(member->name, name, sizeof(member->name));
	for (int i = npositions; i < LANES; i++)
		member->positions[i] = acked;
	member->nattempts = nattempts / 2;
}

/*
 * Return true if all lanes of a member are at one position.
 */
static bool
is_level(const DcMember *member, int64 acked)
{
	for (int i = 0; i < LANES; i++)
	{
		if (lanes_have(member->lanes, i) && member->positions[i] != acked)
			return false;
	}
	return true;
}

/*
 * member_new creates a member that has no lanes and is not stored.
 */
void
member_new(DcMember *member, int32 consumer, const char *name)
{
	memset(member, 0, sizeof(DcMember));
	ItemPointerSetInvalid(&member->tid);
	member->consumer = consumer;
	strlcpy(member->name, name, sizeof(member->name));
}

/*
 * member_write stores a member as its newest row. Its lock is held.
 */
void
member_write(DcMember *member)
{
	member->version++;
	cat_store_at(&members, &member->tid, member);
}

/*
 * member_delete removes a member. Its lock is held.
 */
void
member_delete(DcMember *member)
{
	cat_delete_at(&members, &member->tid);
}

/*
 * member_acked returns the position below which everything is done in all lanes.
 */
int64
member_acked(const DcMember *member)
{
	int64 acked = PG_INT64_MAX;

	for (int i = 0; i < LANES; i++)
	{
		if (lanes_have(member->lanes, i))
			acked = Min(acked, member->positions[i]);
	}
	return member->lanes != 0 ? acked : member->positions[0];
}

/*
 * member_advance notes that everything up to a number is done, in all lanes.
 */
void
member_advance(DcMember *member, int64 done)
{
	for (int i = 0; i < LANES; i++)
		member->positions[i] = Max(member->positions[i], done);
}

/*
 * Return true if events were handed out that have not been
 * acknowledged.
 */
bool
member_has_outstanding(const DcMember *member)
{
	return member->nretries > 0 || member->delivered > member_acked(member);
}

/*
 * lane_of returns the lane of a key. It must never change, on no machine and in no
 * version: positions are stored by lane. Events without a key share a lane, and
 * so stay in order.
 */
int
lane_of(const text *key)
{
	/* FNV-1a, then the mix of MurmurHash3 so that all bits take part */
	uint32 hash = 0x811C9DC5;

	if (key == NULL)
		return 0;
	for (Size i = 0; i < VARSIZE_ANY_EXHDR(key); i++)
		hash = (hash ^ ((const unsigned char *) VARDATA_ANY(key))[i]) * 0x01000193;
	hash ^= hash >> 16;
	hash *= 0x85EBCA6B;
	hash ^= hash >> 13;
	hash *= 0xC2B2AE35;
	hash ^= hash >> 16;
	return hash % LANES;
}
