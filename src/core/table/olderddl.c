/*
 * olderddl.c
 *		DDL while the library is older than the extension's script.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Such a library cannot follow DDL, as it does not know the catalogs (base/version.c). But event
 * triggers call it for each command in the database, and most are about tables that are not ours.
 * Those pass silently. Refused, with the error of version_check(), are commands
 *
 *	- on a table of ours, or one below it in a tree of partitions. Every catalog of ours names
 *	  tables in columns of type regclass; and a table with a trigger of ours is named by the
 *	  trigger. A command is on the tables that its transaction has locked against other DDL when
 *	  it ends. An index that is created concurrently is there by then, so it is refused when it is
 *	  created (codeddl.c);
 *	- on types and collations, renaming schemas and labels of enums: expressions in the catalogs may
 *	  name these;
 *	- that alter a publication, which locks none of its tables.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "nodes/parsenodes.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catrow.h"
#include "base/compat.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/version.h"
#include "core/table/olderddl.h"

static List *named_tables(void);
static bool is_named_in_expressions(const Node *parsetree);
static List *named_in_catalogs(Oid schema);
static List *named_in_catalog(List *tables, Oid catalog);
static List *named_by_triggers(List *tables, Oid schema);

/*
 * Return true if the library is older than the script, and a command that has run does not
 * concern it; raise 55000 if it does.
 */
bool
older_passes(const DcDdl *ddl)
{
	ListCell *lc;

	if (!version_is_older())
		return false;
	if (is_named_in_expressions(ddl->parsetree))
		version_check();
	foreach(lc, named_tables())
	{
		CHECK_FOR_INTERRUPTS();
		if (compat_has_locked(lfirst_oid(lc), ShareUpdateExclusiveLock))
			version_check();
	}
	return true;
}

/*
 * Raise 55000 if an older library is about to let an index be made on a table of ours.
 */
void
older_prevent_index(Oid indexed)
{
	if (list_member_oid(named_tables(), indexed))
		version_check();
}

/*
 * Return the tables of ours, with those below them.
 */
static List *
named_tables(void)
{
	Oid schema = get_namespace_oid(DC_SCHEMA, false);
	List *tables = NIL;
	ListCell *lc;

	foreach(lc, named_by_triggers(named_in_catalogs(schema), schema))
	{
		List *members = relation_members(lfirst_oid(lc), NoLock);

		CHECK_FOR_INTERRUPTS();
		tables = members != NIL ? list_concat(tables, members) : lappend_oid(tables, lfirst_oid(lc)); /* it was dropped */
	}
	return tables;
}

/*
 * Return true if a command may change names that our catalogs use, although it locks none of
 * our tables: on types and collations, schemas, labels of enums, or a publication.
 */
static bool
is_named_in_expressions(const Node *parsetree)
{
	ObjectType type;

	if (IsA(parsetree, AlterEnumStmt))
		return ((const AlterEnumStmt *) parsetree)->oldVal != NULL;
	if (IsA(parsetree, AlterPublicationStmt)) /* which locks none of its tables */
		return true;
	if (IsA(parsetree, RenameStmt))
		type = ((const RenameStmt *) parsetree)->renameType;
	else if (IsA(parsetree, AlterObjectSchemaStmt))
		type = ((const AlterObjectSchemaStmt *) parsetree)->objectType;
	else if (IsA(parsetree, DropStmt))
		type = ((const DropStmt *) parsetree)->removeType;
	else
		return false;
	return type == OBJECT_TYPE || type == OBJECT_DOMAIN || type == OBJECT_COLLATION ||
		(!IsA(parsetree, DropStmt) && (type == OBJECT_ATTRIBUTE || type == OBJECT_SCHEMA || type == OBJECT_EXTENSION));
}

/*
 * List the tables that any catalog of this extension names.
 */
static List *
named_in_catalogs(Oid schema)
{
	Relation rel = table_open(RelationRelationId, AccessShareLock);
	List *tables = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_class_relnamespace, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(schema));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);

		if (class->relkind == RELKIND_RELATION)
			tables = named_in_catalog(tables, class->oid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tables;
}

/*
 * Add the tables that a catalog names in columns of type regclass; some may repeat.
 */
static List *
named_in_catalog(List *tables, Oid catalog)
{
	Relation rel = table_open_present(catalog, AccessShareLock);

	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), i);
		SysScanDesc scan;
		HeapTuple tuple;

		if (column->attisdropped || column->atttypid != REGCLASSOID)
			continue;
		scan = systable_beginscan(rel, InvalidOid, false, SnapshotSelf, 0, NULL);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			bool isnull;
			Oid table = DatumGetObjectId(tuple_nullable(rel, tuple, column->attnum, REGCLASSOID, &isnull));

			CHECK_FOR_INTERRUPTS();
			/* many rows about one table often follow each other */
			if (!isnull && (tables == NIL || llast_oid(tables) != table))
				tables = lappend_oid(tables, table);
		}
		systable_endscan(scan);
	}
	table_close(rel, AccessShareLock);
	return tables;
}

/*
 * Add the tables that have a trigger with a function of this extension.
 */
static List *
named_by_triggers(List *tables, Oid schema)
{
	Relation rel = table_open(TriggerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (get_func_namespace(trigger->tgfoid) == schema)
			tables = lappend_oid(tables, trigger->tgrelid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tables;
}
