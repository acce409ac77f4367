/*
 * regionddl.c
 *		DDL on a replicated counter table.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Its further tables follow the table of totals: they are dropped with it, and get its name,
 * schema and owner. Dropping one of them alone is refused: the counter's values are the sums of its
 * rows. None of its tables may become unlogged.
 *
 * One link brings the rows of all counters, and finds tables by name. So an owner must not be able
 * to stop it. While a counter is published, or a link brings rows to it, only a superuser may
 *
 *	- rename it or its schema, or move it to another one;
 *	- change the form of its tables: at the end of each command, when they have followed it, the
 *	  tables that the transaction has locked as DDL does are checked for everything that the command
 *	  can have changed.
 *
 * An index that is created or dropped CONCURRENTLY is there, or is gone, when the command ends. So
 * it is refused within the command, by the hook that is called for each object: its table is locked
 * by then, so a name can no longer mean another one. The library must be there by then: an event
 * trigger for the start of commands loads it (core/table/ddlhooks.c).
 *
 * Nobody can drop a counter while there are links to other regions: dc_unreplicate() says when that
 * is possible.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_publication.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/version.h"
#include "core/table/ddlhooks.h"
#include "core/table/protect.h"
#include "core/table/storage.h"
#include "core/table/subscription.h"
#include "region/link.h"
#include "region/region.h"

static void prevent_stripped(const DcDdl *ddl);
static void prevent_drop(const DcCounterRow *row);
static bool is_replicated(const DcCounterRow *row);
static bool regionddl_is_shared(const DcCounterRow *row);
pg_noreturn static void shared_error(const DcCounterRow *row, const char *detail);
static void prevent_rename(const DcDdl *ddl);
static void prevent_changed(const DcDdl *ddl);
static int looks_of(const Node *parsetree);
static int looks_of_command(const AlterTableCmd *command);
static bool is_granted_on(const GrantStmt *grant, const DcCounterRow *row);
static bool is_granted_to(const GrantStmt *grant, Oid role);
static bool is_republished(const DcDdl *ddl, const DcCounterRow *row);
static bool regionddl_is_being_altered(const DcCounterRow *row);
static bool is_following(const DcDdl *ddl, const DcCounterRow *row);
static void regionddl_access_hook(ObjectAccessType access, Oid class, Oid relid, int column, void *arg);
static bool is_of_superuser(void);
static void prevent_index(Oid index);
static bool has_counters(void);
static bool has_equal_index(Relation rel, HeapTuple index);
static bool is_equal_index(Relation rel, HeapTuple index, HeapTuple other);
static void prevent_concurrent_drop(Oid index);
static bool is_unique_index(Oid index);

static object_access_hook_type regionddl_previous_hook = NULL;

/*
 * Return true if a table is one of those that a counter table has because it is replicated.
 */
static bool
is_more(Oid relid, DcCounterRow *row)
{
	return catalog_read_by_regions(relid, row) || catalog_read_by_sets(relid, row) ||
		catalog_read_by_grants(relid, row) || catalog_read_by_wants(relid, row);
}

/*
 * Drop the further tables with their counter. An error if one of them is dropped by itself, or the
 * counter is linked.
 */
static void
regionddl_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcCounterRow row;

		if (catalog_read(relid, &row))
		{
			prevent_drop(&row);
			sibling_drop(row.regions, ddl);
			sibling_drop(row.sets, ddl);
			sibling_drop(row.grants, ddl);
			sibling_drop(row.wants, ddl);
		}
		else if (catalog_read_by_shards(relid, &row) || catalog_read_by_holds(relid, &row))
			prevent_drop(&row); /* it would no longer be a counter table */
		else if (is_more(relid, &row) && ddl_keeps(ddl, row.counter))
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop a table that the replicated counter table \"%s\" needs",
							get_rel_name(row.counter)),
					 errhint("Call dc_unreplicate(), which drops it.")));
	}
	if (!superuser())
		prevent_stripped(ddl);
}

/*
 * Raise 55000 if a command has dropped a trigger or an index that a link needs, whatever the
 * command was about: for example about an extension that the trigger was made to depend on.
 */
static void
prevent_stripped(const DcDdl *ddl)
{
	ListCell *lc;

	if ((ddl->triggers == NIL && !ddl->has_index) ||
		(IsA(ddl->parsetree, DropStmt) && ((const DropStmt *) ddl->parsetree)->removeType == OBJECT_TABLE))
		return;
	foreach(lc, catalog_read_replicated())
	{
		const DcCounterRow *row = lfirst(lc);
		const char *problem;

		CHECK_FOR_INTERRUPTS();
		if (get_rel_name(row->counter) == NULL || !regionddl_is_being_altered(row) || !regionddl_is_shared(row))
			continue;
		problem = regions_problem(row, LOOK_MERGE | LOOK_COLUMNS);
		if (problem != NULL)
			shared_error(row, problem);
	}
}

/*
 * prevent_drop raises 55000 if a table that links may bring rows to is dropped. Another region may
 * send them, and only that region knows: a link needs the tables of all rows that come, even of
 * rows that it does not take.
 */
static void
prevent_drop(const DcCounterRow *row)
{
	if (!is_replicated(row) || links_all() == NIL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot drop a counter table that is replicated between regions"),
			 errdetail("Without its tables, a link that brings rows to them would stop and could not continue."),
			 errhint("Call dc_unreplicate() first.")));
}

/*
 * region_prevent_drop does the same before dc_drop(), which leaves nothing for the event trigger.
 */
void
region_prevent_drop(const DcCounter *counter)
{
	prevent_drop(&counter->row);
}

/*
 * Return true if the counter or stock is replicated between regions.
 */
static bool
is_replicated(const DcCounterRow *row)
{
	return OidIsValid(row->regions) || OidIsValid(row->grants);
}

/*
 * Return true if a further table of a counter is sent to others, or comes from them.
 */
static bool
regionddl_is_shared(const DcCounterRow *row)
{
	const Oid tables[] = {row->regions, row->sets, row->grants, row->wants};

	if (!is_replicated(row))
		return false;
	for (int i = 0; i < lengthof(tables); i++)
	{
		if (OidIsValid(tables[i]) && (compat_relation_publications(tables[i]) != NIL || relation_is_fed(tables[i])))
			return true;
	}
	return false;
}

/*
 * shared_error raises 55000 for DDL that would stop a link.
 */
static void
shared_error(const DcCounterRow *row, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot alter counter table \"%s\" in this way: it is replicated between regions", get_rel_name(row->counter)),
			 errdetail_internal("%s", detail),
			 errhint("Call dc_unreplicate() first, or ask a superuser, who has stopped the links.")));
}

/*
 * prevent_rename raises 55000 if a command has given a shared table, or its schema, another name,
 * or another schema. The schema of an extension may be that of tables that an owner has added to
 * it, which the command has locked.
 */
static void
prevent_rename(const DcDdl *ddl)
{
	bool schema = IsA(ddl->parsetree, RenameStmt) && ((RenameStmt *) ddl->parsetree)->renameType == OBJECT_SCHEMA;
	bool extension = IsA(ddl->parsetree, AlterObjectSchemaStmt) && ((AlterObjectSchemaStmt *) ddl->parsetree)->objectType == OBJECT_EXTENSION;
	Oid renamed = schema ? get_namespace_oid(((RenameStmt *) ddl->parsetree)->newname, true) : InvalidOid;
	ListCell *lc;

	if (!IsA(ddl->parsetree, RenameStmt) && !IsA(ddl->parsetree, AlterObjectSchemaStmt))
		return;
	foreach(lc, catalog_read_replicated())
	{
		const DcCounterRow *row = lfirst(lc);
		const Oid tables[] = {row->counter, row->regions, row->sets, row->grants, row->wants};
		bool concerned = schema && get_rel_namespace(row->counter) == renamed;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < lengthof(tables); i++)
			concerned |= OidIsValid(tables[i]) &&
				(list_member_oid(ddl->relations, tables[i]) || (extension && compat_has_locked(tables[i], AccessExclusiveLock)));
		if (concerned && regionddl_is_shared(row))
			shared_error(row, _("Other regions know its tables by name."));
	}
}

/*
 * prevent_changed raises 55000, or 42809, if a table that was altered is not as others need it. It
 * checks only what the command can have changed, in tables that the transaction has locked, so that
 * a command that repairs one fault of a table is not refused for another.
 */
static void
prevent_changed(const DcDdl *ddl)
{
	const GrantStmt *grant = IsA(ddl->parsetree, GrantStmt) ? (const GrantStmt *) ddl->parsetree : NULL;
	int looks = looks_of(ddl->parsetree);
	ListCell *lc;

	foreach(lc, catalog_read_replicated())
	{
		const DcCounterRow *row = lfirst(lc);
		const char *problem;

		CHECK_FOR_INTERRUPTS();
		if (!(grant != NULL ? is_granted_on(grant, row) : regionddl_is_being_altered(row) || is_republished(ddl, row)) ||
			is_following(ddl, row) || !regionddl_is_shared(row))
			continue;
		problem = regions_problem(row, looks);
		if (problem != NULL)
			shared_error(row, problem);
	}
}

/*
 * Return what a command can break, as DcShapeLooks.
 */
static int
looks_of(const Node *parsetree)
{
	int looks = LOOK_NOTHING;
	ListCell *lc;

	switch (nodeTag(parsetree))
	{
		case T_GrantStmt:
			return LOOK_RIGHTS | LOOK_UNLOCKED;
		case T_CreatePublicationStmt:
		case T_AlterPublicationStmt:
			return LOOK_PUBLICATIONS | LOOK_UNLOCKED | LOOK_AT_ONCE;
		case T_CreateStatsStmt:
			return LOOK_CODE;
		case T_CreateTrigStmt:
		case T_RuleStmt:
			return LOOK_EXTRAS | LOOK_SHARDS | LOOK_CODE | LOOK_MERGE; /* one may be replaced */
		case T_DropStmt:
			return ((const DropStmt *) parsetree)->removeType == OBJECT_TRIGGER ? LOOK_MERGE : LOOK_ALTERED;
		case T_AlterTableStmt:
			foreach(lc, ((const AlterTableStmt *) parsetree)->cmds)
				looks |= looks_of_command(lfirst_node(AlterTableCmd, lc));
			return looks;
		default:
			return LOOK_ALTERED;
	}
}

/*
 * Return what a subcommand of ALTER TABLE can have changed, as a set of LOOK_ flags.
 */
static int
looks_of_command(const AlterTableCmd *command)
{
	switch (command->subtype)
	{
		case AT_DisableRowSecurity:
		case AT_NoForceRowSecurity:
		case AT_DropInherit:
		case AT_ClusterOn:
		case AT_DropCluster:
		case AT_SetStatistics:
			return LOOK_NOTHING;
		case AT_DropConstraint:
		case AT_DropColumn:
			return LOOK_COLUMNS;
		case AT_ColumnDefault:
			return command->def == NULL ? LOOK_NOTHING : LOOK_CODE;
		case AT_DisableTrig:
		case AT_DisableTrigAll:
		case AT_DisableTrigUser:
			return LOOK_MERGE;
		case AT_ReplicaIdentity:
			return LOOK_IDENTITY | LOOK_PUBLICATIONS;
		case AT_SetRelOptions:
		case AT_ResetRelOptions:
			return LOOK_OPTIONS;
		case AT_ChangeOwner:
			return LOOK_RIGHTS | LOOK_SHARDS | LOOK_CODE;
		default:
			return LOOK_ALTERED;
	}
}

/*
 * is_granted_on returns true if a command of its owner grants, or revokes, rights to one of its
 * tables or their schema, and the owner may have these. Another role, such as the owner of the
 * schema, may take back rights that it has given. The tables of a REVOKE are no longer known here:
 * the command locks none, and a name may mean another table by now.
 */
static bool
is_granted_on(const GrantStmt *grant, const DcCounterRow *row)
{
	const Oid tables[] = {row->counter, row->shards, row->regions, row->sets, row->grants, row->wants};
	bool schemas = grant->objtype == OBJECT_SCHEMA || grant->targtype == ACL_TARGET_ALL_IN_SCHEMA;
	ListCell *lc;

	if (grant->targtype == ACL_TARGET_DEFAULTS || (!schemas && grant->objtype != OBJECT_TABLE) ||
		!compat_owns_relation(row->counter, GetUserId()) || !is_granted_to(grant, relation_owner(row->counter)))
		return false;
	if (!schemas && !grant->is_grant)
		return true;
	foreach(lc, grant->objects)
	{
		Oid named = schemas ? get_namespace_oid(strVal(lfirst(lc)), true) : RangeVarGetRelid(lfirst(lc), NoLock, true);

		CHECK_FOR_INTERRUPTS();
		if (schemas && named == get_rel_namespace(row->counter))
			return true;
		for (int i = 0; i < lengthof(tables) && !schemas; i++)
		{
			if (OidIsValid(named) && tables[i] == named)
				return true;
		}
	}
	return false;
}

/*
 * is_granted_to returns true if a command grants, or revokes, rights of a role, or may do so by
 * CASCADE.
 */
static bool
is_granted_to(const GrantStmt *grant, Oid role)
{
	ListCell *lc;

	if (grant->behavior == DROP_CASCADE)
		return true;
	foreach(lc, grant->grantees)
	{
		const RoleSpec *grantee = lfirst_node(RoleSpec, lc);

		if (grantee->roletype == ROLESPEC_PUBLIC || has_privs_of_role(role, get_rolespec_oid(grantee, false)))
			return true;
	}
	return false;
}

/*
 * is_republished returns true if a command sets options of a publication that has one of its
 * tables, which takes no lock on them.
 */
static bool
is_republished(const DcDdl *ddl, const DcCounterRow *row)
{
	const Oid tables[] = {row->shards, row->regions, row->sets, row->grants, row->wants};
	Oid publication;

	if (!IsA(ddl->parsetree, AlterPublicationStmt) || ((AlterPublicationStmt *) ddl->parsetree)->options == NIL)
		return false;
	publication = get_publication_oid(((AlterPublicationStmt *) ddl->parsetree)->pubname, true);
	for (int i = 0; i < lengthof(tables); i++)
	{
		if (OidIsValid(tables[i]) && list_member_oid(compat_relation_publications(tables[i]), publication))
			return true;
	}
	return false;
}

/*
 * Return true if this transaction has locked one of its tables as DDL does.
 */
static bool
regionddl_is_being_altered(const DcCounterRow *row)
{
	const Oid tables[] = {row->counter, row->shards, row->regions, row->sets, row->grants, row->wants};

	for (int i = 0; i < lengthof(tables); i++)
	{
		if (OidIsValid(tables[i]) && get_rel_name(tables[i]) != NULL && compat_has_locked(tables[i], ShareUpdateExclusiveLock))
			return true;
	}
	return false;
}

/*
 * is_following returns true if a command has only given another table the owner that a counter has,
 * as ALTER TABLE ... OWNER TO on the counter does with each of its tables; all of these are checked
 * when it ends.
 */
static bool
is_following(const DcDdl *ddl, const DcCounterRow *row)
{
	ListCell *lc;

	if (!has_command(ddl->parsetree, AT_ChangeOwner) || list_length(((AlterTableStmt *) ddl->parsetree)->cmds) != 1)
		return false;
	foreach(lc, ddl->relations)
	{
		if (lfirst_oid(lc) == row->counter || relation_owner(lfirst_oid(lc)) != relation_owner(row->counter))
			return false;
	}
	return ddl->relations != NIL;
}

/*
 * Refuse indexes that a role other than a superuser creates or drops concurrently on tables of
 * linked counters.
 */
static void
regionddl_access_hook(ObjectAccessType access, Oid class, Oid relid, int column, void *arg)
{
	if (regionddl_previous_hook != NULL)
		regionddl_previous_hook(access, class, relid, column, arg);
	if (class != RelationRelationId || column != 0)
		return;
	if (access == OAT_POST_CREATE && !is_of_superuser())
		prevent_index(relid);
	else if (access == OAT_DROP && (((const ObjectAccessDrop *) arg)->dropflags & PERFORM_DELETION_CONCURRENTLY) != 0 &&
			 !is_of_superuser())
		prevent_concurrent_drop(relid);
}

/*
 * Return true if a superuser makes or drops an index. The server builds one as the owner of its
 * table, so the role of the session counts as well.
 */
static bool
is_of_superuser(void)
{
	return superuser() || superuser_arg(GetOuterUserId());
}

/*
 * Raise 55000 if a relation that is being made is an index of a table of a shared counter. Caches
 * do not show it yet. REINDEX CONCURRENTLY is allowed, as it makes a copy of an existing index. A
 * primary key is checked when the command ends: another command of the same statement may need it.
 */
static void
prevent_index(Oid index)
{
	Relation rel = table_open(IndexRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_index_indexrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(index));
	scan = systable_beginscan(rel, IndexRelidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) && !((Form_pg_index) GETSTRUCT(tuple))->indisprimary && has_counters())
	{
		Oid relid = ((Form_pg_index) GETSTRUCT(tuple))->indrelid;
		DcCounterRow row;

		if ((is_more(relid, &row) || catalog_read_by_shards(relid, &row)) && regionddl_is_shared(&row) && !has_equal_index(rel, tuple))
			shared_error(&row, _("An index can refuse rows that come."));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/*
 * Return true if the extension is in this database, and such that its catalogs can be read.
 */
static bool
has_counters(void)
{
	return OidIsValid(get_extension_oid("dcounter", true)) && !version_is_older();
}

/*
 * has_equal_index returns true if the table of an index has another one that refuses the same rows.
 * There may be one more, which a REINDEX CONCURRENTLY has left that was canceled; each writer of
 * rows locks all of them.
 */
static bool
has_equal_index(Relation rel, HeapTuple index)
{
	Oid relid = ((Form_pg_index) GETSTRUCT(index))->indrelid;
	bool valid = false;
	int n = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple other;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, IndexIndrelidIndexId, true, SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(other = systable_getnext(scan)))
	{
		if (((Form_pg_index) GETSTRUCT(other))->indexrelid == ((Form_pg_index) GETSTRUCT(index))->indexrelid ||
			!is_equal_index(rel, index, other))
			continue;
		valid |= ((Form_pg_index) GETSTRUCT(other))->indisvalid;
		n++;
	}
	systable_endscan(scan);
	return valid && n <= 2;
}

/*
 * Return true if both indexes are of the same columns, in the same way, for all rows.
 */
static bool
is_equal_index(Relation rel, HeapTuple index, HeapTuple other)
{
	static const AttrNumber same[] = {Anum_pg_index_indnatts, Anum_pg_index_indnkeyatts, Anum_pg_index_indisunique,
									  Anum_pg_index_indnullsnotdistinct, Anum_pg_index_indisexclusion, Anum_pg_index_indkey,
									  Anum_pg_index_indcollation, Anum_pg_index_indclass, Anum_pg_index_indoption};
	TupleDesc desc = RelationGetDescr(rel);

	for (int i = 0; i < lengthof(same); i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, same[i] - 1);
		Datum a = tuple_datum(rel, index, same[i], column->atttypid);
		Datum b = tuple_datum(rel, other, same[i], column->atttypid);

		if (!datumIsEqual(a, b, column->attbyval, column->attlen))
			return false;
	}
	return heap_attisnull(index, Anum_pg_index_indexprs, desc) && heap_attisnull(other, Anum_pg_index_indexprs, desc) &&
		heap_attisnull(index, Anum_pg_index_indpred, desc) && heap_attisnull(other, Anum_pg_index_indpred, desc);
}

/*
 * Raise 55000 if a unique index of a table of a shared counter is dropped concurrently: that is
 * committed in part when the event triggers are called.
 */
static void
prevent_concurrent_drop(Oid index)
{
	Oid relid = IndexGetRelation(index, true);
	DcCounterRow row;

	if (OidIsValid(relid) && is_unique_index(index) && has_counters() &&
		(catalog_read(relid, &row) || catalog_read_by_shards(relid, &row) || is_more(relid, &row)) && regionddl_is_shared(&row))
		shared_error(&row, _("Its index may be what rows are found by. Drop it without CONCURRENTLY."));
}

/*
 * Return true if there is such an index, and it is unique.
 */
static bool
is_unique_index(Oid index)
{
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	bool unique = HeapTupleIsValid(tuple) && ((Form_pg_index) GETSTRUCT(tuple))->indisunique;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return unique;
}

/*
 * Repeat renames, owners and the like on the further tables, and raise an error for what would stop
 * the links.
 */
static void
regionddl_altered(const DcDdl *ddl)
{
	ListCell *lc;

	if (!superuser())
		prevent_rename(ddl);
	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcCounterRow row;
		Oid root;

		if (has_command(ddl->parsetree, AT_SetUnLogged) &&
			member_find(relid, &row, &root) != DC_MEMBER_NONE && (OidIsValid(row.regions) || OidIsValid(row.grants)) &&
			get_rel_persistence(relid) != RELPERSISTENCE_PERMANENT)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("\"%s\" must stay logged: counter table \"%s\" is replicated between regions",
							get_rel_name(relid), get_rel_name(row.counter))));
		if (!ddl_alters(ddl) || !catalog_read(relid, &row))
			continue;
		sibling_follow(ddl, relid, row.regions, DC_REGION_SUFFIX);
		sibling_follow(ddl, relid, row.sets, DC_SET_SUFFIX);
		sibling_follow(ddl, relid, row.grants, DC_GRANT_SUFFIX);
		sibling_follow(ddl, relid, row.wants, DC_WANT_SUFFIX);
	}
	if (!superuser())
		prevent_changed(ddl);
}

static const DcDdlHook region_ddl = {regionddl_dropped, regionddl_altered, NULL};

/*
 * region_ddl_init is called when the library is loaded.
 */
void
region_ddl_init(void)
{
	ddl_hook_add(&region_ddl);
	regionddl_previous_hook = object_access_hook;
	object_access_hook = regionddl_access_hook;
}
