/*
 * distinctddl.c
 *		What DDL on a distinct table and its deltas entails.
 *
 *	- A distinct table that is dropped takes its deltas along. If the deltas are dropped by themselves, the table
 *	  stays, as an ordinary one; a notice says so.
 *	- ALTER TABLE ... RENAME TO, SET SCHEMA and OWNER TO on the table are repeated on its deltas.
 *	- TRUNCATE of the table empties only what was folded: truncate both. Items that this transaction has added are written
 *	  before any DDL (counter/commit.c), so the order of things in it is kept.
 */
#include "postgres.h"

#include "distinct/distinct.h"
#include "table/ddlhooks.h"
#include "table/storage.h"
#include "utils/lsyscache.h"

static void
dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcDistinctRow row;

		if (distinct_row_read(relid, &row))
		{
			(void) distinct_row_delete(relid);
			sibling_drop(row.delta, ddl);
		}
		else if (distinct_row_read_delta(relid, &row))
		{
			(void) distinct_row_delete(row.relid);
			if (!list_member_oid(ddl->relations, row.relid) && get_rel_name(row.relid) != NULL)
				ereport(NOTICE,
						(errmsg("table \"%s\" is no longer a distinct table", get_rel_name(row.relid))));
		}
	}
}

static Oid
deltas_of(Oid relid)
{
	DcDistinctRow row;

	return distinct_row_read(relid, &row) ? row.delta : InvalidOid;
}

static void
altered(const DcDdl *ddl)
{
	siblings_follow(ddl, deltas_of, DISTINCT_DELTA_SUFFIX);
}

/*
 * distinct_ddl_init is called when the library is loaded.
 */
void
distinct_ddl_init(void)
{
	static const DcDdlHook hook = {dropped, altered, NULL};

	ddl_hook_add(&hook);
}
