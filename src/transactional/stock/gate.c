/*
 * gate.c
 *		The sold-out gate: keys with nothing left, in shared memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * When a sale has sold out, most buyers are still to come. A key whose rows were seen at zero is
 * marked here, and takes of it are refused without reading a table.
 *
 * A mark must never outlive the first unit that could be sold. Protocol:
 *
 *	- Each partition has an epoch. A transaction that adds units to a key writes the
 *	  rows, then advances the epoch and removes the mark, all before it can commit
 *	  (units_add, gate_open).
 *	- A take that wants to mark a key reads the epoch, then surveys the key (survey.c). It
 *	  makes the mark only if the survey shows no unit and no transaction in progress
 *	  that has changed a row, and the epoch is still the same.
 *
 * So if the epoch was read before it was advanced, the mark is not made, or is
 * removed. If it was read afterwards, the survey finds the rows of a transaction in
 * progress, or the committed units; either way there is no mark. A take that is
 * rolled back gives its units back without advancing the epoch: while it was in progress
 * the key was not marked. A transaction that has written anything marks no key, as
 * its own changes may be undone.
 *
 *	- Time alone gives back the units of holds, so a mark ends when the first of the
 *	  key's holds expires (take.c).
 *	- A mark ends after MARK_MS in any case, by the monotonic clock. Rows that were not written
 *	  by this extension's functions are seen after that time. So are holds that expire because
 *	  the wall clock, on which their expiry depends, is set forward.
 *	- A crash or a restart empties the gate.
 *
 * Each partition's lock protects all of its fields. Keys of more than KEY_BYTES
 * bytes are not marked, and if a partition is full, the oldest mark is evicted: both
 * cost a read of the table.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lwlock.h"

#include "base/clock.h"
#include "base/shmem.h"
#include "transactional/stock/gate.h"

#define PARTITIONS 512
#define MARKS 8 /* in a partition */
#define KEY_BYTES 64
#define MARK_MS 1000

typedef struct DcMark
{
	DcMoment until; /* DC_LONG_AGO: free */
	Oid database;
	Oid counter;
	uint32 len;
	char key[KEY_BYTES];
} DcMark;

typedef struct DcGatePartition
{
	LWLock lock;
	uint64 epoch;
	DcMark marks[MARKS];
} DcGatePartition;

typedef struct DcGate
{
	DcGatePartition partitions[PARTITIONS];
} DcGate;

static DcGate *gate = NULL;

static void gate_area_init(void *area);
static DcGatePartition *gate_partition_of(const DcDeltaKey *key);
static DcMark *find_mark(DcGatePartition *partition, const DcDeltaKey *key);

/*
 * gate_init asks for the shared memory; called once, at preload.
 */
void
gate_init(void)
{
	shmem_add("dcounter sold-out gate", sizeof(DcGate), (void **) &gate,
			  gate_area_init);
}

/*
 * Initialize the locks of the gate's partitions; the marks are free as zeros.
 */
static void
gate_area_init(void *area)
{
	for (int i = 0; i < PARTITIONS; i++)
		shmem_init_lock(&((DcGate *) area)->partitions[i].lock);
}

/*
 * Return true if nothing of a key can be taken.
 */
bool
gate_is_shut(const DcDeltaKey *key)
{
	DcGatePartition *partition;
	DcMark *mark;
	bool shut;

	if (!gate_can_shut(key))
		return false;
	partition = gate_partition_of(key);
	LWLockAcquire(&partition->lock, LW_SHARED);
	mark = find_mark(partition, key);
	shut = mark != NULL && !moment_is_reached(mark->until);
	LWLockRelease(&partition->lock);
	return shut;
}

/*
 * Return true if a key could be marked at all.
 */
bool
gate_can_shut(const DcDeltaKey *key)
{
	return gate != NULL && key->len <= KEY_BYTES;
}

/*
 * gate_epoch returns the epoch of a key, for gate_shut(): while it is the same, nothing
 * was added to the key.
 */
uint64
gate_epoch(const DcDeltaKey *key)
{
	DcGatePartition *partition;
	uint64 epoch;

	if (gate == NULL)
		return 0;
	partition = gate_partition_of(key);
	LWLockAcquire(&partition->lock, LW_SHARED);
	epoch = partition->epoch;
	LWLockRelease(&partition->lock);
	return epoch;
}

/*
 * gate_shut marks a key, until a time by the wall clock (that of a hold) at most.
 */
void
gate_shut(const DcDeltaKey *key, uint64 epoch, TimestampTz expires_at)
{
	DcMoment until = moment_min(moment_at_wall(expires_at), moment_in(MARK_MS));
	DcGatePartition *partition;
	DcMark *mark;

	if (!gate_can_shut(key))
		return;
	partition = gate_partition_of(key);
	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	if (partition->epoch == epoch)
	{
		mark = find_mark(partition, key);
		if (mark == NULL)
		{
			mark = &partition->marks[0];
			for (int i = 1; i < MARKS; i++)
			{
				if (moment_is_before(partition->marks[i].until, mark->until))
					mark = &partition->marks[i];
			}
		}
		mark->until = until;
		mark->database = MyDatabaseId;
		mark->counter = key->counter;
		mark->len = key->len;
		memcpy(mark->key, key->data, key->len);
	}
	LWLockRelease(&partition->lock);
}

/*
 * gate_open removes the mark of a key, and makes attempts to set one fail that have begun. It
 * is stock_hooks->units_added.
 */
void
gate_open(DcCounter *counter, const DcDeltaKey *key)
{
	DcGatePartition *partition;
	DcMark *mark;

	if (gate == NULL)
		return;
	partition = gate_partition_of(key);
	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	partition->epoch++;
	mark = find_mark(partition, key);
	if (mark != NULL)
		mark->until = DC_LONG_AGO;
	LWLockRelease(&partition->lock);
}

/*
 * Return the partition for a key of this database.
 */
static DcGatePartition *
gate_partition_of(const DcDeltaKey *key)
{
	uint32 hash = hash_combine(delta_key_hash(key), murmurhash32(MyDatabaseId));

	return &gate->partitions[hash % PARTITIONS];
}

/*
 * find_mark returns the mark of a key, or NULL. The caller holds the lock.
 */
static DcMark *
find_mark(DcGatePartition *partition, const DcDeltaKey *key)
{
	for (int i = 0; i < MARKS; i++)
	{
		DcMark *mark = &partition->marks[i];

		if (mark->until.us != DC_LONG_AGO.us && mark->database == MyDatabaseId &&
			mark->counter == key->counter && mark->len == key->len &&
			memcmp(mark->key, key->data, key->len) == 0)
			return mark;
	}
	return NULL;
}
