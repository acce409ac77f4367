/*
 * regionshape.c
 *		Are the tables of a replicated counter such that rows of other regions can come to them?
 *
 * The server looks rows up by the replica identity, writes as the owner of the table from PostgreSQL 16 on, and calls
 * the trigger that merges. What that writes to, it writes without SQL, so that no code of the owner is in its way.
 */
#include "postgres.h"

#include "access/table.h"
#include "base/compat.h"
#include "base/relopen.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "region/rights.h"
#include "region/sets.h"
#include "storage/lmgr.h"
#include "table/access.h"
#include "table/layout.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static const char *table_problem(Relation rel);

/*
 * regions_problem returns what is wrong, as a sentence, or NULL. Raises 42809 for a table that has not its shape.
 */
const char *
regions_problem(const DcCounterRow *row)
{
	const Oid tables[] = {row->regions, row->sets, row->grants, row->wants};
	DcCounter *counter = counter_lookup(row->counter);

	LockRelationOid(row->counter, AccessShareLock);
	LockRelationOid(row->shards, AccessShareLock);
	counter_layout(counter);
	for (int i = 0; i < lengthof(tables); i++)
	{
		const char *problem;
		Relation rel;

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
	if (!compat_may_use_schema(get_rel_namespace(row->counter), counter->owner) ||
		pg_class_aclcheck(row->shards, counter->owner, ACL_SELECT) != ACLCHECK_OK)
		return _("Its owner must have the rights to use its schema and to read its tables.");
	if (!counter->direct_write && !superuser_arg(counter->owner))
		return _("Code of its owner, or more than plain tables, would be in the way of rows that come.");
	return NULL;
}

static const char *
table_problem(Relation rel)
{
	Oid owner = rel->rd_rel->relowner;
	AclMode needed = ACL_SELECT | ACL_INSERT | ACL_UPDATE;

	if (rel->rd_rel->relreplident != REPLICA_IDENTITY_DEFAULT)
		return _("The replica identity must be the default.");
	if (pg_class_aclmask(RelationGetRelid(rel), owner, needed, ACLMASK_ALL) != needed)
		return _("Its owner must have the rights to write to its tables.");
	if (!has_merge_trigger(rel))
		return _("The trigger \"dcounter_merge\" is missing, or is not as it was made.");
	return NULL;
}
