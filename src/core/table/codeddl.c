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
 *	  parents are found by OID; a name may mean another table by now. CREATE SCHEMA can also create
 *	  tables, for which no event trigger fires.
 *	- If one of the tables of a buffered counter has got such code, that is refused: amounts in
 *	  memory could not be flushed. Only the tables of the command and their relatives are checked:
 *	  those that this transaction has locked against other DDL, as every such command does. So the
 *	  cost does not depend on the number of other counters.
 *
 * CREATE INDEX CONCURRENTLY ends when the index is committed, which is too late to refuse it. So
 * the hook that is called for each object checks the index while the command runs: its table is
 * locked by then, so the name can no longer mean another table. The library is loaded, because an
 * event trigger for the start of commands loads it (ddlhooks.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
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
static void codeddl_note_tables(TupleTableSlot *slot, Oid class, void *arg);
static List *codeddl_depends_on(Oid class, Oid object);
static List *codeddl_referenced(Oid relid);
static List *codeddl_relatives(Oid relid);
static bool codeddl_counter_of(Oid relid, DcCounterRow *row);
static bool is_flushed_to(DcCounterRow *row);
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
 * that the command is about.
 */
static void
prevent_buffered(void)
{
	List *tables = NIL;
	List *looked = NIL;
	ListCell *lc;

	if (dc_worker_runs_owner_code)
		return;
	ddl_each_object(F_PG_EVENT_TRIGGER_DDL_COMMANDS, codeddl_note_tables, &tables);
	list_sort(tables, list_oid_cmp);
	list_deduplicate_oid(tables);
	foreach(lc, tables)
		looked = list_concat(looked, codeddl_relatives(lfirst_oid(lc)));
	list_sort(looked, list_oid_cmp);
	list_deduplicate_oid(looked);
	foreach(lc, looked)
	{
		DcCounterRow row;

		if (codeddl_counter_of(lfirst_oid(lc), &row) && is_flushed_to(&row))
			ownercode_prevent_buffered(&row);
	}
}

/*
 * Add to a list (*arg) the tables that an object of the command is, or is on; and those that it
 * refers to, as a foreign key puts triggers on them.
 */
static void
codeddl_note_tables(TupleTableSlot *slot, Oid class, void *arg)
{
	List **tables = arg;
	Oid object = ddl_object(slot);

	if (class != RelationRelationId)
		*tables = list_concat(*tables, codeddl_depends_on(class, object));
	else if (get_rel_relkind(object) == RELKIND_INDEX || get_rel_relkind(object) == RELKIND_PARTITIONED_INDEX)
		*tables = lappend_oid(*tables, IndexGetRelation(object, true));
	else
		*tables = list_concat(lappend_oid(*tables, object), codeddl_referenced(object));
}

/*
 * Return the relations that an object depends on: a trigger, a rule, a policy or statistics are on
 * one of them.
 */
static List *
codeddl_depends_on(Oid class, Oid object)
{
	Relation rel = table_open(DependRelationId, AccessShareLock);
	List *relations = NIL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(class));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	scan = systable_beginscan(rel, DependDependerIndexId, true, NULL, lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (depend->refclassid == RelationRelationId)
			relations = lappend_oid(relations, depend->refobjid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return relations;
}

/*
 * Return the tables that the foreign keys of a table refer to.
 */
static List *
codeddl_referenced(Oid relid)
{
	Relation rel = table_open(ConstraintRelationId, AccessShareLock);
	List *tables = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (constraint->contype == CONSTRAINT_FOREIGN)
			tables = lappend_oid(tables, constraint->confrelid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tables;
}

/*
 * Return a table and its partitions or children, as far as this transaction has locked them against
 * other DDL, and the tables that these are partitions or children of.
 */
static List *
codeddl_relatives(Oid relid)
{
	List *relatives = NIL;
	ListCell *lc;

	foreach(lc, relation_members(relid, NoLock))
	{
		CHECK_FOR_INTERRUPTS();
		if (compat_has_locked(lfirst_oid(lc), ShareUpdateExclusiveLock))
			relatives = list_concat(relatives, relation_ancestors(lfirst_oid(lc)));
	}
	return relatives;
}

/*
 * Return true if a table is one of those of a counter (counter_tables), and set the counter's row.
 * Those of a ledger, and reference counts, are not looked for: no flush writes to them.
 */
static bool
codeddl_counter_of(Oid relid, DcCounterRow *row)
{
	Oid counter;

	if (catalog_read(relid, row) || catalog_read_by_shards(relid, row) || catalog_read_by_holds(relid, row) ||
		catalog_read_by_trends(relid, row))
		return true;
	counter = once_hooks->counter(relid);
	return OidIsValid(counter) && catalog_read(counter, row);
}

/*
 * Return true if a flush writes to a counter's tables, and set *row to the counter that is flushed:
 * this one, or that whose ranks it has.
 */
static bool
is_flushed_to(DcCounterRow *row)
{
	Oid source;

	if (row->mode == DC_MODE_BUFFERED)
		return true;
	source = bound_hooks->source(row->counter);
	return OidIsValid(source) && catalog_read(source, row) && row->mode == DC_MODE_BUFFERED;
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
 * Look at each relation when it is created: an index that is created concurrently is committed
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
 * Raise 55000 if a relation that is being made is an index, made concurrently, and code of the
 * owner of a buffered counter, or if the library is older than the script, and it is on a table of
 * ours. Caches do not show it yet. An index that is created concurrently is not ready when it is
 * created; one that is not is checked when the command ends.
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
		!is_flushed_to(&row) || superuser_arg(relation_owner(form->indrelid)))
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
