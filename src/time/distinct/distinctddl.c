/*
 * distinctddl.c
 *		DDL on a distinct table and its deltas.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- Dropping a distinct table drops its deltas. If the deltas are dropped by themselves, the table
 *	  stays, as an ordinary one; a notice says so.
 *	- ALTER TABLE ... RENAME TO, SET SCHEMA, OWNER TO, SET LOGGED and SET UNLOGGED on the table are
 *	  repeated on its deltas. A crash must empty both or neither, so the deltas cannot be made
 *	  logged or unlogged by themselves.
 *	- TRUNCATE of the table empties its deltas, too. Items that this transaction has added are
 *	  written before any DDL (core/counter/commit.c), so their order is kept. The deltas may be
 *	  truncated by themselves: that forgets items that are not folded yet.
 *	- Direct DELETE and UPDATE are refused on both, as sessions would not notice that items which
 *	  they remember are gone (distinctknown.c).
 *
 * Triggers with the functions of core/table/protect.c do the last two. The functions of this room
 * write without SQL, so these triggers do not fire for them.
 */
#include "postgres.h"

#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/ddlhooks.h"
#include "core/table/protect.h"
#include "core/table/storage.h"
#include "time/distinct/distinct.h"

/*
 * Delete the catalog rows of distinct tables that are being dropped, and drop their deltas. Deltas
 * that are dropped by themselves leave an ordinary table.
 */
static void
distinctddl_dropped(const DcDdl *ddl)
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
			if (ddl_keeps(ddl, row.relid))
				ereport(NOTICE,
						(errmsg("table \"%s\" is no longer a distinct table", get_rel_name(row.relid))));
		}
	}
}

/*
 * Return the table of deltas of a distinct table, or InvalidOid.
 */
static Oid
deltas_of(Oid relid)
{
	DcDistinctRow row;

	return distinct_row_read(relid, &row) ? row.delta : InvalidOid;
}

/*
 * Repeat renames, owners and the like on the deltas. An error if the deltas alone would become
 * logged or unlogged.
 */
static void
distinctddl_altered(const DcDdl *ddl)
{
	ListCell *lc;

	siblings_follow(ddl, deltas_of, DISTINCT_DELTA_SUFFIX);
	if (!has_command(ddl->parsetree, AT_SetLogged) && !has_command(ddl->parsetree, AT_SetUnLogged))
		return;
	foreach(lc, ddl->relations)
	{
		DcDistinctRow row;

		if (distinct_row_read_delta(lfirst_oid(lc), &row) &&
			get_rel_persistence(row.delta) != get_rel_persistence(row.relid))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" cannot be made logged or unlogged by itself", get_rel_name(row.delta)),
					 errdetail("A crash would empty only one of it and the distinct table \"%s\".",
							   get_rel_name(row.relid)),
					 errhint("Use ALTER TABLE on \"%s\", and this one follows.", get_rel_name(row.relid))));
	}
}

/*
 * distinct_protect puts the triggers on a table and its deltas, which the current user owns.
 */
void
distinct_protect(const DcDistinctRow *row)
{
	protect_create_truncate(row->relid);
	protect_create_change(row->relid);
	protect_create_change(row->delta);
}

/*
 * distinct_truncated empties the deltas of a table that was truncated, if it is a distinct table. A
 * table of this transaction may be truncated without an invalidation.
 */
void
distinct_truncated(Oid relid)
{
	DcDistinctRow row;
	DcRunAs state;

	if (!distinct_row_read(relid, &row))
		return;
	runas_begin(&state, relation_owner(relid));
	relation_truncate(row.delta);
	runas_end(&state);
	CacheInvalidateRelcacheByRelid(relid);
}

/*
 * distinct_prevent_change raises 55000 if rows of a distinct table or of deltas are being deleted
 * or updated directly.
 */
void
distinct_prevent_change(Oid relid)
{
	DcDistinctRow row;

	if (distinct_row_read(relid, &row) || distinct_row_read_delta(relid, &row))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot delete or update rows of \"%s\"", get_rel_name(relid)),
				 errdetail("Sessions remember what distinct table \"%s\" has, and would not add those items again.",
						   get_rel_name(row.relid)),
				 errhint("Use dc_distinct_reset() to reset a key, or TRUNCATE \"%s\".", get_rel_name(row.relid))));
}

const DcDdlHook distinct_ddl = {distinctddl_dropped, distinctddl_altered, NULL};
