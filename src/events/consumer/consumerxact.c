/*
 * consumerxact.c
 *		The use of consumers by a transaction, and its consequences at commit.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A transaction that has done nothing but fetch and acknowledge does not wait for
 * the disk when it commits (dcounter.async_ack). If a crash loses it, the events come
 * again, and a consumer must be prepared for that in any case. The WAL shows whether the
 * transaction has done something else: there must be none, and no transaction id, before the first
 * call of these functions, and no other between two calls and up to the commit. The callback here
 * is called after those of the other rooms (xactrooms.h), which have then written what they keep
 * for the commit.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "utils/guc.h"

#include "base/guc.h"
#include "base/xactrooms.h"
#include "events/consumer/consumer.h"
#include "events/outbox/wait.h"

/* The use of consumers by this transaction. */
static struct
{
	bool used;		/* a function of this room that writes was called */
	bool only;		/* and nothing else has written */
	XLogRecPtr end; /* of the WAL after the last call */
	bool wake;		/* events may become due at the commit */
} xact;

static bool consumerxact_is_idle(void);
static void consumerxact_xact_callback(XactEvent event, void *arg);

/*
 * consumer_xact_init registers the transaction callback; called once.
 */
void
consumer_xact_init(void)
{
	xact_room_add(DC_XACT_CONSUMER, consumerxact_xact_callback, NULL, consumerxact_is_idle);
}

/*
 * consumer_xact_enter is called before a function of this room writes.
 */
void
consumer_xact_enter(void)
{
	if (!xact.used)
	{
		xact_mark(DC_XACT_CONSUMER);
		xact.used = true;
		xact.only = XactLastRecEnd == InvalidXLogRecPtr &&
			!TransactionIdIsValid(GetTopTransactionIdIfAny());
	}
	else if (XactLastRecEnd != xact.end)
		xact.only = false;
}

/*
 * consumer_xact_leave is called after a function of this room has written. If an error prevents
 * that, the next call of consumer_xact_enter finds WAL that it did not expect.
 */
void
consumer_xact_leave(void)
{
	xact.end = XactLastRecEnd;
}

/*
 * consumer_wake_at_commit makes sessions that wait for events look again when this
 * transaction has committed. A prepared transaction wakes them in any case (wait.c).
 */
void
consumer_wake_at_commit(void)
{
	xact_mark(DC_XACT_CONSUMER);
	xact.wake = true;
}

/*
 * Return true if the transaction has not used consumers, and has nobody to wake.
 */
static bool
consumerxact_is_idle(void)
{
	return !xact.used && !xact.wake;
}

/*
 * Commit asynchronously if the transaction has only fetched and acknowledged; after the commit,
 * wake readers if they have something to look for.
 */
static void
consumerxact_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (xact.used && xact.only && xact.end == XactLastRecEnd &&
				xact.end != InvalidXLogRecPtr && dc_async_ack)
				(void) set_config_option("synchronous_commit", "off", PGC_USERSET,
										 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
										 false);
			break;
		case XACT_EVENT_COMMIT:
			if (xact.wake)
				wait_wake();
			memset(&xact, 0, sizeof(xact));
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			memset(&xact, 0, sizeof(xact));
			break;
		default:
			break;
	}
}
