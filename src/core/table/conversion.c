/*
 * conversion.c
 *		Tables that Citus rebuilds, or turns into shards.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Functions of Citus change tables by DDL of their own, which event triggers see as if a user had
 * asked for it:
 *
 *	- undistribute_table(), alter_distributed_table() and others create a new table, copy the
 *	  rows, drop the old one and rename the new one. A table of ours that is dropped in the meantime
 *	  must not take its siblings along, as these have amounts that are not in it. Citus has a
 *	  variable that says so. It is left set when an error is caught by a savepoint, until the
 *	  transaction ends; we put it back, or a DROP TABLE after that would be taken for Citus'.
 *	- create_distributed_table_concurrently(), citus_add_local_table_to_metadata() and foreign keys
 *	  to some tables make the table itself a shard: they give it another name, with the shard's
 *	  number at its end, and create an empty table with the old name. Our catalogs know tables by
 *	  OID, so they would continue with the shard, which Citus moves, splits and drops as it likes.
 *	  So this renaming is refused for all tables in our catalogs. Where event triggers were switched
 *	  off in the meantime, such a table is not used (distribution.c), and takes no sibling along
 *	  when it is dropped.
 *
 * No shard is in Citus' catalog when its name is given, and none any more when it is dropped.
 * The name is recognized by its number: one that Citus has given out. A user may have chosen
 * such a name, but hardly by accident.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "tcop/pquery.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/catrow.h"
#include "base/relopen.h"
#include "core/table/conversion.h"
#include "core/table/distribution.h"

/* Where Citus' sequence of shards begins. */
#define FIRST_SHARD 102008

/*
 * Citus' own variable: true while it creates a table again. NULL if Citus' library is not
 * loaded.
 */
static bool *is_converting = NULL;

/*
 * The nesting level at which it had been set when a deeper one began; 0 if it had not been. Citus
 * resets it at the end.
 */
static int converting_level = 0;

static void conversion_subxact(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg);
static int64 conversion_shard_number(const char *name);
static int64 last_shard(void);
static Oid table_of_shard(int64 number);
static bool is_of_client(const RenameStmt *stmt);
static bool is_in_catalogs(Oid relid);

/*
 * conversion_init finds Citus' variable, and registers the callback that resets it; called when
 * the library is loaded. Citus must be loaded before other libraries.
 */
void
conversion_init(void)
{
	if (!citus_is_loaded())
		return;
	is_converting = (bool *) load_external_function("$libdir/citus", "InTableTypeConversionFunctionCall", false, NULL);
	if (is_converting != NULL)
		RegisterSubXactCallback(conversion_subxact, NULL);
}

/*
 * Return true if this server has Citus' library. A setting in a file is no proof.
 */
bool
citus_is_loaded(void)
{
	return GetConfigOption("citus.shard_count", true, false) != NULL &&
		(GetConfigOptionFlags("citus.shard_count", true) & GUC_CUSTOM_PLACEHOLDER) == 0;
}

/*
 * conversion_subxact resets Citus' variable if it was set in a subtransaction that is rolled back.
 * Must not throw.
 */
static void
conversion_subxact(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int level = GetCurrentTransactionNestLevel();

	if (!*is_converting)
		converting_level = 0;
	else if (event == SUBXACT_EVENT_START_SUB && converting_level == 0)
		converting_level = level - 1;
	else if (event == SUBXACT_EVENT_ABORT_SUB && (converting_level == 0 || converting_level >= level))
	{
		*is_converting = false;
		converting_level = 0;
	}
}

/*
 * Return true if the command that is running is one of Citus', which creates a table again.
 */
bool
distribution_is_converting(void)
{
	if (is_converting == NULL && citus_is_loaded() && OidIsValid(get_extension_oid("citus", true)))
		(void) citus_function("InTableTypeConversionFunctionCall"); /* an error */
	return is_converting != NULL && *is_converting;
}

/*
 * Return true if a table's name ends with the number of a shard, of now or of the past.
 */
bool
name_is_of_shard(const char *name)
{
	int64 number = conversion_shard_number(name);

	return number != 0 && number <= last_shard();
}

/*
 * conversion_shard_number returns the number at the end of a name, or 0.
 */
static int64
conversion_shard_number(const char *name)
{
	const char *end = strrchr(name, '_');
	int64 number = 0;

	if (end == NULL || end[1] == '0' || strlen(end + 1) > 18 || strspn(end + 1, "0123456789") != strlen(end + 1))
		return 0;
	for (end++; *end != '\0'; end++)
		number = number * 10 + (*end - '0');
	return number >= FIRST_SHARD ? number : 0;
}

/*
 * last_shard returns the number that Citus has given out last in this database; 0 if there is no
 * Citus.
 */
static int64
last_shard(void)
{
	Relation sequence;
	HeapTuple tuple = citus_is_loaded() ? citus_row("pg_dist_shardid_seq", NULL, (Datum) 0, &sequence) : NULL;
	int64 last;

	if (tuple == NULL)
		return 0;
	last = DatumGetInt64(citus_attribute(sequence, tuple, "last_value", INT8OID));
	table_close(sequence, AccessShareLock);
	return last;
}

/*
 * Return true if a table is one of Citus' shards.
 */
bool
relation_is_shard(Oid relid)
{
	char *name = OidIsValid(relid) ? get_rel_name(relid) : NULL;
	int64 number = name != NULL ? conversion_shard_number(name) : 0;
	Oid table = number != 0 ? table_of_shard(number) : InvalidOid;
	char *table_name = OidIsValid(table) ? get_rel_name(table) : NULL;
	char *expected;

	if (table_name == NULL || get_rel_namespace(table) != get_rel_namespace(relid))
		return false;
	expected = psprintf("%s_" INT64_FORMAT, table_name, number);
	/* Citus shortens a long name, and puts a hash of it before the number */
	return strcmp(name, expected) == 0 ||
		(strlen(expected) >= NAMEDATALEN && strncmp(name, expected, NAMEDATALEN / 2) == 0);
}

/*
 * table_of_shard returns the table that has a shard with that number, or InvalidOid.
 */
static Oid
table_of_shard(int64 number)
{
	Relation catalog;
	HeapTuple tuple = citus_row("pg_dist_shard", "shardid", Int64GetDatum(number), &catalog);
	Oid table;

	if (tuple == NULL)
		return InvalidOid;
	table = DatumGetObjectId(citus_attribute(catalog, tuple, "logicalrelid", REGCLASSOID));
	table_close(catalog, AccessShareLock);
	return table;
}

/*
 * conversion_prevent raises an error if a command of Citus' makes a shard of one of our tables.
 * That undoes all that its function has done.
 */
void
conversion_prevent(const DcDdl *ddl)
{
	const RenameStmt *stmt = (const RenameStmt *) ddl->parsetree;
	ListCell *lc;

	if (!IsA(stmt, RenameStmt) || (stmt->renameType != OBJECT_TABLE && stmt->renameType != OBJECT_FOREIGN_TABLE) ||
		!name_is_of_shard(stmt->newname) || is_of_client(stmt))
		return;
	foreach(lc, ddl->relations)
	{
		if (is_in_catalogs(lfirst_oid(lc)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("\"%s\" cannot become a shard of Citus, because it belongs to dcounter", stmt->relation->relname),
					 errdetail("Citus renames it to \"%s\", and puts an empty table in its place.", stmt->newname),
					 errhint("Use create_distributed_table() for both tables of a counter; other tables of dcounter must stay local.")));
	}
}

/*
 * Return true if a renaming is the statement that the client has sent.
 */
static bool
is_of_client(const RenameStmt *stmt)
{
	ListCell *lc;

	foreach(lc, ActivePortal != NULL ? ActivePortal->stmts : NIL)
	{
		Node *utility = lfirst_node(PlannedStmt, lc)->utilityStmt;

		if (utility != NULL && IsA(utility, RenameStmt) &&
			strcmp(((RenameStmt *) utility)->newname, stmt->newname) == 0)
			return true;
	}
	return false;
}

/*
 * Return true if any catalog of this extension names a table, in any column.
 */
static bool
is_in_catalogs(Oid relid)
{
	Relation classes = table_open(RelationRelationId, AccessShareLock);
	List *catalogs = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	ListCell *lc;

	ScanKeyInit(&key, Anum_pg_class_relnamespace, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_namespace_oid(DC_SCHEMA, false)));
	scan = systable_beginscan(classes, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);

		if (class->relkind == RELKIND_RELATION)
			catalogs = lappend_oid(catalogs, class->oid);
	}
	systable_endscan(scan);
	table_close(classes, AccessShareLock);
	foreach(lc, catalogs)
	{
		if (catalog_has(lfirst_oid(lc), relid))
			return true;
	}
	return false;
}

/*
 * Return true if a row of a catalog of this extension names a table, in any of its columns of type
 * regclass.
 */
bool
catalog_has(Oid catalog, Oid relid)
{
	Relation rel = table_open_present(catalog, AccessShareLock);
	TupleDesc desc = RelationGetDescr(rel);
	bool found = false;

	for (int i = 0; i < desc->natts && !found; i++)
	{
		ScanKeyData key;
		SysScanDesc scan;

		if (TupleDescAttr(desc, i)->attisdropped || TupleDescAttr(desc, i)->atttypid != REGCLASSOID)
			continue;
		ScanKeyInit(&key, i + 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
		scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
		found = HeapTupleIsValid(systable_getnext(scan));
		systable_endscan(scan);
	}
	table_close(rel, AccessShareLock);
	return found;
}
