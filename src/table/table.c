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
#include "base/changes.h"
#include "base/compat.h"
#include "base/interval.h"
#include "base/ownercode.h"
#include "base/runas.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/comment.h"
#include "counter/apply.h"
#include "counter/buffering.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "stats/stats.h"
#include "storage/lmgr.h"
#include "table/access.h"
#include "table/catalog.h"
#include "table/layout.h"
#include "table/protect.h"
#include "table/storage.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(dc_create);
PG_FUNCTION_INFO_V1(dc_stock_create);
PG_FUNCTION_INFO_V1(dc_alter);
PG_FUNCTION_INFO_V1(dc_drop);
PG_FUNCTION_INFO_V1(dc_adopt);

#define MAX_PARTITIONS 256

/* us */
#define MIN_FLUSH_INTERVAL INT64CONST(1000)
#define MAX_FLUSH_INTERVAL USECS_PER_DAY
#define MIN_OP_RETENTION USECS_PER_MINUTE
#define MAX_OP_RETENTION (36525 * USECS_PER_DAY)

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
#define SHARDS_COLUMNS(more) \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" shard pg_catalog.int4 NOT NULL," \
	" inc pg_catalog.int8 NOT NULL DEFAULT 0," \
	" dec pg_catalog.int8 NOT NULL DEFAULT 0," more \
	" updated_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now()," \
	" PRIMARY KEY (key, shard)"

/* How other tables of a ledger are named (ledger/ledger.h). */
#define LIMIT_SUFFIX "_limit"
#define ENTRY_SUFFIX "_entry"

#define UNITS_COLUMN \
	" units pg_catalog.int8 NOT NULL DEFAULT 0,"

#define HOLDS_OPTIONS "fillfactor=80"
#define HOLDS_COLUMNS \
	"hold_id pg_catalog.uuid PRIMARY KEY," \
	" key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL" \
	" CHECK (pg_catalog.octet_length(key) OPERATOR(pg_catalog.<=) 1024)," \
	" qty pg_catalog.int8 NOT NULL CHECK (qty OPERATOR(pg_catalog.>) 0)," \
	" ttl pg_catalog.interval NOT NULL," \
	" state pg_catalog.text NOT NULL DEFAULT 'open'" \
	" CHECK (state OPERATOR(pg_catalog.=) ANY ('{open,confirmed,released,expired}'::pg_catalog.text[]))," \
	" confirmed pg_catalog.int8," \
	" created_at pg_catalog.timestamptz NOT NULL," \
	" expires_at pg_catalog.timestamptz NOT NULL," \
	" ended_at pg_catalog.timestamptz"

static void drop_table(Oid relid);
static void create_holds(const char *schema, const char *name, const char *what);
static bool has_units(Oid shards);
static void adopt_holds(DcCounterRow *row);
static void adopt_error(const char *name, const char *detail);
static void prevent_adopting_ledger(Oid relid);
static void create_partitioned(const char *schema, const char *name,
							   const char *columns, const char *options,
							   int partitions, const char *what);
static const char *table_kind(const DcCounterRow *row);
static int max_shards_arg(FunctionCallInfo fcinfo, int argno);
static void buffer_args(FunctionCallInfo fcinfo, int argno, DcCounterRow *row);
static void check_bufferable(const DcCounter *counter);
static void check_table(Oid relid, DcCounterTable table, bool stock);

/*
 * dc_create(counter text, shard_by text, max_shards int, partitions int, mode text,
 * flush_interval interval, durability text, op_retention interval, if_not_exists boolean)
 * -> regclass, the table of totals
 *
 * Errors: 42P07 when a table of that name exists, or 42809 if it is to be created if it
 * does not exist, and what exists is something else; 42602 for what is no name, 42622 when the name leaves no
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

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null",
						PG_ARGISNULL(0) ? "counter" : "shard_by")));
	for (int i = 4; i <= 6; i++)
	{
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("mode, flush_interval and durability must not be null")));
	}
	if (PG_ARGISNULL(7))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("op_retention must not be null")));
	catalog_row_defaults(&row);
	row.shard_by = shard_by_from_text(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	row.max_shards = max_shards_arg(fcinfo, 2);
	buffer_args(fcinfo, 4, &row);
	op_retention_arg(fcinfo, 7, &row);
	if (!PG_ARGISNULL(3) && (partitions < 1 || partitions > MAX_PARTITIONS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("partitions must be between 1 and %d", MAX_PARTITIONS)));
	prevent_write("dc_create()");
	name = table_name_arg(fcinfo, 0);
	relid = table_existing(fcinfo, 8, name, "counter");
	if (!OidIsValid(relid))
		relid = table_create(name, row, false, partitions, "dc_create()");
	PG_RETURN_OID(relid);
}

/*
 * dc_stock_create(stock text, max_shards int, if_not_exists boolean) -> regclass: a
 * counter table with a floor of zero, and its table of holds. Errors as of dc_create().
 */
Datum
dc_stock_create(PG_FUNCTION_ARGS)
{
	DcCounterRow row;
	RangeVar *name;
	Oid relid;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("stock must not be null")));
	catalog_row_defaults(&row);
	row.max_shards = max_shards_arg(fcinfo, 1);
	prevent_write("dc_stock_create()");
	name = table_name_arg(fcinfo, 0);
	relid = table_existing(fcinfo, 2, name, "stock");
	if (!OidIsValid(relid))
		relid = table_create(name, row, true, 0, "dc_stock_create()");
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
 * table_existing returns the table of that name, if argument argno, if_not_exists, says
 * that it will do. Raises 42809 if it is not of the kind that was to be created.
 */
Oid
table_existing(FunctionCallInfo fcinfo, int argno, RangeVar *name, const char *kind)
{
	DcCounterRow row;
	Oid relid;

	if (!bool_arg(fcinfo, argno, "if_not_exists"))
		return InvalidOid;
	relid = get_relname_relid(name->relname, RangeVarGetCreationNamespace(name));
	if (!OidIsValid(relid))
		return InvalidOid;
	if (!catalog_read(relid, &row) || strcmp(table_kind(&row), kind) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" already exists, and is not a %s",
						name->relname, kind)));
	ereport(NOTICE,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("relation \"%s\" already exists, skipping", name->relname)));
	return relid;
}

/*
 * table_kind returns what dc_tables calls a counter table.
 */
static const char *
table_kind(const DcCounterRow *row)
{
	if (OidIsValid(row->ledger))
		return row->ledger == row->counter ? "ledger" : "limits";
	return OidIsValid(row->holds) ? "stock" : "counter";
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
	char *holds = NULL;
	Oid schema;

	schema = RangeVarGetCreationNamespace(name);
	if (isAnyTempNamespace(schema))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("counter tables cannot be temporary")));
	name->schemaname = get_namespace_name(schema);
	shards = sibling_name(name->relname, DC_SHARD_SUFFIX);
	if (partitions > 0)
		(void) sibling_name(name->relname,
							psprintf("%s_p%d", DC_SHARD_SUFFIX, partitions - 1));
	if (stock)
		holds = sibling_name(name->relname, DC_HOLD_SUFFIX);

	create_partitioned(name->schemaname, name->relname, TOTALS_COLUMNS,
					   TOTALS_OPTIONS, partitions, psprintf("totals; see %s", maker));
	create_partitioned(name->schemaname, shards,
					   stock ? SHARDS_COLUMNS(UNITS_COLUMN) : SHARDS_COLUMNS(""),
					   SHARDS_OPTIONS, partitions,
					   psprintf("shard rows, what is not in the totals yet; see %s", maker));
	row.counter = get_relname_relid(name->relname, schema);
	row.shards = get_relname_relid(shards, schema);
	if (stock)
	{
		create_holds(name->schemaname, holds, psprintf("holds; see %s", maker));
		row.holds = get_relname_relid(holds, schema);
	}
	catalog_insert(&row);
	protect_create(&row);
	if (row.mode == DC_MODE_BUFFERED)
		ownercode_prevent_buffered(&row);
	return row.counter;
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
 * create_holds makes a table of holds, with an index for each of those who look
 * for some: a take that wants the expired ones of its key, and the worker, which
 * wants all of these, and those that have ended long ago.
 */
static void
create_holds(const char *schema, const char *name, const char *what)
{
	char *table = quote_qualified_identifier(schema, name);

	create_table(schema, name, HOLDS_COLUMNS, HOLDS_OPTIONS, what);
	run_ddl(psprintf("CREATE INDEX ON %s (key, expires_at) WHERE state OPERATOR(pg_catalog.=) 'open'", table));
	run_ddl(psprintf("CREATE INDEX ON %s (expires_at) WHERE state OPERATOR(pg_catalog.=) 'open'", table));
	run_ddl(psprintf("CREATE INDEX ON %s (ended_at) WHERE state OPERATOR(pg_catalog.<>) 'open'", table));
}

/*
 * dc_alter(counter regclass, shard_by text, max_shards int, events interval,
 * notify text, mode text, flush_interval interval, durability text,
 * op_retention interval) -> void. NULL keeps a setting. Other sessions see the change in their next transaction.
 *
 * To change the mode it waits for transactions that write to the table, and keeps
 * others from it until the end of this one: so all increments of one transaction
 * go the same way, and none is in memory when the mode is exact again.
 */
Datum
dc_alter(PG_FUNCTION_ARGS)
{
	DcCounter *counter = counter_open_as_owner(fcinfo, "dc_alter()",
											   PG_ARGISNULL(5) ? ShareUpdateExclusiveLock : ShareRowExclusiveLock);
	DcCounterRow row = counter->row;

	if (!PG_ARGISNULL(1))
		row.shard_by = shard_by_from_text(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	if (!PG_ARGISNULL(2))
		row.max_shards = max_shards_arg(fcinfo, 2);
	buffer_args(fcinfo, 5, &row);
	op_retention_arg(fcinfo, 8, &row);
	if (row.mode == DC_MODE_BUFFERED && !counter_is_buffered(counter))
	{
		check_bufferable(counter);
		ownercode_prevent_buffered(&row);
	}
	if (!PG_ARGISNULL(3) || !PG_ARGISNULL(4))
		change_listener->alter(row.counter,
							   PG_ARGISNULL(3) ? NULL : PG_GETARG_INTERVAL_P(3),
							   PG_ARGISNULL(4) ? NULL : PG_GETARG_TEXT_PP(4));
	if (row.mode != counter->row.mode)
	{
		apply_early(); /* what this transaction adds goes the way it began */
		if (counter_is_buffered(counter) && buffering != NULL)
			buffering->write_down(counter);
	}
	if (buffering != NULL)
		buffering->altered(counter, row.flush_interval);
	catalog_update(&row); /* also tells all sessions */
	PG_RETURN_VOID();
}

/*
 * buffer_args reads the three settings of buffered mode, from argument argno on;
 * NULL keeps a setting.
 */
static void
buffer_args(FunctionCallInfo fcinfo, int argno, DcCounterRow *row)
{
	if (!PG_ARGISNULL(argno))
		row->mode = mode_from_text(text_to_cstring(PG_GETARG_TEXT_PP(argno)));
	if (!PG_ARGISNULL(argno + 1))
	{
		row->flush_interval = interval_to_us(PG_GETARG_INTERVAL_P(argno + 1));
		if (row->flush_interval < MIN_FLUSH_INTERVAL ||
			row->flush_interval > MAX_FLUSH_INTERVAL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("flush_interval must be between 1 millisecond and 1 day")));
	}
	if (!PG_ARGISNULL(argno + 2))
		row->durability = durability_from_text(text_to_cstring(PG_GETARG_TEXT_PP(argno + 2)));
	if (!PG_ARGISNULL(argno) && row->mode == DC_MODE_BUFFERED && buffering == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffered counters need shared memory"),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
}

/*
 * op_retention_arg reads that setting; NULL keeps it.
 */
void
op_retention_arg(FunctionCallInfo fcinfo, int argno, DcCounterRow *row)
{
	if (PG_ARGISNULL(argno))
		return;
	row->op_retention = interval_to_us(PG_GETARG_INTERVAL_P(argno));
	if (row->op_retention < MIN_OP_RETENTION ||
		row->op_retention > MAX_OP_RETENTION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("op_retention must be between 1 minute and 100 years")));
}

/*
 * check_bufferable raises an error if a table cannot be buffered: a stock needs a
 * decision now, a ledger is exact, and what is written to other servers cannot be undone together
 * with what is in memory.
 */
static void
check_bufferable(const DcCounter *counter)
{
	if (counter_is_stock(counter) || counter_is_ledger(counter) || counter->foreign)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be buffered", get_rel_name(counter->relid)),
				 counter->foreign
					 ? errdetail("It is a foreign table or has foreign partitions.")
					 : counter_is_stock(counter) ? errdetail("It is a stock.")
												 : errdetail("It is a ledger.")));
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
	Oid holds = counter->row.holds;

	apply_early();		   /* while it is a counter table (ddl.c) */
	catalog_delete(relid); /* so that the event trigger has nothing to do */
	stats_dropped(relid);
	change_listener->dropped(relid);
	drop_table(relid);
	drop_table(shards);
	drop_table(holds);
	PG_RETURN_VOID();
}

/*
 * drop_table drops a table, if it is there.
 */
static void
drop_table(Oid relid)
{
	char *name;

	if (!OidIsValid(relid) || get_rel_name(relid) == NULL)
		return;
	name = relation_sql_name(relid);
	run_ddl(psprintf("DROP %s %s", relation_sql_kind(relid), name));
	run_ddl_done(get_rel_name(relid) == NULL, name);
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

	catalog_row_defaults(&row);
	row.counter = counter_arg(fcinfo);
	prevent_write("dc_adopt()");
	prevent_adopting_ledger(row.counter);
	table_adopt(&row);
	PG_RETURN_VOID();
}

/*
 * table_adopt does that, with the settings in row, and completes the row.
 */
void
table_adopt(DcCounterRow *row)
{
	DcCounterRow other;
	char *shards;
	char *problem;

	lock_own_table(row->counter, ShareUpdateExclusiveLock);
	shards = psprintf("%s%s", get_rel_name(row->counter), DC_SHARD_SUFFIX);
	row->shards = get_relname_relid(shards, get_rel_namespace(row->counter));
	if (!OidIsValid(row->shards))
		adopt_error(get_rel_name(row->counter),
					psprintf(_("There is no shard table \"%s\" in the same schema."), shards));
	lock_own_table(row->shards, ShareUpdateExclusiveLock);
	if (catalog_read(row->counter, &other) ||
		catalog_read_by_shards(row->shards, &other))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is a counter table already",
						get_rel_name(row->counter))));
	if (has_units(row->shards))
		adopt_holds(row);
	check_table(row->counter, DC_TABLE_TOTALS, OidIsValid(row->holds));
	check_table(row->shards, DC_TABLE_SHARDS, OidIsValid(row->holds));
	if (OidIsValid(row->holds))
		check_table(row->holds, DC_TABLE_HOLDS, true);
	problem = storage_problem(row);
	if (problem != NULL)
		adopt_error(get_rel_name(row->counter), problem);
	catalog_insert(row);
	protect_create(row);
	counter_adopted(counter_lookup(row->counter));
}

/*
 * prevent_adopting_ledger raises 42809 for a table that, going by the names of those
 * around it, belongs to a ledger: as a plain counter, anybody could count on it.
 */
static void
prevent_adopting_ledger(Oid relid)
{
	char *name = get_rel_name(relid);
	Oid schema = get_rel_namespace(relid);
	int len;

	if (name == NULL)
		return;
	len = strlen(name) - strlen(LIMIT_SUFFIX);
	if (len > 0 && strcmp(name + len, LIMIT_SUFFIX) == 0)
		name = pnstrdup(name, len);
	if (!OidIsValid(get_relname_relid(psprintf("%s%s", name, LIMIT_SUFFIX), schema)) ||
		!OidIsValid(get_relname_relid(psprintf("%s%s", name, ENTRY_SUFFIX), schema)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot adopt \"%s\" as a counter table", get_rel_name(relid)),
			 errdetail("It is a table of a ledger."),
			 errhint("Use dc_ledger_adopt() on \"%s\".", name)));
}

/*
 * has_units tells whether a shard table is that of a stock.
 */
static bool
has_units(Oid shards)
{
	return get_attnum(shards, "units") != InvalidAttrNumber;
}

/*
 * adopt_holds finds the table of holds of a stock that is to be adopted.
 */
static void
adopt_holds(DcCounterRow *row)
{
	char *name = get_rel_name(row->counter);
	char *holds = psprintf("%s%s", name, DC_HOLD_SUFFIX);

	row->holds = get_relname_relid(holds, get_rel_namespace(row->counter));
	if (!OidIsValid(row->holds))
		adopt_error(name, psprintf(_("There is no table of holds \"%s\" in the same schema."), holds));
	lock_own_table(row->holds, ShareUpdateExclusiveLock);
}

static void
adopt_error(const char *name, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot adopt \"%s\" as a counter table", name),
			 errdetail_internal("%s", detail)));
}

/*
 * create_table makes a table, with a comment.
 */
void
create_table(const char *schema, const char *name, const char *columns,
			 const char *options, const char *what)
{
	run_ddl(psprintf("CREATE TABLE %s (%s) WITH (%s)",
					 quote_qualified_identifier(schema, name), columns, options));
	comment_table(schema, name, what);
}

/*
 * comment_table says on a table that was just made what it is for. Not for which counter:
 * that may be renamed.
 */
void
comment_table(const char *schema, const char *name, const char *what)
{
	Oid relid = get_relname_relid(name, get_namespace_oid(schema, false));

	if (OidIsValid(relid))
		CreateComments(relid, RelationRelationId, 0, psprintf("dcounter: %s", what));
}

/*
 * create_partitioned is the same, hash-partitioned by key if partitions > 0.
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
	run_ddl(psprintf("CREATE TABLE %s (%s) PARTITION BY HASH (key)",
					 table, columns));
	comment_table(schema, name, what);
	for (int i = 0; i < partitions; i++)
	{
		char *partition = psprintf("%s_p%d", name, i);

		run_ddl(psprintf("CREATE TABLE %s PARTITION OF %s"
						 " FOR VALUES WITH (MODULUS %d, REMAINDER %d)"
						 " WITH (%s)",
						 quote_qualified_identifier(schema, partition),
						 table, partitions, i, options));
		comment_table(schema, partition, what);
	}
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
void
lock_own_table(Oid relid, LOCKMODE mode)
{
	/* before the lock, so that it cannot be used to disturb others ... */
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) &&
		!compat_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
	LockRelationOid(relid, mode);
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
check_table(Oid relid, DcCounterTable table, bool stock)
{
	Relation rel = table_open(relid, NoLock);
	DcShapeProblem problem;
	DcTableLayout layout;

	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		adopt_error(RelationGetRelationName(rel), _("It is not a permanent table."));
	if (!shape_fits(rel, layout_shape(table, stock), &layout, &problem))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot adopt \"%s\" as a counter table", RelationGetRelationName(rel)),
				 errdetail_internal("%s", problem.detail),
				 problem.hint != NULL ? errhint("%s", problem.hint) : 0));
	table_close(rel, NoLock);
}
