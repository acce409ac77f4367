/*
 * windowadopt.c
 *		dc_window_adopt(): registering a window whose view and tables exist, as after restoring one schema.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The contents of the catalogs are given as arguments, or derived from the rows: claims, by the
 * turns that have rows, and floors. These are where they would be in a new window, or higher: rows
 * of a wide level are read only for times below the floor of the level before.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/errors.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/table.h"
#include "time/window/window.h"

PG_FUNCTION_INFO_V1(dc_window_adopt);

static void lock_view(Oid relid);
static Oid adopt_slot(const RangeVar *name, int number);
static void claim_rows(DcWindowRow *row, int number, Oid slot);

/*
 * dc_window_adopt(counter regclass, bucket interval, keep interval, rollup jsonb, late text,
 * time_zone text) -> void
 *
 * The settings are those of dc_window_create(). For the owner. Errors: 42809 for another relation,
 * or tables that are no counter tables; 42710 if it is registered; 42P01 if a table is missing;
 * 22023 if rows do not fit the settings.
 */
Datum
dc_window_adopt(PG_FUNCTION_ARGS)
{
	Oid relid = window_arg(fcinfo);
	DcWindowRow row = {.windowed = relid};
	Oid slots[WINDOW_MAX_LEVELS * WINDOW_SLOTS] = {0};
	RangeVar *name;
	Oid dropped;
	int nslots;

	window_settings_args(fcinfo, &row);
	prevent_write("dc_window_adopt()");
	lock_view(relid);
	name = makeRangeVar(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid), -1);
	nslots = row.levels.n * WINDOW_SLOTS;
	dropped = adopt_slot(name, WINDOW_DROPPED);
	for (int i = 0; i < nslots; i++)
		slots[i] = adopt_slot(name, i);
	if (row.levels.n < WINDOW_MAX_LEVELS &&
		OidIsValid(get_relname_relid(sibling_name(name->relname, window_slot_suffix(nslots)), get_rel_namespace(relid))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" has more tables than the rollup needs", name->relname)));
	window_create_view(name, &row, slots);
	SPI_connect();
	for (int i = 0; i < nslots; i++)
		claim_rows(&row, i, slots[i]);
	SPI_finish();
	memcpy(row.levels.gone, row.levels.floors, sizeof(row.levels.gone));
	window_insert(&row, slots, dropped);
	PG_RETURN_VOID();
}

/*
 * Lock the view to be adopted, until the transaction ends. An error if it is no view, is not the
 * current user's, or is a windowed counter already.
 */
static void
lock_view(Oid relid)
{
	DcWindowRow row;

	lock_own_table(relid, ShareUpdateExclusiveLock);
	if (get_rel_relkind(relid) != RELKIND_VIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot adopt \"%s\" as a windowed counter: it is not a view", get_rel_name(relid))));
	if (window_row_read(relid, &row))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is already a windowed counter", get_rel_name(relid))));
}

/*
 * Return a table of the window, locked; an error if it is not a counter table.
 */
static Oid
adopt_slot(const RangeVar *name, int number)
{
	char *slot = sibling_name(name->relname, window_slot_suffix(number));
	Oid relid = get_relname_relid(slot, get_namespace_oid(name->schemaname, false));
	DcCounterRow row;
	DcWindowSlot other;

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("\"%s\" has no table \"%s\"", name->relname, slot),
				 errhint("Use the rollup with which the windowed counter was created.")));
	lock_own_table(relid, ShareUpdateExclusiveLock);
	if (window_slot_read(relid, &other))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" belongs to another windowed counter", slot)));
	if (!catalog_read(relid, &row))
	{
		catalog_row_defaults(&row);
		row.counter = relid;
		table_adopt(&row, InvalidOid);
	}
	window_check_counter(counter_lookup(relid));
	return relid;
}

/*
 * Claim the turns that have rows in a table, and raise the floors of the levels before above these.
 */
static void
claim_rows(DcWindowRow *row, int number, Oid slot)
{
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {DC_TEXT("bucket")};
	DcLevels *levels = &row->levels;
	int level = number / WINDOW_SLOTS;
	Oid type = TEXTOID;
	Datum last = window_digits(level_bucket(levels, level, END_TIMESTAMP - 1));
	int64 claimed = -1;
	DcRunAs state;
	DcRows rows;
	char *sql = psprintf("SELECT DISTINCT right(r.key, 8) COLLATE \"C\" FROM (SELECT t.key FROM %s AS t UNION ALL SELECT s.key FROM %s AS s) AS r"
						 " WHERE dcounter.window_key(r.key) IS NOT NULL AND right(r.key, 8) <= $1 COLLATE \"C\" ORDER BY 1",
						 relation_sql_name(slot), relation_sql_name(counter_lookup(slot)->row.shards));

	runas_begin(&state, relation_owner(slot));
	if (SPI_execute_with_args(sql, 1, &type, &last, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the tables of a windowed counter");
	rows_take(&rows, columns, slot);
	runas_end(&state);
	for (uint64 i = 0; i < rows.count; i++)
	{
		int64 bucket = window_number(rows_datum(&rows, i, 1));
		int64 turn = bucket_turn(levels, level, bucket);

		CHECK_FOR_INTERRUPTS();
		if (window_turn_slot(level, turn) != number)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("rows of table \"%s\" do not match bucket, keep and rollup", get_rel_name(slot)),
					 errhint("Use the values with which the windowed counter was created. To change keep, use dc_window_alter() afterwards.")));
		if (turn != claimed)
			window_claim_insert(row->windowed, level, turn, false);
		claimed = turn;
		levels_raise_floors(levels, level, level_end(levels, level, bucket));
	}
}
