/*
 * captureddl.c
 *		What DDL on a table whose changes are events entails.
 *
 * The triggers name columns in their arguments (and need names, since pg_dump and
 * the copies on partitions have nothing else to go by). Two event triggers keep
 * that true, so that no write to the table fails later:
 *
 *	- ddl_command_end: renaming a column renames it in the arguments, of the
 *	  copies on partitions, too.
 *	- sql_drop: dropping a column that is named is an error at once. If it goes with
 *	  something else (DROP TYPE ... CASCADE), the triggers go, too: who uses a type
 *	  must not keep its owner from dropping it.
 *
 * The rename changes pg_trigger itself, as ALTER TRIGGER ... RENAME does: it changes
 * no more than a name that the command has changed on the same table.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/compat.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "outbox/capture.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/reltrigger.h"

PG_FUNCTION_INFO_V1(on_capture_drop);
PG_FUNCTION_INFO_V1(on_capture_rename);

/* A column that a command has dropped, or a relation that it has altered. */
typedef struct Object
{
	Oid relid;
	char *column;
	bool original; /* the command is about it */
} Object;

static EventTriggerData *event_data(FunctionCallInfo fcinfo, const char *function);
static List *event_objects(const char *query);
static void drop_triggers(const Object *dropped, Oid function);
static bool names_column(const Trigger *trigger, Oid function, const char *column);
static void rename_in_table(Oid relid, Oid function, const RenameStmt *rename);
static char *rename_in_list(const char *arg, const RenameStmt *rename);
static void set_arguments(Oid trigger, char **args);

/*
 * on_capture_drop() -> event_trigger, sql_drop
 */
Datum
on_capture_drop(PG_FUNCTION_ARGS)
{
	Oid function;
	List *columns;
	ListCell *lc;

	event_data(fcinfo, "on_capture_drop()");
	function = capture_function(true);
	if (!OidIsValid(function))
		PG_RETURN_NULL();
	columns = event_objects("SELECT objid, address_names[3], original"
							" FROM pg_event_trigger_dropped_objects()"
							" WHERE classid = 'pg_class'::regclass AND objsubid > 0");
	foreach(lc, columns)
		drop_triggers(lfirst(lc), function);
	PG_RETURN_NULL();
}

/*
 * drop_triggers drops the triggers that name a dropped column, or raises an error.
 * Their copies on partitions go with them.
 */
static void
drop_triggers(const Object *dropped, Oid function)
{
	Relation rel = try_relation_open(dropped->relid, AccessShareLock);
	ObjectAddresses *triggers = new_object_addresses();
	int n = 0;

	if (rel == NULL)
		return;
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];
		ObjectAddress address;

		if (!names_column(trigger, function, dropped->column))
			continue;
		if (dropped->original)
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop column \"%s\" of table \"%s\" because its events need it",
							dropped->column, RelationGetRelationName(rel)),
					 errhint("Call dc_outbox_detach() first.")));
		if (trigger->tgisclone)
			continue;
		ObjectAddressSet(address, TriggerRelationId, trigger->tgoid);
		add_exact_object_address(&address, triggers);
		n++;
	}
	if (n > 0)
		ereport(WARNING,
				(errmsg("changes of table \"%s\" are no longer events, since column \"%s\" was dropped",
						RelationGetRelationName(rel), dropped->column)));
	relation_close(rel, NoLock);
	performMultipleDeletions(triggers, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	free_object_addresses(triggers);
	CommandCounterIncrement();
}

/*
 * on_capture_rename() -> event_trigger, ddl_command_end of commands that can rename
 * a table's column; an attribute of a type is one of the tables of that type.
 */
Datum
on_capture_rename(PG_FUNCTION_ARGS)
{
	EventTriggerData *data = event_data(fcinfo, "on_capture_rename()");
	RenameStmt *rename = (RenameStmt *) data->parsetree;
	Oid function;
	List *altered;
	ListCell *lc;

	if (!IsA(rename, RenameStmt) ||
		(rename->renameType != OBJECT_COLUMN && rename->renameType != OBJECT_ATTRIBUTE))
		PG_RETURN_NULL();
	function = capture_function(true);
	if (!OidIsValid(function))
		PG_RETURN_NULL();
	altered = event_objects("SELECT t.oid, '', true"
							" FROM pg_event_trigger_ddl_commands() AS e, pg_class AS c, pg_class AS t"
							" WHERE e.classid = 'pg_class'::regclass AND c.oid = e.objid"
							" AND (t.oid = c.oid OR t.reloftype = c.reltype AND c.relkind = 'c')");
	foreach(lc, altered)
	{
		Object *object = lfirst(lc);
		ListCell *child;

		foreach(child, find_all_inheritors(object->relid, AccessShareLock, NULL))
			rename_in_table(lfirst_oid(child), function, rename);
	}
	PG_RETURN_NULL();
}

static EventTriggerData *
event_data(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as an event trigger", function)));
	return (EventTriggerData *) fcinfo->context;
}

/*
 * event_objects returns what a query about the event yields: OIDs and names.
 */
static List *
event_objects(const char *query)
{
	MemoryContext caller = CurrentMemoryContext;
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {
		DC_COLUMN("objid", OIDOID), DC_NULLABLE("address_names", TEXTOID),
		DC_COLUMN("original", BOOLOID)};
	List *objects = NIL;
	MemoryContext old;
	DcRows rows;
	int level = search_path_pin();

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(query, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	old = MemoryContextSwitchTo(caller);
	rows_take(&rows, columns, InvalidOid);
	for (uint64 i = 0; i < rows.count; i++)
	{
		Object *object;
		bool isnull;
		Datum column = rows_nullable(&rows, i, 2, &isnull);

		if (isnull)
			continue;
		object = palloc(sizeof(Object));
		object->relid = DatumGetObjectId(rows_datum(&rows, i, 1));
		object->column = TextDatumGetCString(column);
		object->original = DatumGetBool(rows_datum(&rows, i, 3));
		objects = lappend(objects, object);
	}
	MemoryContextSwitchTo(old);
	SPI_finish();
	AtEOXact_GUC(false, level);
	return objects;
}

/*
 * names_column tells whether a trigger of this extension names a column.
 */
static bool
names_column(const Trigger *trigger, Oid function, const char *column)
{
	static const int lists[] = {CAPTURE_KEY_COLUMNS, CAPTURE_COLUMNS};

	if (trigger->tgfoid != function || trigger->tgnargs != CAPTURE_NUM_ARGS)
		return false;
	for (int i = 0; i < lengthof(lists); i++)
	{
		bool valid;
		ListCell *lc;

		foreach(lc, capture_columns(trigger->tgargs[lists[i]], &valid))
		{
			if (strcmp(lfirst(lc), column) == 0)
				return true;
		}
	}
	return false;
}

static void
rename_in_table(Oid relid, Oid function, const RenameStmt *rename)
{
	Relation rel = relation_open(relid, AccessShareLock);
	List *triggers = NIL;
	ListCell *lc;

	/* what has been renamed? */
	if (rel->trigdesc != NULL &&
		column_number(RelationGetDescr(rel), rename->subname) == InvalidAttrNumber &&
		column_number(RelationGetDescr(rel), rename->newname) != InvalidAttrNumber)
	{
		TriggerDesc *desc = CopyTriggerDesc(rel->trigdesc);

		for (int i = 0; i < desc->numtriggers; i++)
		{
			if (names_column(&desc->triggers[i], function, rename->subname))
				triggers = lappend(triggers, &desc->triggers[i]);
		}
	}
	foreach(lc, triggers)
	{
		Trigger *trigger = lfirst(lc);

		trigger->tgargs[CAPTURE_KEY_COLUMNS] = rename_in_list(trigger->tgargs[CAPTURE_KEY_COLUMNS], rename);
		trigger->tgargs[CAPTURE_COLUMNS] = rename_in_list(trigger->tgargs[CAPTURE_COLUMNS], rename);
		set_arguments(trigger->tgoid, trigger->tgargs);
	}
	if (triggers != NIL)
	{
		CacheInvalidateRelcache(rel);
		CommandCounterIncrement();
	}
	relation_close(rel, AccessShareLock);
}

/*
 * rename_in_list renames a column in the text of an array of names.
 */
static char *
rename_in_list(const char *arg, const RenameStmt *rename)
{
	bool valid;
	List *names = capture_columns(arg, &valid);
	Datum *values = palloc(sizeof(Datum) * Max(list_length(names), 1));
	ListCell *lc;
	int n = 0;

	if (names == NIL)
		return pstrdup(arg);
	foreach(lc, names)
	{
		bool renamed = strcmp(lfirst(lc), rename->subname) == 0;

		values[n++] = CStringGetTextDatum(renamed ? rename->newname : lfirst(lc));
	}
	return OidOutputFunctionCall(F_ARRAY_OUT,
								 PointerGetDatum(construct_array(values, n, TEXTOID, -1,
																 false, TYPALIGN_INT)));
}

/*
 * set_arguments replaces a trigger's arguments: strings, each with a zero byte at
 * its end.
 */
static void
set_arguments(Oid trigger, char **args)
{
	Relation catalog = table_open(TriggerRelationId, RowExclusiveLock);
	Datum values[Natts_pg_trigger];
	bool nulls[Natts_pg_trigger] = {false};
	bool replace[Natts_pg_trigger] = {false};
	StringInfoData all;
	SysScanDesc scan;
	HeapTuple tuple;
	ScanKeyData key;

	initStringInfo(&all);
	appendStringInfoSpaces(&all, VARHDRSZ);
	for (int i = 0; i < CAPTURE_NUM_ARGS; i++)
		appendBinaryStringInfo(&all, args[i], strlen(args[i]) + 1);
	SET_VARSIZE(all.data, all.len);
	values[Anum_pg_trigger_tgargs - 1] = PointerGetDatum(all.data);
	replace[Anum_pg_trigger_tgargs - 1] = true;

	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(trigger));
	scan = systable_beginscan(catalog, TriggerOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find trigger %u", trigger);
	tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replace);
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	systable_endscan(scan);
	table_close(catalog, RowExclusiveLock);
}
