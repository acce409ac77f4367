/*
 * storage.c
 *		ALTER TABLE commands about how and where a table is kept, repeated on the other tables
 *		of its counter.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A change of the table of totals, or of a partition of it, is repeated on the shard
 * table, or to the partition of it with the same bounds, and to the table of holds:
 * SET UNLOGGED and SET LOGGED, SET TABLESPACE, SET ACCESS METHOD. A crash empties tables
 * that are not logged, so it must find either all of a counter's tables logged or none;
 * done to one of the others alone, it is refused. Tablespace and access method of these
 * can be chosen by themselves. A ledger stays logged; so do ops, which must not
 * be applied again.
 *
 * A table of a counter may not become a child or a partition of another table, which
 * would be read and written by way of the parent, or get children by inheritance. Partitions
 * may be added to one that is partitioned.
 *
 * All this is called at the end of the command, as the user who gave it.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/errors.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/protect.h"
#include "core/table/storage.h"

static void refuse_parents(AlterTableStmt *stmt, Oid relid);
static void refuse_relative(Oid relid);
static void persistence_altered(const DcCounterRow *row, DcMember member,
								Oid relid, Oid root);
static void persistence_error(const DcCounterRow *row, Oid relid, const char *hint);
static void tablespace_follow(Oid relid, Oid sibling);
static void access_method_follow(Oid relid, Oid sibling);
static Oid twin_of(Oid relid, Oid root, Oid other);
static char *bounds_of(Oid relid);
static Form_pg_class class_of(Oid relid);

/*
 * storage_altered repeats a command on one table for the others. Does nothing if the command
 * was about something else.
 */
void
storage_altered(AlterTableStmt *stmt, Oid relid)
{
	DcCounterRow row;
	DcMember member;
	Oid root;
	Oid others[2];

	if (stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_FOREIGN_TABLE)
		return;
	refuse_parents(stmt, relid);
	member = member_find(relid, &row, &root);
	if (member == DC_MEMBER_NONE || member == DC_MEMBER_REGIONS)
		return;
	if (has_command(stmt, AT_SetLogged) || has_command(stmt, AT_SetUnLogged))
		persistence_altered(&row, member, relid, root);
	if (member != DC_MEMBER_TOTALS)
		return;
	others[0] = twin_of(relid, root, row.shards);
	others[1] = relid == root ? row.holds : InvalidOid;
	for (int i = 0; i < lengthof(others); i++)
	{
		if (!OidIsValid(others[i]) || get_rel_name(others[i]) == NULL)
			continue;
		if (has_command(stmt, AT_SetTableSpace))
			tablespace_follow(relid, others[i]);
		if (has_command(stmt, AT_SetAccessMethod))
			access_method_follow(relid, others[i]);
	}
}

/*
 * storage_created does what follows from a new child or partition of a table.
 */
void
storage_created(CreateStmt *stmt, Oid relid)
{
	ListCell *lc;

	if (stmt->partbound != NULL)
	{
		protect_create_partition(relid);
		return;
	}
	foreach(lc, stmt->inhRelations)
		refuse_relative(RangeVarGetRelid(lfirst_node(RangeVar, lc), NoLock, true));
}

/*
 * Return true if a statement is an ALTER TABLE with a command of some type.
 */
bool
has_command(const void *parsetree, AlterTableType type)
{
	ListCell *lc;

	if (!IsA(parsetree, AlterTableStmt))
		return false;
	foreach(lc, ((const AlterTableStmt *) parsetree)->cmds)
	{
		if (lfirst_node(AlterTableCmd, lc)->subtype == type)
			return true;
	}
	return false;
}

/*
 * refuse_parents raises an error if a table of a counter has become a child or a
 * partition of another table, or a parent. New partitions get their triggers.
 */
static void
refuse_parents(AlterTableStmt *stmt, Oid relid)
{
	ListCell *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AddInherit)
		{
			refuse_relative(relid);
			refuse_relative(RangeVarGetRelid(castNode(RangeVar, cmd->def), NoLock, true));
		}
		else if (cmd->subtype == AT_AttachPartition)
		{
			Oid child = RangeVarGetRelid(castNode(PartitionCmd, cmd->def)->name, NoLock, true);
			DcCounterRow row;
			Oid root;

			if (!OidIsValid(child))
				continue;
			/* not member_find(): as a partition of a counter's table it would be found */
			if (catalog_read(child, &row) || catalog_read_by_shards(child, &row) ||
				catalog_read_by_holds(child, &row))
				refuse_relative(child);
			if (member_find(relid, &row, &root) == DC_MEMBER_TOTALS)
				protect_create_partition(child);
		}
	}
}

/*
 * Raise 0A000 if a table belongs to a counter: it cannot be a parent or a child of another one.
 */
static void
refuse_relative(Oid relid)
{
	DcCounterRow row;
	Oid root;

	if (!OidIsValid(relid) || member_find(relid, &row, &root) == DC_MEMBER_NONE)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("\"%s\" cannot be a parent or a child of another table", get_rel_name(relid)),
			 errdetail("It belongs to counter table \"%s\", whose tables are read together.",
					   get_rel_name(row.counter)),
			 errhint("Create a counter table with partitions: dc_create(..., partitions => n).")));
}

/*
 * persistence_altered makes all tables of a counter logged or not, as the table of
 * totals is, or refuses that.
 */
static void
persistence_altered(const DcCounterRow *row, DcMember member, Oid relid, Oid root)
{
	const char *on_totals = psprintf(_("Use ALTER TABLE on \"%s\", and its other tables follow."),
									 get_rel_name(row->counter));

	if (OidIsValid(row->ledger) &&
		class_of(relid)->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" of a ledger must not be unlogged", get_rel_name(relid))));
	if (relid != root)
	{
		Oid other = twin_of(relid, root, member == DC_MEMBER_TOTALS ? row->shards : row->counter);

		if (!OidIsValid(other))
			persistence_error(row, relid,
							  psprintf(_("There is no partition of \"%s\" with the same bounds."),
									   get_rel_name(member == DC_MEMBER_TOTALS ? row->shards : row->counter)));
		if (member == DC_MEMBER_TOTALS)
			persistence_follow(relid, other);
		else if (class_of(relid)->relpersistence != class_of(other)->relpersistence)
			persistence_error(row, relid,
							  psprintf(_("Use ALTER TABLE on \"%s\", and this one follows."),
									   get_rel_name(other)));
	}
	else if (member != DC_MEMBER_TOTALS)
	{
		if (class_of(relid)->relpersistence != class_of(row->counter)->relpersistence)
			persistence_error(row, relid, on_totals);
	}
	else
	{
		persistence_follow(relid, row->shards);
		if (OidIsValid(row->holds))
			persistence_follow(relid, row->holds);
	}
}

/*
 * persistence_follow makes another table logged or not, as the first one is.
 */
void
persistence_follow(Oid relid, Oid sibling)
{
	char persistence = class_of(relid)->relpersistence;
	char *name;

	if (get_rel_name(sibling) == NULL || get_rel_relkind(sibling) != RELKIND_RELATION ||
		class_of(sibling)->relpersistence == persistence)
		return;
	name = relation_sql_name(sibling);
	run_ddl(psprintf("ALTER TABLE %s SET %s", name,
					 persistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED" : "LOGGED"));
	run_ddl_done(class_of(sibling)->relpersistence == persistence, name);
}

/*
 * Raise 55000: one of a counter's tables would be logged and another would not.
 */
static void
persistence_error(const DcCounterRow *row, Oid relid, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" cannot be made logged or unlogged by itself", get_rel_name(relid)),
			 errdetail("A crash would empty some tables of the counter table \"%s\" and leave others.",
					   get_rel_name(row->counter)),
			 errhint("%s", hint)));
}

/*
 * storage_problem returns the problem with how the tables of a counter are kept, as a
 * full sentence, or NULL.
 */
char *
storage_problem(const DcCounterRow *row)
{
	const Oid others[] = {row->shards, row->holds};

	for (int i = 0; i < lengthof(others); i++)
	{
		if (OidIsValid(others[i]) && get_rel_relkind(row->counter) == RELKIND_RELATION &&
			get_rel_relkind(others[i]) == RELKIND_RELATION &&
			class_of(others[i])->relpersistence != class_of(row->counter)->relpersistence)
			return psprintf(_("Either it or \"%s\" is unlogged: a crash would empty one of them alone."),
							get_rel_name(others[i]));
	}
	return NULL;
}

/*
 * Move another table of a counter to the tablespace of the first one.
 */
static void
tablespace_follow(Oid relid, Oid sibling)
{
	Oid tablespace = class_of(relid)->reltablespace;
	char *name;

	if (class_of(sibling)->reltablespace == tablespace)
		return;
	if (!OidIsValid(tablespace))
		tablespace = MyDatabaseTableSpace;
	name = relation_sql_name(sibling);
	run_ddl(psprintf("ALTER TABLE %s SET TABLESPACE %s", name,
					 quote_identifier(get_tablespace_name(tablespace))));
	run_ddl_done(class_of(sibling)->reltablespace == class_of(relid)->reltablespace, name);
}

/*
 * Give another table of a counter the access method of the first one.
 */
static void
access_method_follow(Oid relid, Oid sibling)
{
	Oid method = class_of(relid)->relam;
	char *name;

	if (!OidIsValid(method) || class_of(sibling)->relam == method)
		return;
	name = relation_sql_name(sibling);
	run_ddl(psprintf("ALTER TABLE %s SET ACCESS METHOD %s", name,
					 quote_identifier(get_am_name(method))));
	run_ddl_done(class_of(sibling)->relam == method, name);
}

/*
 * twin_of returns the partition of another root with the same bounds as a partition; for a
 * root, the other root. InvalidOid if there is none.
 */
static Oid
twin_of(Oid relid, Oid root, Oid other)
{
	List *children;
	ListCell *lc;
	char *bounds;
	Oid parent;

	if (relid == root)
		return other;
	if (!OidIsValid(relid))
		return InvalidOid; /* detached in the meantime, as the tables above it are not locked */
	parent = twin_of(relation_partition_parent(relid), root, other);
	if (!OidIsValid(parent) || get_rel_relkind(parent) != RELKIND_PARTITIONED_TABLE)
		return InvalidOid;
	bounds = bounds_of(relid);
	children = relation_children(parent, AccessShareLock);
	foreach(lc, children)
	{
		char *others = bounds_of(lfirst_oid(lc));

		if (bounds != NULL && others != NULL && strcmp(bounds, others) == 0)
			return lfirst_oid(lc);
	}
	return InvalidOid;
}

/*
 * bounds_of returns the bounds of a partition as text.
 */
static char *
bounds_of(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	char *bounds = NULL;
	Datum value;
	bool isnull;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	value = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	if (!isnull)
		bounds = TextDatumGetCString(DirectFunctionCall2(pg_get_expr, value,
														 ObjectIdGetDatum(relid)));
	ReleaseSysCache(tuple);
	return bounds;
}

/*
 * class_of returns a copy of the row of pg_class of a table (42P01 if it is gone).
 */
static Form_pg_class
class_of(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form = palloc(CLASS_TUPLE_SIZE);

	if (!HeapTupleIsValid(tuple))
		relation_missing_error(relid);
	memcpy(form, GETSTRUCT(tuple), CLASS_TUPLE_SIZE);
	ReleaseSysCache(tuple);
	return form;
}
