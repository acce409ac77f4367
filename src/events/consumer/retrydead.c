/*
 * retrydead.c
 *		Dead letters: events that were refused too often.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Fetches and acknowledgements do not touch their rows. The lock on the consumer's settings lets
 * only one of these functions run at a time. Revived events are not noted in the members' rows, as
 * that would have to wait for each fetch that waits. Instead the next fetch of a member sees a
 * higher number in the consumer's row, and looks again.
 *
 * A dead letter that is discarded before the position has passed it keeps its row, without
 * payload, headers and reason. The row keeps the next fetch from returning the event from
 * the outbox again. Its time to be due is -infinity, so that it is found at once. The row is
 * removed when the position has passed it. Positions go back by dc_seek() alone, which has the same
 * lock on the settings. So a position that was seen to have passed the row need not be checked
 * again.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"

PG_FUNCTION_INFO_V1(dc_dead_letter_retry);
PG_FUNCTION_INFO_V1(dc_dead_letter_discard);

/* Rows of discarded dead letters that are looked at at a time. */
#define FORGET_MAX 1000

static bool retrydead_is_passed(List *members, const DcRetry *retry);
static List *dead_letters(FunctionCallInfo fcinfo, const DcConsumer *consumer);

/*
 * dc_dead_letter_retry(consumer text, seq bigint) -> how many will be delivered
 * again: one, or all if there is no seq.
 */
Datum
dc_dead_letter_retry(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = consumer_open_to_change(fcinfo, "dc_dead_letter_retry()");
	List *dead = dead_letters(fcinfo, consumer);
	ListCell *lc;

	foreach(lc, dead)
	{
		DcRetry *retry = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		/* its key went on in the meantime; from now on the key waits for this event */
		retry->died_at = 0;
		retry->attempts = retry->spared = 0;
		retry->due_at = GetCurrentTimestamp();
		retry->hash = retry_hash(consumer, retry->topic, retry->key);
		retry_write(retry);
	}
	if (dead != NIL)
	{
		consumer->revived++;
		consumer_update(consumer);
		consumer_wake_at_commit();
	}
	PG_RETURN_INT64(list_length(dead));
}

/*
 * dc_dead_letter_discard(consumer text, seq bigint) -> how many were removed.
 */
Datum
dc_dead_letter_discard(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = consumer_open_to_change(fcinfo, "dc_dead_letter_discard()");
	List *dead = dead_letters(fcinfo, consumer);
	ListCell *lc;

	foreach(lc, dead)
	{
		DcRetry *retry = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		retry->due_at = DT_NOBEGIN;
		retry->event.isnull[OUTBOX_PAYLOAD - 1] = retry->event.isnull[OUTBOX_HEADERS - 1] = true;
		retry->reason = NULL;
		retry_write(retry);
	}
	(void) retries_forget_discarded(consumer->id);
	PG_RETURN_INT64(list_length(dead));
}

/*
 * retries_forget_discarded removes rows of discarded dead letters that are no longer needed, and
 * returns how many it has looked at: the first FORGET_MAX. The consumer's settings are locked.
 */
int
retries_forget_discarded(int32 consumer)
{
	List *discarded = retry_read_discarded(consumer, FORGET_MAX);
	List *members;
	ListCell *lc;

	if (discarded == NIL)
		return 0;
	members = member_read_all(consumer, SnapshotSelf);
	foreach(lc, discarded)
	{
		if (retrydead_is_passed(members, lfirst(lc)))
			retry_delete(lfirst(lc));
	}
	return list_length(discarded);
}

/*
 * Return true if the position of an event's lane is after it. While lanes move
 * between members their rows may be missing here. Then the event is left for the next time.
 */
static bool
retrydead_is_passed(List *members, const DcRetry *retry)
{
	ListCell *lc;

	foreach(lc, members)
	{
		const DcMember *member = lfirst(lc);

		if (lanes_have(member->lanes, retry->lane) &&
			member->positions[retry->lane] >= retry->seq)
			return true;
	}
	return false;
}

/*
 * Return the dead letter that the second argument names, or all of the consumer's if it is NULL;
 * discarded ones are left out.
 */
static List *
dead_letters(FunctionCallInfo fcinfo, const DcConsumer *consumer)
{
	List *all;
	List *dead = NIL;
	ListCell *lc;

	if (!PG_ARGISNULL(1))
	{
		DcRetry *retry = retry_read(consumer->id, PG_GETARG_INT64(1));

		all = retry != NULL ? list_make1(retry) : NIL;
	}
	else
		all = retry_read_all(consumer->id);
	foreach(lc, all)
	{
		DcRetry *retry = lfirst(lc);

		if (retry->died_at != 0 && !retry_is_discarded(retry))
			dead = lappend(dead, retry);
	}
	return dead;
}
