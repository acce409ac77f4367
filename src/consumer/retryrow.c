/*
 * retryrow.c
 *		Rows of dcounter.consumer_retry.
 *
 * A row is read and written with the lock held on the member that has the row's lane
 * (dead ones: with that on the consumer's settings), so all that was said of
 * memberrow.c about SnapshotSelf holds here. Rows are copied out of the scan: a
 * scan that goes on while its rows are changed would meet them again.
 *
 * While a snapshot is held, dead versions pile up in the indexes, as they do in that of
 * members; but here a scan has to go through them. So each member's row says
 * where the rows of its lanes begin and end (retry_due, retry_first, retry_last): no
 * scan starts before, and with nothing pending there is none.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/compat.h"
#include "catalog/indexing.h"
#include "consumer/retry.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* The column of dcounter.outbox that each column is a copy of. */
static const int outbox_columns[RETRY_NUM_COLUMNS] = {
	[RETRY_SEQ - 1] = OUTBOX_SEQ,
	[RETRY_CREATED_AT - 1] = OUTBOX_CREATED_AT,
	[RETRY_ID - 1] = OUTBOX_ID,
	[RETRY_TOPIC - 1] = OUTBOX_TOPIC,
	[RETRY_KEY - 1] = OUTBOX_KEY,
	[RETRY_TYPE - 1] = OUTBOX_TYPE,
	[RETRY_PAYLOAD - 1] = OUTBOX_PAYLOAD,
	[RETRY_HEADERS - 1] = OUTBOX_HEADERS,
};

/* A scan of one of the indexes. */
typedef struct RetryScan
{
	Relation heap;
	Relation index;
	SysScanDesc scan;
} RetryScan;

static DcRetry *read_once(int32 consumer, int64 seq);
static void scan_begin(RetryScan *scan, DcConsumerRelation index, ScanKey keys, int nkeys);
static DcRetry *scan_next(RetryScan *scan, ScanDirection direction);
static void scan_end(RetryScan *scan);
static DcRetry *retry_deform(Relation heap, HeapTuple tuple);
static HeapTuple retry_form(Relation heap, DcRetry *retry);
static int hash_keys(ScanKeyData *keys, int32 consumer, int64 hash, int64 from);

static void
scan_begin(RetryScan *scan, DcConsumerRelation index, ScanKey keys, int nkeys)
{
	scan->heap = table_open(consumer_relation(REL_RETRY), AccessShareLock);
	scan->index = index_open(consumer_relation(index), AccessShareLock);
	scan->scan = systable_beginscan_ordered(scan->heap, scan->index, SnapshotSelf,
											nkeys, keys);
}

static DcRetry *
scan_next(RetryScan *scan, ScanDirection direction)
{
	HeapTuple tuple = systable_getnext_ordered(scan->scan, direction);

	return HeapTupleIsValid(tuple) ? retry_deform(scan->heap, tuple) : NULL;
}

static void
scan_end(RetryScan *scan)
{
	systable_endscan_ordered(scan->scan);
	index_close(scan->index, AccessShareLock);
	table_close(scan->heap, AccessShareLock);
}

static DcRetry *
retry_deform(Relation heap, HeapTuple tuple)
{
	DcRetry *retry = palloc0(sizeof(DcRetry));
	Datum *values = retry->values;
	bool *isnull = retry->isnull;

	retry->tuple = heap_copytuple(tuple);
	heap_deform_tuple(retry->tuple, RelationGetDescr(heap), values, isnull);
	retry->consumer = DatumGetInt32(values[RETRY_CONSUMER - 1]);
	retry->seq = DatumGetInt64(values[RETRY_SEQ - 1]);
	retry->lane = DatumGetInt16(values[RETRY_LANE - 1]);
	if (!isnull[RETRY_PENDING_HASH - 1])
		retry->hash = DatumGetInt64(values[RETRY_PENDING_HASH - 1]);
	if (!isnull[RETRY_DUE_AT - 1])
		retry->due_at = DatumGetTimestampTz(values[RETRY_DUE_AT - 1]);
	if (!isnull[RETRY_DIED_AT - 1])
		retry->died_at = DatumGetTimestampTz(values[RETRY_DIED_AT - 1]);
	retry->attempts = DatumGetInt32(values[RETRY_ATTEMPTS - 1]);
	retry->spared = DatumGetInt32(values[RETRY_SPARED - 1]);
	retry->topic = DatumGetTextPP(values[RETRY_TOPIC - 1]);
	if (!isnull[RETRY_KEY - 1])
		retry->key = DatumGetTextPP(values[RETRY_KEY - 1]);
	return retry;
}

/*
 * retry_read finds the row of an event, or returns NULL. A dead one may be being
 * replaced by dc_dead_letter_retry(), so it is looked for again.
 */
DcRetry *
retry_read(int32 consumer, int64 seq)
{
	DcRetry *retry = read_once(consumer, seq);

	return retry != NULL ? retry : read_once(consumer, seq);
}

static DcRetry *
read_once(int32 consumer, int64 seq)
{
	RetryScan scan;
	ScanKeyData keys[2];
	DcRetry *retry;

	ScanKeyInit(&keys[0], RETRY_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(consumer));
	ScanKeyInit(&keys[1], RETRY_SEQ, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(seq));
	scan_begin(&scan, REL_RETRY_PKEY, keys, 2);
	retry = scan_next(&scan, ForwardScanDirection);
	scan_end(&scan);
	return retry;
}

static int
hash_keys(ScanKeyData *keys, int32 consumer, int64 hash, int64 from)
{
	ScanKeyInit(&keys[0], RETRY_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(consumer));
	ScanKeyInit(&keys[1], RETRY_PENDING_HASH, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(hash));
	ScanKeyInit(&keys[2], RETRY_SEQ, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(from));
	return 3;
}

/*
 * retry_first_of_key finds the first pending event of a topic and key; none is before
 * `from`.
 */
DcRetry *
retry_first_of_key(int32 consumer, int64 hash, const text *topic, const text *key,
				   int64 from)
{
	RetryScan scan;
	ScanKeyData keys[3];
	DcRetry *retry;

	scan_begin(&scan, REL_RETRY_KEY, keys, hash_keys(keys, consumer, hash, from));
	while ((retry = scan_next(&scan, ForwardScanDirection)) != NULL &&
		   !retry_same_key(retry, topic, key))
		;
	scan_end(&scan);
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
	RetryScan scan;
	ScanKeyData keys[4];
	DcRetry *retry;
	int nkeys = hash_keys(keys, consumer, hash, from);

	ScanKeyInit(&keys[nkeys++], RETRY_SEQ, BTLessStrategyNumber, F_INT8LT,
				Int64GetDatum(before));
	scan_begin(&scan, REL_RETRY_KEY, keys, nkeys);
	while ((retry = scan_next(&scan, BackwardScanDirection)) != NULL &&
		   !retry_same_key(retry, topic, key))
		;
	scan_end(&scan);
	return retry;
}

/*
 * retry_read_key returns the pending events of the same topic and key after one of
 * them, up to a number, `max` at most.
 */
List *
retry_read_key(const DcRetry *first, int64 upto, int max)
{
	RetryScan scan;
	ScanKeyData keys[4];
	DcRetry *retry;
	List *list = NIL;
	int nkeys = hash_keys(keys, first->consumer, first->hash, first->seq + 1);

	ScanKeyInit(&keys[nkeys++], RETRY_SEQ, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(upto));
	scan_begin(&scan, REL_RETRY_KEY, keys, nkeys);
	while (list_length(list) < max &&
		   (retry = scan_next(&scan, ForwardScanDirection)) != NULL)
	{
		if (retry_same_key(retry, first->topic, first->key))
			list = lappend(list, retry);
	}
	scan_end(&scan);
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
	RetryScan scan;
	ScanKeyData keys[2];
	DcRetry *retry;
	List *list = NIL;

	*first = *next = 0;
	ScanKeyInit(&keys[0], RETRY_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(me->consumer));
	ScanKeyInit(&keys[1], RETRY_DUE_AT, BTGreaterEqualStrategyNumber,
				F_TIMESTAMPTZ_GE, TimestampTzGetDatum(me->retry_due));
	scan_begin(&scan, REL_RETRY_DUE, keys, 2);
	while (list_length(list) < 2 * RETRIES_MAX &&
		   (retry = scan_next(&scan, ForwardScanDirection)) != NULL)
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
	scan_end(&scan);
	return list;
}

/*
 * retry_read_discarded returns the dead letters of a consumer that were discarded.
 */
List *
retry_read_discarded(int32 consumer)
{
	RetryScan scan;
	ScanKeyData keys[2];
	DcRetry *retry;
	List *list = NIL;

	ScanKeyInit(&keys[0], RETRY_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(consumer));
	ScanKeyInit(&keys[1], RETRY_DUE_AT, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ,
				TimestampTzGetDatum(DT_NOBEGIN));
	scan_begin(&scan, REL_RETRY_DUE, keys, 2);
	while ((retry = scan_next(&scan, ForwardScanDirection)) != NULL)
		list = lappend(list, retry);
	scan_end(&scan);
	return list;
}

/*
 * retry_read_all returns all rows of a consumer, dead ones, too.
 */
List *
retry_read_all(int32 consumer)
{
	RetryScan scan;
	ScanKeyData key;
	DcRetry *retry;
	List *list = NIL;

	ScanKeyInit(&key, RETRY_CONSUMER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(consumer));
	scan_begin(&scan, REL_RETRY_PKEY, &key, 1);
	while ((retry = scan_next(&scan, ForwardScanDirection)) != NULL)
		list = lappend(list, retry);
	scan_end(&scan);
	return list;
}

/*
 * retry_make makes the row of an event, without storing it. The values are the
 * event's, and last as long.
 */
DcRetry *
retry_make(int32 consumer, const DcStoredEvent *event, int lane, int64 hash)
{
	DcRetry *retry = palloc0(sizeof(DcRetry));

	for (int i = 0; i < RETRY_NUM_COLUMNS; i++)
	{
		int column = outbox_columns[i];

		retry->isnull[i] = column == 0 || event->isnull[column - 1];
		if (!retry->isnull[i])
			retry->values[i] = event->values[column - 1];
	}
	retry->consumer = consumer;
	retry->seq = event->seq;
	retry->lane = lane;
	retry->hash = hash;
	return retry;
}

/*
 * retry_to_event shows a row as the event it is a copy of.
 */
void
retry_to_event(const DcRetry *retry, DcStoredEvent *event)
{
	event->seq = retry->seq;
	for (int i = 0; i < RETRY_NUM_COLUMNS; i++)
	{
		if (outbox_columns[i] == 0)
			continue;
		event->values[outbox_columns[i] - 1] = retry->values[i];
		event->isnull[outbox_columns[i] - 1] = retry->isnull[i];
	}
}

/*
 * retry_set_reason notes why an event was not accepted.
 */
void
retry_set_reason(DcRetry *retry, text *reason)
{
	retry->values[RETRY_REASON - 1] = PointerGetDatum(reason);
	retry->isnull[RETRY_REASON - 1] = reason == NULL;
}

static HeapTuple
retry_form(Relation heap, DcRetry *retry)
{
	Datum *values = retry->values;
	bool *isnull = retry->isnull;

	values[RETRY_CONSUMER - 1] = Int32GetDatum(retry->consumer);
	isnull[RETRY_CONSUMER - 1] = false;
	values[RETRY_LANE - 1] = Int16GetDatum(retry->lane);
	isnull[RETRY_LANE - 1] = false;
	values[RETRY_PENDING_HASH - 1] = Int64GetDatum(retry->hash);
	isnull[RETRY_PENDING_HASH - 1] = retry->hash == 0 || retry->died_at != 0;
	values[RETRY_DUE_AT - 1] = TimestampTzGetDatum(retry->due_at);
	isnull[RETRY_DUE_AT - 1] = retry->due_at == 0;
	values[RETRY_DIED_AT - 1] = TimestampTzGetDatum(retry->died_at);
	isnull[RETRY_DIED_AT - 1] = retry->died_at == 0;
	values[RETRY_ATTEMPTS - 1] = Int32GetDatum(retry->attempts);
	isnull[RETRY_ATTEMPTS - 1] = false;
	values[RETRY_SPARED - 1] = Int32GetDatum(retry->spared);
	isnull[RETRY_SPARED - 1] = false;
	return heap_form_tuple(RelationGetDescr(heap), values, isnull);
}

void
retry_insert(DcRetry *retry)
{
	Relation heap = table_open(consumer_relation(REL_RETRY), RowExclusiveLock);

	CatalogTupleInsert(heap, retry_form(heap, retry));
	table_close(heap, NoLock);
	CommandCounterIncrement();
}

void
retry_update(DcRetry *retry)
{
	Relation heap = table_open(consumer_relation(REL_RETRY), RowExclusiveLock);
	HeapTuple tuple = retry_form(heap, retry);

	CatalogTupleUpdate(heap, &retry->tuple->t_self, tuple);
	retry->tuple->t_self = tuple->t_self;
	table_close(heap, NoLock);
	CommandCounterIncrement();
}

void
retry_delete(DcRetry *retry)
{
	Relation heap = table_open(consumer_relation(REL_RETRY), RowExclusiveLock);

	CatalogTupleDelete(heap, &retry->tuple->t_self);
	table_close(heap, NoLock);
	CommandCounterIncrement();
}

/*
 * retry_same_key tells whether an event is of a topic and key.
 */
bool
retry_same_key(const DcRetry *retry, const text *topic, const text *key)
{
	return retry->key != NULL && key != NULL &&
		VARSIZE_ANY_EXHDR(retry->key) == VARSIZE_ANY_EXHDR(key) &&
		memcmp(VARDATA_ANY(retry->key), VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key)) == 0 &&
		VARSIZE_ANY_EXHDR(retry->topic) == VARSIZE_ANY_EXHDR(topic) &&
		memcmp(VARDATA_ANY(retry->topic), VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic)) == 0;
}

/*
 * retry_hash returns a hash of topic and key, never 0; or 0 for an event that
 * holds up no other: it has no key, or the consumer goes on with a nacked event's
 * key. It is stored, and so the same on all machines (FNV-1a).
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
