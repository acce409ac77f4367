/*
 * windowview.c
 *		What the view of a window, and dc_windows, call.
 */
#include "postgres.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "counter/read.h"
#include "miscadmin.h"
#include "table/access.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "window/window.h"

PG_FUNCTION_INFO_V1(window_key);
PG_FUNCTION_INFO_V1(window_bucket);
PG_FUNCTION_INFO_V1(window_start);
PG_FUNCTION_INFO_V1(window_dropped);

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
 * window_bucket(key text, width bigint) -> timestamptz: when the bucket in such a key begins; NULL likewise
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
 * window_start(slot regclass) -> timestamptz: since when the window has buckets that are kept, in the active
 * snapshot. Raises 40001 if that snapshot is older than a TRUNCATE of one of its tables, which the statement
 * has locked all.
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
				 errmsg("the view is one of a windowed counter no more")));
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
 * window_dropped(counter regclass) -> bigint: how many increments were dropped since they came too late; NULL for a
 * role that may not read the window, and if it has no table for it any more.
 */
Datum
window_dropped(PG_FUNCTION_ARGS)
{
	Oid relid = PG_GETARG_OID(0);
	DcKey key = {.data = "dropped", .len = strlen("dropped")};
	DcWindow *window = window_find(relid);
	DcCounter *counter;

	if (window == NULL || !OidIsValid(window->dropped) ||
		pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		PG_RETURN_NULL();
	counter = counter_open_at_once(window->dropped, AccessShareLock);
	if (counter == NULL)
		PG_RETURN_NULL();
	PG_RETURN_INT64(counter_value(counter, &key));
}
