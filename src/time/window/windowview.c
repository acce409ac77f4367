/*
 * windowview.c
 *		Functions for the view of a window, and for dc_windows.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/relopen.h"
#include "core/counter/read.h"
#include "core/table/access.h"
#include "core/table/ownercode.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(window_key);
PG_FUNCTION_INFO_V1(window_bucket);
PG_FUNCTION_INFO_V1(window_calendar_bucket);
PG_FUNCTION_INFO_V1(window_start);
PG_FUNCTION_INFO_V1(window_dropped);
PG_FUNCTION_INFO_V1(window_bytes);

/*
 * window_key(key text) -> text: the user's key in a key of a slot; NULL for a key that is none
 */
Datum
window_key(PG_FUNCTION_ARGS)
{
	DcKey whole;
	DcKey key;
	int64 bucket;

	key_from_text(PG_GETARG_DATUM(0), &whole);
	if (!slot_key_split(&whole, &key, &bucket))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(key_text_datum(&key));
}

/*
 * window_bucket(key text, width bigint) -> timestamptz: when the bucket in such a key begins; NULL
 * likewise
 */
Datum
window_bucket(PG_FUNCTION_ARGS)
{
	int64 width = PG_GETARG_INT64(1);
	DcKey whole;
	DcKey key;
	int64 bucket;

	key_from_text(PG_GETARG_DATUM(0), &whole);
	if (width <= 0 || width > PG_INT64_MAX / 4 / (BUCKET_MAX + 1) * USECS_PER_SEC ||
		!slot_key_split(&whole, &key, &bucket) || bucket > (END_TIMESTAMP - BUCKET_ORIGIN - 1) / width)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(bucket_start(bucket, width));
}

/*
 * window_digits returns the number of a bucket as it is at the end of a key.
 */
Datum
window_digits(int64 bucket)
{
	return CStringGetTextDatum(psprintf("%08x", (uint32) Min(Max(bucket, 0), BUCKET_MAX)));
}

/*
 * window_number returns the number of such a text.
 */
int64
window_number(Datum digits)
{
	return strtoul(TextDatumGetCString(digits), NULL, 16);
}

/*
 * window_calendar_bucket(key text, width bigint, unit text, time_zone text) -> timestamptz: the same
 * for buckets of days or months of a time zone
 */
Datum
window_calendar_bucket(PG_FUNCTION_ARGS)
{
	int64 width = PG_GETARG_INT64(1);
	DcUnit unit = window_unit_from_text(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	pg_tz *zone = pg_tzset(text_to_cstring(PG_GETARG_TEXT_PP(3)));
	TimestampTz start;
	DcKey whole;
	DcKey key;
	int64 bucket;

	key_from_text(PG_GETARG_DATUM(0), &whole);
	if (width <= 0 || unit == DC_UNIT_TIME || !slot_key_split(&whole, &key, &bucket))
		PG_RETURN_NULL();
	start = calendar_start(bucket, unit, width, zone);
	if (!IS_VALID_TIMESTAMP(start))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(start);
}

/*
 * window_start(slot regclass) -> timestamptz: the start of the time that the window keeps, in the
 * active snapshot. Raises 40001 if that snapshot is older than a TRUNCATE of one of its tables, all
 * of which the statement has locked.
 */
Datum
window_start(PG_FUNCTION_ARGS)
{
	DcWindowSlot slot;
	DcWindowRow now;
	DcWindowRow row;

	if (!window_slot_read(PG_GETARG_OID(0), &slot) || !window_row_read(slot.windowed, &now))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the view no longer belongs to a windowed counter")));
	row = now;
	if (ActiveSnapshotSet() && XidInMVCCSnapshot(now.changed_by, GetActiveSnapshot()) &&
		!TransactionIdIsCurrentTransactionId(now.changed_by))
	{
		if (!window_row_read_in(slot.windowed, GetActiveSnapshot(), &row))
			serialization_error();
		for (int l = 0; l < row.levels.n; l++)
		{
			if (now.levels.gone[l] > row.levels.gone[l])
				serialization_error();
		}
	}
	PG_RETURN_TIMESTAMPTZ(row.levels.floors[row.levels.n - 1]);
}

/*
 * window_dropped(counter regclass) -> bigint: how many increments were dropped because they came
 * too late; NULL for a role that may not read the window, and if the table that counts them is
 * gone.
 */
Datum
window_dropped(PG_FUNCTION_ARGS)
{
	Oid relid = PG_GETARG_OID(0);
	DcKey key = {.data = "dropped", .len = strlen("dropped")};
	Datum text = key_text_datum(&key);
	DcWindow *window = window_find(relid);
	DcCounter *counter;
	DcSums sums = {0};
	int64 value;
	volatile bool may = false;
	bool guard;

	if (window == NULL || !OidIsValid(window->dropped) ||
		pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		PG_RETURN_NULL();
	counter = counter_open_in_passing(window->dropped);
	guard = ownercode_guard(false);
	PG_TRY();
	{
		may = counter != NULL && ownercode_may_read(counter);
		for (int snapshots = may ? counter_sums(counter, &text, 1, &sums) : 0; snapshots > 0; snapshots--)
			PopActiveSnapshot();
	}
	PG_FINALLY();
	{
		(void) ownercode_guard(guard);
	}
	PG_END_TRY();
	if (!may || !sums_fit(sums.inc - sums.dec, &value)) /* by hand */
		PG_RETURN_NULL();
	PG_RETURN_INT64(value);
}

/*
 * window_bytes(counter regclass) -> bigint: the size of a windowed counter's tables; NULL if one of
 * them is locked.
 */
Datum
window_bytes(PG_FUNCTION_ARGS)
{
	List *slots = window_slots_read(PG_GETARG_OID(0));
	int64 sum = 0;
	ListCell *lc;

	foreach(lc, slots)
	{
		const DcWindowSlot *slot = lfirst(lc);
		DcCounterRow row;
		int64 size;
		int64 shards_size;

		if (!catalog_read(slot->slot, &row))
			continue;
		if (!relation_size_at_once(row.counter, &size) || !relation_size_at_once(row.shards, &shards_size))
			PG_RETURN_NULL();
		sum += size + shards_size;
	}
	PG_RETURN_INT64(sum);
}
