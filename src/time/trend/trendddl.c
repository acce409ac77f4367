/*
 * trendddl.c
 *		DDL on a counter table, and on the table of its trend.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The table of a trend follows the counter table: it is dropped with it, and gets its name, schema
 * and owner. If it is dropped by itself, the trend ends, and a notice says so.
 */
#include "postgres.h"

#include "utils/lsyscache.h"

#include "core/table/ddlhooks.h"
#include "time/trend/trend.h"

/*
 * Drop the table of weights with its counter table. If it is dropped by itself, the counter has no
 * trend from then on.
 */
static void
trendddl_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcCounterRow row;

		if (catalog_read(relid, &row))
			sibling_drop(row.trends, ddl);
		else if (catalog_read_by_trends(relid, &row))
		{
			row.trends = InvalidOid;
			row.half_life = 0;
			if (catalog_update(&row) && ddl_keeps(ddl, row.counter))
				ereport(NOTICE,
						(errmsg("counter table \"%s\" no longer has a trend", get_rel_name(row.counter))));
		}
	}
}

/*
 * Return the table of weights of a counter table, or InvalidOid.
 */
static Oid
trend_of(Oid relid)
{
	DcCounterRow row;

	return catalog_read(relid, &row) ? row.trends : InvalidOid;
}

/*
 * Repeat renames, owners and the like on the table of weights.
 */
static void
trendddl_altered(const DcDdl *ddl)
{
	siblings_follow(ddl, trend_of, DC_TREND_SUFFIX);
}

const DcDdlHook trend_ddl = {trendddl_dropped, trendddl_altered, NULL};
