/*
 * regionshape.c
 *		Are the tables of a replicated counter such that rows of other regions can come to them?
 *
 * The server looks rows up by the replica identity, writes as the owner of the table from PostgreSQL 16 on, and calls
 * the trigger that merges. That writes to tables of regions, of sets and of shard rows without SQL. To those of
 * grants and wants it writes by SQL as the owner, who needs privileges for that; and planning it must not run code.
 */
#include "postgres.h"

#include "access/table.h"
#include "base/relopen.h"
#include "catalog/pg_class.h"
#include "catalog/pg_publication.h"
#include "miscadmin.h"
#include "region/rights.h"
#include "region/sets.h"
#include "storage/lmgr.h"
#include "table/access.h"
#include "table/layout.h"
#include "table/ownercode.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static const char *table_problem(Relation rel);
static bool has_key_alone(Relation rel);
static AclMode own_rights(Oid relid, Oid owner);
static const char *code_problem(Relation rel);

/*
 * regions_problem returns what is wrong, as a sentence, or NULL. Raises 42809 for a table that has not its shape.
 */
const char *
regions_problem(const DcCounterRow *row)
{
	const Oid tables[] = {row->regions, row->sets, row->grants, row->wants};
	DcCounter *counter = counter_lookup(row->counter);
	const char *problem;
	Relation rel;

	LockRelationOid(row->counter, AccessShareLock);
	LockRelationOid(row->shards, AccessShareLock);
	counter_layout(counter);
	for (int i = 0; i < lengthof(tables); i++)
	{
		if (!OidIsValid(tables[i]))
			continue;
		rel = table_open_present(tables[i], AccessShareLock);
		if (tables[i] == row->regions)
			counter_regions_layout(counter, rel);
		else if (tables[i] == row->sets)
			counter_sets_layout(counter, rel);
		else
			rights_layout(counter, rel);
		problem = table_problem(rel);
		table_close(rel, AccessShareLock);
		if (problem != NULL)
			return problem;
	}
	if (OidIsValid(row->grants) && (problem = rights_problem(counter)) != NULL)
		return problem;
	if (superuser_arg(counter->owner))
		return NULL;
	rel = table_open_present(row->shards, AccessShareLock);
	problem = code_problem(rel);
	table_close(rel, AccessShareLock);
	if (problem == NULL && !counter->plain_shards)
		problem = _("More than plain tables would be in the way of rows that come.");
	return problem;
}

static const char *
table_problem(Relation rel)
{
	Oid owner = rel->rd_rel->relowner;
	AclMode needed = ACL_SELECT | ACL_INSERT | ACL_UPDATE;
	PublicationDesc published;

	if (rel->rd_rel->relreplident != REPLICA_IDENTITY_DEFAULT)
		return _("The replica identity must be the default.");
	if (!has_key_alone(rel))
		return _("It must have its primary key, and no other index.");
	RelationBuildPublicationDesc(rel, &published);
	if (!published.rf_valid_for_update || !published.cols_valid_for_update)
		return _("A publication of its rows would keep them from being updated.");
	if (RelationIsUsedAsCatalogTable(rel))
		return _("ON CONFLICT is not for tables with user_catalog_table.");
	if (!superuser_arg(owner) && (own_rights(RelationGetRelid(rel), owner) & needed) != needed)
		return _("Its owner must have the rights to write to its tables, and not by way of a group.");
	if (!has_merge_trigger(rel))
		return _("The trigger \"dcounter_merge\" is missing, or is not as it was made.");
	return superuser_arg(owner) ? NULL : code_problem(rel);
}

/*
 * has_key_alone returns true if a table has a primary key, by which the server looks for rows to update, and no index besides, which
 * could refuse rows.
 */
static bool
has_key_alone(Relation rel)
{
	List *indexes = RelationGetIndexList(rel);
	bool alone = list_length(indexes) == 1 && OidIsValid(rel->rd_pkindex);

	list_free(indexes);
	return alone;
}

/*
 * own_rights returns the privileges that the owner of a table has by themselves. Those of a group may go without a command that an
 * event trigger sees.
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
			if (ACL_DAT(acl)[i].ai_grantee == owner)
				rights |= ACLITEM_GET_PRIVS(ACL_DAT(acl)[i]);
		}
	}
	ReleaseSysCache(tuple);
	return rights;
}

/*
 * code_problem returns, as a sentence, that code of its owner runs where a table is read or written; or NULL.
 */
static const char *
code_problem(Relation rel)
{
	return ownercode_of_relation(rel) == NULL ? NULL : _("Code of its owner would be in the way of rows that come.");
}
