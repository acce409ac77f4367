/*
 * codeddl.c
 *		DDL that attaches an owner's code to a counter's tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Two things are done at the end of a command that may do so (ddlhooks.c):
 *
 *	- If tables have become children or partitions, the code locks of their parents are
 *	  taken, which the worker holds while it works on them (ownercode.c). The
 *	  parents are found by OID; a name may mean another table by now. CREATE SCHEMA makes
 *	  tables, too, for which no event trigger fires.
 *	- If one of the tables of a buffered counter has got such code, that is refused:
 *	  amounts in memory could not be flushed. The tables that are looked at are those that
 *	  this transaction has locked against other DDL, as every such command does.
 *
 * CREATE INDEX CONCURRENTLY ends when the index is committed, which is too late to refuse it. So the hook that is called for each object checks the
 * index while the command runs: its table is locked by then, so the name can no longer mean another table. The library is loaded, because an event
 * trigger for the start of commands loads it (ddlhooks.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/relopen.h"
#include "base/version.h"
#include "core/table/codeddl.h"
#include "core/table/olderddl.h"
#include "core/table/ownercode.h"
#include "core/table/protect.h"
#include "core/table/storage.h"
#include "core/table/subscription.h"

static bool may_bring_code(const DcDdl *ddl);
static void lock_relatives(Oid relid);
static void prevent_buffered(void);
static bool codeddl_is_being_altered(const DcCounterRow *row);
static void codeddl_access_hook(ObjectAccessType access, Oid class, Oid relid, int column, void *arg);
static void prevent_code_index(Oid relid);
static void prevent_buffered_index(HeapTuple tuple);

static object_access_hook_type codeddl_previous_hook = NULL;

/*
 * code_changed takes the code locks, and refuses code on buffered counters, at the end of a
 * command.
 */
void
code_changed(const DcDdl *ddl)
{
	ListCell *lc;

	if (makes_relatives(ddl->parsetree))
	{
		foreach(lc, ddl->relations)
		{
			CHECK_FOR_INTERRUPTS();
			lock_relatives(lfirst_oid(lc));
		}
	}
	if (may_bring_code(ddl))
		prevent_buffered();
}

/*
 * Return true if a command makes a table a child or a partition.
 */
bool
makes_relatives(Node *parsetree)
{
	if (IsA(parsetree, CreateStmt) || IsA(parsetree, CreateForeignTableStmt))
		return ((CreateStmt *) parsetree)->inhRelations != NIL;
	if (IsA(parsetree, CreateSchemaStmt))
		return ((CreateSchemaStmt *) parsetree)->schemaElts != NIL;
	return has_command(parsetree, AT_AddInherit) || has_command(parsetree, AT_AttachPartition);
}

/*
 * Return true if a command may bring code to an existing table. A new table may refer to it.
 */
static bool
may_bring_code(const DcDdl *ddl)
{
	ListCell *lc;

	if (ddl->tag == CMDTAG_ALTER_TYPE || ddl->tag == CMDTAG_ALTER_VIEW ||
		ddl->tag == CMDTAG_ALTER_MATERIALIZED_VIEW || ddl->tag == CMDTAG_DROP_TRIGGER || ddl->tag == CMDTAG_REVOKE)
		return false;
	if (!IsA(ddl->parsetree, CreateStmt) || makes_relatives(ddl->parsetree))
		return true;
	foreach(lc, ((CreateStmt *) ddl->parsetree)->tableElts)
	{
		Node *element = lfirst(lc);
		ListCell *lc2;

		if (IsA(element, Constraint) && ((Constraint *) element)->contype == CONSTR_FOREIGN)
			return true;
		if (!IsA(element, ColumnDef))
			continue;
		foreach(lc2, ((ColumnDef *) element)->constraints)
		{
			if (((Constraint *) lfirst(lc2))->contype == CONSTR_FOREIGN)
				return true;
		}
	}
	return false;
}

/*
 * lock_relatives takes the code locks of a table and of its parents.
 */
static void
lock_relatives(Oid relid)
{
	ListCell *lc;

	ownercode_lock_member(relid);
	foreach(lc, relation_parents(relid))
		ownercode_lock_member(lfirst_oid(lc));
}

/*
 * prevent_buffered raises an error if a buffered counter has code of its owner on a table
 * that is being altered.
 */
static void
prevent_buffered(void)
{
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (row->mode == DC_MODE_BUFFERED && codeddl_is_being_altered(row))
			ownercode_prevent_buffered(row);
	}
}

/*
 * Return true if this transaction has locked a table of the counter, or a partition, against
 * other DDL.
 */
static bool
codeddl_is_being_altered(const DcCounterRow *row)
{
	List *tables = counter_tables(row);
	ListCell *lc;

	foreach(lc, tables)
	{
		List *members = relation_members(lfirst_oid(lc), NoLock);
		ListCell *lc2;

		foreach(lc2, members)
		{
			if (compat_has_locked(lfirst_oid(lc2), ShareUpdateExclusiveLock))
				return true;
		}
	}
	return false;
}

/*
 * code_ddl_init installs the hook that sees indexes when they are created; called once.
 */
void
code_ddl_init(void)
{
	codeddl_previous_hook = object_access_hook;
	object_access_hook = codeddl_access_hook;
}

/*
 * Look at each relation when it is created: an index that is made concurrently is committed
 * before the command ends.
 */
static void
codeddl_access_hook(ObjectAccessType access, Oid class, Oid relid, int column, void *arg)
{
	if (codeddl_previous_hook != NULL)
		codeddl_previous_hook(access, class, relid, column, arg);
	if (access == OAT_POST_CREATE && class == RelationRelationId && column == 0)
		prevent_code_index(relid);
}

/*
 * Raise 55000 if a relation that is being made is an index, made concurrently, and code of the owner of a buffered counter, or if the
 * library is older than the script, and it is on a table of ours. Caches do not show it yet. An index that is made concurrently is not
 * ready when it is created; one that is not is looked at when the command ends.
 */
static void
prevent_code_index(Oid relid)
{
	Relation rel = table_open(IndexRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_index_indexrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, IndexRelidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) && !((Form_pg_index) GETSTRUCT(tuple))->indisready &&
		OidIsValid(get_extension_oid("dcounter", true)))
	{
		if (version_is_older())
			older_prevent_index(((Form_pg_index) GETSTRUCT(tuple))->indrelid);
		else
			prevent_buffered_index(tuple);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/*
 * Raise 55000 if an index would be code of the owner on a table of a buffered counter.
 * Superusers' tables, and all if dcounter.worker_runs_owner_code is on, may have it.
 */
static void
prevent_buffered_index(HeapTuple tuple)
{
	Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);
	DcCounterRow row;
	Oid root;
	Relation index;
	bool harmless;

	if (dc_worker_runs_owner_code || member_find(form->indrelid, &row, &root) == DC_MEMBER_NONE ||
		row.mode != DC_MODE_BUFFERED || superuser_arg(relation_owner(form->indrelid)))
		return;
	index = index_open(form->indexrelid, NoLock);
	ownercode_expressions_begin();
	harmless = ownercode_index_is_harmless(tuple, index->rd_rel->relam);
	index_close(index, NoLock);
	if (!harmless)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" cannot be buffered with code of its owner", get_rel_name(row.counter)),
				 errdetail("The worker, which flushes it, does not run such code: an index on \"%s\".", get_rel_name(form->indrelid)),
				 errhint("Use dc_alter(..., mode => 'exact') first.")));
}
