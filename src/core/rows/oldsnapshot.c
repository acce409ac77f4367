/*
 * oldsnapshot.c
 *		Detecting old snapshots that keep dead rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The server knows the oldest transaction whose rows a table must keep (its removable
 * horizon), but not how long that has been so. So the next transaction id is
 * noted every OLD_AFTER. If the horizon is before an id that was noted at least that long ago, a
 * snapshot, a transaction, a slot or a standby that is older than OLD_AFTER holds it back.
 *
 * The notes are in shared memory if there is any, so that a session that has just begun, or a
 * worker that is back in its database, knows as much as the others. Otherwise each
 * process has its own notes, and regards no snapshot as old during its first OLD_AFTER.
 *
 * No lock protects the notes. Processes that write them at the same time may mix
 * them, so that an id is stored with the moment of another one. Then, until the next note, a
 * younger snapshot counts as old, or an older one does not. The answer only affects speed:
 * it decides whether rows without amounts stay.
 */
#include "postgres.h"

#include "access/transam.h"
#include "storage/procarray.h"

#include "base/clock.h"
#include "base/shmem.h"
#include "core/rows/oldsnapshot.h"

/* Age from which on a snapshot is old, us. */
#define OLD_AFTER INT64CONST(1000000)

/* Notes are forgotten long before transaction ids could have wrapped around since, us. */
#define FORGET_AFTER (3600 * INT64CONST(1000000))

/* The next transaction id at a moment. */
typedef struct DcNote
{
	pg_atomic_uint64 at;
	pg_atomic_uint32 xid;
} DcNote;

typedef struct DcNotes
{
	DcNote last;
	DcNote before; /* at least OLD_AFTER old, once there is one */
} DcNotes;

/* In shared memory, or NULL. */
static DcNotes *shared_notes = NULL;

/* Of this process, if there is no shared memory. */
static DcNotes own_notes;

/*
 * Initialize the notes: no id is known yet.
 */
static void
notes_init(void *area)
{
	DcNotes *notes = area;

	pg_atomic_init_u64(&notes->last.at, 0);
	pg_atomic_init_u32(&notes->last.xid, InvalidTransactionId);
	pg_atomic_init_u64(&notes->before.at, 0);
	pg_atomic_init_u32(&notes->before.xid, InvalidTransactionId);
}

/*
 * old_snapshot_init asks for the shared memory; called once, at preload.
 */
void
old_snapshot_init(void)
{
	shmem_add("dcounter transaction ids", sizeof(DcNotes), (void **) &shared_notes,
			  notes_init);
}

/*
 * Return the notes in shared memory, or those of this process if there are none.
 */
static DcNotes *
notes_get(void)
{
	static bool initialized = false;

	if (shared_notes != NULL)
		return shared_notes;
	if (!initialized)
		notes_init(&own_notes);
	initialized = true;
	return &own_notes;
}

/*
 * Return true if anything keeps dead rows of a table that were live
 * OLD_AFTER ago.
 */
bool
old_snapshot_held(Relation rel)
{
	DcNotes *notes = notes_get();
	DcMoment now = moment_now();
	TransactionId xid;

	if (moment_diff(moment_read(&notes->last.at), now) >= OLD_AFTER)
	{
		pg_atomic_write_u32(&notes->before.xid, pg_atomic_read_u32(&notes->last.xid));
		moment_write(&notes->before.at, moment_read(&notes->last.at));
		pg_atomic_write_u32(&notes->last.xid, ReadNextTransactionId());
		moment_write(&notes->last.at, now);
	}
	xid = pg_atomic_read_u32(&notes->before.xid);
	return TransactionIdIsNormal(xid) &&
		moment_diff(moment_read(&notes->before.at), now) < FORGET_AFTER &&
		TransactionIdPrecedes(GetOldestNonRemovableTransactionId(rel), xid);
}
