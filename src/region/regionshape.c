/*
 * regionshape.c
 *		Checking that the tables of a replicated counter can take rows of other regions.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The server looks rows up by the replica identity, writes as the owner of the table from
 * PostgreSQL 16 on, and calls the trigger that merges. That writes to tables of regions, of sets
 * and of shard rows without SQL. To those of grants and wants it writes by SQL as the owner, who
 * needs privileges for that; and planning it must not run code.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_publication.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "core/table/access.h"
#include "core/table/layout.h"
#include "core/table/ownercode.h"
#include "region/rights.h"
#include "region/sets.h"

static void regionshape_lock(Oid relid, int looks);
static bool regionshape_is_due(Oid relid, int looks);
static const char *table_problem(DcCounter *counter, Relation rel, DcRegionTable table, int looks);
static bool has_key_alone(Relation rel, const DcShape *shape, const AttrNumber *atts);
static const char *published_problem(Relation rel, int looks);
static const char *shards_problem(DcCounter *counter, int looks);
static AclMode own_rights(Oid relid, Oid owner);
static const char *code_problem(Relation rel);

/*
 * Return what is wrong with the tables, as a sentence, or NULL; only what `looks` names is checked.
 * Raises 42809 for a table without its shape, 55P03 for a lock that would have to be waited for, if
 * that is not allowed.
 */
const char *
regions_problem(const DcCounterRow *row, int looks)
{
	DcCounter *counter = counter_lookup(row->counter);
	const char *problem;

	if (looks == LOOK_NOTHING)
		return NULL;
	regionshape_lock(row->counter, looks);
	regionshape_lock(row->shards, looks);
	if ((looks & LOOK_COLUMNS) != 0 && (regionshape_is_due(row->counter, looks) || regionshape_is_due(row->shards, looks)))
		counter_layout(counter);
	for (DcRegionTable table = 0; table < DC_REGION_TABLES; table++)
	{
		Oid relid = region_table_of(row, table);
		Relation rel;

		if (!OidIsValid(relid) || !regionshape_is_due(relid, looks))
			continue;
		regionshape_lock(relid, looks);
		rel = table_open_present(relid, NoLock);
		problem = table_problem(counter, rel, table, looks);
		table_close(rel, AccessShareLock);
		if (problem != NULL)
			return problem;
	}
	if ((looks & LOOK_RIGHTS) != 0 && OidIsValid(row->grants) && (problem = rights_problem(counter)) != NULL)
		return problem;
	if (!regionshape_is_due(row->shards, looks)) /* writing to shard rows depends on the table of totals as well */
		looks &= regionshape_is_due(row->counter, looks) ? LOOK_COLUMNS | LOOK_SHARDS : LOOK_NOTHING;
	return superuser_arg(counter->owner) || looks == LOOK_NOTHING ? NULL : shards_problem(counter, looks);
}

/*
 * Lock a table to look at it. A command about a publication does not wait: its owner may be another
 * role than the table's.
 */
static void
regionshape_lock(Oid relid, int looks)
{
	if ((looks & LOOK_AT_ONCE) == 0)
		LockRelationOid(relid, AccessShareLock);
	else if (!ConditionalLockRelationOid(relid, AccessShareLock))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on relation \"%s\"", get_rel_name(relid)),
				 errdetail("The table is replicated between regions, and belongs to their publication.")));
}

/*
 * Return true if a table has to be checked.
 */
static bool
regionshape_is_due(Oid relid, int looks)
{
	return (looks & LOOK_UNLOCKED) != 0 || compat_has_locked(relid, ShareUpdateExclusiveLock);
}

/*
 * Return why rows of other regions could not come to the table, or NULL. Only what `looks` names is
 * checked.
 */
static const char *
table_problem(DcCounter *counter, Relation rel, DcRegionTable table, int looks)
{
	Oid owner = rel->rd_rel->relowner;
	AclMode needed = ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE; /* a row that no longer passes a filter comes as a deletion */
	DcTableLayout layout;
	DcShapeProblem problem = {0};
	const char *detail;

	if ((looks & (LOOK_COLUMNS | LOOK_INDEXES)) != 0 && !region_columns_fit(rel, table, &layout, &problem))
		shape_error(RelationGetRelationName(rel), &problem);
	if ((looks & LOOK_EXTRAS) != 0)
		(void) region_layout(counter, rel, table);
	if ((looks & LOOK_IDENTITY) != 0 && rel->rd_rel->relreplident != REPLICA_IDENTITY_DEFAULT)
		return _("The replica identity must be the default.");
	if ((looks & LOOK_COLUMNS) != 0 && !OidIsValid(rel->rd_pkindex))
		return _("It must have its primary key.");
	if ((looks & LOOK_INDEXES) != 0 && !has_key_alone(rel, region_shape_of(table), layout.atts))
		return _("It must have no index but its primary key.");
	if ((detail = published_problem(rel, looks)) != NULL)
		return detail;
	if ((looks & LOOK_OPTIONS) != 0 && RelationIsUsedAsCatalogTable(rel))
		return _("ON CONFLICT does not work on tables with user_catalog_table.");
	if ((looks & LOOK_RIGHTS) != 0 && !superuser_arg(owner) && (own_rights(RelationGetRelid(rel), owner) & needed) != needed)
		return _("Its owner must have the privileges to write to its tables directly, not through a group.");
	if ((looks & LOOK_MERGE) != 0 && !has_merge_trigger(rel))
		return _("The trigger \"dcounter_merge\" is missing or has been changed.");
	return (looks & LOOK_CODE) == 0 || superuser_arg(owner) ? NULL : code_problem(rel);
}

/*
 * Return why a publication would keep rows of the table from being updated or deleted, or NULL.
 */
static const char *
published_problem(Relation rel, int looks)
{
	PublicationDesc published;

	if ((looks & LOOK_PUBLICATIONS) == 0)
		return NULL;
	RelationBuildPublicationDesc(rel, &published);
	if (published.rf_valid_for_update && published.cols_valid_for_update && published.rf_valid_for_delete && published.cols_valid_for_delete)
		return NULL;
	return _("A publication of its rows would prevent updates or deletes.");
}

/*
 * Return true if a table has no index but its primary key, by which the server looks for rows to
 * update: another one could refuse rows. One of the same key, which a canceled REINDEX CONCURRENTLY
 * leaves behind, cannot.
 */
static bool
has_key_alone(Relation rel, const DcShape *shape, const AttrNumber *atts)
{
	List *indexes = RelationGetIndexList(rel);
	bool alone = true;
	ListCell *lc;

	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		alone &= lfirst_oid(lc) == rel->rd_pkindex ||
			(shape_is_key(index, shape, atts) && shape_is_plain_key(index, shape) &&
			 !OidIsValid(get_index_constraint(lfirst_oid(lc))));
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return alone;
}

/*
 * The same for the shard table, unless its owner is a superuser.
 */
static const char *
shards_problem(DcCounter *counter, int looks)
{
	Relation rel = table_open_present(counter->row.shards, AccessShareLock);
	const char *problem = published_problem(rel, looks);

	if (problem == NULL && (looks & LOOK_IDENTITY) != 0 && rel->rd_rel->relreplident == REPLICA_IDENTITY_NOTHING)
		problem = _("The replica identity must not be NOTHING.");
	if (problem == NULL && (looks & LOOK_CODE) != 0)
		problem = code_problem(rel);
	table_close(rel, AccessShareLock);
	if (problem == NULL && (looks & LOOK_COLUMNS) != 0 && counter_has_layout(counter) &&
		(!OidIsValid(counter->totals.index) || !OidIsValid(counter->shards.index)))
		problem = _("It must have its primary keys, by which rows are found.");
	if (problem == NULL && (looks & LOOK_SHARDS) != 0 && counter_has_layout(counter) && !counter->plain_shards)
		problem = _("Its tables must be plain tables, so that nothing blocks incoming rows.");
	return problem;
}

/*
 * own_rights returns the privileges that the owner of a table has directly. Privileges by way of a
 * group, or given by another role, may be revoked by a command that no event trigger sees.
 */
static AclMode
own_rights(Oid relid, Oid owner)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	AclMode rights = ACL_NO_RIGHTS;
	bool isnull = true;
	Datum value = (Datum) 0;

	if (!HeapTupleIsValid(tuple))
		return ACL_NO_RIGHTS;
	value = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull);
	if (isnull)
		rights = ACL_ALL_RIGHTS_RELATION;
	else
	{
		Acl *acl = DatumGetAclPCopy(value);

		for (int i = 0; i < ACL_NUM(acl); i++)
		{
			if (ACL_DAT(acl)[i].ai_grantee == owner && ACL_DAT(acl)[i].ai_grantor == owner)
				rights |= ACLITEM_GET_PRIVS(ACL_DAT(acl)[i]);
		}
	}
	ReleaseSysCache(tuple);
	return rights;
}

/*
 * code_problem returns a sentence if code of a table's owner would run when the table is read or
 * written, or NULL.
 */
static const char *
code_problem(Relation rel)
{
	return ownercode_of_relation(rel) == NULL ? NULL : _("Code of its owner would block incoming rows.");
}
