/*
 * xactrooms.c
 *		One callback for the end of a transaction, and one for that of a subtransaction.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * About twenty rooms keep something until a transaction ends. Most transactions of a server use
 * none of them, and pay for one look at a word: a room that begins something sets its bit
 * (xact_mark), and only rooms whose bit is set are called, in the order of DcXactRoom. A room
 * may set the bit of another at PRE_COMMIT, whose turn comes if it is later in that order. If
 * it is earlier, or code of another extension calls us when all turns are over,
 * xact_has_passed() tells the room that it has to do its work at once.
 *
 * A bit is taken back when the room's callback for the end has returned and nothing is left
 * (DcXactIdle). With assertions, each end checks that a room without a bit is idle, so a
 * missing xact_mark() fails the tests.
 */
#include "postgres.h"

#include "commands/tablecmds.h"

#include "base/xactrooms.h"

typedef struct DcXactCallbacks
{
	XactCallback xact;
	SubXactCallback subxact;
	DcXactIdle idle;
} DcXactCallbacks;

uint32 dc_xact_busy = 0;
int dc_xact_passed = 0;
bool dc_xact_prepares = false;
void (*dc_xact_written)(void) = NULL;

static DcXactCallbacks rooms[DC_XACT_NROOMS];

StaticAssertDecl(DC_XACT_NROOMS <= 32, "rooms need a bit each");

static void rooms_xact_callback(XactEvent event, void *arg);
static void rooms_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg);
static void check_idle(void);

/*
 * xact_rooms_init registers the callbacks; called once.
 */
void
xact_rooms_init(void)
{
	RegisterXactCallback(rooms_xact_callback, NULL);
	RegisterSubXactCallback(rooms_subxact_callback, NULL);
}

/*
 * xact_room_add registers the callbacks of a room. subxact may be NULL. idle returns true if there
 * is nothing to do at the end of this transaction.
 */
void
xact_room_add(DcXactRoom room, XactCallback xact, SubXactCallback subxact, DcXactIdle idle)
{
	rooms[room] = (DcXactCallbacks){xact, subxact, idle};
}

/*
 * xact_end_temporary empties or drops the temporary tables of this transaction whose ON COMMIT says
 * so. The server does that after PRE_COMMIT, under locks for which it may wait: another session can
 * have locked such a table through one that it inherits from. So a room calls this before it takes a
 * lock at PRE_COMMIT for which transactions of others wait. The server finds nothing left to do, and
 * the locks held.
 */
void
xact_end_temporary(void)
{
	if ((MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE) != 0)
		PreCommit_on_commit_actions();
}

/*
 * Call the rooms that have something to do, in order, and clear the bits of those that have
 * nothing left.
 */
static void
rooms_xact_callback(XactEvent event, void *arg)
{
	bool ends = event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE;
	bool writes = event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE;

	check_idle();
	if (writes)
		dc_xact_prepares = event == XACT_EVENT_PRE_PREPARE;
	for (int i = 0; dc_xact_busy != 0 && i < DC_XACT_NROOMS; i++)
	{
		if (xact_is_marked((DcXactRoom) i) && rooms[i].xact != NULL)
			rooms[i].xact(event, NULL);
		if (ends && xact_is_marked((DcXactRoom) i) && rooms[i].idle())
			dc_xact_busy &= ~(UINT32_C(1) << i);
		if (writes)
			dc_xact_passed = i + 1;
	}
	if (writes)
	{
		dc_xact_passed = DC_XACT_NROOMS;
		if (dc_xact_written != NULL)
			dc_xact_written();
	}
	else if (ends)
		dc_xact_passed = 0;
}

/*
 * Call the rooms that have something to do when a subtransaction begins or ends.
 */
static void
rooms_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	check_idle();
	for (int i = 0; dc_xact_busy != 0 && i < DC_XACT_NROOMS; i++)
	{
		if (xact_is_marked((DcXactRoom) i) && rooms[i].subxact != NULL)
			rooms[i].subxact(event, mine, parent, NULL);
	}
}

/*
 * check_idle fails an assertion if a room that has not set its bit has something to do.
 */
static void
check_idle(void)
{
#ifdef USE_ASSERT_CHECKING
	for (int i = 0; i < DC_XACT_NROOMS; i++)
	{
		if (!xact_is_marked((DcXactRoom) i) && rooms[i].idle != NULL && !rooms[i].idle())
			elog(PANIC, "room %d has something to do at the end of a transaction, and is not marked", i);
	}
#endif
}
