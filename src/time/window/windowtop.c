/*
 * windowtop.c
 *		dc_top_window(): the keys with the highest counts of a recent time.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * One query adds up the rows of all slots that matter, and what this transaction has pending, which
 * comes as parameters: so nothing is written. It adds up in numeric. The sum of a key may leave
 * bigint, by mistake or malice of the role that counts it; that must not hide the other keys. So it
 * keeps its place in the order, and is shown as the bound of bigint.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "core/counter/pending.h"
#include "core/table/access.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(dc_top_window);

/* The pending deltas of the buckets that count, as columns. */
typedef struct DcTopPending
{
	int n;
	int capacity;
	Datum *columns[3]; /* keys, incs, decs */
	int64 first;	   /* buckets of the slot that is looked at */
	int64 last;
} DcTopPending;

static char *top_query(const DcWindowReading *reading, List **tables);
static void append_slot(StringInfo sql, const DcWindowReading *reading, int number, List **tables);
static void slot_range(const DcWindowReading *reading, int number, int64 *first, int64 *last);
static void collect_pending(const DcWindowReading *reading, Datum *arrays);
static void windowtop_add_pending(void *arg, const DcDelta *delta);
static void run_top(const DcWindowReading *reading, int64 n, DcRows *rows);
static void windowtop_check_tables(SPIPlanPtr plan, const List *tables);

/*
 * dc_top_window(counter regclass, span interval, n int) -> setof (key text, value bigint, rank
 * bigint)
 *
 * The n keys with the most in the buckets that have begun in the last `span`, including the one
 * that is being filled, in the form of dc_top(). It reads all keys of these slots. A sum that
 * leaves bigint is shown as the greatest or the least one. Errors: 22004 for NULL, 22023 for an n
 * that is negative, or a span as in dc_window().
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
	int64 rank = 0;
	int64 last = 0;

	arg_not_null(fcinfo, 1, "span");
	arg_not_null(fcinfo, 2, "n");
	if (PG_GETARG_INT32(2) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("n must not be negative")));
	window = window_open(relid, ACL_SELECT);
	from = window_span_start(window, PG_GETARG_INTERVAL_P(1), now);
	InitMaterializedSRF(fcinfo, 0);
	window_read_begin(window, from, now + 1, false, &reading);
	SPI_connect();
	runas_begin(&state, window->owner);
	if (reading.nslots > 0)
		run_top(&reading, PG_GETARG_INT32(2), &rows);
	for (uint64 i = 0; reading.nslots > 0 && i < rows.count; i++)
	{
		int64 value = rows_bigint(&rows, i, 2);
		bool nulls[3] = {false};
		Datum values[3];

		CHECK_FOR_INTERRUPTS();
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
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {DC_TEXT("key"), DC_BIGINT("value")};
	List *tables = NIL;
	char *query = top_query(reading, &tables);
	Oid types[4] = {INT8OID, TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID};
	Datum values[4] = {Int64GetDatum(n)};
	SPIPlanPtr plan = SPI_prepare(query, lengthof(types), types);

	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	windowtop_check_tables(plan, tables);
	collect_pending(reading, &values[1]);
	if (SPI_execute_plan(plan, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the tables of a windowed counter");
	rows_take(rows, columns, reading->window->slots[reading->slots[0]]);
}

/*
 * Return the text of the query over the slots. `tables` gets the relations that it reads.
 */
static char *
top_query(const DcWindowReading *reading, List **tables)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql,
						   "SELECT u.key, LEAST(GREATEST(pg_catalog.sum(u.inc) - pg_catalog.sum(u.dec), -9223372036854775808),"
						   " 9223372036854775807)::pg_catalog.int8"
						   " FROM (SELECT p.key COLLATE \"C\", p.inc, p.dec FROM unnest($2, $3, $4) AS p(key, inc, dec)");
	for (int i = 0; i < reading->nslots; i++)
		append_slot(&sql, reading, reading->slots[i], tables);
	appendStringInfoString(&sql, ") AS u GROUP BY u.key"
								 " ORDER BY pg_catalog.sum(u.inc) - pg_catalog.sum(u.dec) DESC, u.key COLLATE \"C\" LIMIT $1");
	return sql.data;
}

/*
 * append_slot appends the query of a slot's rows, of both tables.
 */
static void
append_slot(StringInfo sql, const DcWindowReading *reading, int number, List **tables)
{
	Oid slot = reading->window->slots[number];
	Oid relids[2] = {slot, counter_lookup(slot)->row.shards};
	int64 first;
	int64 last;

	slot_range(reading, number, &first, &last);
	for (int i = 0; i < 2; i++)
	{
		appendStringInfo(sql,
						 " UNION ALL SELECT left(t.key, -%d) AS key, t.inc, t.dec FROM %s AS t"
						 " WHERE right(t.key, %d) COLLATE \"C\" BETWEEN '%08x' AND '%08x'"
						 " AND ascii(right(t.key, %d)) = %d",
						 BUCKET_SUFFIX_BYTES, relation_sql_name(relids[i]), BUCKET_SUFFIX_BYTES - 1,
						 (uint32) first, (uint32) last, BUCKET_SUFFIX_BYTES, BUCKET_SEPARATOR);
		*tables = lappend_oid(*tables, relids[i]);
	}
}

/*
 * slot_range returns the first and the last bucket of a slot that count: those that begin in the
 * time.
 */
static void
slot_range(const DcWindowReading *reading, int number, int64 *first, int64 *last)
{
	const DcLevels *levels = &reading->row.levels;
	int level = number / WINDOW_SLOTS;

	*first = Max(level_bucket(levels, level, Max(reading->from, levels->floors[levels->n - 1]) - 1) + 1, 0);
	*last = Min(level_bucket(levels, level, reading->to - 1), BUCKET_MAX);
}

/*
 * collect_pending makes arrays of this transaction's deltas that are not written yet.
 */
static void
collect_pending(const DcWindowReading *reading, Datum *arrays)
{
	static const Oid types[] = {TEXTOID, INT8OID, INT8OID};
	DcTopPending pending = {.capacity = 16};

	for (int c = 0; c < lengthof(types); c++)
		pending.columns[c] = palloc(pending.capacity * sizeof(Datum));
	for (int i = 0; i < reading->nslots && !pending_is_empty(); i++)
	{
		slot_range(reading, reading->slots[i], &pending.first, &pending.last);
		pending_each(reading->window->slots[reading->slots[i]], windowtop_add_pending, &pending);
	}
	for (int c = 0; c < lengthof(types); c++)
		arrays[c] = array_datum(pending.columns[c], pending.n, types[c]);
}

/*
 * Add a pending delta to the parameters of the query, if its bucket is in the range.
 */
static void
windowtop_add_pending(void *arg, const DcDelta *delta)
{
	DcTopPending *pending = arg;
	DcKey whole = {.data = delta->key.data, .len = delta->key.len};
	int64 bucket;
	DcKey key;

	if (!slot_key_split(&whole, &key, &bucket) || bucket < pending->first || bucket > pending->last)
		return;
	if (pending->n == pending->capacity)
	{
		pending->capacity *= 2;
		for (int c = 0; c < lengthof(pending->columns); c++)
			pending->columns[c] = repalloc_huge(pending->columns[c], pending->capacity * sizeof(Datum));
	}
	pending->columns[0][pending->n] = key_text_datum(&key);
	pending->columns[1][pending->n] = Int64GetDatum(delta->inc);
	pending->columns[2][pending->n] = Int64GetDatum(delta->dec);
	pending->n++;
}

/*
 * windowtop_check_tables raises 55000 if the query's names meant other tables when it was parsed.
 */
static void
windowtop_check_tables(SPIPlanPtr plan, const List *tables)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	ListCell *lc;

	foreach(lc, tables)
		run_ddl_done(list_member_oid(source->relationOids, lfirst_oid(lc)), get_rel_name(lfirst_oid(lc)));
}
