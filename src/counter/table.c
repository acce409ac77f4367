/*
 * table.c
 *		Creating, adopting, altering and dropping counter tables.
 *
 * A counter table is two ordinary tables of the caller's, made with plain DDL
 * in the caller's name, and a row in the catalog that ties them together. What
 * the catalog row stands for can be found again from the tables alone: the
 * shard table is named after the table of totals (dc_adopt).
 */
#include "postgres.h"

#include "access/table.h"
#include "base/catalog.h"
#include "base/compat.h"
#include "base/runas.h"
#include "catalog/namespace.h"
#include "counter/access.h"
#include "counter/layout.h"
#include "counter/stats.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(dc_create);
PG_FUNCTION_INFO_V1(dc_alter);
PG_FUNCTION_INFO_V1(dc_drop);
PG_FUNCTION_INFO_V1(dc_adopt);

#define MAX_PARTITIONS 256

/*
 * Totals change in place, so leave them some room. Shard rows change all the
 * time and in few places: with much room every update is HOT, and vacuum comes
 * early. Truncating the table's end would need an exclusive lock.
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
#define SHARDS_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" shard pg_catalog.int4 NOT NULL," \
	" inc pg_catalog.int8 NOT NULL DEFAULT 0," \
	" dec pg_catalog.int8 NOT NULL DEFAULT 0," \
	" updated_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now()," \
	" PRIMARY KEY (key, shard)"

static void create_table(const char *schema, const char *name,
						 const char *columns, const char *options,
						 int partitions);
static int max_shards_arg(FunctionCallInfo fcinfo, int argno);
static void lock_own_table(Oid relid);
static void check_table(Oid relid, bool shards);

/*
 * dc_create(counter text, shard_by text, max_shards int, partitions int)
 * -> regclass, the new table of totals
 *
 * Errors: 42P07 when a table of that name exists, 42622 when the name leaves no
 * room for the names of the other tables, 22023 for settings out of range.
 */
Datum
dc_create(PG_FUNCTION_ARGS)
{
	DcCounterRow row;
	RangeVar *name;
	char *schema;
	char *shards;
	char *longest;
	Oid schema_oid;
	int partitions = PG_ARGISNULL(3) ? 0 : PG_GETARG_INT32(3);

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null",
						PG_ARGISNULL(0) ? "counter" : "shard_by")));
	row.shard_by = shard_by_from_text(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	row.max_shards = max_shards_arg(fcinfo, 2);
	if (!PG_ARGISNULL(3) && (partitions < 1 || partitions > MAX_PARTITIONS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("partitions must be between 1 and %d", MAX_PARTITIONS)));
	prevent_write("dc_create()");

	name = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0)));
	schema_oid = RangeVarGetCreationNamespace(name);
	if (isAnyTempNamespace(schema_oid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("counter tables cannot be temporary")));
	schema = get_namespace_name(schema_oid);
	shards = psprintf("%s%s", name->relname, DC_SHARD_SUFFIX);
	longest = partitions > 0 ? psprintf("%s_p%d", shards, partitions - 1) : shards;
	if (strlen(longest) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("counter name \"%s\" is too long", name->relname),
				 errdetail("The name \"%s\" would have %d bytes; the limit is %d.",
						   longest, (int) strlen(longest), NAMEDATALEN - 1)));

	create_table(schema, name->relname, TOTALS_COLUMNS, TOTALS_OPTIONS, partitions);
	create_table(schema, shards, SHARDS_COLUMNS, SHARDS_OPTIONS, partitions);
	row.counter = get_relname_relid(name->relname, schema_oid);
	row.shards = get_relname_relid(shards, schema_oid);
	catalog_insert(&row);
	PG_RETURN_OID(row.counter);
}

/*
 * dc_alter(counter regclass, shard_by text, max_shards int) -> void. NULL keeps
 * a setting. Other sessions see the change in their next transaction.
 */
Datum
dc_alter(PG_FUNCTION_ARGS)
{
	DcCounter *counter = counter_open_as_owner(fcinfo, "dc_alter()",
											   ShareUpdateExclusiveLock);
	DcCounterRow row = counter->row;

	if (!PG_ARGISNULL(1))
		row.shard_by = shard_by_from_text(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	if (!PG_ARGISNULL(2))
		row.max_shards = max_shards_arg(fcinfo, 2);
	catalog_update(&row);
	PG_RETURN_VOID();
}

/*
 * dc_drop(counter regclass) -> void: drops both tables and the settings, as a
 * plain DROP TABLE does by way of the event trigger.
 */
Datum
dc_drop(PG_FUNCTION_ARGS)
{
	DcCounter *counter = counter_open_as_owner(fcinfo, "dc_drop()",
											   AccessExclusiveLock);
	Oid relid = counter->relid;
	Oid shards = counter->row.shards;

	catalog_delete(relid); /* so that the event trigger has nothing to do */
	stats_dropped(relid);
	run_ddl(psprintf("DROP %s %s", relation_sql_kind(relid),
					 relation_sql_name(relid)));
	run_ddl(psprintf("DROP %s %s", relation_sql_kind(shards),
					 relation_sql_name(shards)));
	PG_RETURN_VOID();
}

/*
 * dc_adopt(counter regclass) -> void: registers a counter table that exists but
 * is not in the catalog, as after restoring one schema or re-creating the
 * extension. The shard table is the one of the same schema that is named after
 * it. Settings start at their defaults. Errors: 42809 when the tables do not
 * have the layout of a counter table, 42710 when it is registered already.
 */
Datum
dc_adopt(PG_FUNCTION_ARGS)
{
	DcCounterRow row;
	DcCounterRow other;
	char *shards;

	row.counter = counter_arg(fcinfo);
	row.shard_by = DC_SHARD_BY_BACKEND;
	row.max_shards = DC_MAX_SHARDS_DEFAULT;
	prevent_write("dc_adopt()");

	lock_own_table(row.counter);
	shards = psprintf("%s%s", get_rel_name(row.counter), DC_SHARD_SUFFIX);
	row.shards = get_relname_relid(shards, get_rel_namespace(row.counter));
	if (!OidIsValid(row.shards))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot adopt \"%s\" as a counter table",
						get_rel_name(row.counter)),
				 errdetail("There is no shard table \"%s\" in the same schema.",
						   shards)));
	lock_own_table(row.shards);
	if (catalog_read(row.counter, &other) ||
		catalog_read_by_shards(row.shards, &other))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is a counter table already",
						get_rel_name(row.counter))));
	check_table(row.counter, false);
	check_table(row.shards, true);
	catalog_insert(&row);
	PG_RETURN_VOID();
}

/*
 * create_table makes a table, hash-partitioned by key if partitions > 0.
 */
static void
create_table(const char *schema, const char *name, const char *columns,
			 const char *options, int partitions)
{
	char *table = quote_qualified_identifier(schema, name);

	if (partitions == 0)
	{
		run_ddl(psprintf("CREATE TABLE %s (%s) WITH (%s)",
						 table, columns, options));
		return;
	}
	run_ddl(psprintf("CREATE TABLE %s (%s) PARTITION BY HASH (key)",
					 table, columns));
	for (int i = 0; i < partitions; i++)
		run_ddl(psprintf("CREATE TABLE %s PARTITION OF %s"
						 " FOR VALUES WITH (MODULUS %d, REMAINDER %d)"
						 " WITH (%s)",
						 quote_qualified_identifier(schema,
													psprintf("%s_p%d", name, i)),
						 table, partitions, i, options));
}

static int
max_shards_arg(FunctionCallInfo fcinfo, int argno)
{
	int max_shards;

	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("max_shards must not be null")));
	max_shards = PG_GETARG_INT32(argno);
	if (max_shards < 1 || max_shards > DC_MAX_SHARDS_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_shards must be between 1 and %d",
						DC_MAX_SHARDS_LIMIT)));
	return max_shards;
}

/*
 * lock_own_table locks a relation against DDL, if the caller owns it.
 */
static void
lock_own_table(Oid relid)
{
	/* before the lock, so that it cannot be used to disturb others ... */
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) &&
		!compat_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
	LockRelationOid(relid, ShareUpdateExclusiveLock);
	/* ... and again, as it may have changed hands while we waited */
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!compat_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
}

/*
 * check_table checks that a relation can serve as one of a counter's tables.
 */
static void
check_table(Oid relid, bool shards)
{
	Relation rel = table_open(relid, NoLock);
	char kind = rel->rd_rel->relkind;
	DcTableLayout layout;
	char *problem;

	if ((kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE &&
		 kind != RELKIND_FOREIGN_TABLE) ||
		rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		problem = _("It is not a permanent table.");
	else
		problem = layout_problem(rel, shards, &layout);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot adopt \"%s\" as a counter table",
						RelationGetRelationName(rel)),
				 errdetail_internal("%s", problem)));
	table_close(rel, NoLock);
}
