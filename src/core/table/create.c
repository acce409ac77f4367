/*
 * create.c
 *		Creating counter tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The tables are created with plain DDL, in the caller's name, with comments that say their
 * purpose.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/comment.h"
#include "fmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/catalog.h"
#include "core/table/ownercode.h"
#include "core/table/protect.h"
#include "core/table/table.h"

PG_FUNCTION_INFO_V1(dc_create);

#define MAX_PARTITIONS 256

/*
 * Totals change in place, so leave them some room. Shard rows change all the
 * time and in few places: with much room every update is HOT, and vacuum comes
 * early. Truncating the table's end would need an exclusive lock;
 * the worker rewrites a table that has become nearly empty (shrink.c).
 */
#define TOTALS_OPTIONS "fillfactor=80"
#define SHARDS_OPTIONS \
	"fillfactor=25, autovacuum_vacuum_scale_factor=0.01," \
	" autovacuum_vacuum_threshold=500, vacuum_truncate=off"

#define TOTALS_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" inc pg_catalog.int8 NOT NULL DEFAULT 0," \
	" dec pg_catalog.int8 NOT NULL DEFAULT 0," \
	" value pg_catalog.int8 GENERATED ALWAYS AS (inc OPERATOR(pg_catalog.-) dec) STORED," \
	" updated_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now()," \
	" PRIMARY KEY (key)"
#define SHARDS_COLUMNS(more) \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" shard pg_catalog.int4 NOT NULL," \
	" inc pg_catalog.int8 NOT NULL DEFAULT 0," \
	" dec pg_catalog.int8 NOT NULL DEFAULT 0," more \
	" updated_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now()," \
	" PRIMARY KEY (key, shard)"

#define UNITS_COLUMN \
	" units pg_catalog.int8 NOT NULL DEFAULT 0,"

static const char *table_kind(const DcCounterRow *row);
static void prevent_no_create(Oid schema);
static void prevent_taken_totals(const RangeVar *name, Oid schema);
static void prevent_taken(const char *schema, const char *name);
static void create_partitioned(const char *schema, const char *name,
							   const char *columns, const char *options,
							   int partitions, const char *what);

/*
 * dc_create(counter text, shard_by text, max_shards int, partitions int, mode text,
 * flush_interval interval, durability text, op_retention interval, totals text, sample int,
 * trend interval, if_not_exists boolean, idle interval) -> regclass, the table of totals
 *
 * Errors: 42P07 when a table of that name exists; with if_not_exists 42809, if it is not a
 * counter table of this kind; 42602 for an invalid name, 42622 when the name leaves no
 * room for the names of the other tables, 22023 for settings out of range, 55000
 * for a buffered table if dcounter is not preloaded.
 */
Datum
dc_create(PG_FUNCTION_ARGS)
{
	DcCounterRow row;
	RangeVar *name;
	Oid relid;
	int partitions = PG_ARGISNULL(3) ? 0 : PG_GETARG_INT32(3);

	arg_not_null(fcinfo, 0, "counter");
	arg_not_null(fcinfo, 1, "shard_by");
	for (int i = 4; i <= 6; i++)
		arg_not_null(fcinfo, i, "mode, flush_interval and durability");
	arg_not_null(fcinfo, 7, "op_retention");
	arg_not_null(fcinfo, 8, "totals");
	arg_not_null(fcinfo, 9, "sample");
	catalog_row_defaults(&row);
	row.shard_by = shard_by_from_text(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	row.max_shards = max_shards_arg(fcinfo, 2);
	buffer_args(fcinfo, 4, &row);
	op_retention_arg(fcinfo, 7, &row);
	row.totals = totals_from_text(text_to_cstring(PG_GETARG_TEXT_PP(8)));
	sample_arg(fcinfo, 9, &row);
	row.half_life = trend_hooks->half_life_arg(fcinfo, 10);
	if (!PG_ARGISNULL(3) && (partitions < 1 || partitions > MAX_PARTITIONS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("partitions must be between 1 and %d", MAX_PARTITIONS)));
	if (PG_NARGS() > 12)
		idle_arg(fcinfo, 12, &row);
	if (row.idle > 0 && partitions > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("keys of a partitioned counter table cannot expire")));
	prevent_write("dc_create()");
	name = table_name_arg(fcinfo, 0);
	relid = table_existing(fcinfo, 11, name, "counter");
	if (!OidIsValid(relid))
	{
		prevent_taken_totals(name, table_schema(name, "counter tables"));
		relid = table_create(name, row, false, partitions, "dc_create()");
	}
	PG_RETURN_OID(relid);
}

/*
 * table_name_arg returns the name in argument argno, of a table that is to be
 * created. It is written as in SQL, like a regclass.
 */
RangeVar *
table_name_arg(FunctionCallInfo fcinfo, int argno)
{
	char *name = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	List *parts;

	if (!SplitIdentifierString(pstrdup(name), '.', &parts))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("invalid name syntax"),
				 errhint("Quote the name as in SQL: '%s'.", quote_identifier(name))));
	return makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(argno)));
}

/*
 * table_existing returns the table of that name, if argument argno, if_not_exists, accepts an
 * existing one. Raises 42809 if it is not of the kind that was to be created, and 42501, as
 * CREATE TABLE IF NOT EXISTS does, for a role that may not create tables there.
 */
Oid
table_existing(FunctionCallInfo fcinfo, int argno, RangeVar *name, const char *kind)
{
	DcCounterRow row;
	Oid relid;

	if (!bool_arg(fcinfo, argno, "if_not_exists"))
		return InvalidOid;
	relid = table_of_name(name);
	if (OidIsValid(relid))
		table_skip(name, catalog_read(relid, &row) && strcmp(table_kind(&row), kind) == 0, kind);
	return relid;
}

/*
 * table_of_name returns the relation that is in the way of a new table, or InvalidOid.
 */
Oid
table_of_name(RangeVar *name)
{
	Oid schema = RangeVarGetCreationNamespace(name);

	prevent_no_create(schema);
	return get_relname_relid(name->relname, schema);
}

/*
 * Raise 42501, as the server does, if the current user may not create tables in a schema.
 */
static void
prevent_no_create(Oid schema)
{
	if (!DatumGetBool(DirectFunctionCall2(has_schema_privilege_id, ObjectIdGetDatum(schema),
										  CStringGetTextDatum("CREATE"))))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_SCHEMA, get_namespace_name(schema));
}

/*
 * table_skip raises a NOTICE that the table exists, or 42809 if it is not of the kind.
 */
void
table_skip(const RangeVar *name, bool is_kind, const char *kind)
{
	if (!is_kind)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" already exists, and is not %s %s",
						name->relname, strchr("aeiou", kind[0]) != NULL ? "an" : "a", kind)));
	ereport(NOTICE,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("relation \"%s\" already exists, skipping", name->relname)));
}

/*
 * table_kind returns the kind of a counter table, as in dc_tables.
 */
static const char *
table_kind(const DcCounterRow *row)
{
	if (OidIsValid(row->ledger))
		return row->ledger == row->counter ? "ledger" : "limits";
	return OidIsValid(row->holds) ? "stock" : "counter";
}

/*
 * table_schema returns the schema of a new relation, and puts it into its name. `what` cannot be
 * temporary (0A000).
 */
Oid
table_schema(RangeVar *name, const char *what)
{
	Oid schema = RangeVarGetCreationNamespace(name);

	if (isAnyTempNamespace(schema))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s cannot be temporary", what)));
	name->schemaname = get_namespace_name(schema);
	return schema;
}

/*
 * table_create creates the tables of a counter, and registers it with the
 * settings in row. Its name gets the schema that it is in. `maker` is the SQL function
 * that the tables' comments name.
 */
Oid
table_create(RangeVar *name, DcCounterRow row, bool stock, int partitions,
			 const char *maker)
{
	char *shards;
	Oid schema = table_schema(name, "counter tables");

	shards = sibling_name(name->relname, DC_SHARD_SUFFIX);
	if (partitions > 0)
		(void) sibling_name(name->relname,
							psprintf("%s_p%d", DC_SHARD_SUFFIX, partitions - 1));

	create_partitioned(name->schemaname, name->relname, TOTALS_COLUMNS,
					   TOTALS_OPTIONS, partitions, psprintf("totals; see %s", maker));
	create_shards(name->schemaname, shards, stock, partitions, maker);
	row.counter = get_relname_relid(name->relname, schema);
	row.shards = get_relname_relid(shards, schema);
	if (stock)
		row.holds = stock_hooks->create_holds(name, maker);
	if (row.half_life != 0)
		trend_hooks->create(&row);
	catalog_insert(&row);
	protect_create(&row);
	if (row.mode == DC_MODE_BUFFERED)
		ownercode_prevent_buffered(&row);
	return row.counter;
}

/*
 * Create a shard table, as table_create() does.
 */
void
create_shards(const char *schema, const char *name, bool stock, int partitions, const char *maker)
{
	create_partitioned(schema, name, stock ? SHARDS_COLUMNS(UNITS_COLUMN) : SHARDS_COLUMNS(""), SHARDS_OPTIONS,
					   partitions, psprintf("shard rows, what is not in the totals yet; see %s", maker));
}

/*
 * sibling_name returns the name of another table of a counter (42622 if it is too
 * long).
 */
char *
sibling_name(const char *name, const char *suffix)
{
	char *sibling = psprintf("%s%s", name, suffix);

	if (strlen(sibling) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("counter name \"%s\" is too long", name),
				 errdetail("The name \"%s\" would have %d bytes; the limit is %d.",
						   sibling, (int) strlen(sibling), NAMEDATALEN - 1)));
	return sibling;
}

/*
 * Raise 42501 if dc_create() cannot create a table, or 42P07 if its name is taken, with what else
 * to do: most databases have a table "likes".
 */
static void
prevent_taken_totals(const RangeVar *name, Oid schema)
{
	DcCounterRow row;
	Oid relid;
	char kind;

	prevent_no_create(schema);
	relid = get_relname_relid(name->relname, schema);
	if (!OidIsValid(relid))
		return;
	kind = get_rel_relkind(relid);
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("relation \"%s\" already exists", name->relname),
			 catalog_read(relid, &row)
				 ? errhint("To accept an existing counter table, use if_not_exists => true.")
				 : kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE
				 ? errhint("Choose another name. To count the rows of \"%s\", bind the new counter table to it with dc_bind().",
						   name->relname)
				 : errhint("Choose another name.")));
}

/*
 * Raise 42501 or 42P07, as the server does, if a table cannot be made, or its name is taken.
 * The server's own error would show our statement, which the user has not written.
 */
static void
prevent_taken(const char *schema, const char *name)
{
	Oid namespace = get_namespace_oid(schema, false);

	prevent_no_create(namespace);
	if (OidIsValid(get_relname_relid(name, namespace)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", name)));
}

/*
 * sibling_create creates another table for an existing one, as the current user, who owns the
 * existing one. Raises 42P07 if the name is taken; with `anew` the hint says that it may have been
 * restored without the settings, and is not needed.
 */
Oid
sibling_create(Oid relid, const char *suffix, const char *columns, const char *options, bool anew, const char *what)
{
	Oid namespace = get_rel_namespace(relid);
	char *schema = get_namespace_name(namespace);
	char *name = sibling_name(get_rel_name(relid), suffix);
	Oid sibling;

	if (anew && OidIsValid(get_relname_relid(name, namespace)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", name),
				 errhint("If it was restored with its schema only, drop it: it is created again.")));
	create_table(schema, name, columns, options, what);
	sibling = get_relname_relid(name, namespace);
	run_ddl_done(OidIsValid(sibling) && relation_owner(sibling) == relation_owner(relid), name);
	return sibling;
}

/*
 * sibling_find returns the relation that has the name of another table of an existing one, or
 * InvalidOid.
 */
Oid
sibling_find(Oid relid, const char *suffix)
{
	return get_relname_relid(psprintf("%s%s", get_rel_name(relid), suffix), get_rel_namespace(relid));
}

/*
 * create_table creates a table with a comment.
 */
void
create_table(const char *schema, const char *name, const char *columns,
			 const char *options, const char *what)
{
	prevent_taken(schema, name);
	run_ddl(psprintf("CREATE TABLE %s (%s) WITH (%s)",
					 quote_qualified_identifier(schema, name), columns, options));
	comment_table(schema, name, what);
}

/*
 * comment_table gives a comment to a table that was just made: its purpose, but not the
 * name of its counter, which may be renamed.
 */
void
comment_table(const char *schema, const char *name, const char *what)
{
	Oid relid = get_relname_relid(name, get_namespace_oid(schema, false));

	if (OidIsValid(relid))
		CreateComments(relid, RelationRelationId, 0, psprintf("dcounter: %s", what));
}

/*
 * create_partitioned does the same, hash-partitioned by key if partitions > 0.
 */
static void
create_partitioned(const char *schema, const char *name, const char *columns,
				   const char *options, int partitions, const char *what)
{
	char *table = quote_qualified_identifier(schema, name);

	if (partitions == 0)
	{
		create_table(schema, name, columns, options, what);
		return;
	}
	prevent_taken(schema, name);
	run_ddl(psprintf("CREATE TABLE %s (%s) PARTITION BY HASH (key)",
					 table, columns));
	comment_table(schema, name, what);
	for (int i = 0; i < partitions; i++)
	{
		char *partition = psprintf("%s_p%d", name, i);

		prevent_taken(schema, partition);
		run_ddl(psprintf("CREATE TABLE %s PARTITION OF %s"
						 " FOR VALUES WITH (MODULUS %d, REMAINDER %d)"
						 " WITH (%s)",
						 quote_qualified_identifier(schema, partition),
						 table, partitions, i, options));
		comment_table(schema, partition, what);
	}
}
