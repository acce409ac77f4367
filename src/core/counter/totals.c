/*
 * totals.c
 *		Compacted values: dc_total() and dc_top().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They read the table of totals alone, in the caller's snapshot: cheaper than the
 * exact value, and as old as the last compaction.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "core/counter/read.h"
#include "core/counter/sqlpath.h"
#include "core/rows/scan.h"
#include "core/table/access.h"

PG_FUNCTION_INFO_V1(dc_total);
PG_FUNCTION_INFO_V1(dc_top);

/* key */
static const DcStatement sql_read_total = {
	.text = "SELECT t.inc, t.dec, t.updated_at FROM @totals AS t WHERE t.key = $1", .argtypes = {TEXTOID}, .columns = {DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TIME("updated_at")}};

/* how many */
static const DcStatement sql_top = {
	.text = "SELECT t.key, t.value FROM @totals AS t WHERE t.value IS NOT NULL"
			" ORDER BY t.value DESC, t.key COLLATE \"C\" LIMIT $1",
	.argtypes = {INT4OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("value")}};

/*
 * dc_total(counter regclass, key text|bigint|uuid)
 * -> (value bigint, updated_at timestamptz); 0 and NULL for a key without a
 * total.
 */
Datum
dc_total(PG_FUNCTION_ARGS)
{
	DcKey buf;
	const DcKey *key = key_arg(fcinfo, 1, &buf);
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_total()");
	DcKeyState state;
	Datum values[2];
	bool nulls[2] = {false};

	counter_total(counter, key, &state);
	values[0] = Int64GetDatum(sums_to_bigint(state.sums.net, "value"));
	values[1] = TimestampTzGetDatum(state.updated_at);
	nulls[1] = TIMESTAMP_IS_NOBEGIN(state.updated_at);
	return record_result(fcinfo, values, nulls);
}

/*
 * dc_top(counter regclass, n int) -> setof (key text, value bigint, rank bigint)
 *
 * The n keys with the highest totals, highest first; equal ones have the same
 * rank and come in the order of their keys. Quick with an index on value.
 * Errors: 22004 when n is NULL, 22023 when it is negative.
 */
Datum
dc_top(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	DcCounter *counter = counter_open_to_read(fcinfo, "dc_top()");
	DcSqlSession session;
	Datum limit;
	int64 rank = 0;
	int64 last = 0;

	arg_not_null(fcinfo, 1, "n");
	if (PG_GETARG_INT32(1) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("n must not be negative")));
	limit = Int32GetDatum(PG_GETARG_INT32(1));
	InitMaterializedSRF(fcinfo, 0);
	sql_begin(&session, counter);
	sql_read(&session, &sql_top, &limit);
	for (uint64 i = 0; i < session.rows.count; i++)
	{
		int64 value = rows_bigint(&session.rows, i, 2);
		bool nulls[3] = {false};
		Datum values[3];

		if (i == 0 || value != last)
			rank = (int64) i + 1;
		last = value;
		values[0] = rows_datum(&session.rows, i, 1);
		values[1] = Int64GetDatum(value);
		values[2] = Int64GetDatum(rank);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	sql_end(&session);
	return (Datum) 0;
}

/*
 * counter_total reads a key's row of totals; state->updated_at says whether there is one.
 */
void
counter_total(DcCounter *counter, const DcKey *key, DcKeyState *state)
{
	DcSqlSession session;
	Datum value;

	key_state_init(state);
	if (counter->direct_read)
	{
		scan_key_total(counter, key, state);
		return;
	}
	value = key_text_datum(key);
	sql_begin(&session, counter);
	sql_read(&session, &sql_read_total, &value);
	if (session.rows.count > 0)
		key_state_add(state, rows_bigint(&session.rows, 0, 1),
					  rows_bigint(&session.rows, 0, 2),
					  DatumGetTimestampTz(rows_datum(&session.rows, 0, 3)), false);
	sql_end(&session);
	pfree(DatumGetPointer(value));
}
