/*
 * xactrooms.h
 *		The work of the rooms at the end of a transaction (see xactrooms.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_XACTROOMS_H
#define DC_XACTROOMS_H

#include "access/xact.h"

/* In the order in which they are called, which keeps commits from deadlocks (doc/internals.md). */
typedef enum DcXactRoom
{
	DC_XACT_PORTALS,	 /* opens portals again after an abort */
	DC_XACT_UNPUBLISHED, /* strikes off published rows */
	DC_XACT_WORKER,		 /* wakes the launcher */
	DC_XACT_HOT_ALARM,	 /* logs hot keys */
	DC_XACT_DISTINCT,	 /* writes the deltas of distinct values */
	DC_XACT_UNREAD,		 /* writes what was seen */
	DC_XACT_RULE,		 /* forgets dropped limits and presences */
	DC_XACT_PRESENCE,	 /* settles the events of presences */
	DC_XACT_BOUND,		 /* forgets the log of reference counts, which DC_XACT_COUNTER has written */
	DC_XACT_BUFFER,		 /* adds to memory, ends flushes */
	DC_XACT_CACHE,		 /* forgets cached keys */
	DC_XACT_COUNTER,	 /* writes reference counts of bound counters, then increments */
	DC_XACT_OUTBOX,		 /* writes events, as triggers of the writes before may have made some */
	DC_XACT_REGION,		 /* raises the beat: waits for other commits that publish */
	DC_XACT_LAST,		 /* hands over to memory, when all else is written */
	DC_XACT_CONSUMER,	 /* looks at the writes of all others */
	DC_XACT_STATS,		 /* counts the work of all others */
	DC_XACT_ACTIVITY,	 /* publishes what all others have done */
	DC_XACT_NROOMS
} DcXactRoom;

typedef bool (*DcXactIdle)(void);

/*
 * The rooms with something to do at the end of this transaction, and how many had their turn at
 * PRE_COMMIT.
 */
extern uint32 dc_xact_busy;
extern int dc_xact_passed;
extern bool dc_xact_prepares; /* it was PRE_PREPARE */

/*
 * xact_mark sets the bit of a room, which begins something that its callbacks end.
 */
static inline void
xact_mark(DcXactRoom room)
{
	dc_xact_busy |= UINT32_C(1) << room;
}

/*
 * xact_has_passed returns true if the turn of a room at PRE_COMMIT or PRE_PREPARE is over.
 */
static inline bool
xact_has_passed(DcXactRoom room)
{
	return dc_xact_passed > (int) room;
}

/*
 * xact_is_marked returns true if a room has something to do in this transaction.
 */
static inline bool
xact_is_marked(DcXactRoom room)
{
	return (dc_xact_busy & (UINT32_C(1) << room)) != 0;
}

/* Called when all rooms have written, before the commit record; set by the worker. */
extern void (*dc_xact_written)(void);

extern void xact_rooms_init(void);
extern void xact_end_temporary(void);
extern void xact_room_add(DcXactRoom room, XactCallback xact, SubXactCallback subxact, DcXactIdle idle);

#endif /* DC_XACTROOMS_H */
