/*
 * windowrow.c
 *		The catalogs of windowed counters.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dcounter.time_window has a row for each window, dcounter.window_slot one for each of its counter
 * tables, dcounter.window_claim one for each turn that a slot may have rows of (window.c). Rows of
 * the first are changed under the window's lock alone (window_lock), so that two changes never
 * meet. A claim is inserted by any writer, and never changed: several for one turn do no harm.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "base/args.h"
#include "base/catrow.h"
#include "base/compat.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(on_window_row_change);
PG_FUNCTION_INFO_V1(on_window_slot_change);

#define WINDOW_TABLE "time_window"
#define SLOT_TABLE "window_slot"
#define CLAIM_TABLE "window_claim"

#define COL_SLOT_WINDOWED 2

static const char *const late_names[] = {"error", "drop"};

/* of a DcUnit */
static const char *const unit_names[] = {"microsecond", "day", "month"};

static void window_columns(DcCatRow *io, void *data);
static void slot_columns(DcCatRow *io, void *data);
static void claim_columns(DcCatRow *io, void *data);
static void level_column(DcCatRow *io, int64 *items, int *count);
static void calendar_columns(DcCatRow *io, DcWindowRow *row);
static void unit_column(DcCatRow *io, DcLevels *levels);
static void settle_row(DcWindowRow *row);

static const DcCatalog windows = {
	.table = WINDOW_TABLE,
	.pkey = "time_window_pkey",
	.nkeys = 1,
	.size = sizeof(DcWindowRow),
	.columns = window_columns,
	.tells = true,
};

static const DcCatalog slots = {
	.table = SLOT_TABLE,
	.pkey = "window_slot_pkey",
	.nkeys = 1,
	.size = sizeof(DcWindowSlot),
	.columns = slot_columns,
	.tells = true,
};

static const DcCatalog claims = {
	.table = CLAIM_TABLE,
	.pkey = "window_claim_idx",
	.nkeys = 1,
	.size = sizeof(DcWindowClaim),
	.columns = claim_columns,
};

/*
 * Read or write the columns of dcounter.time_window, in their order.
 */
static void
window_columns(DcCatRow *io, void *data)
{
	DcWindowRow *row = data;
	DcLevels *levels = &row->levels;

	cat_oid(io, &row->windowed);
	row->late = cat_choice(io, row->late, late_names, lengthof(late_names));
	cat_time(io, &row->refuses);
	cat_time(io, &row->sealed);
	level_column(io, levels->widths, &levels->n);
	level_column(io, levels->keeps, &levels->n);
	level_column(io, levels->spans, &levels->n);
	level_column(io, levels->floors, &levels->n);
	level_column(io, levels->gone, &levels->n);
	level_column(io, levels->advanced, &levels->n);
	cat_int8(io, &row->version);
	if (cat_has_more(io))
		calendar_columns(io, row);
	if (io->reading)
	{
		row->changed_by = io->xmin;
		settle_row(row);
	}
}

/*
 * Read or write the columns about the calendar: both are null in windows whose buckets are all
 * counted in microseconds.
 */
static void
calendar_columns(DcCatRow *io, DcWindowRow *row)
{
	Datum name = row->time_zone[0] != '\0' ? CStringGetTextDatum(row->time_zone) : (Datum) 0;

	unit_column(io, &row->levels);
	cat_datum(io, TEXTOID, &name);
	if (io->reading && name != (Datum) 0)
	{
		text_to_cstring_buffer(DatumGetTextPP(name), row->time_zone, sizeof(row->time_zone));
		row->levels.zone = pg_tzset(row->time_zone);
	}
}

/*
 * unit_column reads or writes an array with the unit of each level.
 */
static void
unit_column(DcCatRow *io, DcLevels *levels)
{
	Datum values[WINDOW_MAX_LEVELS];
	Datum array = (Datum) 0;
	Datum *names;
	bool *nulls;
	int n;

	for (int l = 0; !io->reading && l < levels->n; l++)
	{
		values[l] = CStringGetTextDatum(unit_names[levels->units[l]]);
		if (levels->units[l] != DC_UNIT_TIME)
			array = (Datum) 1;
	}
	if (array != (Datum) 0)
		array = array_datum(values, levels->n, TEXTOID);
	cat_datum(io, TEXTARRAYOID, &array);
	if (!io->reading || array == (Datum) 0)
		return;
	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &names, &nulls, &n);
	levels->n = Min(levels->n, n);
	for (int l = 0; l < levels->n; l++)
		levels->units[l] = nulls[l] ? DC_UNIT_TIME
									: choice_from_text("units", TextDatumGetCString(names[l]), unit_names, lengthof(unit_names));
}

/*
 * Move times that are the start of a bucket to where that bucket begins now: the rules of the zone
 * may have changed since the row was written. `gone` is about snapshots that are older, and stays.
 */
static void
settle_row(DcWindowRow *row)
{
	DcLevels *levels = &row->levels;

	levels_settle(levels);
	if (levels->zone == NULL || levels->n == 0 || levels->units[0] == DC_UNIT_TIME)
		return;
	if (row->refuses != 0)
		row->refuses = level_nearest(levels, 0, row->refuses);
	if (row->sealed != 0)
		row->sealed = level_nearest(levels, 0, row->sealed);
}

/*
 * Return the name of a level's unit.
 */
const char *
window_unit_name(DcUnit unit)
{
	return unit_names[unit];
}

/*
 * window_unit_from_text parses such a name (22023 if it is unknown).
 */
DcUnit
window_unit_from_text(const char *name)
{
	return choice_from_text("unit", name, unit_names, lengthof(unit_names));
}

/*
 * level_column reads or writes an array with a number for each level. A superuser may have made the
 * arrays differ in length: then there are as many levels as the shortest one has.
 */
static void
level_column(DcCatRow *io, int64 *items, int *count)
{
	int n = *count;

	cat_int8s(io, items, &n, WINDOW_MAX_LEVELS);
	if (io->reading)
		*count = *count == 0 ? n : Min(*count, n);
}

/*
 * Read or write the columns of dcounter.window_slot, in their order.
 */
static void
slot_columns(DcCatRow *io, void *data)
{
	DcWindowSlot *row = data;

	cat_oid(io, &row->slot);
	cat_oid(io, &row->windowed);
	cat_int4(io, &row->number);
}

/*
 * Read or write the columns of dcounter.window_claim, in their order.
 */
static void
claim_columns(DcCatRow *io, void *data)
{
	DcWindowClaim *row = data;

	cat_oid(io, &row->windowed);
	cat_int4(io, &row->level);
	cat_int8(io, &row->turn);
	cat_bool(io, &row->emptied);
	if (io->reading)
		row->made_by = io->xmin;
}

/*
 * window_row_read fetches the row of a window, as it is committed now; false if there is none, or
 * an older version of the extension's script has made no such catalog.
 */
bool
window_row_read(Oid relid, DcWindowRow *row)
{
	return OidIsValid(catalog_relation_if_any(WINDOW_TABLE)) &&
		cat_read(&windows, row, ObjectIdGetDatum(relid));
}

/*
 * window_row_read_in fetches the row of a window as a snapshot shows it.
 */
bool
window_row_read_in(Oid relid, Snapshot snapshot, DcWindowRow *row)
{
	DcCatScan scan;
	ScanKeyData key;
	bool found;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	cat_scan_begin_ordered(&scan, &windows, windows.pkey, snapshot, &key, 1);
	found = cat_scan_next(&scan, ForwardScanDirection, row);
	cat_scan_end(&scan);
	return found;
}

/*
 * Insert the row of a new window.
 */
void
window_row_insert(const DcWindowRow *row)
{
	cat_insert(&windows, row);
}

/*
 * Update a window's row; false if it has none. The caller holds the window's lock.
 */
bool
window_row_update(const DcWindowRow *row)
{
	return cat_update(&windows, row);
}

/*
 * Delete a window's row; false if it has none.
 */
bool
window_row_delete(Oid relid)
{
	return cat_delete(&windows, ObjectIdGetDatum(relid)) > 0;
}

/*
 * Return true if this database has a window.
 */
bool
windows_exist(void)
{
	DcCatScan scan;
	bool found;

	if (!OidIsValid(catalog_relation_if_any(WINDOW_TABLE)))
		return false;
	cat_scan_begin(&scan, &windows, NULL, AccessShareLock, NULL, 0);
	found = cat_scan_next(&scan, ForwardScanDirection, NULL);
	cat_scan_end(&scan);
	return found;
}

/*
 * windows_first_slots lists the first counter table (OID) of each window.
 */
List *
windows_first_slots(void)
{
	DcCatScan scan;
	DcWindowSlot row;
	List *found = NIL;

	if (!OidIsValid(catalog_relation_if_any(SLOT_TABLE)))
		return NIL;
	cat_scan_begin(&scan, &slots, NULL, AccessShareLock, NULL, 0);
	while (cat_scan_next(&scan, ForwardScanDirection, &row))
	{
		if (row.number == 0)
			found = lappend_oid(found, row.slot);
	}
	cat_scan_end(&scan);
	list_sort(found, list_oid_cmp);
	list_deduplicate_oid(found);
	return found;
}

/*
 * window_slots_read lists the counter tables (DcWindowSlot) of a window.
 */
List *
window_slots_read(Oid relid)
{
	DcCatScan scan;
	ScanKeyData key;
	DcWindowSlot row;
	List *found = NIL;

	if (!OidIsValid(catalog_relation_if_any(SLOT_TABLE)))
		return NIL;
	ScanKeyInit(&key, COL_SLOT_WINDOWED, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	cat_scan_begin(&scan, &slots, "window_slot_windowed_idx", AccessShareLock, &key, 1);
	while (cat_scan_next(&scan, ForwardScanDirection, &row))
	{
		DcWindowSlot *copy = palloc(sizeof(DcWindowSlot));

		*copy = row;
		found = lappend(found, copy);
	}
	cat_scan_end(&scan);
	return found;
}

/*
 * window_slot_read fetches the row of a counter table; false if it is of no window.
 */
bool
window_slot_read(Oid slot, DcWindowSlot *row)
{
	return OidIsValid(catalog_relation_if_any(SLOT_TABLE)) &&
		cat_read(&slots, row, ObjectIdGetDatum(slot));
}

/*
 * Insert the row of a window's counter table.
 */
void
window_slot_insert(const DcWindowSlot *row)
{
	cat_insert(&slots, row);
}

/*
 * Delete the row of a counter table; false if it is none of a window.
 */
bool
window_slot_delete(Oid slot)
{
	return cat_delete(&slots, ObjectIdGetDatum(slot)) > 0;
}

/*
 * window_claims_read lists the claims (DcWindowClaim) of a window.
 */
List *
window_claims_read(Oid relid)
{
	DcCatScan scan;
	ScanKeyData key;
	DcWindowClaim row;
	List *found = NIL;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	cat_scan_begin(&scan, &claims, claims.pkey, AccessShareLock, &key, 1);
	while (cat_scan_next(&scan, ForwardScanDirection, &row))
	{
		DcWindowClaim *copy = palloc(sizeof(DcWindowClaim));

		*copy = row;
		found = lappend(found, copy);
	}
	cat_scan_end(&scan);
	return found;
}

/*
 * Insert a claim of a turn, or with `emptied` the note that all of its rows have been moved.
 */
void
window_claim_insert(Oid relid, int level, int64 turn, bool emptied)
{
	DcWindowClaim row = {.windowed = relid, .level = level, .turn = turn, .emptied = emptied};

	cat_insert(&claims, &row);
}

/*
 * window_claims_delete removes the claims of a turn, or only the notes that it was emptied.
 */
void
window_claims_delete(Oid relid, int level, int64 turn, bool emptied_only)
{
	DcCatScan scan;
	ScanKeyData key;
	DcWindowClaim row;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	cat_scan_begin(&scan, &claims, claims.pkey, RowExclusiveLock, &key, 1);
	while (cat_scan_next(&scan, ForwardScanDirection, &row))
	{
		if (row.level == level && row.turn == turn && (row.emptied || !emptied_only))
			cat_scan_delete(&scan);
	}
	cat_scan_end(&scan);
	CommandCounterIncrement();
}

/*
 * Delete all claims of a window.
 */
void
window_claims_delete_all(Oid relid)
{
	(void) cat_delete(&claims, ObjectIdGetDatum(relid));
}

/*
 * Return the name of what is done with late increments, as SQL has it.
 */
const char *
window_late_name(DcLate late)
{
	return late_names[late];
}

/*
 * window_late_from_text parses that setting (22023 if it is unknown).
 */
DcLate
window_late_from_text(const char *value)
{
	return choice_from_text("late", value, late_names, lengthof(late_names));
}

/*
 * on_window_row_change() -> trigger on dcounter.time_window
 */
Datum
on_window_row_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &windows, "on_window_row_change()");
}

/*
 * on_window_slot_change() -> trigger on dcounter.window_slot
 */
Datum
on_window_slot_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &slots, "on_window_slot_change()");
}
