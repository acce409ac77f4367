/*
 * opjob.c
 *		The job that turns the ring of partitions of ops.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A step makes one change and commits it; op.c says why writers whose knowledge
 * is one change apart meet. Before the next change of the partitions that are written to,
 * and before one is emptied, the job waits for all writers that may not know the last change
 * (core/table/partition.c).
 *
 *	- The open partition has been open for half of op_retention, and has ops:
 *	  the next one, if it is empty, is opening.
 *	- Then the open one is closed, and the next one is open.
 *	- A closed one expires when all of its ops are older than op_retention plus twice
 *	  DC_OP_TOLERANCE.
 *	- An expired one is emptied by TRUNCATE, and it is noted up to when ops are
 *	  forgotten.
 *
 * If no partition is empty when it is time, the open one stays open for longer.
 *
 * A ring that a subscription feeds is not turned (opjob_step_fed).
 *
 * The wall clock says when: rows outlive the server, and the ids of ops have wall time in them.
 * When it is set back, the open one stays open, and closed ones are kept, longer by that much.
 * It must be so: a partition is not closed before half of op_retention has passed since it was
 * opened, and so at a time that is later than its ops. When it is set forward, partitions go
 * earlier by that much. op.c says which ops are refused then.
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/lmgr.h"
#include "storage/lock.h"

#include "base/clock.h"
#include "base/runas.h"
#include "core/compact/compact.h"
#include "core/table/ownstatement.h"
#include "core/table/partition.h"
#include "core/table/protect.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "transactional/once/opslot.h"

/*
 * While a ring is fed, `since` of a closed partition is updated when it is older than this.
 */
#define CLOSED_SINCE_MAX (10 * USECS_PER_MINUTE)

static List *opjob_list(void);
static DcTableStep opjob_step(Oid table, bool all_owners);
static DcTableStep opjob_step_fed(Oid table, bool all_owners);
static bool lock_ring(DcCounter *counter, DcOpSlot *slots, int *nslots);
static DcOpSlot *find_state(DcOpSlot *slots, int nslots, DcSlotState state);
static void finish_opening(DcOpSlot *open, DcOpSlot *opening);
static bool start_opening(DcCounter *counter, DcOpSlot *slots,
						  DcOpSlot *open);
static bool opjob_expire(DcCounter *counter, DcOpSlot *slots, int nslots);
static bool opjob_empty(DcCounter *counter, DcOpSlot *slot);
static void set_state(DcOpSlot *slot, DcSlotState state);

/*
 * op_job goes over the counter tables that have ops; true if it has yielded.
 */
bool
op_job(DcJobRun *run)
{
	static DcTableJob job = {.list = opjob_list, .step = opjob_step, .step_fed = opjob_step_fed};

	return table_job_run(&job, run);
}

/*
 * opjob_list lists the counter tables that have ops; none while a subscription feeds the
 * catalog of their states.
 */
static List *
opjob_list(void)
{
	return extension_is_fed() ? NIL : opslots_counters();
}

/*
 * opjob_step makes one change, if it is time.
 */
static DcTableStep
opjob_step(Oid table, bool all_owners)
{
	DcCounter *counter = compact_open(table, all_owners);
	DcOpSlot slots[DC_OP_SLOTS];
	DcOpSlot *open;
	DcOpSlot *other;
	int nslots;

	if (counter == NULL || counter->row.op_retention == 0 ||
		!lock_ring(counter, slots, &nslots))
		return TABLE_DONE;
	if (nslots < DC_OP_SLOTS)
	{
		ops_create(counter); /* until now they were kept forever */
		return TABLE_GOES_ON;
	}
	open = find_state(slots, nslots, SLOT_OPEN);
	other = find_state(slots, nslots, SLOT_OPENING);
	if (open != NULL && other != NULL)
	{
		if (!writers_have_ended(other->ops, other->changed_by, other->since))
			return TABLE_DONE;
		finish_opening(open, other);
		return TABLE_GOES_ON;
	}
	if (open != NULL && start_opening(counter, slots, open))
		return TABLE_GOES_ON;
	if (opjob_expire(counter, slots, nslots))
		return TABLE_GOES_ON;
	other = find_state(slots, nslots, SLOT_EXPIRED);
	if (other != NULL && writers_have_ended(other->ops, other->changed_by, other->since) &&
		opjob_empty(counter, other))
		return TABLE_GOES_ON;
	return TABLE_DONE;
}

/*
 * opjob_step_fed makes all partitions closed that are not written to here. Those that the
 * subscription writes to are among them. The job of the publisher empties them. So all ops are
 * searched for when the subscription is dropped, and are kept for as long as the others. Ops that
 * the publisher may have forgotten by now are forgotten here, too.
 */
static DcTableStep
opjob_step_fed(Oid table, bool all_owners)
{
	DcCounter *counter = compact_open(table, all_owners);
	TimestampTz now = GetCurrentTimestamp();
	DcOpSlot slots[DC_OP_SLOTS];
	int nslots;

	if (counter == NULL || counter->row.op_retention == 0 ||
		!lock_ring(counter, slots, &nslots))
		return TABLE_DONE;
	for (int i = 0; i < nslots; i++)
	{
		DcOpSlot *slot = &slots[i];

		if (slot_is_written(slot) ||
			(slot->state == SLOT_CLOSED && slot->closed_at > now - CLOSED_SINCE_MAX))
			continue;
		slot->closed_at = now;
		slot->forgotten = Max(slot->forgotten, now - counter->row.op_retention - 2 * DC_OP_TOLERANCE);
		set_state(slot, SLOT_CLOSED);
	}
	return TABLE_DONE;
}

/*
 * lock_ring makes this transaction the only one that changes the states of a ring, and reads
 * them. Returns false if another one does, or if this one has made a change already: then it is
 * not committed yet.
 */
static bool
lock_ring(DcCounter *counter, DcOpSlot *slots, int *nslots)
{
	*nslots = opslots_read(counter->relid, slots);
	if (*nslots == 0 ||
		!turn_begin(slots[0].ops))
		return false;
	*nslots = opslots_read(counter->relid, slots);
	for (int i = 0; i < *nslots; i++)
	{
		if (TransactionIdIsCurrentTransactionId(slots[i].changed_by))
			return false;
	}
	return *nslots > 0;
}

/*
 * find_state returns the slot that came into a state first, or NULL if none is in it.
 */
static DcOpSlot *
find_state(DcOpSlot *slots, int nslots, DcSlotState state)
{
	DcOpSlot *found = NULL;

	for (int i = 0; i < nslots; i++)
	{
		if (slots[i].state == state && (found == NULL || slots[i].since < found->since))
			found = &slots[i];
	}
	return found;
}

/*
 * finish_opening closes the open slot; the one that was opening is open.
 */
static void
finish_opening(DcOpSlot *open, DcOpSlot *opening)
{
	open->closed_at = Max(GetCurrentTimestamp(), open->since);
	set_state(open, SLOT_CLOSED);
	set_state(opening, SLOT_OPEN);
}

/*
 * start_opening opens the next slot of the ring, if it is time and it is empty.
 */
static bool
start_opening(DcCounter *counter, DcOpSlot *slots, DcOpSlot *open)
{
	DcOpSlot *next = &slots[(open->number + 1) % DC_OP_SLOTS];

	if (next->state != SLOT_EMPTY ||
		GetCurrentTimestamp() < open->since + counter->row.op_retention / 2 ||
		!ConditionalLockRelationOid(open->table, AccessShareLock) ||
		relation_is_empty(open->table))
		return false;
	set_state(next, SLOT_OPENING);
	return true;
}

/*
 * opjob_expire ends the use of a closed slot, if it is time.
 */
static bool
opjob_expire(DcCounter *counter, DcOpSlot *slots, int nslots)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < nslots; i++)
	{
		if (slots[i].state != SLOT_CLOSED ||
			now <= slots[i].closed_at + counter->row.op_retention + 2 * DC_OP_TOLERANCE)
			continue;
		slots[i].forgotten = Max(slots[i].forgotten, slots[i].closed_at);
		set_state(&slots[i], SLOT_EXPIRED);
		return true;
	}
	return false;
}

/*
 * opjob_empty truncates an expired partition; false if it is in use.
 */
static bool
opjob_empty(DcCounter *counter, DcOpSlot *slot)
{
	DcRunAs state;

	if (!partition_lock_at_once(slot->table))
		return false;
	runas_begin(&state, counter->owner);
	partition_empty(slot->table);
	runas_end(&state);
	slot->closed_at = 0;
	set_state(slot, SLOT_EMPTY);
	return true;
}

/*
 * Change the state of a slot, as of now, in the catalog.
 */
static void
set_state(DcOpSlot *slot, DcSlotState state)
{
	slot->state = state;
	slot->since = GetCurrentTimestamp();
	opslot_update(slot);
}
