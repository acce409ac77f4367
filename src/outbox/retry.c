/*
 * retry.c
 *		Events that were not accepted: dc_nack(), and what it means for fetches.
 *
 * A nacked event is copied to dcounter.consumer_retry, where it lies until it is
 * acknowledged, or was delivered max_attempts times and becomes a dead letter. The
 * outbox need not keep it. It is handed out again when it is due.
 *
 * Why the events of a key keep their order when its consumer waits for nacked ones
 * (on_nack = 'wait'):
 *
 *	1. A row in the table that is not dead is pending: it holds up later events of
 *	   its topic and key. A fetch that comes to such an event parks it: it becomes a
 *	   pending row as well. dc_nack() parks what the same fetch had returned of the key
 *	   after the nacked event; the caller has to leave it alone.
 *	2. Of a key's pending events only the first has a time when it is due. If it is,
 *	   the fetch returns it and those that follow, in order and without a gap. Later
 *	   events of the key, from the outbox, are returned by the same fetch only
 *	   if all pending ones are.
 *	3. When the first is acknowledged, or dies, the next becomes due at once.
 *	4. All rows of a key are in its lane, so they are handled by the lane's holder
 *	   alone, and go with the lane to the next one (member.c).
 *
 * A fetch returns pending events only up to the position (of all lanes of the member),
 * and sorts them. So its result is ordered by seq as a whole, and acknowledging
 * the events one by one, as they come, never covers one that is yet to come. An event
 * that was nacked while earlier ones are not acknowledged is kept back till then.
 *
 * Which pending events were handed out is noted in the member's row; an
 * acknowledgement removes these, up to its number, and no others.
 *
 * An event that has a row, dead ones included, is never returned from the outbox:
 * after a fetch that is repeated the position may still be before it.
 *
 * Events without a key have no order to keep. They hold up nothing.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "outbox/consumer.h"
#include "outbox/retry.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(dc_nack);

struct DcRetries
{
	DcConsumer *consumer;
	DcMember *me;
	bool wrote;				  /* rows were changed */
	int ngiven;				  /* handed out by this fetch, */
	int64 given[RETRIES_MAX]; /* sorted */
};

static void collect(DcRetries *retries, int max, List **given, TimestampTz *look_again);
static bool is_among(List *list, int64 seq);
static bool is_first_of_key(const DcMember *me, const DcRetry *retry);
static int compare_seq(const ListCell *a, const ListCell *b);
static void park(DcConsumer *consumer, DcMember *me, const DcStoredEvent *event, int64 hash);
static void note_pending(DcMember *me, const DcRetry *retry);
static bool nack_retry(DcConsumer *consumer, DcMember *me, int64 seq, TimestampTz due, text *reason);
static bool nack_new(DcConsumer *consumer, DcMember *me, int64 seq, TimestampTz due, text *reason);
static void refuse(DcConsumer *consumer, DcRetry *retry, TimestampTz due, text *reason);
static void take_back(DcMember *me, DcRetry *refused);
static void park_followers(DcConsumer *consumer, DcMember *me, const DcRetry *refused);

/*
 * retries_open prepares a fetch. Events may have been made due by somebody who did not
 * have the member's row.
 */
DcRetries *
retries_open(DcConsumer *consumer, DcMember *me)
{
	DcRetries *retries = palloc0(sizeof(DcRetries));

	retries->consumer = consumer;
	retries->me = me;
	if (me->revived != consumer->revived)
	{
		me->revived = consumer->revived;
		me->retry_due = DT_NOBEGIN;
		me->retry_first = 0;
		retries->wrote = true;
	}
	return retries;
}

/*
 * retries_fetch returns retries that are due, at most `max`. *look_again is made
 * earlier if one will be due earlier.
 */
int
retries_fetch(DcRetries *retries, int max, ReturnSetInfo *result,
			  TimestampTz *look_again)
{
	List *given = NIL;
	ListCell *lc;

	if (retries->me->retry_due == 0)
		return 0;
	collect(retries, Min(max, RETRIES_MAX), &given, look_again);
	list_sort(given, compare_seq);
	foreach(lc, given)
	{
		DcRetry *retry = lfirst(lc);
		DcStoredEvent event;

		retry->attempts++;
		retry_to_event(retry, &event);
		fetch_put(result, event.values, event.isnull, retry->attempts);
		retry_update(retry);
		retries->given[retries->ngiven++] = retry->seq;
	}
	return retries->ngiven;
}

/*
 * collect finds the retries to hand out: those that are due and, if they are the
 * first of their key, what follows them.
 */
static void
collect(DcRetries *retries, int max, List **given, TimestampTz *look_again)
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
		retries->wrote = true;
	}
	if (next_due != 0)
		*look_again = Min(*look_again, next_due);

	foreach(lc, due)
	{
		DcRetry *retry = lfirst(lc);
		ListCell *lc2;

		if (list_length(*given) >= max)
			break;
		if (is_among(*given, retry->seq))
			continue; /* it follows one that was due before */
		if (retry->hash != 0 && !is_first_of_key(me, retry))
		{
			/* a dead letter that was revived, say: the first is due instead */
			retry_promote(me, retry);
			retry->due_at = 0;
			retry_update(retry);
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

static bool
is_first_of_key(const DcMember *me, const DcRetry *retry)
{
	DcRetry *first = retry_first_of_key(retry->consumer, retry->hash, retry->topic,
										retry->key, me->retry_first);

	return first != NULL && first->seq == retry->seq;
}

static int
compare_seq(const ListCell *a, const ListCell *b)
{
	int64 left = ((DcRetry *) lfirst(a))->seq;
	int64 right = ((DcRetry *) lfirst(b))->seq;

	return left < right ? -1 : left > right;
}

/*
 * retries_keep_back tells whether an event from the outbox must not be returned
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
	park(retries->consumer, me, event, hash);
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
 * retries_wrote tells whether rows were changed without anything being handed out.
 */
bool
retries_wrote(DcRetries *retries)
{
	return retries != NULL && retries->wrote;
}

/*
 * park makes an event wait for another one of its key.
 */
static void
park(DcConsumer *consumer, DcMember *me, const DcStoredEvent *event, int64 hash)
{
	me->retry_last = Max(me->retry_last, event->seq);
	retry_insert(retry_make(consumer->id, event, event_lane(event), hash));
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
 * retry_promote makes the first pending event of a key due if it is not, when one
 * of the key is not pending any more.
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
	retry_update(next);
	note_pending(me, next);
}

/*
 * note_pending notes that an event is pending in a member's row, which is then to be
 * stored.
 */
static void
note_pending(DcMember *me, const DcRetry *retry)
{
	bool had = me->retry_due != 0;

	me->retry_last = Max(me->retry_last, retry->seq);
	if (retry->died_at != 0)
		return;
	consumer_wake_at_commit();
	me->retry_due = had ? Min(me->retry_due, retry->due_at) : retry->due_at;
	me->retry_first = had ? Min(me->retry_first, retry->seq) : retry->seq;
}

/*
 * dc_nack(consumer text, seq bigint, delay interval, reason text, member text): one
 * event is to be delivered again after a while.
 *
 * Errors: as dc_ack(); 22023 for a negative delay; 55000 also if the event was
 * acknowledged, waits for an earlier one of its key, or is dead.
 */
Datum
dc_nack(PG_FUNCTION_ARGS)
{
	char *name = consumer_name_arg(fcinfo, 0, "consumer");
	text *reason = PG_ARGISNULL(3) ? NULL : PG_GETARG_TEXT_PP(3);
	char *member = member_arg(fcinfo, 4);
	DcConsumer *consumer;
	DcMember me;
	TimestampTz due;
	int64 seq;

	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", PG_ARGISNULL(1) ? "seq" : "delay")));
	seq = PG_GETARG_INT64(1);
	due = GetCurrentTimestamp() + interval_arg_us(PG_GETARG_DATUM(2), "delay");
	consumer_check_writable("dc_nack()");
	consumer_xact_enter();
	open_to_ack(name, member, &consumer, &me);
	if (!nack_retry(consumer, &me, seq, due, reason) &&
		!nack_new(consumer, &me, seq, due, reason))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("event %lld of consumer \"%s\" is not being worked on",
						(long long) seq, name),
				 errhint("Only what was fetched and is not acknowledged can be delivered again, and of a key only the first that was refused.")));
	consumer_xact_leave();
	PG_RETURN_VOID();
}

/*
 * nack_retry refuses an event that was handed out again; false if this was not.
 */
static bool
nack_retry(DcConsumer *consumer, DcMember *me, int64 seq, TimestampTz due,
		   text *reason)
{
	DcRetry *retry = NULL;

	for (int i = 0; i < me->nretries; i++)
	{
		if (me->retries[i] == seq)
			retry = retry_read(me->consumer, seq);
	}
	if (retry == NULL)
		return false;
	refuse(consumer, retry, due, reason);
	retry_update(retry);
	note_pending(me, retry);
	take_back(me, retry);
	if (retry->died_at == 0)
		park_followers(consumer, me, retry);
	else
		retry_promote(me, retry);
	member_write(me);
	return true;
}

/*
 * refuse notes in a row that the event was not accepted.
 */
static void
refuse(DcConsumer *consumer, DcRetry *retry, TimestampTz due, text *reason)
{
	retry_set_reason(retry, reason);
	if (retry->attempts >= consumer->max_attempts)
	{
		retry->due_at = 0;
		retry->died_at = GetCurrentTimestamp();
	}
	else
		retry->due_at = due;
}

/*
 * take_back removes an event from those handed out again, and if it holds up its
 * key, the later ones of the key as well.
 */
static void
take_back(DcMember *me, DcRetry *refused)
{
	int left = 0;

	for (int i = 0; i < me->nretries; i++)
	{
		int64 seq = me->retries[i];

		if (seq == refused->seq)
			continue;
		if (seq > refused->seq && refused->died_at == 0 && refused->hash != 0)
		{
			DcRetry *other = retry_read(me->consumer, seq);

			if (other != NULL && other->hash == refused->hash &&
				retry_same_key(other, refused->topic, refused->key))
				continue;
		}
		me->retries[left++] = seq;
	}
	me->nretries = left;
}

/*
 * nack_new refuses an event from the outbox; false if the last fetch has not
 * returned it, or it is done, or was put aside with an earlier one of its key.
 */
static bool
nack_new(DcConsumer *consumer, DcMember *me, int64 seq, TimestampTz due, text *reason)
{
	DcReader *reader;
	DcStoredEvent event;
	DcRetry *retry = NULL;
	text *topic;

	if (seq <= member_acked(me) || seq > me->fetched)
		return false;
	reader = reader_begin(seq - 1, seq);
	if (reader_next(reader, &event) && event_is_of(consumer, me, &event))
	{
		retry = retry_read(consumer->id, seq);
		if (retry == NULL)
		{
			topic = DatumGetTextPP(event.values[OUTBOX_TOPIC - 1]);
			retry = retry_make(consumer->id, &event, event_lane(&event),
							   retry_hash(consumer, topic, event_key(&event)));
			retry->topic = topic;
			retry->key = event_key(&event);
			retry->attempts = seq <= me->repeated ? me->attempt : 1; /* as it was shown */
			refuse(consumer, retry, due, reason);
			retry_insert(retry);
			note_pending(me, retry);
		}
		else if (retry->due_at == 0)
			retry = NULL; /* it waits for another one, or is dead */
		else
		{
			/* refused before: only the time changes */
			retry_set_reason(retry, reason);
			retry->due_at = due;
			retry_update(retry);
			note_pending(me, retry);
		}
		if (retry != NULL && retry->died_at == 0)
			park_followers(consumer, me, retry);
	}
	reader_end(reader);
	if (retry != NULL)
		member_write(me);
	return retry != NULL;
}

/*
 * park_followers parks what the last fetch has returned of a key after an event.
 */
static void
park_followers(DcConsumer *consumer, DcMember *me, const DcRetry *refused)
{
	DcReader *reader;
	DcStoredEvent event;
	int64 after = Max(refused->seq, member_acked(me));

	if (refused->hash == 0 || after >= me->fetched)
		return;
	reader = reader_begin(after, me->fetched);
	while (reader_next(reader, &event))
	{
		CHECK_FOR_INTERRUPTS();
		if (!event.isnull[OUTBOX_KEY - 1] && event_is_of(consumer, me, &event) &&
			retry_same_key(refused, DatumGetTextPP(event.values[OUTBOX_TOPIC - 1]),
						   event_key(&event)) &&
			retry_read(consumer->id, event.seq) == NULL)
			park(consumer, me, &event, refused->hash);
	}
	reader_end(reader);
}
