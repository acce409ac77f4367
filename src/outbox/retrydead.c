/*
 * retrydead.c
 *		Dead letters: events that were refused too often.
 *
 * Fetches and acknowledgements do not touch their rows. The lock on the consumer's
 * settings keeps these functions from each other. What is revived is not noted in the
 * members' rows, which would have to wait for each fetch that waits; the next fetch of a
 * member sees a higher number in the consumer's row, and looks anew.
 */
#include "postgres.h"

#include "fmgr.h"
#include "outbox/consumer.h"
#include "outbox/retry.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(dc_dead_letter_retry);
PG_FUNCTION_INFO_V1(dc_dead_letter_discard);

static List *dead_letters(FunctionCallInfo fcinfo, const DcConsumer *consumer);
static void revive(const DcConsumer *consumer, DcRetry *retry);

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
		revive(consumer, lfirst(lc));
	if (dead != NIL)
	{
		consumer->revived++;
		consumer_update(consumer);
		consumer_wake_at_commit();
	}
	PG_RETURN_INT64(list_length(dead));
}

/*
 * dc_dead_letter_discard(consumer text, seq bigint) -> how many are gone for good.
 */
Datum
dc_dead_letter_discard(PG_FUNCTION_ARGS)
{
	DcConsumer *consumer = consumer_open_to_change(fcinfo, "dc_dead_letter_discard()");
	List *dead = dead_letters(fcinfo, consumer);
	ListCell *lc;

	foreach(lc, dead)
		retry_delete(lfirst(lc));
	PG_RETURN_INT64(list_length(dead));
}

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
		if (((DcRetry *) lfirst(lc))->died_at != 0)
			dead = lappend(dead, lfirst(lc));
	}
	return dead;
}

/*
 * revive makes a dead letter pending again. Its key went on meanwhile; from now on
 * it waits.
 */
static void
revive(const DcConsumer *consumer, DcRetry *retry)
{
	retry->died_at = 0;
	retry->attempts = retry->spared = 0;
	retry->due_at = GetCurrentTimestamp();
	retry->hash = retry_hash(consumer, retry->topic, retry->key);
	retry_update(retry);
}
