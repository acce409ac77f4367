/*
 * codeddl.c
 *		DDL that brings code of an owner to a counter's tables.
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
 * CREATE INDEX CONCURRENTLY ends when the index is committed, which is too late to refuse
 * it. So it is looked at before it runs (code_prevent_index), by the hook of utility
 * statements: there are no buffered counters where that is not loaded. If the table has been given
 * another name meanwhile, the worker leaves it to its owner.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/relopen.h"
#include "core/table/codeddl.h"
#include "core/table/ownercode.h"
#include "core/table/protect.h"
#include "core/table/storage.h"
#include "core/table/subscription.h"

static bool may_bring_code(const DcDdl *ddl);
static void lock_relatives(Oid relid);
static void prevent_buffered(void);
static bool codeddl_is_being_altered(const DcCounterRow *row);
static bool index_may_be_code(const IndexStmt *stmt);

/*
 * code_changed does both of these things at the end of a command.
 */
void
code_changed(const DcDdl *ddl)
{
	ListCell *lc;

	if (makes_relatives(ddl->parsetree))
	{
		foreach(lc, ddl->relations)
			lock_relatives(lfirst_oid(lc));
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
 * Return true if a command may bring code to a table that is there. A new
 * one may refer to it.
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
	Relation rel = table_open(InheritsRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ownercode_lock_member(relid);
	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		ownercode_lock_member(((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
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

		if (row->mode == DC_MODE_BUFFERED && codeddl_is_being_altered(row))
			ownercode_prevent_buffered(row);
	}
}

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
 * code_prevent_index raises an error if an index that is to be created concurrently would
 * be code of the owner of a buffered counter.
 */
void
code_prevent_index(const IndexStmt *stmt)
{
	Oid relid = InvalidOid;
	DcCounterRow row;
	Oid root;

	if (OidIsValid(get_extension_oid("dcounter", true)))
		relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid) || dc_worker_runs_owner_code ||
		member_find(relid, &row, &root) == DC_MEMBER_NONE ||
		row.mode != DC_MODE_BUFFERED || !compat_owns_relation(relid, GetUserId()) ||
		superuser_arg(relation_owner(relid)) ||
		!index_may_be_code(stmt))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" cannot be buffered with code of its owner", get_rel_name(row.counter)),
			 errdetail("The worker flushes it, so an index that is created concurrently must be on plain columns."),
			 errhint("Use dc_alter(..., mode => 'exact') first.")));
}

/*
 * Return true unless an index is a B-tree of the server's on columns.
 */
static bool
index_may_be_code(const IndexStmt *stmt)
{
	ListCell *lc;

	if (stmt->whereClause != NULL || strcmp(stmt->accessMethod, "btree") != 0)
		return true;
	foreach(lc, stmt->indexParams)
	{
		const IndexElem *element = lfirst_node(IndexElem, lc);

		if (element->expr != NULL || element->opclass != NIL ||
			(element->collation != NIL &&
			 !is_trusted_object(CollationRelationId, get_collation_oid(element->collation, false))))
			return true;
	}
	return false;
}
