/*
 * drift.c
 *		Reporting differences between a bound counter table and its source.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each that is found is noted in dcounter.drift, which keeps the last ones, and becomes an
 * event of type counter.drift; sessions that listen to the channel dcounter_drift are notified.
 * All of that is in the transaction that has compared the keys, and repaired them if that is
 * wanted. A difference that was noted before, and has not been repaired, is not noted again:
 * that would change the epoch. A pass that has found differences, noted or not, is reported as
 * one warning when it ends.
 *
 * Old rows of dcounter.drift are deleted by one transaction at a time: a second one leaves that
 * to the next.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

#include "base/sequence.h"
#include "events/outbox/outbox.h"
#include "events/outbox/payload.h"
#include "transactional/bound/sourcetrigger.h"
#include "transactional/bound/verify.h"

#define CHANNEL "dcounter_drift"

/* How many differences are kept. */
#define MAX_DRIFTS 10000

/* The most differences that are noted for a counter table, if they are not repaired. */
#define MAX_NOTED 1000

/* Columns of dcounter.drift */
#define DRIFT_ID 1
#define DRIFT_COUNTER 2
#define DRIFT_KEY 4

/* A row of dcounter.drift. */
typedef struct DcDriftRow
{
	int64 id;
	Oid counter;
	TimestampTz at;
	Datum key;
	int64 source;
	int64 value;
	int64 drift;
	bool repaired;
	int64 epoch;
} DcDriftRow;

static void drift_columns(DcCatRow *io, void *data);
static bool is_noted(Oid counter, int64 epoch, const DcSourceDiff *diff);
static void drift_trim(int64 newest);
static Jsonb *drift_make_payload(const DcSourceDiff *diff, bool repaired);

static const DcCatalog drift_rows = {
	.table = "drift",
	.pkey = "drift_pkey",
	.nkeys = 1,
	.size = sizeof(DcDriftRow),
	.columns = drift_columns,
};

/*
 * Read or write the columns of a row of dcounter.drift.
 */
static void
drift_columns(DcCatRow *io, void *data)
{
	DcDriftRow *row = data;

	cat_int8(io, &row->id);
	cat_oid(io, &row->counter);
	cat_time(io, &row->at);
	cat_datum(io, TEXTOID, &row->key);
	cat_not_null(io);
	cat_int8(io, &row->source);
	cat_int8(io, &row->value);
	cat_int8(io, &row->drift);
	cat_bool(io, &row->repaired);
	cat_int8(io, &row->epoch);
}

/*
 * drift_new removes the differences that were noted before in the same epoch. If there are very
 * many, only some are noted; a later pass recognizes the others by how many had been noted when
 * it began (`known`).
 */
void
drift_new(Oid counter, int64 epoch, int64 known, DcDrifts *drifts)
{
	int64 noted = drift_count(counter, epoch);
	int64 others = drifts->total - drifts->n;
	int kept = drifts->n;
	int n = 0;

	if (known >= MAX_NOTED)
		kept = others = 0;
	drifts->sum = int64_to_numeric(0);
	drifts->total = others;
	for (int i = 0; i < kept; i++)
	{
		DcSourceDiff *diff = &drifts->diffs[i];

		if (is_noted(counter, epoch, diff))
			continue;
		drifts->sum = drift_add(drifts->sum, diff->drift);
		drifts->total++;
		if (noted + n < MAX_NOTED)
			drifts->diffs[n++] = *diff;
	}
	drifts->n = n;
}

/*
 * drift_epoch returns the last epoch in which a difference of a counter table was noted, 0 if there
 * is none: it may have been bound before.
 */
int64
drift_epoch(Oid counter)
{
	DcCatScan scan;
	ScanKeyData key;
	DcDriftRow row;
	int64 epoch = 0;

	ScanKeyInit(&key, DRIFT_COUNTER, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(counter));
	cat_scan_begin(&scan, &drift_rows, "drift_key", AccessShareLock, &key, 1);
	while (cat_scan_next(&scan, ForwardScanDirection, &row))
		epoch = Max(epoch, row.epoch);
	cat_scan_end(&scan);
	return epoch;
}

/*
 * drift_count counts the differences of a counter table that were noted in an epoch.
 */
int64
drift_count(Oid counter, int64 epoch)
{
	DcCatScan scan;
	ScanKeyData key;
	DcDriftRow row;
	int64 n = 0;

	ScanKeyInit(&key, DRIFT_COUNTER, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(counter));
	cat_scan_begin(&scan, &drift_rows, "drift_key", AccessShareLock, &key, 1);
	while (cat_scan_next(&scan, ForwardScanDirection, &row))
		n += row.epoch == epoch && !row.repaired;
	cat_scan_end(&scan);
	return n;
}

/*
 * Return true if a difference of this key and amount is noted already in this epoch.
 */
static bool
is_noted(Oid counter, int64 epoch, const DcSourceDiff *diff)
{
	DcCatScan scan;
	ScanKeyData keys[2];
	DcDriftRow row;
	bool found = false;

	ScanKeyInit(&keys[0], DRIFT_COUNTER, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(counter));
	ScanKeyInit(&keys[1], DRIFT_KEY, BTEqualStrategyNumber, F_TEXTEQ, key_text_datum(&diff->key));
	cat_scan_begin(&scan, &drift_rows, "drift_key", AccessShareLock, keys, lengthof(keys));
	while (!found && cat_scan_next(&scan, ForwardScanDirection, &row))
		found = row.epoch == epoch && row.drift == diff->drift;
	cat_scan_end(&scan);
	return found;
}

/*
 * drift_add adds the amount of a difference to a sum.
 */
Numeric
drift_add(Numeric sum, int64 drift)
{
	Datum amount = DirectFunctionCall1(numeric_abs, NumericGetDatum(int64_to_numeric(drift)));

	return DatumGetNumeric(DirectFunctionCall2(numeric_add, NumericGetDatum(sum), amount));
}

/*
 * drift_note keeps differences.
 */
void
drift_note(Oid counter, int64 epoch, const DcDrifts *drifts, bool repaired)
{
	DcDriftRow row = {.counter = counter, .at = GetCurrentTimestamp(), .repaired = repaired, .epoch = epoch};

	if (drifts->n == 0)
		return;
	row.id = sequence_draw(catalog_relation("drift_id_seq"), drifts->n);
	for (int i = 0; i < drifts->n; i++, row.id++)
	{
		const DcSourceDiff *diff = &drifts->diffs[i];

		row.key = key_text_datum(&diff->key);
		row.source = diff->source;
		row.value = diff->counter;
		row.drift = diff->drift;
		cat_insert(&drift_rows, &row);
	}
	drift_trim(row.id - 1);
}

/*
 * drift_trim deletes all but the last ones.
 */
static void
drift_trim(int64 newest)
{
	DcCatScan scan;
	ScanKeyData key;

	if (newest <= MAX_DRIFTS || !bound_lock(InvalidOid, false))
		return;
	ScanKeyInit(&key, DRIFT_ID, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(newest - MAX_DRIFTS));
	cat_scan_begin(&scan, &drift_rows, drift_rows.pkey, RowExclusiveLock, &key, 1);
	while (cat_scan_next(&scan, ForwardScanDirection, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		cat_scan_delete(&scan);
	}
	cat_scan_end(&scan);
	CommandCounterIncrement();
}

/*
 * drift_events queues an event for each difference, `max` at most.
 */
void
drift_events(Oid counter, const DcDrifts *drifts, int64 max, bool repaired)
{
	text *topic = cstring_to_text(get_rel_name(counter));
	text *type = cstring_to_text("counter.drift");

	for (int i = 0; i < drifts->n && i < max; i++)
	{
		DcEvent event = {.topic = topic, .type = type};

		event_id(&event.id);
		event.key = DatumGetTextPP(key_text_datum(&drifts->diffs[i].key));
		event.payload = (struct varlena *) drift_make_payload(&drifts->diffs[i], repaired);
		outbox_append(&event, "dc_maintain()");
	}
}

/*
 * drift_make_payload makes {"key": ..., "drift": ..., "value": ..., "source": ..., "repaired":
 * ...}.
 */
static Jsonb *
drift_make_payload(const DcSourceDiff *diff, bool repaired)
{
	DcJsonWriter writer;

	json_begin(&writer);
	json_add_string(&writer, "key", diff->key.data, diff->key.len);
	json_add_int(&writer, "drift", diff->drift);
	json_add_int(&writer, "value", diff->counter);
	json_add_int(&writer, "source", diff->source);
	json_add_bool(&writer, "repaired", repaired);
	return json_end(&writer);
}

/*
 * drift_notify notifies listeners that a pass has found a difference.
 */
void
drift_notify(Oid counter)
{
	Async_Notify(CHANNEL, relation_sql_name(counter));
}

/*
 * drift_warn reports what a pass has found.
 */
void
drift_warn(const DcSourceRow *row, int64 found, int64 repaired)
{
	ereport(WARNING,
			(errmsg("counter table %s differed from its source %s", relation_sql_name(row->counter),
					relation_sql_name(row->source)),
			 errdetail("%lld keys differed, and %lld of them were repaired.", (long long) found,
					   (long long) repaired),
			 repaired < found ? errhint("The view dc_drifts has the keys. dc_source_fix() and dc_build() repair them, as does a worker after dc_alter(..., on_drift => 'repair').")
							  : errhint("The view dc_drifts has the keys.")));
}

/*
 * drift_alter is called by dc_alter() with on_drift. The caller has locked the counter tables
 * against changes of their settings. The source is locked against DDL that would change the texts
 * of expressions in the meantime.
 */
void
drift_alter(Oid counter, const char *on_drift)
{
	DcOnDrift value = on_drift_from_text(on_drift);
	DcSourceRow row;

	if (!source_read(counter, &row))
		not_bound_error(counter);
	LockRelationOid(row.source, AccessShareLock);
	if (!source_read(counter, &row))
		not_bound_error(counter);
	row.on_drift = value;
	source_update(&row);
}
