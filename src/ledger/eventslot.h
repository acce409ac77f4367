/*
 * eventslot.h
 *		The partitions of a table of events, and their states (see eventslot.c).
 */
#ifndef DC_EVENTSLOT_H
#define DC_EVENTSLOT_H

#include "base/catalog.h"
#include "ledger/event.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* Partitions of a ring. Events that are kept for good have the first one only. */
#define DC_EVENT_SLOTS 4

/*
 * How far the clock of a client may be ahead, and that of the server may be set
 * back.
 */
#define DC_EVENT_TOLERANCE USECS_PER_HOUR

typedef enum DcSlotState
{
	SLOT_EMPTY,
	SLOT_OPENING, /* events are inserted here, too */
	SLOT_OPEN,	  /* events are inserted here */
	SLOT_CLOSED,  /* events are looked for here */
	SLOT_EXPIRED  /* nobody looks here; to be emptied */
} DcSlotState;

/* A row of dcounter.event_slot. */
typedef struct DcEventSlot
{
	int number;
	Oid events;
	Oid table; /* the partition */
	DcSlotState state;
	TimestampTz since;	   /* of this state */
	TimestampTz closed_at; /* of a closed or expired one */
	TimestampTz forgotten; /* events that it had up to then are gone; 0: none */
	TransactionId changed_by;

	/* for access without SQL: found out when it is opened (eventslot_layout) */
	uint64 checked; /* nothing has changed since, while this is the latest */
	bool direct;	/* insert without SQL */
	bool by_index;	/* find without SQL */
	Oid index;		/* the unique one on event_id */
} DcEventSlot;

/* The slots of a counter table, as this backend knows them. */
typedef struct DcEventSlots
{
	Oid counter; /* hash key */
	bool valid;
	Oid events;
	int nslots;
	TimestampTz forgotten; /* the latest of all of them; 0: nothing */
	DcEventSlot slots[DC_EVENT_SLOTS];
} DcEventSlots;

static inline bool
slot_is_written(const DcEventSlot *slot)
{
	return slot->state == SLOT_OPEN || slot->state == SLOT_OPENING;
}

/* Columns of a table of events, in its own order. */
enum
{
	EVENT_SLOT = 1,
	EVENT_ID,
	EVENT_KEY,
	EVENT_DELTA,
	EVENT_TRANSFER_ID,
	EVENT_DIGEST,
	EVENT_AT,
	EVENT_NUM_COLUMNS = EVENT_AT
};

extern DcEventSlots *eventslots_find(Oid counter);
extern int eventslots_read(Oid counter, DcEventSlot *slots);
extern bool eventslots_read_first(Oid counter, DcEventSlot *slot);
extern bool eventslots_find_table(Oid relid, Oid *counter, Oid *events);
extern void eventslot_insert(Oid counter, const DcEventSlot *slot);
extern void eventslot_update(Oid counter, const DcEventSlot *slot);
extern int eventslots_delete(Oid counter);
extern uint64 eventslots_changes(void);
extern List *eventslots_counters(void);
extern const char *slot_state_name(DcSlotState state);

/* eventlayout.c */
extern void eventslot_layout(DcEventSlot *slot, Relation heap);


/* One partition that is open for access without SQL (eventdirect.c). */
typedef struct DcEventRel
{
	DcEventSlot *slot;
	Relation heap;	/* NULL: not open */
	Relation index; /* NULL: to be searched with SQL */
	LOCKMODE mode;
} DcEventRel;

/* How to look for an event. */
typedef enum DcEventFind
{
	FIND_TO_WRITE, /* wait for others; 40001 if our snapshot does not see it */
	FIND_AND_WAIT, /* wait for others */
	FIND_NOW	   /* what is committed now */
} DcEventFind;

extern void eventrel_open(DcEventRel *rel, DcEventSlot *slot, bool write);
extern void eventrel_check(DcEventRel *rel);
extern void eventrel_close(DcEventRel *rel);
extern bool direct_find(DcEventRel *rel, const DcEvent *event, DcEventFind how,
						DcEvent *found);
extern bool direct_insert_event(DcEventRel *rel, const DcEvent *event,
								ItemPointer tid);
extern void direct_delete_event(DcEventRel *rel, ItemPointer tid);

/* The same with SQL (eventsql.c). */
extern bool sql_find_event(Oid owner, const DcEventSlot *slot,
						   const DcEvent *event, DcEventFind how, DcEvent *found);
extern bool sql_insert_event(Oid owner, const DcEventSlot *slot,
							 const DcEvent *event);
extern void sql_delete_event(Oid owner, const DcEventSlot *slot,
							 const DcEvent *event);

#endif /* DC_EVENTSLOT_H */
