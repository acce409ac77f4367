/*
 * regionddl.c
 *		What DDL on a replicated counter table entails.
 *
 * Its further tables follow the table of totals: they are dropped with it, and get its name,
 * schema and owner. To drop one of them alone is refused: the counter's values are the sum of
 * what is in it. None of its tables may become unlogged.
 */
#include "postgres.h"

#include "base/relopen.h"
#include "catalog/pg_class.h"
#include "nodes/parsenodes.h"
#include "region/region.h"
#include "table/ddlhooks.h"
#include "table/protect.h"
#include "table/storage.h"
#include "utils/lsyscache.h"

/*
 * is_more tells whether a table is one of those that a counter table has because it is replicated.
 */
static bool
is_more(Oid relid, DcCounterRow *row)
{
	return catalog_read_by_regions(relid, row) || catalog_read_by_sets(relid, row) ||
		catalog_read_by_grants(relid, row) || catalog_read_by_wants(relid, row);
}

static void
dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcCounterRow row;

		if (catalog_read(relid, &row))
		{
			sibling_drop(row.regions, ddl);
			sibling_drop(row.sets, ddl);
			sibling_drop(row.grants, ddl);
			sibling_drop(row.wants, ddl);
		}
		else if (is_more(relid, &row) &&
				 !list_member_oid(ddl->relations, row.counter) && get_rel_name(row.counter) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop a table that the replicated counter table \"%s\" needs",
							get_rel_name(row.counter)),
					 errhint("Call dc_unreplicate(), which drops it.")));
	}
}

static void
altered(const DcDdl *ddl)
{
	ListCell *lc;

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
		if (has_command(ddl->parsetree, AT_ChangeOwner))
			owner_warn_fed(&row);
	}
}

/*
 * region_ddl_init is called when the library is loaded.
 */
void
region_ddl_init(void)
{
	static const DcDdlHook hook = {dropped, altered, NULL};

	ddl_hook_add(&hook);
}
