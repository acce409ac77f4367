/*
 * retryrow.c
 *		Rows of dcounter.consumer_retry.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A row is read and written with the lock held on the member that has the row's lane,
 * and the row of a dead letter with that on the consumer's settings. So everything that memberrow.c
 * says about SnapshotSelf holds here. Rows are copied out of the scan: a scan that continues while
 * its rows are changed would meet them again.
 *
 * While a snapshot is held, dead versions pile up in the indexes, as they do in the index
 * of members. But here a scan has to go through them. So each member's row says
 * where the rows of its lanes begin and end (retry_due, retry_first, retry_last). No
 * scan starts before, and with nothing pending there is none.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "base/rowread.h"
#include "events/consumer/retry.h"

#define KEY_INDEX "consumer_retry_key"
#define DUE_INDEX "consumer_retry_due"

/* Columns of dcounter.consumer_retry that it is read by */
#define COL_CONSUMER 1
#define COL_SEQ 2
#define COL_PENDING_HASH 4
#define COL_DUE_AT 5
#define COL_DIED_AT 6
#define COL_ATTEMPTS 7

/* Types of the columns that it shares with dcounter.outbox */
static const Oid event_types[OUTBOX_NUM_COLUMNS] = {
	INT8OID, TIMESTAMPTZOID, UUIDOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, JSONBOID};

static void retry_columns(DcCatRow *io, void *data);
static void event_columns(DcCatRow *io, DcStoredEvent *event);
static DcRetry *retryrow_read_once(int32 consumer, int64 seq);

static const DcCatalog retries = {
	.table = "consumer_retry",
	.pkey = "consumer_retry_pkey",
	.size = sizeof(DcRetry),
	.columns = retry_columns,
	.keeps_lock = true,
};

/*
 * Read or write the columns of dcounter.consumer_retry, in their order. The hash of a dead letter
 * is stored as NULL, so that it holds up no key.
 */
static void
retry_columns(DcCatRow *io, void *data)
{
	DcRetry *retry = data;
	int64 hash = retry->died_at == 0 ? retry->hash : 0;
	Datum reason = PointerGetDatum(retry->reason);

	cat_int4(io, &retry->consumer);
	cat_int8(io, &retry->seq);
	cat_int2(io, &retry->lane);
	cat_int8(io, &hash);
	cat_time(io, &retry->due_at);
	cat_time(io, &retry->died_at);
	cat_int4(io, &retry->attempts);
	cat_int4(io, &retry->spared);
	cat_datum(io, TEXTOID, &reason);
	event_columns(io, &retry->event);
	if (!io->reading)
		return;
	retry->tid = io->tid;
	retry->hash = hash;
	retry->reason = (text *) DatumGetPointer(reason);
	retry->event.seq = retry->seq;
	retry->event.values[OUTBOX_SEQ - 1] = Int64GetDatum(retry->seq);
	retry->topic = DatumGetTextPP(retry->event.values[OUTBOX_TOPIC - 1]);
	if (!retry->event.isnull[OUTBOX_KEY - 1])
		retry->key = DatumGetTextPP(retry->event.values[OUTBOX_KEY - 1]);
}

/*
 * event_columns reads or writes the columns that dcounter.outbox has, too, except for the first.
 */
static void
event_columns(DcCatRow *io, DcStoredEvent *event)
{
	for (int i = OUTBOX_CREATED_AT - 1; i < OUTBOX_NUM_COLUMNS; i++)
	{
		Datum value = event->isnull[i] ? (Datum) 0 : event->values[i];

		cat_datum(io, event_types[i], &value);
		if (i == OUTBOX_TOPIC - 1)
			cat_not_null(io);
		if (!io->reading)
			continue;
		event->values[i] = value;
		event->isnull[i] = io->nulls[io->column - 1];
	}
}

/*
 * retryrow_scan_begin begins a scan of a consumer's rows, by an index that begins with the
 * consumer. `keys` has room for that condition in front of nkeys others.
 */
static void
retryrow_scan_begin(DcCatScan *scan, const char *index, int32 consumer, ScanKeyData *keys, int nkeys)
{
	ScanKeyInit(&keys[0], COL_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(consumer));
	cat_scan_begin_ordered(scan, &retries, index, SnapshotSelf, keys, 1 + nkeys);
}

/*
 * Return the next retry of a scan, as a copy, or NULL.
 */
static DcRetry *
retryrow_scan_next(DcCatScan *scan, ScanDirection direction)
{
	DcRetry *retry = palloc(sizeof(DcRetry));

	return cat_scan_next(scan, direction, retry) ? retry : NULL;
}

/*
 * read_rest returns the rows of a scan, at most `max`, and ends it.
 */
static List *
read_rest(DcCatScan *scan, int max)
{
	List *list = NIL;
	DcRetry *retry;

	while (list_length(list) < max && (retry = retryrow_scan_next(scan, ForwardScanDirection)) != NULL)
		list = lappend(list, retry);
	cat_scan_end(scan);
	return list;
}

/*
 * retry_read finds the row of an event, or returns NULL. dc_dead_letter_retry() may just be
 * replacing a dead one, so it is searched for again.
 */
DcRetry *
retry_read(int32 consumer, int64 seq)
{
	DcRetry *retry = retryrow_read_once(consumer, seq);

	return retry != NULL ? retry : retryrow_read_once(consumer, seq);
}

/*
 * Return the retry of an event, or NULL. It may miss a row that is being replaced.
 */
static DcRetry *
retryrow_read_once(int32 consumer, int64 seq)
{
	DcCatScan scan;
	ScanKeyData keys[2];
	DcRetry *retry;

	ScanKeyInit(&keys[1], COL_SEQ, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(seq));
	retryrow_scan_begin(&scan, retries.pkey, consumer, keys, 1);
	retry = retryrow_scan_next(&scan, ForwardScanDirection);
	cat_scan_end(&scan);
	return retry;
}

/*
 * key_scan_begin begins a scan of the pending events whose topic and key have a hash,
 * from one number to another.
 */
static void
key_scan_begin(DcCatScan *scan, int32 consumer, int64 hash, int64 from, int64 upto)
{
	ScanKeyData keys[4];

	ScanKeyInit(&keys[1], COL_PENDING_HASH, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(hash));
	ScanKeyInit(&keys[2], COL_SEQ, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(from));
	ScanKeyInit(&keys[3], COL_SEQ, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(upto));
	retryrow_scan_begin(scan, KEY_INDEX, consumer, keys, 3);
}

/*
 * key_scan_next finds the next row of a topic and key among those of their hash.
 */
static DcRetry *
key_scan_next(DcCatScan *scan, ScanDirection direction, const text *topic, const text *key)
{
	DcRetry *retry;

	while ((retry = retryrow_scan_next(scan, direction)) != NULL && !retry_same_key(retry, topic, key))
		;
	return retry;
}

/*
 * retry_first_of_key finds the first pending event of a topic and key; none is before
 * `from`.
 */
DcRetry *
retry_first_of_key(int32 consumer, int64 hash, const text *topic, const text *key,
				   int64 from)
{
	DcCatScan scan;
	DcRetry *retry;

	key_scan_begin(&scan, consumer, hash, from, PG_INT64_MAX);
	retry = key_scan_next(&scan, ForwardScanDirection, topic, key);
	cat_scan_end(&scan);
	return retry;
}

/*
 * retry_last_of_key finds the last pending event of a topic and key that is before
 * a given one; none is before `from`.
 */
DcRetry *
retry_last_of_key(int32 consumer, int64 hash, const text *topic, const text *key,
				  int64 from, int64 before)
{
	DcCatScan scan;
	DcRetry *retry;

	key_scan_begin(&scan, consumer, hash, from, before - 1);
	retry = key_scan_next(&scan, BackwardScanDirection, topic, key);
	cat_scan_end(&scan);
	return retry;
}

/*
 * retry_read_key returns the pending events of the same topic and key after one of
 * them, up to a number, `max` at most.
 */
List *
retry_read_key(const DcRetry *first, int64 upto, int max)
{
	DcCatScan scan;
	DcRetry *retry;
	List *list = NIL;

	key_scan_begin(&scan, first->consumer, first->hash, first->seq + 1, upto);
	while (list_length(list) < max &&
		   (retry = key_scan_next(&scan, ForwardScanDirection, first->topic, first->key)) != NULL)
		list = lappend(list, retry);
	cat_scan_end(&scan);
	return list;
}

/*
 * retry_read_due returns events of a member's lanes that are due, up to a number; not
 * many more than a fetch can use. *first is when the first of its lanes is due, 0 if
 * there is none, and *next, when the next one will be, if it is known.
 */
List *
retry_read_due(const DcMember *me, TimestampTz now, int64 upto, TimestampTz *first,
			   TimestampTz *next)
{
	DcCatScan scan;
	ScanKeyData keys[2];
	DcRetry *retry;
	List *list = NIL;

	*first = *next = 0;
	ScanKeyInit(&keys[1], COL_DUE_AT, BTGreaterEqualStrategyNumber,
				F_TIMESTAMPTZ_GE, TimestampTzGetDatum(me->retry_due));
	retryrow_scan_begin(&scan, DUE_INDEX, me->consumer, keys, 1);
	while (list_length(list) < 2 * RETRIES_MAX &&
		   (retry = retryrow_scan_next(&scan, ForwardScanDirection)) != NULL)
	{
		if (!lanes_have(me->lanes, retry->lane) || retry_is_discarded(retry))
			continue;
		if (*first == 0)
			*first = retry->due_at;
		if (retry->due_at > now)
		{
			*next = retry->due_at;
			break;
		}
		if (retry->seq <= upto)
			list = lappend(list, retry);
	}
	cat_scan_end(&scan);
	return list;
}

/*
 * retry_read_discarded returns discarded dead letters of a consumer, at most `max`.
 */
List *
retry_read_discarded(int32 consumer, int max)
{
	DcCatScan scan;
	ScanKeyData keys[2];

	ScanKeyInit(&keys[1], COL_DUE_AT, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ,
				TimestampTzGetDatum(DT_NOBEGIN));
	retryrow_scan_begin(&scan, DUE_INDEX, consumer, keys, 1);
	return read_rest(&scan, max);
}

/*
 * retry_read_all returns all rows of a consumer, dead ones, too.
 */
List *
retry_read_all(int32 consumer)
{
	DcCatScan scan;
	ScanKeyData key;

	retryrow_scan_begin(&scan, retries.pkey, consumer, &key, 0);
	return read_rest(&scan, INT_MAX);
}

/*
 * retry_count counts the rows of a consumer: how many events are to be delivered again, the
 * greatest number of their refusals, and how many are dead letters.
 */
void
retry_count(int32 consumer, int64 *pending, int32 *attempts, int64 *dead)
{
	DcCatScan scan;
	ScanKeyData key;

	retryrow_scan_begin(&scan, retries.pkey, consumer, &key, 0);
	while (cat_scan_next(&scan, ForwardScanDirection, NULL))
	{
		bool isnull;
		int32 n = DatumGetInt32(tuple_datum(scan.rel, scan.tuple, COL_ATTEMPTS, INT4OID));

		(void) tuple_nullable(scan.rel, scan.tuple, COL_DIED_AT, TIMESTAMPTZOID, &isnull);
		if (!isnull)
		{
			/* discarded ones have a due_at */
			(void) tuple_nullable(scan.rel, scan.tuple, COL_DUE_AT, TIMESTAMPTZOID, &isnull);
			*dead += isnull;
		}
		else
		{
			(*pending)++;
			*attempts = Max(*attempts, n);
		}
	}
	cat_scan_end(&scan);
}

/*
 * retry_make makes the row of an event, without storing it. The values are the
 * event's, and last as long.
 */
DcRetry *
retry_make(int32 consumer, const DcStoredEvent *event, int64 hash)
{
	DcRetry *retry = palloc0(sizeof(DcRetry));

	retry->event = *event;
	retry->consumer = consumer;
	retry->seq = event->seq;
	retry->lane = event_lane(event);
	retry->hash = hash;
	return retry;
}

/*
 * retry_write adds a row, or replaces the one that was read.
 */
void
retry_write(DcRetry *retry)
{
	cat_store_at(&retries, &retry->tid, retry);
}

/*
 * Delete the retry's row. The caller holds the lock on its member, or for a dead letter on the
 * consumer's settings.
 */
void
retry_delete(DcRetry *retry)
{
	cat_delete_at(&retries, &retry->tid);
}

/*
 * Return true if an event has this topic and key.
 */
bool
retry_same_key(const DcRetry *retry, const text *topic, const text *key)
{
	return retry->key != NULL && key != NULL && same_text(retry->key, key) &&
		same_text(retry->topic, topic);
}

/*
 * retry_hash returns a hash of topic and key, never 0; or 0 for an event that
 * holds up no other: it has no key, or the consumer continues with a nacked event's key. It is
 * stored, and so the same on all machines (FNV-1a).
 */
int64
retry_hash(const DcConsumer *consumer, const text *topic, const text *key)
{
	const text *parts[] = {topic, key};
	uint64 hash = UINT64CONST(0xCBF29CE484222325);

	if (consumer->skip || key == NULL)
		return 0;
	for (int i = 0; i < lengthof(parts); i++)
	{
		const unsigned char *data = (const unsigned char *) VARDATA_ANY(parts[i]);

		for (Size j = 0; j < VARSIZE_ANY_EXHDR(parts[i]); j++)
			hash = (hash ^ data[j]) * UINT64CONST(0x100000001B3);
		hash = (hash ^ 0xFF) * UINT64CONST(0x100000001B3); /* no byte of a text */
	}
	return hash != 0 ? (int64) hash : 1;
}

/*
 * Return true if a row is that of a dead letter that was discarded.
 */
bool
retry_is_discarded(const DcRetry *retry)
{
	return TIMESTAMP_IS_NOBEGIN(retry->due_at);
}
