/*
 * nack.c
 *		dc_nack(): an event that was fetched is not accepted.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The event gets a row in dcounter.consumer_retry, or keeps the one that it had. After
 * max_attempts deliveries the row is that of a dead letter. In either case the later
 * events of the key that the same fetch has returned are taken back (retry.c has the
 * rules). If the event died, the first that is pending of the key is due at once.
 *
 * Deliveries that were taken back do not count against an event (`spared`): the consumer had to
 * leave them alone. If they counted, events that wait behind one that is refused max_attempts times
 * would die at their own first refusal.
 *
 * Everything happens in the transaction of the call, under the lock on the member. The rows of
 * retries and the member's row change together or not at all, even when a savepoint is rolled back.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/args.h"
#include "base/compat.h"
#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"

PG_FUNCTION_INFO_V1(dc_nack);

/* A call. */
typedef struct Nack
{
	DcConsumer *consumer;
	DcMember me;
	int64 seq;
	TimestampTz due; /* if it is delivered again */
	text *reason;	 /* or NULL */
} Nack;

static DcRetry *nack_retry(Nack *nack);
static DcRetry *nack_new(Nack *nack);
static DcRetry *refuse_new(Nack *nack, const DcStoredEvent *event);
static DcRetry *nack_put_off(Nack *nack, DcRetry *retry);
static void nack_refuse(Nack *nack, DcRetry *retry);
static void hold_up(Nack *nack, DcRetry *refused);
static void nack_take_back(DcMember *me, const DcRetry *refused);
static void park_followers(Nack *nack, const DcRetry *refused);

/*
 * dc_nack(consumer text, seq bigint, delay interval, reason text, member text) -> text:
 * 'retry' if the event is to be delivered again after a while, 'dead' if it was given up.
 *
 * Errors: as dc_ack(); 22023 for a negative delay; 55000 also if the event was
 * acknowledged, waits for an earlier one of its key, or is dead.
 */
Datum
dc_nack(PG_FUNCTION_ARGS)
{
	char *name = consumer_name_arg(fcinfo, 0, "consumer");
	char *member = member_arg(fcinfo, 4);
	Nack nack = {0};
	DcRetry *retry;

	arg_not_null(fcinfo, 1, "seq");
	arg_not_null(fcinfo, 2, "delay");
	nack.seq = PG_GETARG_INT64(1);
	nack.due = GetCurrentTimestamp() + duration_arg_us(PG_GETARG_DATUM(2), "delay");
	nack.reason = PG_ARGISNULL(3) ? NULL : PG_GETARG_TEXT_PP(3);
	consumer_check_writable("dc_nack()");
	consumer_xact_enter();
	open_to_ack(name, member, &nack.consumer, &nack.me);
	nack.consumer = consumer_read_again(nack.consumer);
	retry = nack_retry(&nack);
	if (retry == NULL)
		retry = nack_new(&nack);
	if (retry == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("event %lld of consumer \"%s\" is not outstanding",
						(long long) nack.seq, name),
				 errhint("Only an event that was fetched and is not acknowledged can be refused, and only the first refused event of a key is delivered again.")));
	hold_up(&nack, retry);
	member_write(&nack.me);
	consumer_xact_leave();
	PG_RETURN_TEXT_P(cstring_to_text(retry->died_at != 0 ? "dead" : "retry"));
}

/*
 * nack_retry refuses an event that was handed out again; NULL if this was not.
 */
static DcRetry *
nack_retry(Nack *nack)
{
	DcRetry *retry = NULL;

	for (int i = 0; i < nack->me.nretries; i++)
	{
		if (nack->me.retries[i] == nack->seq)
			retry = retry_read(nack->consumer->id, nack->seq);
	}
	if (retry == NULL)
		return NULL;
	nack_refuse(nack, retry);
	retry_write(retry);
	return retry;
}

/*
 * nack_new refuses an event from the outbox; NULL if the last fetch has not
 * returned it, or it is done, or was parked behind an earlier one of its key.
 */
static DcRetry *
nack_new(Nack *nack)
{
	DcReader *reader;
	DcStoredEvent event;
	DcRetry *retry = NULL;

	if (nack->seq <= member_acked(&nack->me) || nack->seq > nack->me.fetched)
		return NULL;
	reader = reader_begin(nack->seq - 1, nack->seq);
	if (reader_next(reader, &event) && event_is_of(nack->consumer, &nack->me, &event))
	{
		retry = retry_read(nack->consumer->id, nack->seq);
		retry = retry == NULL ? refuse_new(nack, &event) : nack_put_off(nack, retry);
	}
	reader_end(reader);
	return retry;
}

/*
 * Make the retry of an event that has none yet, count the refusal, and write it. Topic and key are
 * copied, as they are needed after the reader has ended.
 */
static DcRetry *
refuse_new(Nack *nack, const DcStoredEvent *event)
{
	DcMember *me = &nack->me;
	text *topic = DatumGetTextPCopy(event->values[OUTBOX_TOPIC - 1]);
	text *key = event_key(event);
	DcRetry *retry = retry_make(nack->consumer->id, event, retry_hash(nack->consumer, topic, key));

	retry->attempts = Max(member_attempts(me, nack->seq), 1); /* as it was shown */
	nack_refuse(nack, retry);
	retry_write(retry);
	/* the event is valid until the reader ends */
	retry->topic = topic;
	retry->key = key != NULL ? DatumGetTextPCopy(PointerGetDatum(key)) : NULL;
	return retry;
}

/*
 * nack_put_off sets the next time of an event that was refused before; NULL if it waits for another
 * event, or is dead, or was due without having been refused.
 */
static DcRetry *
nack_put_off(Nack *nack, DcRetry *retry)
{
	if (retry->died_at != 0 || retry->due_at == 0 || retry->attempts == 0)
		return NULL;
	retry->reason = nack->reason;
	retry->due_at = nack->due;
	retry_write(retry);
	return retry;
}

/*
 * nack_refuse notes in a row that the event was not accepted.
 */
static void
nack_refuse(Nack *nack, DcRetry *retry)
{
	retry->reason = nack->reason;
	if (retry->attempts - retry->spared >= nack->consumer->max_attempts)
	{
		retry->due_at = 0;
		retry->died_at = GetCurrentTimestamp();
	}
	else
		retry->due_at = nack->due;
}

/*
 * hold_up keeps events from being acknowledged that must come again after an event that
 * was refused, and lets its key go on if it died. Whether there are such events depends on the
 * consumer's on_nack at the time of the fetch (me->skip). Whether they wait depends on its on_nack
 * now (the hash).
 */
static void
hold_up(Nack *nack, DcRetry *refused)
{
	retry_note(&nack->me, refused);
	nack_take_back(&nack->me, refused);
	park_followers(nack, refused);
	if (refused->died_at != 0)
		retry_promote(&nack->me, refused);
}

/*
 * nack_take_back removes an event from those handed out again, and the later ones of its
 * key as well, which the caller leaves alone.
 */
static void
nack_take_back(DcMember *me, const DcRetry *refused)
{
	int left = 0;

	for (int i = 0; i < me->nretries; i++)
	{
		int64 seq = me->retries[i];

		if (seq == refused->seq)
			continue;
		if (seq > refused->seq && !me->skip)
		{
			DcRetry *other = retry_read(me->consumer, seq);

			if (other != NULL && retry_same_key(other, refused->topic, refused->key))
			{
				other->spared++;
				retry_write(other);
				continue;
			}
		}
		me->retries[left++] = seq;
	}
	me->nretries = left;
}

/*
 * park_followers parks what the last fetch has returned of a key after an event.
 */
static void
park_followers(Nack *nack, const DcRetry *refused)
{
	DcMember *me = &nack->me;
	int64 after = Max(refused->seq, member_acked(me));
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one;
	DcReader *reader;
	DcStoredEvent event;

	if (me->skip || refused->key == NULL || after >= me->fetched)
		return;
	one = AllocSetContextCreate(caller, "dcounter event", ALLOCSET_SMALL_SIZES);
	reader = reader_begin(after, me->fetched);
	while (reader_next(reader, &event))
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(one);
		MemoryContextSwitchTo(one);
		if (!event.isnull[OUTBOX_KEY - 1] && event_is_of(nack->consumer, me, &event) &&
			retry_same_key(refused, DatumGetTextPP(event.values[OUTBOX_TOPIC - 1]),
						   event_key(&event)) &&
			retry_read(nack->consumer->id, event.seq) == NULL)
			retry_park(nack->consumer, me, &event, refused->hash);
		MemoryContextSwitchTo(caller);
	}
	reader_end(reader);
	MemoryContextDelete(one);
}
