/*
 * op.c
 *		Ops: increments and transfers that count once, by the ids that their callers gave.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The record of an op is a row of the counter table's table of ops. It is written by the
 * transaction that applies the op, and found by any transaction that sends the op again. The
 * table is a ring of partitions, so that old records go without deletes (opjob.c). A partition
 * is open (records are written to it), closed (they are searched for in it) or expired and empty.
 * While the next one is opening, records are written to both.
 *
 * Why two transactions with the same op always meet in the unique index of
 * one partition: a writer locks the table of ops (ROW EXCLUSIVE, to the end of
 * its transaction), reads the states, looks into all partitions that are not expired
 * or empty, and then inserts into all that are written to. The job makes one change at a
 * time. Before the next one it waits for all transactions that had the lock when the last
 * one was committed. So the states that two writers know are the same, or neighbours:
 *
 *	  {k open}, {k open, k+1 opening}		both insert into k
 *	  {k open, k+1 opening}, {k closed, k+1 open}	both insert into k+1
 *
 * and a writer that has inserted into k alone has ended before k is closed. The record that
 * it has committed in k is found by the other writer, which looks there. A dirty snapshot
 * does not depend on the transaction's own snapshot; under REPEATABLE READ
 * and SERIALIZABLE a record that this one does not see is a serialization failure.
 *
 * Both insert in the order of the ring, and look into closed partitions before they
 * insert anything, so waiting for each other they do not deadlock.
 *
 * An id that carries its time (optime.c) is refused when its record may
 * have been forgotten: when it is older than the retention, or made before the
 * time up to which records are gone. The catalog keeps that time, so no clock matters. A
 * record is written when the id's time is at most DC_OP_TOLERANCE ahead, and the
 * clock may have been set back as much since. So all ids up to twice that later than the
 * close of a partition may be in it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/key.h"
#include "core/table/guard.h"
#include "transactional/once/op.h"
#include "transactional/once/opslot.h"
#include "transactional/once/optime.h"

/*
 * What looks like a ULID, but has a time before 2016 or this far ahead, is taken for an id
 * without a time.
 */
#define ULID_FROM_MS (INT64CONST(1451606400) * 1000) /* 2016 */
#define ULID_AHEAD_MS (INT64CONST(365) * SECS_PER_DAY * 1000)

#define ERRCODE_OP_EXPIRED MAKE_SQLSTATE('L', 'G', '0', '0', '4')

/* The last op was new. It is only a guess about the next one. */
static bool expect_new = false;

struct DcOpLog
{
	DcCounter *counter;
	bool write;
	int nslots;
	TimestampTz forgotten;
	DcOpSlot *entries; /* in the cache */
	DcOpSlot slots[DC_OP_SLOTS];
	DcOpRel rels[DC_OP_SLOTS];
};

static DcOpLog *open_log(DcCounter *counter, LOCKMODE mode);
static void op_check_seen(DcOpLog *log, const DcOp *op, bool exists);
static bool find_op(DcOpLog *log, const DcOp *op, DcOpFind how,
					DcOp *found);
static bool insert_into_slot(DcOpLog *log, int i, const DcOp *op,
							 ItemPointer tid, DcOp *found);

/*
 * op_id_arg reads an op's id from an argument of an SQL function. Errors: 22004
 * for NULL, 22023 for an empty one, 54000 for one that is too long.
 */
void
op_id_arg(FunctionCallInfo fcinfo, int argno, DcOp *op)
{
	arg_not_null(fcinfo, argno, "op_id");
	op_id_from_text(PG_GETARG_DATUM(argno), op);
}

/*
 * op_id_from_text does the same for a text.
 */
void
op_id_from_text(Datum value, DcOp *op)
{
	text *id = DatumGetTextPP(value);

	op->id = VARDATA_ANY(id);
	op->id_len = VARSIZE_ANY_EXHDR(id);
	check_length("op_id", op->id_len, 1, DC_MAX_OP_BYTES);
}

/*
 * op_check_same raises 23505 if an op was applied with other arguments.
 */
void
op_check_same(const DcOp *op, const DcOp *found)
{
	DcKey key;
	DcKey first;

	key_from_text(op->key, &key);
	key_from_text(found->key, &first);
	if (op->delta == found->delta && op->digest == found->digest &&
		key_compare(&key, &first) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("op \"%s\" was already applied with different arguments",
					pnstrdup(op->id, op->id_len)),
			 errdetail("The first time, key was \"%s\" and delta was %lld.",
					   pnstrdup(first.data, first.len), (long long) found->delta)));
}

/*
 * ops_open opens the ops of a counter table, which is open to write. Makes
 * the tables if there are none yet.
 */
DcOpLog *
ops_open(DcCounter *counter)
{
	DcOpLog *log;

	while ((log = open_log(counter, RowExclusiveLock)) == NULL)
		ops_create(counter);
	return log;
}

/*
 * open_log locks the table of ops, and looks up the states of its partitions; NULL
 * if there is none.
 */
static DcOpLog *
open_log(DcCounter *counter, LOCKMODE mode)
{
	DcOpLog *log;
	DcOpSlots *entry;

	for (;;)
	{
		Oid ops;

		entry = opslots_find(counter->relid);
		if (entry == NULL)
			return NULL;
		ops = entry->ops;
		LockRelationOid(ops, mode);
		entry = opslots_find(counter->relid);
		if (entry != NULL && entry->ops == ops)
			break; /* or it was dropped and created again while we waited */
		UnlockRelationOid(ops, mode);
	}
	log = palloc(sizeof(DcOpLog));
	log->counter = counter;
	log->write = mode >= RowExclusiveLock;
	log->nslots = entry->nslots;
	log->forgotten = entry->forgotten;
	log->entries = entry->slots;
	for (int i = 0; i < entry->nslots; i++)
	{
		log->slots[i] = entry->slots[i];
		log->rels[i].heap = NULL;
	}
	return log;
}

/*
 * Close the ops of a counter table that ops_open() or open_log() has opened. Locks are kept.
 */
void
ops_close(DcOpLog *log)
{
	for (int i = 0; i < log->nslots; i++)
	{
		if (log->rels[i].heap != NULL)
			oprel_close(&log->rels[i]);
	}
	pfree(log);
}

/*
 * log_rel opens a partition when it is needed first, and keeps its layout in the
 * cache.
 */
static DcOpRel *
log_rel(DcOpLog *log, int i)
{
	DcOpRel *rel = &log->rels[i];
	DcOpSlot *slot = &log->slots[i];
	uint64 known = slot->checked;

	if (rel->heap == NULL)
		oprel_open(rel, slot, log->write && slot_is_written(slot));
	else
		oprel_check(rel); /* code of the owner may have run since */
	if (slot->checked == known)
		return rel;
	if (counter_is_ledger(log->counter))
		guard_check(guard_is_on(rel->heap) ? InvalidOid : RelationGetRelid(rel->heap));
	if (opslots_find(log->counter->relid) != NULL && log->entries[i].table == slot->table)
	{
		log->entries[i].checked = slot->checked;
		log->entries[i].layout = slot->layout;
	}
	return rel;
}

/*
 * op_time returns when an op's id was created, or 0 if it does not say.
 */
static TimestampTz
op_time(const DcOp *op, TimestampTz now)
{
	int64 ms;
	DcIdKind kind = id_time(op->id, op->id_len, &ms);
	TimestampTz at;

	if (kind == ID_OPAQUE)
		return 0;
	at = ms * 1000 - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	/* other ids may look like a ULID by chance */
	if (kind == ID_ULID &&
		(ms < ULID_FROM_MS || at > now + ULID_AHEAD_MS * 1000))
		return 0;
	return at;
}

/*
 * Return true if the record of an op that was created then may be gone.
 */
static bool
may_be_forgotten(DcOpLog *log, TimestampTz made, TimestampTz now)
{
	return made != 0 &&
		(made < now - log->counter->row.op_retention ||
		 (log->forgotten != 0 && made <= log->forgotten + 2 * DC_OP_TOLERANCE));
}

/*
 * ops_lookup looks for an op, and waits for a transaction in progress that has recorded it. If
 * the last op was new, this one probably is, and inserting it will show: then it does not look
 * into partitions that are inserted into. *found is in the caller's memory. Errors: LG004 when
 * it is so old that its record may be gone, 22023 when it says that it is from the future.
 */
bool
ops_lookup(DcOpLog *log, DcOp *op, DcOp *found)
{
	TimestampTz made = 0;

	if (log->counter->row.op_retention > 0)
	{
		TimestampTz now = GetCurrentTimestamp();

		made = op_time(op, now);
		if (made > now + DC_OP_TOLERANCE)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("op \"%s\" has a time in the future",
							pnstrdup(op->id, op->id_len)),
					 errdetail("It says that it was made at %s.",
							   timestamptz_to_str(made))));
		if (may_be_forgotten(log, made, now))
			ereport(ERROR,
					(errcode(ERRCODE_OP_EXPIRED),
					 errmsg("op \"%s\" has expired",
							pnstrdup(op->id, op->id_len)),
					 errdetail("It was made at %s, and it is no longer known whether it was applied.",
							   timestamptz_to_str(made))));
	}
	return find_op(log, op, FIND_TO_WRITE, found);
}

/*
 * Return true if an op was applied, as of now at any isolation level. It
 * waits for a transaction in progress that has recorded it, but not on a standby. Under
 * SERIALIZABLE the answer must also be true in the transaction's snapshot.
 */
DcOpStatus
ops_status(DcCounter *counter, DcOp *op, DcOp *found)
{
	DcOpLog *log = open_log(counter, AccessShareLock);
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz made = 0;
	DcOpStatus status = OP_NOT_APPLIED;

	if (log == NULL && !RecoveryInProgress())
	{
		/* the first op of all may be in progress */
		ops_wait_made(counter);
		log = open_log(counter, AccessShareLock);
	}
	if (log == NULL)
		return OP_NOT_APPLIED;
	if (counter->row.op_retention > 0)
		made = op_time(op, now);
	PushActiveSnapshot(GetLatestSnapshot());
	if (find_op(log, op, RecoveryInProgress() ? FIND_NOW : FIND_AND_WAIT,
				found))
		status = OP_APPLIED;
	else if (may_be_forgotten(log, made, now))
		status = OP_UNKNOWN;
	PopActiveSnapshot();
	if (IsolationIsSerializable())
		op_check_seen(log, op, status == OP_APPLIED);
	ops_close(log);
	return status;
}

/*
 * op_check_seen looks for an op in the transaction's snapshot, with predicate locks, so
 * that a transaction that records it later conflicts with this one. Raises 40001 if it is
 * not in the snapshot as it is now.
 */
static void
op_check_seen(DcOpLog *log, const DcOp *op, bool exists)
{
	DcOp seen;
	bool is_seen;

	PushCopiedSnapshot(GetTransactionSnapshot());
	UpdateActiveSnapshotCommandId();
	is_seen = find_op(log, op, FIND_NOW, &seen);
	PopActiveSnapshot();
	if (is_seen != exists)
		serialization_error();
}

/*
 * find_op looks into all partitions that may have an op. Those that are written to come first,
 * as most repeated ops are recent.
 */
static bool
find_op(DcOpLog *log, const DcOp *op, DcOpFind how, DcOp *found)
{
	for (int i = 0; i < log->nslots; i++)
	{
		if (slot_is_written(&log->slots[i]) &&
			!(how == FIND_TO_WRITE && expect_new) &&
			oprel_find(log_rel(log, i), op, how, found))
		{
			expect_new = false;
			return true;
		}
	}
	for (int i = 0; i < log->nslots; i++)
	{
		if (log->slots[i].state == SLOT_CLOSED &&
			oprel_find(log_rel(log, i), op, how, found))
			return true;
	}
	return false;
}

/*
 * ops_insert records an op that ops_lookup() has not found; false if
 * another transaction has recorded it since. Waits for one that is about to.
 */
bool
ops_insert(DcOpLog *log, const DcOp *op, DcOp *found)
{
	ItemPointerData tids[DC_OP_SLOTS];
	int order[DC_OP_SLOTS];
	int n = 0;

	/* the open one comes before the one that is opening */
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < log->nslots; i++)
		{
			if (log->slots[i].state == (pass == 0 ? SLOT_OPEN : SLOT_OPENING))
				order[n++] = i;
		}
	}
	for (int i = 0; i < n; i++)
	{
		if (insert_into_slot(log, order[i], op, &tids[i], found))
			continue;
		while (--i >= 0)
			oprel_delete(log_rel(log, order[i]), &tids[i]);
		expect_new = false;
		return false;
	}
	expect_new = true;
	return true;
}

/*
 * Insert an op into one partition; false if another transaction has recorded it, which *found
 * is set to then. Waits for a transaction that is about to.
 */
static bool
insert_into_slot(DcOpLog *log, int i, const DcOp *op, ItemPointer tid,
				 DcOp *found)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (oprel_insert(log_rel(log, i), op, tid))
			return true;
		if (oprel_find(log_rel(log, i), op, FIND_TO_WRITE, found))
			return false;
	}
}
