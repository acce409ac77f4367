/*
 * ddlhooks.c
 *		What DDL on a counter table entails.
 *
 * Two event triggers keep the catalog true and the two tables together, so that
 * plain DDL is all that a user needs:
 *
 *	- sql_drop: dropping either table removes the settings, and dropping the
 *	  table of totals drops the shard table.
 *	- ddl_command_end: ALTER TABLE (or FOREIGN TABLE) ... RENAME TO, SET SCHEMA and OWNER TO on the
 *	  table of totals are repeated on the shard table; storage.c does the same for how
 *	  the tables are kept, and says what is refused.
 *
 * What they run, they run in the name of the user whose command fired them, so
 * they can do nothing that the user could not do. If they are disabled, counter
 * tables go on working: a settings row of a dropped table is ignored, and tables
 * are known by OID, not by name.
 */
#include "postgres.h"

#include "base/hooks.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "table/catalog.h"
#include "table/sibling.h"
#include "table/storage.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(on_sql_drop);
PG_FUNCTION_INFO_V1(on_alter_table);

static bool creates_relative(Node *parsetree);
static bool changes_owner(Node *parsetree);
static bool cascades(Node *parsetree);

/*
 * on_sql_drop() -> event_trigger
 */
Datum
on_sql_drop(PG_FUNCTION_ARGS)
{
	EventTriggerData *data;
	List *dropped;
	ListCell *lc;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as an event trigger", "on_sql_drop()")));

	data = (EventTriggerData *) fcinfo->context;
	dropped = ddl_relations("SELECT objid"
							" FROM pg_event_trigger_dropped_objects()"
							" WHERE classid = 'pg_class'::regclass"
							" AND objsubid = 0");
	foreach(lc, dropped)
	{
		Oid relid = lfirst_oid(lc);
		DcCounterRow row;

		if (catalog_read(relid, &row))
		{
			counter_forget(relid);
			sibling_drop(row.shards, dropped, data->parsetree);
			sibling_drop(row.holds, dropped, data->parsetree);
		}
		else if (catalog_read_by_shards(relid, &row) ||
				 catalog_read_by_holds(relid, &row))
		{
			counter_forget(row.counter);
			if (!list_member_oid(dropped, row.counter) &&
				get_rel_name(row.counter) != NULL)
				ereport(NOTICE,
						(errmsg("table \"%s\" is no longer a counter table",
								get_rel_name(row.counter))));
		}
	}
	PG_RETURN_NULL();
}

/*
 * sibling_drop drops another table of a counter, unless that is being done.
 */
void
sibling_drop(Oid relid, List *dropped, Node *parsetree)
{
	char *name;

	if (!OidIsValid(relid) || list_member_oid(dropped, relid) ||
		get_rel_name(relid) == NULL)
		return;
	name = relation_sql_name(relid);
	run_ddl(psprintf("DROP %s %s%s", relation_sql_kind(relid), name,
					 cascades(parsetree) ? " CASCADE" : ""));
	run_ddl_done(get_rel_name(relid) == NULL, name);
}

/*
 * on_alter_table() -> event_trigger
 */
Datum
on_alter_table(PG_FUNCTION_ARGS)
{
	EventTriggerData *data;
	List *altered;
	ListCell *lc;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as an event trigger", "on_alter_table()")));
	data = (EventTriggerData *) fcinfo->context;
	if (!IsA(data->parsetree, RenameStmt) &&
		!IsA(data->parsetree, AlterObjectSchemaStmt) &&
		!IsA(data->parsetree, AlterTableStmt) &&
		!creates_relative(data->parsetree))
		PG_RETURN_NULL();

	altered = ddl_relations("SELECT objid"
							" FROM pg_event_trigger_ddl_commands()"
							" WHERE classid = 'pg_class'::regclass"
							" AND objsubid = 0");
	foreach(lc, altered)
	{
		Oid relid = lfirst_oid(lc);
		DcCounterRow row;

		if (creates_relative(data->parsetree))
			storage_created((CreateStmt *) data->parsetree, relid);
		else if (IsA(data->parsetree, AlterTableStmt))
			storage_altered((AlterTableStmt *) data->parsetree, relid);
		if (!catalog_read(relid, &row))
			continue;
		sibling_follow(data->parsetree, relid, row.shards, DC_SHARD_SUFFIX);
		sibling_follow(data->parsetree, relid, row.holds, DC_HOLD_SUFFIX);
	}
	PG_RETURN_NULL();
}

/*
 * creates_relative tells whether a statement creates a table that has parents, on this
 * server or another.
 */
static bool
creates_relative(Node *parsetree)
{
	return (IsA(parsetree, CreateStmt) || IsA(parsetree, CreateForeignTableStmt)) &&
		((CreateStmt *) parsetree)->inhRelations != NIL;
}

/*
 * sibling_follow does to another table of a counter what was done to the table of totals.
 */
void
sibling_follow(Node *parsetree, Oid relid, Oid sibling, const char *suffix)
{
	char *old;

	if (!OidIsValid(sibling) || get_rel_name(sibling) == NULL)
		return;
	old = relation_sql_name(sibling);
	if (IsA(parsetree, RenameStmt) &&
		(((RenameStmt *) parsetree)->renameType == OBJECT_TABLE ||
		 ((RenameStmt *) parsetree)->renameType == OBJECT_FOREIGN_TABLE))
	{
		char *name = psprintf("%s%s", get_rel_name(relid), suffix);

		if (strlen(name) >= NAMEDATALEN)
			ereport(ERROR,
					(errcode(ERRCODE_NAME_TOO_LONG),
					 errmsg("counter name \"%s\" is too long",
							get_rel_name(relid)),
					 errdetail("The name \"%s\" would have %d bytes; the limit is %d.",
							   name, (int) strlen(name), NAMEDATALEN - 1)));
		if (strcmp(name, get_rel_name(sibling)) != 0)
			run_ddl(psprintf("ALTER TABLE %s RENAME TO %s", old,
							 quote_identifier(name)));
		run_ddl_done(strcmp(get_rel_name(sibling), name) == 0, old);
	}
	else if (get_rel_namespace(relid) != get_rel_namespace(sibling) &&
			 IsA(parsetree, AlterObjectSchemaStmt))
	{
		run_ddl(psprintf("ALTER TABLE %s SET SCHEMA %s", old,
						 quote_identifier(get_namespace_name(get_rel_namespace(relid)))));
		run_ddl_done(get_rel_namespace(sibling) == get_rel_namespace(relid), old);
	}
	else if (relation_owner(relid) != relation_owner(sibling) &&
			 changes_owner(parsetree))
	{
		run_ddl(psprintf("ALTER TABLE %s OWNER TO %s", old,
						 quote_identifier(GetUserNameFromId(relation_owner(relid), false))));
		run_ddl_done(relation_owner(sibling) == relation_owner(relid), old);
	}
}

/*
 * ddl_relations returns the OIDs that a query about the event yields.
 */
List *
ddl_relations(const char *query)
{
	MemoryContext caller = CurrentMemoryContext;
	static const DcResultColumn columns[ROWS_MAX_COLUMNS] = {DC_COLUMN("objid", OIDOID)};
	List *relids = NIL;
	MemoryContext old;
	DcRows rows;
	int level = search_path_pin();

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(query, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	old = MemoryContextSwitchTo(caller);
	rows_take(&rows, columns, InvalidOid);
	for (uint64 i = 0; i < rows.count; i++)
		relids = lappend_oid(relids, DatumGetObjectId(rows_datum(&rows, i, 1)));
	MemoryContextSwitchTo(old);
	SPI_finish();
	AtEOXact_GUC(false, level);
	return relids;
}

/*
 * changes_owner tells whether a command is ALTER TABLE ... OWNER TO.
 */
static bool
changes_owner(Node *parsetree)
{
	ListCell *lc;

	if (!IsA(parsetree, AlterTableStmt))
		return false;
	foreach(lc, ((AlterTableStmt *) parsetree)->cmds)
	{
		if (((AlterTableCmd *) lfirst(lc))->subtype == AT_ChangeOwner)
			return true;
	}
	return false;
}

/*
 * cascades tells whether a command drops with CASCADE.
 */
static bool
cascades(Node *parsetree)
{
	if (IsA(parsetree, DropStmt))
		return ((DropStmt *) parsetree)->behavior == DROP_CASCADE;
	if (IsA(parsetree, DropOwnedStmt))
		return ((DropOwnedStmt *) parsetree)->behavior == DROP_CASCADE;
	return false;
}
