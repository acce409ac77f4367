/*
 * unreadddl.c
 *		Effects of DDL on a counter table, and on its unread tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- At a drop: a table that is dropped is forgotten. If the counter table is dropped, its tables
 *	  stay, with all that was read, as ordinary tables; a notice says so.
 *	- ALTER TABLE ... OWNER TO on the counter table is repeated on them. An unread table that is
 *	  given to another owner by itself is no longer an unread table: what dc_delete() notes there
 *	  would depend on that role. They have names and schemas of their own, which do not follow.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/runas.h"
#include "core/table/ddlhooks.h"
#include "core/table/storage.h"
#include "transactional/unread/unread.h"

/*
 * Remove a table from the catalog, with a NOTICE if it still exists.
 */
static void
unreadddl_forget(Oid relid)
{
	if (unread_delete(relid) && get_rel_name(relid) != NULL)
		ereport(NOTICE,
				(errmsg("table \"%s\" is no longer an unread table", get_rel_name(relid))));
}

/*
 * Forget unread tables that were dropped, and those of dropped counter tables.
 */
static void
unreadddl_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
		(void) unread_delete(lfirst_oid(lc));
	foreach(lc, ddl->relations)
	{
		List *tables = unread_read_of(lfirst_oid(lc));
		ListCell *lc2;

		foreach(lc2, tables)
			unreadddl_forget(lfirst_oid(lc2));
	}
}

/*
 * Repeat ALTER TABLE ... OWNER TO of a counter table on its unread tables; forget an unread
 * table that has got another owner than its counter table.
 */
static void
unreadddl_altered(const DcDdl *ddl)
{
	ListCell *lc;

	if (!has_command(ddl->parsetree, AT_ChangeOwner))
		return;
	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		List *tables = unread_read_of(relid);
		DcUnreadRow row;
		ListCell *lc2;

		foreach(lc2, tables)
			sibling_follow(ddl, relid, lfirst_oid(lc2), NULL);
		if (unread_read(relid, &row) && relation_owner(relid) != relation_owner(row.counter))
			unreadddl_forget(relid);
	}
}

const DcDdlHook unread_ddl = {unreadddl_dropped, unreadddl_altered, NULL};
