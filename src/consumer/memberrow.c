/*
 * memberrow.c
 *		Rows of dcounter.consumer_member: positions of consumers and members.
 *
 * A row changes with every fetch and every acknowledgement. An update in place would
 * leave a chain of dead versions that grows while any snapshot is held, and has
 * to be walked by each reader. So each version has a number, which is part of
 * the primary key and grows for ever: the newest version is the last entry of
 * (consumer, member), found by one descent of the index, backwards, however many
 * dead ones there are before it. All members of a consumer are found the same
 * way: the last entry of the consumer, then the last one before that member, and
 * so on, never through the dead ones.
 *
 * Who reads a row in order to change it, or to act upon it, first takes the lock on
 * (consumer, member), and keeps it to the end of the transaction. A fetch takes
 * it without waiting, an acknowledgement waits. With the lock held all earlier
 * changes are committed or undone, so SnapshotSelf shows the one row there is,
 * whatever the isolation level, and no update can fail. Without the lock a read may
 * miss a row that is being replaced, which is then looked for again.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/compat.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "consumer/consumer.h"
#include "consumer/consumerlock.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Columns of dcounter.consumer_member */
enum
{
	COL_CONSUMER = 1,
	COL_MEMBER,
	COL_VERSION,
	COL_LANES,
	COL_ACKED,
	COL_POSITIONS,
	COL_FETCHED,
	COL_DELIVERED,
	COL_ATTEMPTS,
	COL_SKIP,
	COL_RETRIES,
	COL_LEASE_UNTIL,
	COL_RETRY_DUE,
	COL_RETRY_FIRST,
	COL_RETRY_LAST,
	COL_REVIVED,
	NUM_COLS = COL_REVIVED
};

static void member_tag(LOCKTAG *tag, int32 consumer, const char *name);
static bool scan_last(ScanKey keys, int nkeys, Snapshot snapshot, DcMember *member);
static void member_deform(Relation rel, HeapTuple tuple, DcMember *member);
static int int8_array(Datum value, int64 *items, int max);
static HeapTuple member_form(Relation rel, const DcMember *member);
static Datum int8_array_datum(const int64 *items, int count);

/*
 * member_lock makes this transaction the only one that works on a member; false
 * if it would have to wait, and may not. held_before, if not NULL, tells whether
 * the transaction had the lock already.
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
 * member_unlock takes back a call of member_lock after which nothing was changed.
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
		number = Max(number, CONSUMER_LOCK_SELF + 1);
	}
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, (uint32) consumer, number, CONSUMER_LOCK_CLASS);
}

/*
 * member_read reads the newest row of a member; false if there is none.
 */
bool
member_read(int32 consumer, const char *name, DcMember *member)
{
	for (int i = 0; i < 2; i++)
	{
		ScanKeyData keys[2];

		ScanKeyInit(&keys[0], COL_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
					Int32GetDatum(consumer));
		ScanKeyInit(&keys[1], COL_MEMBER, BTEqualStrategyNumber, F_TEXTEQ,
					CStringGetTextDatum(name));
		if (scan_last(keys, 2, SnapshotSelf, member))
			return true;
	}
	return false;
}

/*
 * member_read_all returns the newest rows of all members of a consumer (DcMember *),
 * the consumer itself included. With SnapshotSelf some may be missing.
 */
List *
member_read_all(int32 consumer, Snapshot snapshot)
{
	List *all = NIL;
	DcMember *member = palloc(sizeof(DcMember));
	ScanKeyData keys[2];
	int nkeys = 1;

	for (;;)
	{
		/* a scan changes the keys it is given */
		ScanKeyInit(&keys[0], COL_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
					Int32GetDatum(consumer));
		if (nkeys == 2)
			ScanKeyInit(&keys[1], COL_MEMBER, BTLessStrategyNumber, F_TEXT_LT,
						CStringGetTextDatum(((DcMember *) llast(all))->name));
		if (!scan_last(keys, nkeys, snapshot, member))
			break;
		all = lappend(all, member);
		if (member->name[0] == '\0')
			return all; /* nothing sorts before it */
		member = palloc(sizeof(DcMember));
		nkeys = 2;
	}
	pfree(member);
	return all;
}

/*
 * scan_last reads the last visible row, by the primary key, that fits the keys.
 */
static bool
scan_last(ScanKey keys, int nkeys, Snapshot snapshot, DcMember *member)
{
	Relation rel = table_open(consumer_relation(REL_MEMBER), AccessShareLock);
	Relation index = index_open(consumer_relation(REL_MEMBER_PKEY), AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(rel, index, snapshot, nkeys, keys);
	HeapTuple tuple = systable_getnext_ordered(scan, BackwardScanDirection);
	bool found = HeapTupleIsValid(tuple);

	if (found)
		member_deform(rel, tuple, member);
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return found;
}

static void
member_deform(Relation rel, HeapTuple tuple, DcMember *member)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS];
	int64 acked;
	int npositions = 0;

	heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
	member->tid = tuple->t_self;
	member->consumer = DatumGetInt32(values[COL_CONSUMER - 1]);
	text_to_cstring_buffer(DatumGetTextPP(values[COL_MEMBER - 1]), member->name,
						   sizeof(member->name));
	member->version = DatumGetInt64(values[COL_VERSION - 1]);
	member->lanes = (uint64) DatumGetInt64(values[COL_LANES - 1]);
	acked = DatumGetInt64(values[COL_ACKED - 1]);
	if (!nulls[COL_POSITIONS - 1])
		npositions = int8_array(values[COL_POSITIONS - 1], member->positions, LANES);
	for (int i = npositions; i < LANES; i++)
		member->positions[i] = acked;
	member->fetched = DatumGetInt64(values[COL_FETCHED - 1]);
	member->delivered = DatumGetInt64(values[COL_DELIVERED - 1]);
	member->nattempts = 0;
	if (!nulls[COL_ATTEMPTS - 1])
		member->nattempts = int8_array(values[COL_ATTEMPTS - 1], (int64 *) member->attempts,
									   2 * ATTEMPTS_MAX) /
			2;
	member->skip = DatumGetBool(values[COL_SKIP - 1]);
	member->nretries = 0;
	if (!nulls[COL_RETRIES - 1])
		member->nretries = int8_array(values[COL_RETRIES - 1], member->retries,
									  RETRIES_MAX);
	member->lease_until = DatumGetTimestampTz(values[COL_LEASE_UNTIL - 1]);
	member->retry_due = nulls[COL_RETRY_DUE - 1] ? 0 : DatumGetTimestampTz(values[COL_RETRY_DUE - 1]);
	member->retry_first = DatumGetInt64(values[COL_RETRY_FIRST - 1]);
	member->retry_last = DatumGetInt64(values[COL_RETRY_LAST - 1]);
	member->revived = DatumGetInt64(values[COL_REVIVED - 1]);
}

static int
int8_array(Datum value, int64 *items, int max)
{
	ArrayType *array = DatumGetArrayTypeP(value);
	int count = Min(ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)), max);

	memcpy(items, ARR_DATA_PTR(array), count * sizeof(int64));
	if ((Pointer) array != DatumGetPointer(value))
		pfree(array);
	return count;
}

/*
 * member_new makes a member that has nothing and is not stored.
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
	Relation rel = table_open(consumer_relation(REL_MEMBER), RowExclusiveLock);
	HeapTuple tuple;

	member->version++;
	tuple = member_form(rel, member);
	if (ItemPointerIsValid(&member->tid))
		CatalogTupleUpdate(rel, &member->tid, tuple);
	else
		CatalogTupleInsert(rel, tuple);
	member->tid = tuple->t_self;
	heap_freetuple(tuple);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/*
 * member_delete removes a member. Its lock is held.
 */
void
member_delete(DcMember *member)
{
	Relation rel = table_open(consumer_relation(REL_MEMBER), RowExclusiveLock);

	CatalogTupleDelete(rel, &member->tid);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

static HeapTuple
member_form(Relation rel, const DcMember *member)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};
	int64 acked = member_acked(member);
	bool level = true;

	for (int i = 0; i < LANES; i++)
	{
		if (lanes_have(member->lanes, i) && member->positions[i] != acked)
			level = false;
	}
	values[COL_CONSUMER - 1] = Int32GetDatum(member->consumer);
	values[COL_MEMBER - 1] = CStringGetTextDatum(member->name);
	values[COL_VERSION - 1] = Int64GetDatum(member->version);
	values[COL_LANES - 1] = Int64GetDatum((int64) member->lanes);
	values[COL_ACKED - 1] = Int64GetDatum(acked);
	nulls[COL_POSITIONS - 1] = level;
	values[COL_POSITIONS - 1] = level ? (Datum) 0 : int8_array_datum(member->positions, LANES);
	values[COL_FETCHED - 1] = Int64GetDatum(member->fetched);
	values[COL_DELIVERED - 1] = Int64GetDatum(member->delivered);
	nulls[COL_ATTEMPTS - 1] = member->nattempts == 0;
	values[COL_ATTEMPTS - 1] = member->nattempts == 0 ? (Datum) 0 : int8_array_datum((const int64 *) member->attempts, 2 * member->nattempts);
	values[COL_SKIP - 1] = BoolGetDatum(member->skip);
	nulls[COL_RETRIES - 1] = member->nretries == 0;
	values[COL_RETRIES - 1] = member->nretries == 0 ? (Datum) 0 : int8_array_datum(member->retries, member->nretries);
	values[COL_LEASE_UNTIL - 1] = TimestampTzGetDatum(member->lease_until);
	nulls[COL_RETRY_DUE - 1] = member->retry_due == 0;
	values[COL_RETRY_DUE - 1] = TimestampTzGetDatum(member->retry_due);
	values[COL_RETRY_FIRST - 1] = Int64GetDatum(member->retry_first);
	values[COL_RETRY_LAST - 1] = Int64GetDatum(member->retry_last);
	values[COL_REVIVED - 1] = Int64GetDatum(member->revived);
	return heap_form_tuple(RelationGetDescr(rel), values, nulls);
}

static Datum
int8_array_datum(const int64 *items, int count)
{
	Datum *values = palloc(count * sizeof(Datum));

	for (int i = 0; i < count; i++)
		values[i] = Int64GetDatum(items[i]);
	return PointerGetDatum(construct_array(values, count, INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
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
 * member_has_outstanding tells whether events were handed out that have not been
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
