/*
 * captureddl.c
 *		DDL on a table whose changes are events.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The triggers name columns in their arguments (and need names, since pg_dump and
 * the copies on partitions have nothing else to go by). These are kept up to date, so that no write
 * to the table fails later:
 *
 *	- Renaming a column renames it in the arguments, of the copies on partitions, too.
 *	- Dropping a column that is named is an error at once. If it is dropped with something else
 *	  (DROP TYPE ... CASCADE), the triggers are dropped, too: a table that uses a type must not keep
 *	  the type's owner from dropping it.
 *
 * The rename changes pg_trigger itself, as ALTER TRIGGER ... RENAME does: it only changes a name
 * that the command has changed on the same table.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "nodes/parsenodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/reltrigger.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "core/table/ddlhooks.h"
#include "events/outbox/capture.h"

static List *typed_tables(Oid type);
static void drop_triggers(const DcDdlColumn *dropped, Oid function);
static bool names_column(const Trigger *trigger, Oid function, const char *column);
static void rename_in_table(Oid relid, Oid function, const RenameStmt *rename);
static char *rename_in_list(const char *arg, const RenameStmt *rename);
static void set_arguments(Oid trigger, char **args);

/*
 * Drop the triggers that name columns that are being dropped, or raise an error (drop_triggers).
 */
static void
columns_dropped(const DcDdl *ddl)
{
	Oid function = ddl->columns != NIL ? capture_function(true) : InvalidOid;
	ListCell *lc;

	if (!OidIsValid(function))
		return;
	foreach(lc, ddl->columns)
		drop_triggers(lfirst(lc), function);
}

/*
 * drop_triggers drops the triggers that name a dropped column, or raises an error.
 * Their copies on partitions go with them.
 */
static void
drop_triggers(const DcDdlColumn *dropped, Oid function)
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

		if (!names_column(trigger, function, dropped->name))
			continue;
		if (dropped->original)
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop column \"%s\" of table \"%s\" because its events need it",
							dropped->name, RelationGetRelationName(rel)),
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
						RelationGetRelationName(rel), dropped->name)));
	relation_close(rel, NoLock);
	performMultipleDeletions(triggers, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	free_object_addresses(triggers);
	CommandCounterIncrement();
}

/*
 * column_renamed renames a column in the arguments of triggers. An attribute of a type is a column
 * of the tables of that type.
 */
static void
column_renamed(const DcDdl *ddl)
{
	const RenameStmt *rename = (const RenameStmt *) ddl->parsetree;
	Oid function = IsA(rename, RenameStmt) && ddl->columns != NIL ? capture_function(true) : InvalidOid;
	ListCell *lc;

	if (!OidIsValid(function))
		return;
	foreach(lc, ddl->columns)
	{
		Oid relid = ((DcDdlColumn *) lfirst(lc))->relid;
		List *tables = get_rel_relkind(relid) == RELKIND_COMPOSITE_TYPE
			? typed_tables(get_rel_type_id(relid))
			: list_make1_oid(relid);
		ListCell *table;

		foreach(table, tables)
		{
			ListCell *child;

			foreach(child, relation_members(lfirst_oid(table), AccessShareLock))
				rename_in_table(lfirst_oid(child), function, rename);
		}
	}
}

/*
 * typed_tables lists the tables of a composite type.
 */
static List *
typed_tables(Oid type)
{
	Relation rel = table_open(RelationRelationId, AccessShareLock);
	List *tables = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_class_reloftype, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		tables = lappend_oid(tables, ((Form_pg_class) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tables;
}

/*
 * Return true if a trigger of this extension names a column.
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

/*
 * Rename the column in the arguments of a table's triggers, if the command has renamed it there:
 * the old name is gone, and the new one is there.
 */
static void
rename_in_table(Oid relid, Oid function, const RenameStmt *rename)
{
	Relation rel = try_relation_open(relid, AccessShareLock);
	List *triggers = NIL;
	ListCell *lc;

	if (rel == NULL)
		return;
	/* was it a column of this table? */
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
	HeapTuple tuple = get_catalog_object_by_oid(catalog, Anum_pg_trigger_oid, trigger);
	StringInfoData all;

	if (tuple == NULL)
		elog(ERROR, "could not find trigger %u", trigger);
	initStringInfo(&all);
	appendStringInfoSpaces(&all, VARHDRSZ);
	for (int i = 0; i < CAPTURE_NUM_ARGS; i++)
		appendBinaryStringInfo(&all, args[i], strlen(args[i]) + 1);
	SET_VARSIZE(all.data, all.len);
	values[Anum_pg_trigger_tgargs - 1] = PointerGetDatum(all.data);
	replace[Anum_pg_trigger_tgargs - 1] = true;
	tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replace);
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
}

const DcDdlHook capture_ddl = {columns_dropped, column_renamed, NULL};
