/*
 * unreadddl.c
 *		What DDL on a counter table, and on unread tables of it, entails.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- At a drop: a table that is dropped is forgotten. If the counter table is dropped, its tables stay, with all that was
 *	  read, as ordinary tables; a notice says so.
 *	- ALTER TABLE ... OWNER TO on the counter table is repeated on them. Given to another owner by itself, such a
 *	  table is one of what was read no more: what dc_delete() notes there would depend on somebody else.
 *	  They have names and schemas of their own, which do not follow.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/runas.h"
#include "core/table/ddlhooks.h"
#include "core/table/storage.h"
#include "transactional/unread/unread.h"

static void
unreadddl_forget(Oid relid)
{
	if (unread_delete(relid) && get_rel_name(relid) != NULL)
		ereport(NOTICE,
				(errmsg("table \"%s\" is no longer an unread table", get_rel_name(relid))));
}

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
