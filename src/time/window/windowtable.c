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

static bool zone_is_listed(const char *name);
static void zone_arg(FunctionCallInfo fcinfo, int argno, DcWindowRow *row);
static int64 width_arg(const Interval *width, const char *name, const pg_tz *zone, DcUnit *unit);
static int64 keep_arg(const Interval *keep, const char *name, DcUnit unit);
static void check_range(int64 n, DcUnit unit, const char *name);
static void rollup_arg(FunctionCallInfo fcinfo, int argno, DcLevels *levels);
static void rollup_add(DcLevels *levels, DcUnit unit, int64 width, int64 keep);
static void check_levels(const DcLevels *levels);
static Oid create_counter(const RangeVar *name, const char *suffix);
static char *bucket_sql(const DcWindowRow *row, int level);
static char *interval_text(int64 n, DcUnit unit);

/*
 * dc_window_create(counter text, bucket interval, keep interval, rollup jsonb, late text,
 * time_zone text) -> regclass, the view
 *
 * rollup says which wider buckets follow, and for how long they are kept: {"1 hour": "90 days"}.
 * With a time zone, days and months are those of its calendar.
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
 * Read the settings in the arguments 1 to 5, and place the levels at the time now.
 */
void
window_settings_args(FunctionCallInfo fcinfo, DcWindowRow *row)
{
	arg_not_null(fcinfo, 1, "bucket");
	arg_not_null(fcinfo, 2, "keep");
	arg_not_null(fcinfo, 4, "late");
	zone_arg(fcinfo, 5, row);
	row->levels.n = 1;
	row->levels.widths[0] = width_arg(PG_GETARG_INTERVAL_P(1), "bucket", row->levels.zone, &row->levels.units[0]);
	row->levels.keeps[0] = keep_arg(PG_GETARG_INTERVAL_P(2), "keep", row->levels.units[0]);
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
 * Return true if a name is one of pg_timezone_names, or can at least be no specification as of
 * POSIX: a process, also the worker, keeps each zone that it has used, and there is no end of
 * these. They have digits, and few names do.
 */
static bool
zone_is_listed(const char *name)
{
	pg_tzenum *zones;
	pg_tz *zone;
	bool found = false;

	if (strpbrk(name, "0123456789") == NULL)
		return true;
	zones = pg_tzenumerate_start();
	while (!found && (zone = pg_tzenumerate_next(zones)) != NULL)
		found = pg_strcasecmp(pg_get_timezone_name(zone), name) == 0;
	pg_tzenumerate_end(zones);
	return found;
}

/*
 * zone_arg reads the time zone in argument argno, if a function has it: buckets can have days and
 * months of it. An error (22023) if the server does not know it.
 */
static void
zone_arg(FunctionCallInfo fcinfo, int argno, DcWindowRow *row)
{
	if (PG_NARGS() <= argno || PG_ARGISNULL(argno))
		return;
	text_to_cstring_buffer(PG_GETARG_TEXT_PP(argno), row->time_zone, sizeof(row->time_zone));
	if (!zone_is_listed(row->time_zone))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time zone \"%s\" not recognized", row->time_zone),
				 errhint("Use one of pg_timezone_names.")));
	row->levels.zone = pg_tzset(row->time_zone);
	if (row->levels.zone == NULL || !pg_tz_acceptable(row->levels.zone))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time zone \"%s\" not recognized", row->time_zone)));
	strlcpy(row->time_zone, pg_get_timezone_name(row->levels.zone), sizeof(row->time_zone));
}

/*
 * width_arg reads the width of a bucket, in days or months if there is a time zone. Raises 22023 if
 * it is out of range, or mixes units.
 */
static int64
width_arg(const Interval *width, const char *name, const pg_tz *zone, DcUnit *unit)
{
	int64 n;

	*unit = DC_UNIT_TIME;
	if (width->month != 0 && zone == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not have months or years", name),
				 errdetail("Months and years vary in length."),
				 errhint("Use days, or pass the time zone whose months are meant: time_zone => 'UTC'.")));
	if (zone != NULL && width->month != 0)
		*unit = DC_UNIT_MONTH;
	else if (zone != NULL && width->day != 0)
		*unit = DC_UNIT_DAY;
	if (*unit != DC_UNIT_TIME && (width->time != 0 || (width->month != 0 && width->day != 0)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a number of months, of days, or of smaller units", name),
				 errdetail("Days and months of a time zone vary in length.")));
	n = *unit == DC_UNIT_TIME ? interval_to_us(width) : width->month + width->day;
	check_range(n, *unit, name);
	return n;
}

/*
 * keep_arg reads for how long buckets of a unit are kept, in that unit, rounded up.
 */
static int64
keep_arg(const Interval *keep, const char *name, DcUnit unit)
{
	int64 n;

	if (unit == DC_UNIT_TIME)
		n = interval_to_duration(keep, name);
	else
	{
		n = keep->day + (keep->time + USECS_PER_DAY - 1) / USECS_PER_DAY;
		if (unit == DC_UNIT_MONTH)
			n = keep->month + (n + SHORTEST_MONTH - 1) / SHORTEST_MONTH;
		else
			n += (int64) keep->month * LONGEST_MONTH;
	}
	check_range(n, unit, name);
	return n;
}

/*
 * check_range raises 22023 for a width, or a time to keep, that is out of range.
 */
static void
check_range(int64 n, DcUnit unit, const char *name)
{
	static const int64 limits[][2] = {{USECS_PER_SEC, 36525 * USECS_PER_DAY}, {1, 36525}, {1, 1200}};

	if (n < limits[unit][0] || n > limits[unit][1])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 1 second and 100 years", name)));
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
		DcUnit unit;
		int64 width;

		if (isnull)
			null_not_allowed("rollup");
		parts[0] = rows_datum(&rows, i, 1);
		parts[1] = keep;
		for (int p = 0; p < 2; p++)
			parts[p] = DirectFunctionCall3(interval_in, CStringGetDatum(TextDatumGetCString(parts[p])),
										   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
		width = width_arg(DatumGetIntervalP(parts[0]), "rollup", levels->zone, &unit);
		rollup_add(levels, unit, width, keep_arg(DatumGetIntervalP(parts[1]), "rollup", unit));
	}
	SPI_finish();
}

/*
 * Add a step to the rollup, in the order of widths. An error if there are too many.
 */
static void
rollup_add(DcLevels *levels, DcUnit unit, int64 width, int64 keep)
{
	int l = levels->n;

	if (l == WINDOW_MAX_LEVELS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a rollup can have at most %d steps", WINDOW_MAX_LEVELS - 1)));
	for (; l > 1 && (levels->units[l - 1] > unit || (levels->units[l - 1] == unit && levels->widths[l - 1] > width)); l--)
	{
		levels->units[l] = levels->units[l - 1];
		levels->widths[l] = levels->widths[l - 1];
		levels->keeps[l] = levels->keeps[l - 1];
	}
	levels->units[l] = unit;
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
	const char *detail = levels_mismatch(levels);

	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bucket, keep and rollup do not match"),
				 errdetail_internal("%s", detail)));
	if (levels->zone != NULL && levels->units[levels->n - 1] == DC_UNIT_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time_zone has no effect on buckets shorter than a day"),
				 errhint("Pass it if buckets have days, months or years.")));
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
					 " SELECT dcounter.window_key(u.key), u.bucket,"
					 " LEAST(GREATEST(pg_catalog.sum(u.inc) OPERATOR(pg_catalog.-) pg_catalog.sum(u.dec), '-9223372036854775808'),"
					 " '9223372036854775807')::pg_catalog.int8 FROM (",
					 view);
	for (int i = 0; i < row->levels.n * WINDOW_SLOTS * 2; i++)
	{
		Oid table = slots[i / 2];
		DcCounterRow counter;

		if (i % 2 == 1 && catalog_read(table, &counter))
			table = counter.shards;
		appendStringInfo(&sql, "%sSELECT t.key, t.inc, t.dec, %s AS bucket FROM %s AS t",
						 i == 0 ? "" : " UNION ALL ", bucket_sql(row, i / 2 / WINDOW_SLOTS), relation_sql_name(table));
	}
	appendStringInfo(&sql,
					 ") AS u WHERE u.bucket OPERATOR(pg_catalog.>=)"
					 " (SELECT dcounter.window_start(%s::pg_catalog.regclass)) GROUP BY 1, 2",
					 quote_literal_cstr(relation_sql_name(slots[0])));
	run_ddl(sql.data);
	relid = get_relname_relid(name->relname, get_namespace_oid(name->schemaname, false));
	if (OidIsValid(relid))
		CreateComments(relid, RelationRelationId, 0,
					   "dcounter: a windowed counter, its compacted values; see dc_window_create()");
}

/*
 * bucket_sql returns the expression for the start of the bucket of a row of a level.
 */
static char *
bucket_sql(const DcWindowRow *row, int level)
{
	int64 width = row->levels.widths[level];
	DcUnit unit = row->levels.units[level];

	if (unit == DC_UNIT_TIME)
		return psprintf("dcounter.window_bucket(t.key, " INT64_FORMAT "::pg_catalog.int8)", width);
	return psprintf("dcounter.window_calendar_bucket(t.key, " INT64_FORMAT "::pg_catalog.int8, %s, %s)", width,
					quote_literal_cstr(window_unit_name(unit)), quote_literal_cstr(row->time_zone));
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
		row.levels.keeps[0] = keep_arg(PG_GETARG_INTERVAL_P(1), "keep", row.levels.units[0]);
		check_levels(&row.levels);
		room = level_room(&row.levels, 0) * row.levels.widths[0];
		if (row.levels.keeps[0] > room)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("keep must be at most %s",
							interval_text(room, row.levels.units[0])),
					 errdetail("The tables of \"%s\" were created for that.", get_rel_name(relid)),
					 errhint("Create another windowed counter, and count in both for a while.")));
	}
	if (!PG_ARGISNULL(2))
		row.late = window_late_from_text(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	(void) window_row_update(&row);
	PG_RETURN_VOID();
}

/*
 * Return the text of an interval of a number of a unit.
 */
static char *
interval_text(int64 n, DcUnit unit)
{
	Interval *interval = interval_from_us(unit == DC_UNIT_TIME ? n : 0);

	interval->day = unit == DC_UNIT_DAY ? n : 0;
	interval->month = unit == DC_UNIT_MONTH ? n : 0;
	return DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(interval)));
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
