/*
 * attach.c
 *		dc_outbox_attach() and dc_outbox_detach(): a table's changes as events.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Attaching makes four ordinary triggers, by SQL and as the caller, and nothing
 * else: all that they need to know is in their arguments. So pg_dump, ALTER TABLE ...
 * DISABLE TRIGGER and ENABLE ALWAYS TRIGGER work as with any trigger, partitions get
 * their copies from the server, and dropping the table leaves nothing behind. Rights on a counter
 * or on the outbox do not matter: only the owner of the table may attach it.
 *
 * A condition becomes the triggers' WHEN. It is the only text of the caller that is not quoted, so
 * the server's own grammar must parse it as one expression.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_func.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/catalog.h"
#include "events/outbox/capture.h"

PG_FUNCTION_INFO_V1(dc_outbox_attach);
PG_FUNCTION_INFO_V1(dc_outbox_detach);

#define TRIGGER_INSERT "dcounter_outbox_insert"
#define TRIGGER_UPDATE "dcounter_outbox_update"
#define TRIGGER_DELETE "dcounter_outbox_delete"
#define TRIGGER_TRUNCATE "dcounter_outbox_truncate"

static const char *const trigger_names[] = {
	TRIGGER_INSERT, TRIGGER_UPDATE, TRIGGER_DELETE, TRIGGER_TRUNCATE};

static Relation attach_open_source(FunctionCallInfo fcinfo, LOCKMODE mode, const char *function);
static void attach_check_source(Oid relid);
static const Trigger *find_trigger(Relation rel, const char *name);
static char *text_option(FunctionCallInfo fcinfo, int n, const char *name, const char *otherwise);
static char *columns_option(FunctionCallInfo fcinfo, int n, const char *name, Relation rel);
static void check_column(Relation rel, const char *column);
static void check_primary_key(Relation rel);
static void check_sink(const char *sink);
static void check_condition(const char *condition);
static void attach_create_triggers(Relation rel, const char *call, const char *condition);
static void create_trigger(Relation rel, const char *name, const char *event,
						   const char *condition, const char *call);
static void condition_rows(Relation rel, bool *uses_new, bool *uses_old);

/*
 * dc_outbox_attach(source regclass, topic text, key_columns text[], columns text[],
 * condition text, sink text, if_not_exists boolean) -> void
 *
 * Errors: 42501 if the caller does not own the table, 42809 if it is not an ordinary
 * or partitioned table, 42710 if it is attached, 42703 for a column that does not
 * exist, 42704 if there is no primary key and no other key is given.
 */
Datum
dc_outbox_attach(PG_FUNCTION_ARGS)
{
	Relation rel = attach_open_source(fcinfo, ShareRowExclusiveLock, "dc_outbox_attach()");
	char *topic = text_option(fcinfo, 1, "topic", RelationGetRelationName(rel));
	char *keys = columns_option(fcinfo, 2, "key_columns", rel);
	char *columns = columns_option(fcinfo, 3, "columns", rel);
	char *condition = text_option(fcinfo, 4, "condition", NULL);
	char *sink = text_option(fcinfo, 5, "sink", NULL);
	bool may_exist = bool_arg(fcinfo, 6, "if_not_exists");
	int existing = 0;
	char *call;

	check_sink(sink);
	for (int i = 0; i < lengthof(trigger_names); i++)
		existing += find_trigger(rel, trigger_names[i]) != NULL;
	may_exist &= existing == lengthof(trigger_names);
	if (existing > 0)
	{
		ereport(may_exist ? NOTICE : ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("table \"%s\" is already attached to the outbox%s",
						RelationGetRelationName(rel), may_exist ? ", skipping" : ""),
				 may_exist ? 0 : errhint("Call dc_outbox_detach() first.")));
		table_close(rel, NoLock);
		PG_RETURN_VOID();
	}
	if (keys[0] == '\0')
		check_primary_key(rel);
	if (condition != NULL)
		check_condition(condition);
	call = psprintf("%s.%s(%s, %s, %s, %s)", DC_SCHEMA, CAPTURE_FUNCTION,
					quote_literal_cstr(topic), quote_literal_cstr(sink),
					quote_literal_cstr(keys), quote_literal_cstr(columns));
	attach_create_triggers(rel, call, condition);
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/*
 * dc_outbox_detach(source regclass) -> void
 *
 * Errors: 42704 if the table is not attached.
 */
Datum
dc_outbox_detach(PG_FUNCTION_ARGS)
{
	Relation rel = attach_open_source(fcinfo, AccessExclusiveLock, "dc_outbox_detach()");
	bool present[lengthof(trigger_names)];
	bool any = false;
	bool copied = false;

	for (int i = 0; i < lengthof(trigger_names); i++)
	{
		const Trigger *trigger = find_trigger(rel, trigger_names[i]);

		present[i] = trigger != NULL && !trigger->tgisclone;
		any |= present[i];
		copied |= trigger != NULL && trigger->tgisclone;
	}
	if (!any)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" is not attached to the outbox",
						RelationGetRelationName(rel)),
				 copied ? errhint("Detach the partitioned table that it belongs to.") : 0));
	for (int i = 0; i < lengthof(trigger_names); i++)
	{
		Oid relid = RelationGetRelid(rel);
		char *name = relation_sql_name(relid);

		if (!present[i])
			continue;
		run_ddl(psprintf("DROP TRIGGER %s ON %s", trigger_names[i], name));
		run_ddl_done(!OidIsValid(get_trigger_oid(relid, trigger_names[i], true)), name);
	}
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/*
 * attach_open_source opens the table, argument 0, and checks that the caller may have its
 * changes as events. It is checked before it is locked, and again.
 */
static Relation
attach_open_source(FunctionCallInfo fcinfo, LOCKMODE mode, const char *function)
{
	Oid relid;
	Relation rel;

	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
	arg_not_null(fcinfo, 0, "source");
	relid = PG_GETARG_OID(0);
	attach_check_source(relid);
	LockRelationOid(relid, mode);
	attach_check_source(relid);
	rel = table_open_present(relid, NoLock);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a temporary table", RelationGetRelationName(rel)),
				 errdetail("Events are for other systems, which cannot see a temporary table.")));
	return rel;
}

/*
 * Check that the table may be attached: it is an ordinary or partitioned table of users, and the
 * current user's own.
 */
static void
attach_check_source(Oid relid)
{
	char *name = get_rel_name(relid);
	char kind = get_rel_relkind(relid);
	Oid schema = get_rel_namespace(relid);

	if (name == NULL)
		relation_missing_error(relid);
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not an ordinary or partitioned table", name)));
	if (relid < FirstNormalObjectId || IsCatalogNamespace(schema) ||
		schema == get_namespace_oid(DC_SCHEMA, true))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("\"%s\" is a system table or a table of the extension", name)));
	if (!compat_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name);
}

/*
 * find_trigger returns a trigger of this extension by its name; NULL if there is
 * none. It is valid until the relation is checked again.
 */
static const Trigger *
find_trigger(Relation rel, const char *name)
{
	Oid function = capture_function(false);

	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		if (trigger->tgfoid == function && strcmp(trigger->tgname, name) == 0)
			return trigger;
	}
	return NULL;
}

/*
 * capture_function returns the OID of dcounter.outbox_capture().
 */
Oid
capture_function(bool missing_ok)
{
	return LookupFuncName(list_make2(makeString(DC_SCHEMA), makeString(CAPTURE_FUNCTION)),
						  0, NULL, missing_ok);
}

/*
 * Return an argument as a string, or `otherwise` if it is NULL. An error if it is empty.
 */
static char *
text_option(FunctionCallInfo fcinfo, int n, const char *name, const char *otherwise)
{
	char *value;

	if (PG_ARGISNULL(n))
		return otherwise == NULL ? NULL : pstrdup(otherwise);
	value = text_to_cstring(PG_GETARG_TEXT_PP(n));
	check_length(name, strlen(value), 1, MaxAllocSize);
	return value;
}

/*
 * columns_option returns the names of columns as the text of an array; '' for
 * NULL.
 */
static char *
columns_option(FunctionCallInfo fcinfo, int n, const char *name, Relation rel)
{
	ArrayType *array;
	Datum *values;
	bool *nulls;
	int count;

	if (PG_ARGISNULL(n))
		return "";
	array = PG_GETARG_ARRAYTYPE_P(n);
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
	if (count == 0 || ARR_NDIM(array) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a list of columns", name)));
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not contain null", name)));
		check_column(rel, TextDatumGetCString(values[i]));
		for (int j = 0; j < i; j++)
		{
			if (DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, values[i], values[j])))
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("column \"%s\" specified more than once",
								TextDatumGetCString(values[i]))));
		}
	}
	return OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(construct_array(values, count, TEXTOID, -1, false, TYPALIGN_INT)));
}

/*
 * Check that the table has the column, and that triggers see its values.
 */
static void
check_column(Relation rel, const char *column)
{
	AttrNumber attnum = column_number(RelationGetDescr(rel), column);

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", column,
						RelationGetRelationName(rel))));
	if (compat_is_virtual(TupleDescAttr(RelationGetDescr(rel), attnum - 1)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" is a virtual generated column", column),
				 errdetail("Triggers do not see its values.")));
}

/*
 * Check that the table has a primary key, which names the event's key when key_columns is not
 * given.
 */
static void
check_primary_key(Relation rel)
{
	int n;

	primary_key_columns(rel, &n);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" has no primary key", RelationGetRelationName(rel)),
				 errhint("Specify key_columns.")));
}

/*
 * Check the sink's name. Warn if events go to the WAL and nobody can read them there.
 */
static void
check_sink(const char *sink)
{
	if (sink == NULL)
		null_not_allowed("sink");
	if (capture_to_wal(sink) && wal_level < COMPAT_LOGICAL_WAL_LEVEL)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("events cannot be read from the WAL: wal_level is not \"logical\""),
				 errhint("Set wal_level to logical and restart the server.")));
}

/*
 * check_condition raises 42601 if the text is anything but one expression.
 */
static void
check_condition(const char *condition)
{
	List *parsed = raw_parser(condition, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *select = (SelectStmt *) linitial_node(RawStmt, parsed)->stmt;
	SelectStmt *plain = makeNode(SelectStmt);

	/* nothing but its list of one column without a name */
	if (IsA(select, SelectStmt) && list_length(select->targetList) == 1 &&
		linitial_node(ResTarget, select->targetList)->name == NULL)
	{
		plain->targetList = select->targetList;
		if (equal(select, plain))
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("condition must be one expression")));
}

/*
 * attach_create_triggers makes the triggers. A condition that names NEW or OLD does not apply where
 * there is no such row. The trigger for updates, which has both, shows which of them it names.
 */
static void
attach_create_triggers(Relation rel, const char *call, const char *condition)
{
	bool uses_new = false;
	bool uses_old = false;

	create_trigger(rel, TRIGGER_UPDATE, "UPDATE", condition, call);
	if (condition != NULL)
		condition_rows(rel, &uses_new, &uses_old);
	create_trigger(rel, TRIGGER_INSERT, "INSERT", uses_old ? NULL : condition, call);
	create_trigger(rel, TRIGGER_DELETE, "DELETE", uses_new ? NULL : condition, call);
	create_trigger(rel, TRIGGER_TRUNCATE, "TRUNCATE", NULL, call);
}

/*
 * create_trigger creates a trigger as the caller, with the caller's search_path, by which the
 * condition's names are found.
 */
static void
create_trigger(Relation rel, const char *name, const char *event,
			   const char *condition, const char *call)
{
	bool truncate = strcmp(event, "TRUNCATE") == 0;
	char *table = relation_sql_name(RelationGetRelid(rel));
	char *when = "";
	int result;

	/* lines of its own: it may end in a comment */
	if (condition != NULL)
		when = psprintf(" WHEN (\n%s\n)", condition);
	SPI_connect();
	result = SPI_execute(psprintf("CREATE TRIGGER %s AFTER %s ON %s FOR EACH %s%s EXECUTE FUNCTION %s",
								  name, event, table,
								  truncate ? "STATEMENT" : "ROW", when, call),
						 false, 0);
	if (result != SPI_OK_UTILITY)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
	SPI_finish();
	run_ddl_done(OidIsValid(get_trigger_oid(RelationGetRelid(rel), name, true)), table);
}

/*
 * condition_rows returns which of NEW and OLD the condition of the trigger for updates names.
 */
static void
condition_rows(Relation rel, bool *uses_new, bool *uses_old)
{
	const Trigger *trigger = find_trigger(rel, TRIGGER_UPDATE);
	Bitmapset *rows;

	if (trigger == NULL || trigger->tgqual == NULL)
		elog(ERROR, "trigger \"%s\" not found", TRIGGER_UPDATE);
	rows = pull_varnos(NULL, stringToNode(trigger->tgqual));
	*uses_old = bms_is_member(PRS2_OLD_VARNO, rows);
	*uses_new = bms_is_member(PRS2_NEW_VARNO, rows);
}
