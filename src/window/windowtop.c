/*
 * windowtop.c
 *		dc_top_window(): the keys with the most in the last while.
 */
#include "postgres.h"

#include "base/args.h"
#include "base/interval.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "catalog/pg_type.h"
#include "counter/apply.h"
#include "counter/pending.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "table/access.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/timestamp.h"
#include "window/window.h"

PG_FUNCTION_INFO_V1(dc_top_window);

static char *top_query(const DcWindowReading *reading, List **tables);
static void append_slot(StringInfo sql, const DcWindowReading *reading, int number, List **tables);
static void run_top(const DcWindowReading *reading, int64 n, DcRows *rows);
static void check_tables(SPIPlanPtr plan, const List *tables);

/*
 * dc_top_window(counter regclass, span interval, n int) -> setof (key text, value bigint, rank bigint)
 *
 * The n keys with the most in the buckets that have begun in the last `span`, the one that is being filled included, as
 * dc_top() returns them. It reads all keys of these slots. Errors: 22004 for NULL, 22023 for a span or n that is
 * negative, 22003 when a sum leaves bigint.
 */
Datum
dc_top_window(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid relid = window_arg(fcinfo);
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz from;
	DcWindowReading reading;
	DcWindow *window;
	DcRows rows;
	DcRunAs state;
	int64 us;
	int64 rank = 0;
	int64 last = 0;

	arg_not_null(fcinfo, 1, "span");
	arg_not_null(fcinfo, 2, "n");
	us = interval_to_us(PG_GETARG_INTERVAL_P(1));
	if (us <= 0 || PG_GETARG_INT32(2) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 us <= 0 ? errmsg("span must be positive") : errmsg("n must not be negative")));
	if (pg_sub_s64_overflow(now, us, &from))
		from = DT_NOBEGIN;
	window = window_open(relid, ACL_SELECT);
	InitMaterializedSRF(fcinfo, 0);
	if (!pending_is_empty())
		apply_early(); /* it reads rows alone */
	window_read_begin(window, from, now + window->row.levels.widths[0], &reading);
	SPI_connect();
	runas_begin(&state, window->owner);
	if (reading.nslots > 0)
		run_top(&reading, PG_GETARG_INT32(2), &rows);
	for (uint64 i = 0; reading.nslots > 0 && i < rows.count; i++)
	{
		int64 value = DatumGetInt64(DirectFunctionCall1(numeric_int8, rows_datum(&rows, i, 2)));
		bool nulls[3] = {false};
		Datum values[3];

		if (i == 0 || value != last)
			rank = (int64) i + 1;
		last = value;
		values[0] = rows_datum(&rows, i, 1);
		values[1] = Int64GetDatum(value);
		values[2] = Int64GetDatum(rank);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	runas_end(&state);
	SPI_finish();
	window_read_end(&reading);
	return (Datum) 0;
}

/*
 * run_top runs the query in the active snapshot, as the owner of the tables, which are locked.
 */
static void
run_top(const DcWindowReading *reading, int64 n, DcRows *rows)
{
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {DC_TEXT("key"), DC_COLUMN("value", NUMERICOID)};
	List *tables = NIL;
	char *query = top_query(reading, &tables);
	Oid type = INT8OID;
	Datum limit = Int64GetDatum(n);
	SPIPlanPtr plan = SPI_prepare(query, 1, &type);

	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	check_tables(plan, tables);
	if (SPI_execute_plan(plan, &limit, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the tables of a windowed counter");
	rows_take(rows, columns, reading->window->slots[reading->slots[0]]);
}

static char *
top_query(const DcWindowReading *reading, List **tables)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql,
						   "SELECT u.key, pg_catalog.sum(u.inc) - pg_catalog.sum(u.dec) FROM (");
	for (int i = 0; i < reading->nslots; i++)
	{
		if (i > 0)
			appendStringInfoString(&sql, " UNION ALL ");
		append_slot(&sql, reading, reading->slots[i], tables);
	}
	appendStringInfoString(&sql, ") AS u GROUP BY u.key ORDER BY 2 DESC, u.key COLLATE \"C\" LIMIT $1");
	return sql.data;
}

/*
 * append_slot appends the query of a slot's rows, of both tables.
 */
static void
append_slot(StringInfo sql, const DcWindowReading *reading, int number, List **tables)
{
	const DcLevels *levels = &reading->row.levels;
	int64 width = levels->widths[number / WINDOW_SLOTS];
	Oid slot = reading->window->slots[number];
	Oid relids[2] = {slot, counter_lookup(slot)->row.shards};
	int64 first = bucket_of(Max(reading->from, levels->floors[levels->n - 1]) - 1, width) + 1;
	int64 last = bucket_of(reading->to, width);

	for (int i = 0; i < 2; i++)
	{
		appendStringInfo(sql,
						 "%sSELECT left(t.key, -%d) AS key, t.inc, t.dec FROM %s AS t"
						 " WHERE right(t.key, %d) COLLATE \"C\" BETWEEN '%08x' AND '%08x'"
						 " AND ascii(right(t.key, %d)) = %d",
						 i == 0 ? "" : " UNION ALL ", BUCKET_SUFFIX_BYTES, relation_sql_name(relids[i]), BUCKET_SUFFIX_BYTES - 1,
						 (uint32) Max(first, 0), (uint32) Min(last, BUCKET_MAX), BUCKET_SUFFIX_BYTES, BUCKET_SEPARATOR);
		*tables = lappend_oid(*tables, relids[i]);
	}
}

/*
 * check_tables raises 55000 if names stood for other tables when the query was parsed.
 */
static void
check_tables(SPIPlanPtr plan, const List *tables)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	ListCell *lc;

	foreach(lc, tables)
		run_ddl_done(list_member_oid(source->relationOids, lfirst_oid(lc)), get_rel_name(lfirst_oid(lc)));
}
