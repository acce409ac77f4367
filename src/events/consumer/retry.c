/*
 * retry.c
 *		Events that were not accepted, and how fetches treat them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A nacked event (nack.c) is copied to dcounter.consumer_retry, where it stays until it is
 * acknowledged, or becomes a dead letter after max_attempts deliveries. The outbox need not keep
 * it. It is handed out again when it is due.
 *
 * Why the events of a key keep their order when its consumer waits for nacked ones
 * (on_nack = 'wait'):
 *
 *	1. A row in the table that is not dead is pending: it holds up later events of
 *	   its topic and key. A fetch that comes to such an event parks it: it becomes a
 *	   pending row as well.
 *	2. Of a key's pending events only the first has a time when it is due. If it is,
 *	   the fetch returns it and those that follow, in order and without a gap. Later
 *	   events of the key, from the outbox, are returned by the same fetch only
 *	   if all pending ones are.
 *	3. dc_nack() takes back the later events of the key that the same fetch had returned,
 *	   whether the nacked event is delivered again or dies. The caller has to leave them
 *	   alone, and cannot know the answer before the call. An event that came from the
 *	   outbox is parked. One that came from this table is no longer noted as handed out.
 *	   So no later acknowledgement covers them.
 *	4. When the first is acknowledged, or dies, the next becomes due at once.
 *	5. All rows of a key are in its lane. So the lane's holder alone handles them, and
 *	   they go with the lane to the next holder (member.c).
 *	6. Whether a row holds up its key depends on the consumer's on_nack. When that
 *	   changes, all rows change with it. The transaction that changes it has the locks of
 *	   all members, so a fetch or a nack, once it has its member's lock, knows the value.
 *	   But whether the caller leaves the later events alone depends on the value at the
 *	   time of the fetch. That value is noted in the member's row, and by it dc_nack()
 *	   takes back or not.
 *
 * A fetch returns pending events only up to the position (of all lanes of the member),
 * and sorts them. So its result is ordered by seq as a whole. Acknowledging the events one by one,
 * in their order, never covers one that is yet to come. An event that was nacked while earlier ones
 * are not acknowledged is kept back until they are.
 *
 * The member's row has the pending events that were handed out. An acknowledgement
 * removes these, up to its number, and no others.
 *
 * An event that has a row, a dead one included, is never returned from the outbox:
 * when a fetch is repeated, the position may still be before it. So a dead letter that
 * is discarded keeps its row until the position has passed it (retrydead.c).
 *
 * Events without a key have no order to keep. They block nothing.
 *
 * The time when a row is due is wall time, since it has to outlive sessions and servers.
 * If the clock is set back, events wait that much longer. If it is set forward, they come early.
 * Neither changes the order, or loses anything.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"

struct DcRetries
{
	DcConsumer *consumer;
	DcMember *me;
	DcTrade *trade;			  /* which lanes the fetch keeps */
	bool wrote;				  /* rows were changed */
	bool noted;				  /* the member's row was changed in memory, so that the next fetch has less to read */
	int ngiven;				  /* handed out by this fetch, */
	int64 given[RETRIES_MAX]; /* sorted */
};

static void retry_collect(DcRetries *retries, int max, List **given, DcMoment *look_again);
static bool is_among(List *list, int64 seq);
static bool is_first_of_key(const DcMember *me, const DcRetry *retry);
static int compare_seq(const ListCell *a, const ListCell *b);

/*
 * retries_open prepares a fetch. A transaction that did not change the member's row may have made
 * events due (retrydead.c).
 */
DcRetries *
retries_open(DcConsumer *consumer, DcMember *me, DcTrade *trade)
{
	DcRetries *retries = palloc0(sizeof(DcRetries));

	retries->consumer = consumer;
	retries->me = me;
	retries->trade = trade;
	if (me->revived != consumer->revived)
	{
		me->revived = consumer->revived;
		me->retry_due = DT_NOBEGIN;
		me->retry_first = 0;
		retries->noted = true;
	}
	return retries;
}

/*
 * retries_fetch returns retries that are due, at most `max`, and ends with the one that makes
 * max_bytes full; *bytes is how many there are. *look_again is made earlier if one will be due
 * earlier.
 */
int
retries_fetch(DcRetries *retries, int max, Size max_bytes, Size *bytes, ReturnSetInfo *result,
			  DcMoment *look_again)
{
	List *given = NIL;
	ListCell *lc;

	if (retries->me->retry_due == 0)
		return 0;
	retry_collect(retries, Min(max, RETRIES_MAX), &given, look_again);
	list_sort(given, compare_seq);
	foreach(lc, given)
	{
		DcRetry *retry = lfirst(lc);

		/* those that are left come with the next fetch, and hold up their keys until then */
		if (*bytes >= max_bytes)
			break;
		retry->attempts++;
		*bytes += event_put(result, &retry->event, retry->attempts);
		retry_write(retry);
		retries->given[retries->ngiven++] = retry->seq;
	}
	return retries->ngiven;
}

/*
 * retry_collect finds the retries to hand out: those that are due and, if they are the
 * first of their key, those that follow them.
 */
static void
retry_collect(DcRetries *retries, int max, List **given, DcMoment *look_again)
{
	DcMember *me = retries->me;
	int64 upto = member_acked(me);
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz first;
	TimestampTz next_due;
	List *due = retry_read_due(me, now, upto, &first, &next_due);
	ListCell *lc;

	if (first != me->retry_due)
	{
		me->retry_due = first;
		retries->noted = true;
	}
	if (next_due != 0)
		*look_again = moment_min(*look_again, moment_at_wall(next_due));

	foreach(lc, due)
	{
		DcRetry *retry = lfirst(lc);
		ListCell *lc2;

		if (list_length(*given) >= max)
			break;
		if (is_among(*given, retry->seq))
			continue; /* it follows one that was due before */
		if (!trade_keeps(retries->trade, retry->lane))
			continue;
		if (retry->hash != 0 && !is_first_of_key(me, retry))
		{
			/* a dead letter that was revived, say: the first is due instead */
			retry_promote(me, retry);
			retry->due_at = 0;
			retry_write(retry);
			retries->wrote = true;
			continue;
		}
		*given = lappend(*given, retry);
		if (retry->hash == 0)
			continue;
		foreach(lc2, retry_read_key(retry, upto, max - list_length(*given)))
		{
			DcRetry *next = lfirst(lc2);

			if (next->due_at > now)
				break; /* and it holds up the rest */
			*given = lappend(*given, next);
		}
	}
}

/*
 * Return true if the list has the retry of this event.
 */
static bool
is_among(List *list, int64 seq)
{
	ListCell *lc;

	foreach(lc, list)
	{
		if (((DcRetry *) lfirst(lc))->seq == seq)
			return true;
	}
	return false;
}

/*
 * Return true if no earlier event of the same topic and key is pending.
 */
static bool
is_first_of_key(const DcMember *me, const DcRetry *retry)
{
	DcRetry *first = retry_first_of_key(retry->consumer, retry->hash, retry->topic,
										retry->key, me->retry_first);

	return first != NULL && first->seq == retry->seq;
}

/*
 * Compare two retries by the numbers of their events, for list_sort().
 */
static int
compare_seq(const ListCell *a, const ListCell *b)
{
	int64 left = ((DcRetry *) lfirst(a))->seq;
	int64 right = ((DcRetry *) lfirst(b))->seq;

	return left < right ? -1 : left > right;
}

/*
 * Return true if an event from the outbox must not be returned
 * now: it has a row, or has just been parked since an earlier event of its key is
 * pending.
 */
bool
retries_keep_back(DcRetries *retries, const DcStoredEvent *event)
{
	DcMember *me = retries->me;
	text *topic;
	text *key;
	int64 hash;
	DcRetry *before;

	if (event->seq <= me->retry_last &&
		retry_read(retries->consumer->id, event->seq) != NULL)
		return true;
	if (retries->consumer->skip || me->retry_due == 0 || event->isnull[OUTBOX_KEY - 1])
		return false;
	topic = DatumGetTextPP(event->values[OUTBOX_TOPIC - 1]);
	key = event_key(event);
	hash = retry_hash(retries->consumer, topic, key);
	before = retry_last_of_key(retries->consumer->id, hash, topic, key,
							   me->retry_first, event->seq);
	if (before == NULL)
		return false;
	/* if this one is handed out now, all before it are */
	for (int i = 0; i < retries->ngiven; i++)
	{
		if (retries->given[i] == before->seq)
			return false;
	}
	retry_park(retries->consumer, me, event, hash);
	return true;
}

/*
 * retries_given copies the numbers of the retries that were handed out.
 */
int
retries_given(DcRetries *retries, int64 *seqs)
{
	if (retries == NULL)
		return 0;
	memcpy(seqs, retries->given, retries->ngiven * sizeof(int64));
	return retries->ngiven;
}

/*
 * Return true if rows were changed without anything being handed out.
 */
bool
retries_wrote(DcRetries *retries)
{
	return retries != NULL && retries->wrote;
}

/*
 * Return true if the member's row has changes that need to be stored only if it is written anyway.
 */
bool
retries_noted(DcRetries *retries)
{
	return retries != NULL && retries->noted;
}

/*
 * retry_park makes an event wait for another one of its key; without a hash it waits
 * for none, and is due at once.
 */
void
retry_park(DcConsumer *consumer, DcMember *me, const DcStoredEvent *event, int64 hash)
{
	DcRetry *retry = retry_make(consumer->id, event, hash);

	if (hash == 0)
		retry->due_at = GetCurrentTimestamp();
	retry_write(retry);
	if (hash == 0)
		retry_note(me, retry);
	else
		me->retry_last = Max(me->retry_last, event->seq);
}

/*
 * retries_ack removes the retries up to a number that were handed out.
 */
void
retries_ack(DcMember *me, int64 seq)
{
	List *gone = NIL;
	ListCell *lc;
	int left = 0;

	for (int i = 0; i < me->nretries; i++)
	{
		DcRetry *retry;

		if (me->retries[i] > seq)
		{
			me->retries[left++] = me->retries[i];
			continue;
		}
		retry = retry_read(me->consumer, me->retries[i]);
		if (retry == NULL)
			continue;
		retry_delete(retry);
		gone = lappend(gone, retry);
	}
	me->nretries = left;
	foreach(lc, gone)
		retry_promote(me, lfirst(lc));
}

/*
 * retry_promote makes the first pending event of a key due if it is not, when one of the key is no
 * longer pending.
 */
void
retry_promote(DcMember *me, const DcRetry *gone)
{
	DcRetry *next;

	if (gone->hash == 0)
		return;
	next = retry_first_of_key(gone->consumer, gone->hash, gone->topic, gone->key,
							  me->retry_first);
	if (next == NULL || next->due_at != 0)
		return;
	next->due_at = GetCurrentTimestamp();
	retry_write(next);
	retry_note(me, next);
}

/*
 * retry_note notes an event that has a row, a dead one too, in the member's row, which
 * the caller then stores.
 */
void
retry_note(DcMember *me, const DcRetry *retry)
{
	bool had = me->retry_due != 0;

	me->retry_last = Max(me->retry_last, retry->seq);
	/* events parked behind a dead one are pending, and come after it */
	me->retry_first = had ? Min(me->retry_first, retry->seq) : retry->seq;
	if (retry->died_at != 0)
		return;
	consumer_wake_at_commit();
	me->retry_due = had ? Min(me->retry_due, retry->due_at) : retry->due_at;
}

/*
 * retries_rehash makes all rows of a consumer block their keys or not, as its on_nack now says. All
 * are due at once. The next fetch finds out which are the first of their keys.
 */
void
retries_rehash(DcConsumer *consumer)
{
	ListCell *lc;

	(void) members_lock_all(consumer->id);
	foreach(lc, retry_read_all(consumer->id))
	{
		DcRetry *retry = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (retry->died_at != 0)
			continue;
		retry->hash = retry_hash(consumer, retry->topic, retry->key);
		if (retry->due_at == 0)
			retry->due_at = GetCurrentTimestamp();
		retry_write(retry);
	}
	consumer->revived++;
	consumer_wake_at_commit();
}
