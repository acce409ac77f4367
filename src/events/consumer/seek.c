/*
 * seek.c
 *		dc_seek(): moving a consumer to another position.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * All lanes go back to the consumer itself. Its members have lost their leases, so the events that
 * they have fetched can no longer be acknowledged. Events that were to be delivered again are
 * forgotten, as the new position decides what is delivered. Discarded dead letters are forgotten as
 * well. Other dead letters stay.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/args.h"
#include "base/compat.h"
#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"

PG_FUNCTION_INFO_V1(dc_seek);
PG_FUNCTION_INFO_V1(dc_seek_int8);

static DcConsumer *open_to_seek(FunctionCallInfo fcinfo);
static void seek_seek(DcConsumer *consumer, int64 position);

/*
 * dc_seek(consumer text, position text): positions as dc_consumer_create() knows them.
 */
Datum
dc_seek(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = open_to_seek(fcinfo);

	seek_seek(consumer, position_from_text(text_to_cstring(PG_GETARG_TEXT_PP(1))));
	PG_RETURN_VOID();
}

/*
 * dc_seek(consumer text, position bigint): the next event is the one after it.
 */
Datum
dc_seek_int8(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = open_to_seek(fcinfo);

	seek_seek(consumer, position_from_int8(PG_GETARG_INT64(1)));
	PG_RETURN_VOID();
}

/*
 * Return the consumer to be moved, with the lock on its settings, when no events are removed any
 * more. Only its owner may do that.
 */
static DcConsumer *
open_to_seek(FunctionCallInfo fcinfo)
{
	DcConsumer *consumer = consumer_open_to_change(fcinfo, "dc_seek()");

	arg_not_null(fcinfo, 1, "position");
	positions_begin();
	return consumer;
}

/*
 * Move a consumer to a position: all members lose their lanes, pending retries are forgotten, and
 * readers look again at the commit. It is no longer cut off.
 */
static void
seek_seek(DcConsumer *consumer, int64 position)
{
	List *members;
	int64 retry_last = 0;
	ListCell *lc;

	positions_end(position);
	members = members_lock_all(consumer->id);

	/* dead letters may come after the position again */
	foreach(lc, members)
		retry_last = Max(retry_last, ((DcMember *) lfirst(lc))->retry_last);
	foreach(lc, members)
	{
		DcMember *member = lfirst(lc);

		member->lanes = member->name[0] == '\0' ? ALL_LANES : 0;
		for (int i = 0; i < LANES; i++)
			member->positions[i] = position;
		member->fetched = member->name[0] == '\0' ? position : 0;
		member->delivered = position;
		member->nattempts = 0;
		member->nretries = 0;
		member->retry_due = 0;
		member->retry_last = retry_last;
		member->revived = consumer->revived;
		member_write(member);
	}
	foreach(lc, retry_read_all(consumer->id))
	{
		DcRetry *retry = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (retry->died_at == 0 || retry_is_discarded(retry))
			retry_delete(retry);
	}
	consumer_wake_at_commit();
	if (consumer->cut_off != 0)
	{
		consumer->cut_off = 0;
		consumer_update(consumer);
	}
}
