/*
 * distincttable.c
 *		Creating, adopting, altering and dropping distinct tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Such a table is two ordinary ones, NAME and NAME_delta, made with plain DDL in the name of the
 * caller, and a row of dcounter.distinct_table. The type of their sketches has the precision, so
 * that nobody can store a sketch of a lower one.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/bucket.h"
#include "base/catrow.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/table.h"
#include "time/distinct/distinct.h"
#include "types/sketch/hll/dc_hll.h"

PG_FUNCTION_INFO_V1(dc_distinct_create);
PG_FUNCTION_INFO_V1(dc_distinct_adopt);
PG_FUNCTION_INFO_V1(dc_distinct_alter);
PG_FUNCTION_INFO_V1(dc_distinct_drop);

#define KEY_COLUMN "key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL"
/* A sketch is replaced as a whole. Deltas come and go. */
#define TABLE_OPTIONS "fillfactor=80"
#define DELTA_OPTIONS "autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_threshold=1000, vacuum_truncate=off"
#define MAX_KEEP (INT64CONST(100) * 365 * USECS_PER_DAY)

static Oid table_arg(FunctionCallInfo fcinfo);
static void bucket_args(FunctionCallInfo fcinfo, int argno, DcDistinctRow *row);
static int64 duration_arg(FunctionCallInfo fcinfo, int argno, const char *name);
static void check_keep(const DcDistinctRow *row);
static char *column_type(FunctionCallInfo fcinfo, int precision);

/*
 * dc_distinct_create(distinct_table text, precision int, bucket interval, keep interval,
 * if_not_exists boolean)
 * -> regclass
 *
 * Errors: 42P07 when a table of that name exists, with if_not_exists 42809 if it is no distinct
 * table; 22023 for settings out of range.
 */
Datum
dc_distinct_create(PG_FUNCTION_ARGS)
{
	DcDistinctRow row = {0};
	RangeVar *name;
	char *delta;
	char *type;
	Oid schema;

	arg_not_null(fcinfo, 0, "distinct table");
	arg_not_null(fcinfo, 1, "precision");
	row.precision = PG_GETARG_INT32(1);
	hll_check_precision(row.precision);
	bucket_args(fcinfo, 2, &row);
	prevent_write("dc_distinct_create()");
	name = table_name_arg(fcinfo, 0);
	if (bool_arg(fcinfo, 4, "if_not_exists"))
	{
		DcDistinctRow other;
		Oid relid = table_of_name(name);

		if (OidIsValid(relid))
		{
			table_skip(name, distinct_row_read(relid, &other), "distinct table");
			PG_RETURN_OID(relid);
		}
	}
	schema = table_schema(name, "distinct tables");
	delta = sibling_name(name->relname, DISTINCT_DELTA_SUFFIX);
	type = column_type(fcinfo, row.precision);
	create_table(name->schemaname, name->relname, psprintf("%s, sketch %s NOT NULL, PRIMARY KEY (key)", KEY_COLUMN, type),
				 TABLE_OPTIONS, "sketches of the items of keys; see dc_distinct_create()");
	create_table(name->schemaname, delta, psprintf("%s, sketch %s NOT NULL", KEY_COLUMN, type),
				 DELTA_OPTIONS, "items that are not in the sketches yet; see dc_distinct_create()");
	row.relid = get_relname_relid(name->relname, schema);
	row.delta = get_relname_relid(delta, schema);
	if (OidIsValid(row.delta))
	{
		delta = quote_qualified_identifier(name->schemaname, delta);
		run_ddl(psprintf("CREATE INDEX ON %s (key)", delta));
		run_ddl(psprintf("ALTER TABLE %s REPLICA IDENTITY FULL", delta)); /* it has no key, and rows are deleted */
	}
	run_ddl_done(OidIsValid(row.relid) && OidIsValid(row.delta), name->relname);
	distinct_row_insert(&row);
	distinct_protect(&row);
	PG_RETURN_OID(row.relid);
}

/*
 * column_type returns the type of a column of sketches, as SQL: that of the schema which has this
 * function.
 */
static char *
column_type(FunctionCallInfo fcinfo, int precision)
{
	Oid schema = get_func_namespace(fcinfo->flinfo->fn_oid);

	return psprintf("%s(%d)", quote_qualified_identifier(get_namespace_name(schema), "dc_hll"), precision);
}

/*
 * dc_distinct_adopt(distinct_table regclass, bucket interval, keep interval) -> void: registers a
 * table that exists but is not in the catalog, as after restoring one schema or re-creating the
 * extension. For its owner. Errors: 42809 for a table that is not as dc_distinct_create() makes it,
 * 42710 if it is registered.
 */
Datum
dc_distinct_adopt(PG_FUNCTION_ARGS)
{
	DcDistinctRow row = {.relid = table_arg(fcinfo)};
	DcDistinctRow other;

	bucket_args(fcinfo, 1, &row);
	prevent_write("dc_distinct_adopt()");
	lock_own_table(row.relid, ShareRowExclusiveLock);
	if (distinct_row_read(row.relid, &other))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is already a distinct table", get_rel_name(row.relid))));
	row.delta = sibling_find(row.relid, DISTINCT_DELTA_SUFFIX);
	if (!OidIsValid(row.delta))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("\"%s\" has no table of deltas", get_rel_name(row.relid)),
				 errdetail("It must be in the same schema, and its name must end with \"%s\".", DISTINCT_DELTA_SUFFIX)));
	lock_own_table(row.delta, ShareRowExclusiveLock);
	if (distinct_row_read_delta(row.delta, &other))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" belongs to another distinct table", get_rel_name(row.delta))));
	if (get_rel_persistence(row.relid) == RELPERSISTENCE_TEMP) /* both, as they are in one schema */
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot adopt \"%s\" as a distinct table", get_rel_name(row.relid)),
				 errdetail("It is not a permanent table."),
				 errhint("Use dc_distinct_create() to create one.")));
	row.precision = distinct_precision_of(row.relid);
	distinct_check_shape(&row);
	distinct_row_insert(&row);
	distinct_protect(&row);
	PG_RETURN_VOID();
}

/*
 * dc_distinct_alter(distinct_table regclass, keep interval) -> void: how long buckets are kept;
 * NULL is forever. For its owner. Errors: 22023 for a table without buckets, or less than one.
 */
Datum
dc_distinct_alter(PG_FUNCTION_ARGS)
{
	DcDistinct *distinct;
	DcDistinctRow row;

	(void) table_arg(fcinfo);
	prevent_write("dc_distinct_alter()");
	distinct = distinct_lock(table_arg(fcinfo), RowExclusiveLock, ACL_NO_RIGHTS);
	distinct_take_turn(distinct->relid);
	if (!distinct_row_read(distinct->relid, &row))
		relation_missing_error(distinct->relid);
	row.keep = PG_ARGISNULL(1) ? 0 : duration_arg(fcinfo, 1, "keep");
	check_keep(&row);
	(void) distinct_row_update(&row);
	PG_RETURN_VOID();
}

/*
 * dc_distinct_drop(distinct_table regclass) -> void: drops a distinct table, as a plain DROP TABLE
 * does.
 */
Datum
dc_distinct_drop(PG_FUNCTION_ARGS)
{
	Oid relid = table_arg(fcinfo);
	Oid delta;

	prevent_write("dc_distinct_drop()");
	(void) distinct_lookup(relid);
	lock_own_table(relid, AccessExclusiveLock);
	delta = distinct_lookup(relid)->row.delta;
	(void) distinct_row_delete(relid); /* so that the event trigger has nothing to do */
	table_drop(relid, false);
	table_drop(delta, false);
	PG_RETURN_VOID();
}

/*
 * Return the first argument, the table; an error if it is NULL.
 */
static Oid
table_arg(FunctionCallInfo fcinfo)
{
	arg_not_null(fcinfo, 0, "distinct table");
	return PG_GETARG_OID(0);
}

/*
 * bucket_args reads the arguments bucket and keep.
 */
static void
bucket_args(FunctionCallInfo fcinfo, int argno, DcDistinctRow *row)
{
	row->bucket = PG_ARGISNULL(argno) ? 0 : duration_arg(fcinfo, argno, "bucket");
	row->keep = PG_ARGISNULL(argno + 1) ? 0 : duration_arg(fcinfo, argno + 1, "keep");
	if (row->bucket != 0 && row->bucket < BUCKET_MIN_WIDTH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bucket must be at least a second")));
	check_keep(row);
}

/*
 * Check that `keep` is only set with buckets, and is not shorter than one bucket.
 */
static void
check_keep(const DcDistinctRow *row)
{
	if (row->keep == 0)
		return;
	if (row->bucket == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("keep requires bucket")));
	if (row->keep < row->bucket)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("keep must not be shorter than bucket")));
}

/*
 * duration_arg reads an interval that always has the same length.
 */
static int64
duration_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	int64 us = interval_to_duration(PG_GETARG_INTERVAL_P(argno), name);

	if (us <= 0 || us > MAX_KEEP)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be greater than zero and at most 36500 days", name)));
	return us;
}
