/*
 * opslot.h
 *		The partitions of a table of ops, and their states (see opslot.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OPSLOT_H
#define DC_OPSLOT_H

#include "utils/rel.h"
#include "utils/timestamp.h"

#include "core/table/catalog.h"
#include "core/table/shape.h"
#include "transactional/once/op.h"

/* Partitions of a ring. Ops that are kept forever have the first one only. */
#define DC_OP_SLOTS 4

/*
 * How far the clock of a client may be ahead, and that of the server may be set
 * back.
 */
#define DC_OP_TOLERANCE USECS_PER_HOUR

typedef enum DcSlotState
{
	SLOT_EMPTY,
	SLOT_OPENING, /* ops are inserted here, too */
	SLOT_OPEN,	  /* ops are inserted here */
	SLOT_CLOSED,  /* ops are looked for here */
	SLOT_EXPIRED  /* no session looks here; to be emptied */
} DcSlotState;

/* A row of dcounter.op_slot. */
typedef struct DcOpSlot
{
	Oid counter;
	int number;
	Oid ops;
	Oid table; /* the partition */
	DcSlotState state;
	TimestampTz since;	   /* of this state */
	TimestampTz closed_at; /* of a closed or expired one */
	TimestampTz forgotten; /* ops that it had up to then are gone; 0: none */
	TransactionId changed_by;

	/* found out when it is opened (opslot_check) */
	uint64 checked; /* nothing has changed since, while this is the latest */
	DcTableLayout layout;
} DcOpSlot;

/* The slots of a counter table, as this backend knows them. */
typedef struct DcOpSlots
{
	Oid counter; /* hash key */
	bool valid;
	Oid ops;
	int nslots;
	TimestampTz forgotten; /* the latest of all of them; 0: nothing */
	DcOpSlot slots[DC_OP_SLOTS];
} DcOpSlots;

static inline bool
slot_is_written(const DcOpSlot *slot)
{
	return slot->state == SLOT_OPEN || slot->state == SLOT_OPENING;
}

/* Columns of a table of ops. */
enum
{
	OP_SLOT,
	OP_ID,
	OP_KEY,
	OP_DELTA,
	OP_TRANSFER_ID,
	OP_DIGEST,
	OP_AT,
	OP_NUM_COLUMNS
};

extern DcOpSlots *opslots_find(Oid counter);
extern int opslots_read(Oid counter, DcOpSlot *slots);
extern bool opslots_read_first(Oid counter, DcOpSlot *slot);
extern bool opslots_find_table(Oid relid, Oid *counter, Oid *ops);
extern void opslot_insert(const DcOpSlot *slot);
extern void opslot_update(const DcOpSlot *slot);
extern int opslots_delete(Oid counter);
extern uint64 opslots_changes(void);
extern List *opslots_counters(void);

/* opshape.c */
extern void opslot_check(DcOpSlot *slot, Relation heap);

/* One partition that is open (opdirect.c). */
typedef struct DcOpRel
{
	DcOpSlot *slot;
	Relation heap; /* NULL: not open */
	Relation index;
	LOCKMODE mode;
} DcOpRel;

/* How to look for an op. */
typedef enum DcOpFind
{
	FIND_TO_WRITE, /* wait for other transactions; 40001 if our snapshot does not see it */
	FIND_AND_WAIT, /* wait for others */
	FIND_NOW	   /* what is committed now */
} DcOpFind;

extern void oprel_open(DcOpRel *rel, DcOpSlot *slot, bool write);
extern void oprel_check(DcOpRel *rel);
extern void oprel_close(DcOpRel *rel);
extern bool oprel_find(DcOpRel *rel, const DcOp *op, DcOpFind how,
					   DcOp *found);
extern bool oprel_insert(DcOpRel *rel, const DcOp *op,
						 ItemPointer tid);
extern void oprel_delete(DcOpRel *rel, ItemPointer tid);

#endif /* DC_OPSLOT_H */
