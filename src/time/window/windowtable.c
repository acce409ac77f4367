/*
 * windowtable.c
 *		Creating, altering and dropping windows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A window is made with plain DDL in the name of the caller: its counter tables by table_create(),
 * and the view. The view shows what was compacted, like the table of totals of a counter.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/interval.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/table.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(dc_window_create);
PG_FUNCTION_INFO_V1(dc_window_alter);
PG_FUNCTION_INFO_V1(dc_window_drop);

#define MIN_BUCKET USECS_PER_SEC
#define MAX_KEEP (36525 * USECS_PER_DAY)

static int64 width_arg(const Interval *interval, const char *name);
static void rollup_arg(FunctionCallInfo fcinfo, int argno, DcLevels *levels);
static void rollup_add(DcLevels *levels, int64 width, int64 keep);
static void check_levels(const DcLevels *levels);
static Oid create_counter(const RangeVar *name, const char *suffix);

/*
 * dc_window_create(counter text, bucket interval, keep interval, rollup jsonb, late text) ->
 * regclass, the view
 *
 * rollup says which wider buckets follow, and for how long they are kept: {"1 hour": "90 days"}.
 * Errors: 42P07 when a relation of that name exists; 22023 for intervals that do not fit each
 * other; 42622 when the name leaves no room for those of the tables.
 */
Datum
dc_window_create(PG_FUNCTION_ARGS)
{
	Oid slots[WINDOW_MAX_LEVELS * WINDOW_SLOTS];
	DcWindowRow row = {0};
	Oid dropped;
	RangeVar *name;
	Oid schema;

	arg_not_null(fcinfo, 0, "counter");
	window_settings_args(fcinfo, &row);
	prevent_write("dc_window_create()");
	name = table_name_arg(fcinfo, 0);
	schema = table_schema(name, "windowed counters");
	if (OidIsValid(get_relname_relid(name->relname, schema)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", name->relname)));
	for (int i = 0; i < row.levels.n * WINDOW_SLOTS; i++)
		slots[i] = create_counter(name, window_slot_suffix(i));
	dropped = create_counter(name, window_slot_suffix(WINDOW_DROPPED));
	window_create_view(name, &row, slots);
	row.windowed = get_relname_relid(name->relname, schema);
	run_ddl_done(OidIsValid(row.windowed), name->relname);
	window_insert(&row, slots, dropped);
	PG_RETURN_OID(row.windowed);
}

/*
 * Read the settings in the arguments 1 to 4, and place the levels at the time now.
 */
void
window_settings_args(FunctionCallInfo fcinfo, DcWindowRow *row)
{
	arg_not_null(fcinfo, 1, "bucket");
	arg_not_null(fcinfo, 2, "keep");
	arg_not_null(fcinfo, 4, "late");
	row->levels.n = 1;
	row->levels.widths[0] = width_arg(PG_GETARG_INTERVAL_P(1), "bucket");
	row->levels.keeps[0] = width_arg(PG_GETARG_INTERVAL_P(2), "keep");
	rollup_arg(fcinfo, 3, &row->levels);
	row->late = window_late_from_text(text_to_cstring(PG_GETARG_TEXT_PP(4)));
	check_levels(&row->levels);
	levels_place(&row->levels, GetCurrentTimestamp());
}

/*
 * Register a window and its tables.
 */
void
window_insert(const DcWindowRow *row, const Oid *slots, Oid dropped)
{
	DcWindowSlot slot = {.slot = dropped, .windowed = row->windowed, .number = WINDOW_DROPPED};

	window_row_insert(row);
	window_slot_insert(&slot);
	for (int i = 0; i < row->levels.n * WINDOW_SLOTS; i++)
	{
		slot.slot = slots[i];
		slot.number = i;
		window_slot_insert(&slot);
	}
}

/*
 * Return what follows the name of a windowed counter in that of one of its tables.
 */
char *
window_slot_suffix(int number)
{
	return number == WINDOW_DROPPED ? pstrdup("_dropped") : psprintf("_w%d", number);
}

/*
 * width_arg returns an interval in microseconds (22023 if it is not positive, or has months).
 */
static int64
width_arg(const Interval *interval, const char *name)
{
	int64 us = interval_to_duration(interval, name);

	if (us < MIN_BUCKET || us > MAX_KEEP)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 1 second and 100 years", name)));
	return us;
}

/*
 * rollup_arg adds the levels of argument argno, in the order of their widths.
 */
static void
rollup_arg(FunctionCallInfo fcinfo, int argno, DcLevels *levels)
{
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {DC_TEXT("key"), DC_NULLABLE("value", TEXTOID)};
	Oid type = JSONBOID;
	Datum value;
	DcRows rows;

	if (PG_ARGISNULL(argno))
		return;
	value = PG_GETARG_DATUM(argno);
	if (!JB_ROOT_IS_OBJECT(DatumGetJsonbP(value)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("rollup must be a JSON object"),
				 errhint("It maps the width of wider buckets to how long they are kept: {\"1 hour\": \"90 days\"}.")));
	SPI_connect();
	if (SPI_execute_with_args("SELECT e.key, e.value FROM pg_catalog.jsonb_each_text($1) AS e", 1, &type, &value,
							  NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the rollup");
	rows_take(&rows, columns, InvalidOid);
	for (uint64 i = 0; i < rows.count; i++)
	{
		bool isnull;
		Datum keep = rows_nullable(&rows, i, 2, &isnull);
		Datum parts[2];

		if (isnull)
			null_not_allowed("rollup");
		parts[0] = rows_datum(&rows, i, 1);
		parts[1] = keep;
		for (int p = 0; p < 2; p++)
			parts[p] = DirectFunctionCall3(interval_in, CStringGetDatum(TextDatumGetCString(parts[p])),
										   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
		rollup_add(levels, width_arg(DatumGetIntervalP(parts[0]), "rollup"),
				   width_arg(DatumGetIntervalP(parts[1]), "rollup"));
	}
	SPI_finish();
}

/*
 * Add a step to the rollup, in the order of widths. An error if there are too many.
 */
static void
rollup_add(DcLevels *levels, int64 width, int64 keep)
{
	int l = levels->n;

	if (l == WINDOW_MAX_LEVELS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a rollup can have at most %d steps", WINDOW_MAX_LEVELS - 1)));
	for (; l > 1 && levels->widths[l - 1] > width; l--)
	{
		levels->widths[l] = levels->widths[l - 1];
		levels->keeps[l] = levels->keeps[l - 1];
	}
	levels->widths[l] = width;
	levels->keeps[l] = keep;
	levels->n++;
}

/*
 * check_levels raises 22023 if the levels do not fit each other.
 */
static void
check_levels(const DcLevels *levels)
{
	const char *detail = NULL;

	for (int l = 0; l < levels->n && detail == NULL; l++)
	{
		if (levels->keeps[l] < levels->widths[l])
			detail = _("A bucket is longer than it is kept for.");
		else if (levels->keeps[l] / levels->widths[l] > BUCKET_MAX / 4)
			detail = _("There are too many buckets.");
		else if (l > 0 && (levels->widths[l] <= levels->widths[l - 1] || levels->widths[l] % levels->widths[l - 1] != 0))
			detail = _("The buckets of each level must be a multiple of those of the level before.");
		else if (l > 0 && levels->keeps[l] <= levels->keeps[l - 1])
			detail = _("Each level must be kept for longer than the level before.");
	}
	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bucket, keep and rollup do not match"),
				 errdetail_internal("%s", detail)));
}

/*
 * create_counter makes one of the counter tables.
 */
static Oid
create_counter(const RangeVar *name, const char *suffix)
{
	RangeVar *slot = makeRangeVar(name->schemaname, sibling_name(name->relname, suffix), -1);
	DcCounterRow row;

	catalog_row_defaults(&row);
	return table_create(slot, row, false, 0, "dc_window_create()");
}

/*
 * Create the view by which the window is known, or replace it. A bucket that has left bigint is
 * shown as its bound, so that others can still be read; dc_window() of the key fails.
 */
void
window_create_view(const RangeVar *name, const DcWindowRow *row, const Oid *slots)
{
	char *view = pstrdup(quote_qualified_identifier(name->schemaname, name->relname));
	StringInfoData sql;
	Oid relid;

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "CREATE OR REPLACE VIEW %s (key, bucket, value) AS"
					 " SELECT dcounter.window_key(u.key), dcounter.window_bucket(u.key, u.width),"
					 " LEAST(GREATEST(pg_catalog.sum(u.inc) OPERATOR(pg_catalog.-) pg_catalog.sum(u.dec), '-9223372036854775808'),"
					 " '9223372036854775807')::pg_catalog.int8 FROM (",
					 view);
	for (int i = 0; i < row->levels.n * WINDOW_SLOTS * 2; i++)
	{
		Oid table = slots[i / 2];
		DcCounterRow counter;

		if (i % 2 == 1 && catalog_read(table, &counter))
			table = counter.shards;
		appendStringInfo(&sql, "%sSELECT t.key, t.inc, t.dec, " INT64_FORMAT "::pg_catalog.int8 AS width FROM %s AS t",
						 i == 0 ? "" : " UNION ALL ", row->levels.widths[i / 2 / WINDOW_SLOTS], relation_sql_name(table));
	}
	appendStringInfo(&sql,
					 ") AS u WHERE dcounter.window_bucket(u.key, u.width) OPERATOR(pg_catalog.>=)"
					 " (SELECT dcounter.window_start(%s::pg_catalog.regclass)) GROUP BY 1, 2",
					 quote_literal_cstr(relation_sql_name(slots[0])));
	run_ddl(sql.data);
	relid = get_relname_relid(name->relname, get_namespace_oid(name->schemaname, false));
	if (OidIsValid(relid))
		CreateComments(relid, RelationRelationId, 0,
					   "dcounter: a windowed counter, its compacted values; see dc_window_create()");
}

/*
 * dc_window_alter(counter regclass, keep interval, late text) -> void; NULL keeps a setting.
 *
 * The ring has a fixed size: a window must be created again to be kept for longer (22023).
 */
Datum
dc_window_alter(PG_FUNCTION_ARGS)
{
	Oid relid = window_arg(fcinfo);
	DcWindowRow row;
	int64 room;

	prevent_write("dc_window_alter()");
	(void) window_open_own(relid);
	if (!window_row_read(relid, &row))
		(void) window_lookup(relid);
	if (!PG_ARGISNULL(1))
	{
		row.levels.keeps[0] = width_arg(PG_GETARG_INTERVAL_P(1), "keep");
		check_levels(&row.levels);
		room = row.levels.spans[0] * (WINDOW_SLOTS - 2) * row.levels.widths[0];
		if (row.levels.keeps[0] > room)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("keep must be at most %s",
							DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(interval_from_us(room))))),
					 errdetail("The tables of \"%s\" were created for that.", get_rel_name(relid)),
					 errhint("Create another windowed counter, and count in both for a while.")));
	}
	if (!PG_ARGISNULL(2))
		row.late = window_late_from_text(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	(void) window_row_update(&row);
	PG_RETURN_VOID();
}

/*
 * dc_window_drop(counter regclass) -> void: drops the view and the tables, as a plain DROP VIEW
 * does by way of the event trigger.
 */
Datum
dc_window_drop(PG_FUNCTION_ARGS)
{
	Oid relid = window_arg(fcinfo);
	List *slots;
	ListCell *lc;

	prevent_write("dc_window_drop()");
	(void) window_open_own(relid);
	slots = window_slots_read(relid);
	LockRelationOid(relid, AccessExclusiveLock);
	(void) window_lookup(relid);
	window_claims_delete_all(relid);
	(void) window_row_delete(relid); /* so that the event trigger has nothing to do */
	foreach(lc, slots)
		(void) window_slot_delete(((DcWindowSlot *) lfirst(lc))->slot);
	table_drop(relid, false);
	foreach(lc, slots)
		table_drop(((DcWindowSlot *) lfirst(lc))->slot, false);
	PG_RETURN_VOID();
}
