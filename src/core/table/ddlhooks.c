/*
 * ddlhooks.c
 *		Following DDL on the tables of a counter.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Event triggers keep the catalog up to date and the tables of a counter together, so that
 * users need only plain DDL:
 *
 *	- dcounter_drop, of sql_drop: dropping either table removes the settings, and dropping
 *	  the table of totals drops the shard table; not if Citus has done so by itself (conversion.c).
 *	- dcounter_ddl, of ddl_command_end: ALTER TABLE (or FOREIGN TABLE) ... RENAME TO, SET
 *	  SCHEMA and OWNER TO on the table of totals are repeated on the shard table; storage.c
 *	  does the same for how the tables are kept, and refuses some commands.
 *	- dcounter_begin, of ddl_command_start: loads the library before a command that only
 *	  hooks of it can follow, and lets rooms look at objects that will not exist afterwards.
 *
 * They call the functions that this and other rooms have registered. At a drop they call
 * the last one first, so that a room finds what the rooms before it know of its tables. At
 * the end of other commands they call the first one first. The objects of a command are
 * read once for all of them, and only if the command may matter.
 *
 * They run all statements in the name of the user whose command fired them, so they can do
 * nothing that the user could not do. If they are disabled, counter tables continue to work: a
 * settings row of a dropped table is ignored, and tables are known by OID, not by name.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "tcop/deparse_utility.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "base/version.h"
#include "core/table/catalog.h"
#include "core/table/codeddl.h"
#include "core/table/conversion.h"
#include "core/table/ddlhooks.h"
#include "core/table/olderddl.h"
#include "core/table/storage.h"
#include "core/table/table.h"

PG_FUNCTION_INFO_V1(on_drop);
PG_FUNCTION_INFO_V1(on_ddl);
PG_FUNCTION_INFO_V1(on_ddl_begin);

/* Columns of pg_event_trigger_dropped_objects(), and of the other one the first three. */
#define COL_CLASS 1
#define COL_OBJECT 2
#define COL_COLUMN 3
#define COL_ORIGINAL 4
#define COL_TEMPORARY 6
#define COL_TYPE 7
#define COL_SCHEMA 8
#define COL_NAME 9
#define COL_IDENTITY 10
#define COL_NAMES 11

/* Of pg_event_trigger_ddl_commands(). */
#define COL_COMMAND 9

static DcDdl ddl_begin(FunctionCallInfo fcinfo, const char *function);
static void ddl_ended(DcDdl *ddl);
static bool snapshot_push_if_none(void);
static void read_dropped(TupleTableSlot *slot, Oid class, void *arg);
static void read_altered(TupleTableSlot *slot, Oid class, void *arg);
static bool is_table(TupleTableSlot *slot);
static bool is_index(TupleTableSlot *slot);
static bool is_shard(TupleTableSlot *slot);
static void add_object(DcDdl *ddl, Oid class, TupleTableSlot *slot);
static void ddlhooks_add_column(DcDdl *ddl, TupleTableSlot *slot, bool dropped);
static void add_trigger(DcDdl *ddl, TupleTableSlot *slot);
static bool dropped_is_array(TupleTableSlot *slot);
static void add_row_type(DcDdl *ddl, TupleTableSlot *slot);
static void add_type(DcDdl *ddl, TupleTableSlot *slot);
static void add_partitions(DcDdl *ddl, TupleTableSlot *slot);
static Oid partition_by_name(const RangeVar *name, const DcDdlPartition *partition);
static char **names_of(TupleTableSlot *slot, int *n);
static void partitions_follow(const DcDdl *ddl, Oid relid);

#define MAX_HOOKS 16

static const DcDdlHook *hooks[MAX_HOOKS];
static int nhooks = 0;

/*
 * ddl_hook_add adds the functions of a room; called when the library is loaded.
 */
void
ddl_hook_add(const DcDdlHook *hook)
{
	Assert(nhooks < MAX_HOOKS);
	hooks[nhooks++] = hook;
}

/*
 * on_drop() -> event_trigger, sql_drop
 */
Datum
on_drop(PG_FUNCTION_ARGS)
{
	DcDdl ddl = ddl_begin(fcinfo, "on_drop()");

	if (older_passes(&ddl))
		PG_RETURN_NULL();
	ddl_each_object(F_PG_EVENT_TRIGGER_DROPPED_OBJECTS, read_dropped, &ddl);
	if (ddl.relations == NIL && ddl.columns == NIL && ddl.triggers == NIL && ddl.types == NIL && !ddl.has_index)
		PG_RETURN_NULL();
	for (int i = nhooks - 1; i >= 0; i--)
	{
		hooks[i]->dropped(&ddl);
		CommandCounterIncrement();
	}
	PG_RETURN_NULL();
}

/*
 * on_ddl() -> event_trigger, ddl_command_end
 */
Datum
on_ddl(PG_FUNCTION_ARGS)
{
	DcDdl ddl = ddl_begin(fcinfo, "on_ddl()");
	bool pushed = snapshot_push_if_none();

	if (!older_passes(&ddl))
		ddl_ended(&ddl);
	if (pushed)
		PopActiveSnapshot();
	PG_RETURN_NULL();
}

/*
 * Read the objects of a command that has run, and call the functions of all rooms, in the order
 * of registration.
 */
static void
ddl_ended(DcDdl *ddl)
{
	if (ddl_alters(ddl) || makes_relatives(ddl->parsetree))
		ddl_each_object(F_PG_EVENT_TRIGGER_DDL_COMMANDS, read_altered, ddl);
	conversion_prevent(ddl);
	for (int i = 0; i < nhooks; i++)
	{
		hooks[i]->altered(ddl);
		CommandCounterIncrement();
	}
}

/*
 * on_ddl_begin() -> event_trigger, ddl_command_start
 */
Datum
on_ddl_begin(PG_FUNCTION_ARGS)
{
	DcDdl ddl = ddl_begin(fcinfo, "on_ddl_begin()");

	if (version_is_older())
		PG_RETURN_NULL();
	for (int i = 0; i < nhooks; i++)
	{
		if (hooks[i]->begins != NULL)
			hooks[i]->begins(&ddl);
	}
	PG_RETURN_NULL();
}

/*
 * snapshot_push_if_none makes a snapshot active if there is none: a command that commits on its
 * way, such as DETACH PARTITION ... CONCURRENTLY, has left its own behind. Rows of catalogs may
 * have TOAST. Returns true if the caller is to pop it.
 */
static bool
snapshot_push_if_none(void)
{
	if (ActiveSnapshotSet())
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());
	return true;
}

/*
 * Return the command of an event trigger, whose objects are not read yet. Raises 39P03 for
 * another kind of call.
 */
static DcDdl
ddl_begin(FunctionCallInfo fcinfo, const char *function)
{
	EventTriggerData *data = (EventTriggerData *) fcinfo->context;
	DcDdl ddl = {0};

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as an event trigger", function)));
	ddl.tag = data->tag;
	ddl.parsetree = data->parsetree;
	return ddl;
}

/*
 * Return true if a command may alter a table as a whole, or a column of it.
 */
bool
ddl_alters(const DcDdl *ddl)
{
	return IsA(ddl->parsetree, RenameStmt) ||
		IsA(ddl->parsetree, AlterObjectSchemaStmt) ||
		IsA(ddl->parsetree, AlterTableStmt);
}

/*
 * ddl_each_object calls one of the two functions of the server that list the objects of a command,
 * and a function for each of them. It does so without SQL, as most commands are about objects that
 * are not ours.
 */
void
ddl_each_object(Oid function, void (*each)(TupleTableSlot *slot, Oid class, void *arg), void *arg)
{
	LOCAL_FCINFO(call, 0);
	ReturnSetInfo result = {.type = T_ReturnSetInfo, .allowedModes = SFRM_Materialize};
	FmgrInfo finfo;
	TupleTableSlot *slot;

	result.econtext = CreateStandaloneExprContext();
	fmgr_info(function, &finfo);
	InitFunctionCallInfoData(*call, &finfo, 0, InvalidOid, NULL, (Node *) &result);
	(void) FunctionCallInvoke(call);
	slot = MakeSingleTupleTableSlot(result.setDesc, &TTSOpsMinimalTuple);
	while (tuplestore_gettupleslot(result.setResult, true, false, slot))
	{
		bool isnull; /* GRANT is about several objects */
		Datum class = slot_nullable(slot, COL_CLASS, OIDOID, &isnull);

		CHECK_FOR_INTERRUPTS();
		if (!isnull)
			each(slot, DatumGetObjectId(class), arg);
	}
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(result.setResult);
	FreeExprContext(result.econtext, true);
}

/*
 * ddl_object returns the OID of an object that ddl_each_object() has found.
 */
Oid
ddl_object(TupleTableSlot *slot)
{
	return DatumGetObjectId(slot_datum(slot, COL_OBJECT, OIDOID));
}

/*
 * Note an object that a command has dropped; *arg is its DcDdl.
 */
static void
read_dropped(TupleTableSlot *slot, Oid class, void *arg)
{
	DcDdl *ddl = arg;

	if (class != RelationRelationId)
	{
		add_object(ddl, class, slot);
		return;
	}
	if (DatumGetInt32(slot_datum(slot, COL_COLUMN, INT4OID)) != 0)
	{
		ddlhooks_add_column(ddl, slot, true);
		return;
	}
	add_row_type(ddl, slot);
	if (is_table(slot))
	{
		ddl->relations = lappend_oid(ddl->relations, ddl_object(slot));
		ddl->has_shard |= is_shard(slot);
	}
	else
		ddl->has_index |= is_index(slot);
}

/*
 * Note a relation that a command has created or altered; *arg is its DcDdl.
 */
static void
read_altered(TupleTableSlot *slot, Oid class, void *arg)
{
	DcDdl *ddl = arg;

	if (class != RelationRelationId)
		return;
	if (DatumGetInt32(slot_datum(slot, COL_COLUMN, INT4OID)) != 0)
		ddlhooks_add_column(ddl, slot, false);
	else
		ddl->relations = lappend_oid(ddl->relations, ddl_object(slot));
	add_partitions(ddl, slot);
}

/*
 * Return true if an object that was dropped may have been a table of ours, a sequence or a view.
 * Ours are not temporary.
 */
static bool
is_table(TupleTableSlot *slot)
{
	char *type;

	if (DatumGetBool(slot_datum(slot, COL_TEMPORARY, BOOLOID)))
		return false;
	type = TextDatumGetCString(slot_datum(slot, COL_TYPE, TEXTOID));
	return strcmp(type, "table") == 0 || strcmp(type, "foreign table") == 0 ||
		strcmp(type, "sequence") == 0 || strcmp(type, "view") == 0;
}

/*
 * Return true if an object that was dropped is an index, and not a temporary one.
 */
static bool
is_index(TupleTableSlot *slot)
{
	return !DatumGetBool(slot_datum(slot, COL_TEMPORARY, BOOLOID)) &&
		strcmp(TextDatumGetCString(slot_datum(slot, COL_TYPE, TEXTOID)), "index") == 0;
}

/*
 * Return true if a table that was dropped may have been a shard of Citus.
 */
static bool
is_shard(TupleTableSlot *slot)
{
	int n;
	char **names = names_of(slot, &n); /* schema, table */

	return name_is_of_shard(names[n - 1]);
}

/*
 * add_object notes an object that was dropped, and is not a table.
 */
static void
add_object(DcDdl *ddl, Oid class, TupleTableSlot *slot)
{
	if (DatumGetBool(slot_datum(slot, COL_TEMPORARY, BOOLOID)))
		return;
	if (class == TriggerRelationId)
		add_trigger(ddl, slot);
	else if (class == TypeRelationId || class == CollationRelationId)
		add_type(ddl, slot);
}

/*
 * Note a column that was dropped, or altered.
 */
static void
ddlhooks_add_column(DcDdl *ddl, TupleTableSlot *slot, bool dropped)
{
	DcDdlColumn *column = palloc0(sizeof(DcDdlColumn));

	column->relid = DatumGetObjectId(slot_datum(slot, COL_OBJECT, OIDOID));
	if (dropped)
	{
		int n;
		char **names = names_of(slot, &n); /* schema, table, column */

		column->name = names[n - 1];
		column->original = DatumGetBool(slot_datum(slot, COL_ORIGINAL, BOOLOID));
	}
	ddl->columns = lappend(ddl->columns, column);
}

/*
 * Note a trigger that was dropped.
 */
static void
add_trigger(DcDdl *ddl, TupleTableSlot *slot)
{
	int n;
	char **names = names_of(slot, &n); /* schema, table, trigger */
	DcDdlTrigger *trigger = palloc(sizeof(DcDdlTrigger));

	if (n != 3)
		return;
	trigger->schema = names[0];
	trigger->table = names[1];
	trigger->name = names[2];
	trigger->original = DatumGetBool(slot_datum(slot, COL_ORIGINAL, BOOLOID));
	ddl->triggers = lappend(ddl->triggers, trigger);
}

/*
 * Return true if an object that was dropped is an array type. It has no name of its own: what
 * contains it names its elements.
 */
static bool
dropped_is_array(TupleTableSlot *slot)
{
	char *identity = TextDatumGetCString(slot_datum(slot, COL_IDENTITY, TEXTOID));
	size_t len = strlen(identity);

	return len > 2 && strcmp(identity + len - 2, "[]") == 0;
}

/*
 * Note the name of a relation that was dropped, if its row type has that name as well. Types of
 * temporary ones are not noted.
 */
static void
add_row_type(DcDdl *ddl, TupleTableSlot *slot)
{
	static const char *const kinds[] = {"table", "foreign table", "view", "materialized view", "composite type"};
	char *kind = TextDatumGetCString(slot_datum(slot, COL_TYPE, TEXTOID));

	for (int i = 0; i < lengthof(kinds); i++)
	{
		DcDdlName *row;

		if (strcmp(kind, kinds[i]) != 0 || DatumGetBool(slot_datum(slot, COL_TEMPORARY, BOOLOID)))
			continue;
		row = palloc(sizeof(DcDdlName));
		row->schema = TextDatumGetCString(slot_datum(slot, COL_SCHEMA, TEXTOID));
		row->name = TextDatumGetCString(slot_datum(slot, COL_NAME, TEXTOID));
		ddl->row_types = lappend(ddl->row_types, row);
	}
}

/*
 * Note a type or a collation that was dropped.
 */
static void
add_type(DcDdl *ddl, TupleTableSlot *slot)
{
	bool isnull;
	Datum schema = slot_nullable(slot, COL_SCHEMA, TEXTOID, &isnull);
	DcDdlName *type;
	Datum name;
	int n;

	if (isnull || dropped_is_array(slot))
		return;
	type = palloc(sizeof(DcDdlName));
	type->schema = TextDatumGetCString(schema);
	name = slot_nullable(slot, COL_NAME, TEXTOID, &isnull);
	if (!isnull)
		type->name = TextDatumGetCString(name);
	else
	{
		char **names = names_of(slot, &n); /* schema, collation: for the server its name is not unique */

		type->name = names[n - 1];
	}
	ddl->types = lappend(ddl->types, type);
}

/*
 * names_of returns the names of an object that was dropped.
 */
static char **
names_of(TupleTableSlot *slot, int *n)
{
	Datum array = slot_datum(slot, COL_NAMES, TEXTARRAYOID);
	Datum *elements;
	char **names;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, NULL, n);
	names = palloc(*n * sizeof(char *));
	for (int i = 0; i < *n; i++)
		names[i] = TextDatumGetCString(elements[i]);
	return names;
}

/*
 * add_partitions notes which partitions an ALTER TABLE has attached or detached.
 */
static void
add_partitions(DcDdl *ddl, TupleTableSlot *slot)
{
	CollectedCommand *command = (CollectedCommand *) DatumGetPointer(slot_datum(slot, COL_COMMAND, PG_DDL_COMMANDOID));
	ListCell *lc;

	if (command->type != SCT_AlterTable ||
		get_rel_relkind(command->d.alterTable.objectId) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, command->d.alterTable.subcmds)
	{
		CollectedATSubcmd *sub = lfirst(lc);
		AlterTableCmd *cmd = IsA(sub->parsetree, AlterTableCmd) ? (AlterTableCmd *) sub->parsetree : NULL;
		DcDdlPartition *partition;

		if (cmd == NULL || (cmd->subtype != AT_AttachPartition && cmd->subtype != AT_DetachPartition && cmd->subtype != AT_DetachPartitionFinalize))
			continue;
		partition = palloc(sizeof(DcDdlPartition));
		partition->parent = command->d.alterTable.objectId;
		partition->attached = cmd->subtype == AT_AttachPartition;
		partition->relid = sub->address.objectId;
		if (!OidIsValid(partition->relid)) /* as before PostgreSQL 16 */
			partition->relid = partition_by_name(castNode(PartitionCmd, cmd->def)->name, partition);
		ddl->partitions = lappend(ddl->partitions, partition);
	}
}

/*
 * partition_by_name finds the table that was attached or detached. The command has locked it,
 * so it has its name still, but other sessions may have put another table before it in the
 * search_path, or renamed schemas: then the error is 55000.
 */
static Oid
partition_by_name(const RangeVar *name, const DcDdlPartition *partition)
{
	Oid relid = RangeVarGetRelid(name, NoLock, true);

	run_ddl_done(OidIsValid(relid) && compat_has_locked(relid, AccessExclusiveLock) &&
					 get_rel_relispartition(relid) == partition->attached &&
					 (!partition->attached || relation_partition_parent(relid) == partition->parent),
				 name->relname);
	return relid;
}

/*
 * Follow drops: forget the settings of counter tables, and drop their other tables.
 */
static void
tables_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcCounterRow row;

		if (catalog_read(relid, &row))
		{
			counter_forget(relid);
			sibling_drop(row.shards, ddl);
			sibling_drop(row.holds, ddl);
			if (distribution_is_converting())
				ereport(NOTICE,
						(errmsg("a table that Citus re-creates is not a counter table yet"),
						 errhint("Call dc_adopt() once both of its tables are as you want them.")));
		}
		else if (catalog_read_by_shards(relid, &row) ||
				 catalog_read_by_holds(relid, &row))
		{
			counter_forget(row.counter);
			if (ddl_keeps(ddl, row.counter))
				ereport(NOTICE,
						(errmsg("table \"%s\" is no longer a counter table",
								get_rel_name(row.counter))));
		}
	}
}

/*
 * Return true if a table is there, and not among those that a command has dropped.
 */
bool
ddl_keeps(const DcDdl *ddl, Oid relid)
{
	return OidIsValid(relid) && !list_member_oid(ddl->relations, relid) && get_rel_name(relid) != NULL;
}

/*
 * sibling_drop drops another table of a counter, unless that is being done. If Citus is
 * creating the table to which it belongs again, or is dropping a shard of its own, it stays:
 * its rows were not meant to go.
 */
void
sibling_drop(Oid relid, const DcDdl *ddl)
{
	if (!ddl_keeps(ddl, relid))
		return;
	if (distribution_is_converting() || ddl->has_shard)
	{
		ereport(NOTICE,
				(errmsg("table %s is kept, although Citus dropped the table that it belongs to", relation_sql_name(relid)),
				 errhint("Register both again once they are as you want them, or drop it.")));
		return;
	}
	table_drop(relid, ddl_cascades(ddl));
}

/*
 * Repeat changes of a table of totals on the other tables of its counter and on its partitions,
 * or refuse them.
 */
static void
tables_altered(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcCounterRow row;

		if (IsA(ddl->parsetree, CreateStmt) || IsA(ddl->parsetree, CreateForeignTableStmt))
			storage_created((CreateStmt *) ddl->parsetree, relid);
		else if (IsA(ddl->parsetree, AlterTableStmt))
			storage_altered((AlterTableStmt *) ddl->parsetree, relid);
		if (!ddl_alters(ddl))
			continue;
		if (!catalog_read(relid, &row))
		{
			if (catalog_read_by_shards(relid, &row))
				partitions_follow(ddl, relid);
			continue;
		}
		partitions_follow(ddl, relid);
		sibling_follow(ddl, relid, row.shards, DC_SHARD_SUFFIX);
		sibling_follow(ddl, relid, row.holds, DC_HOLD_SUFFIX);
	}
	code_changed(ddl);
}

/*
 * renames_table returns true if a command gives a table, or a view, another name. The server takes
 * ALTER INDEX for tables, too.
 */
static bool
renames_table(Node *parsetree)
{
	ObjectType type;

	if (!IsA(parsetree, RenameStmt))
		return false;
	type = ((RenameStmt *) parsetree)->renameType;
	return type == OBJECT_TABLE || type == OBJECT_FOREIGN_TABLE || type == OBJECT_INDEX || type == OBJECT_VIEW;
}

/*
 * partitions_follow repeats a command on a partitioned table for the partitions that are named
 * after it, as those are that dc_create() makes. Otherwise a new table of the old name could not
 * have them.
 */
static void
partitions_follow(const DcDdl *ddl, Oid relid)
{
	const char *old = get_rel_name(relid);
	size_t len;
	List *partitions;
	ListCell *lc;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE ||
		(IsA(ddl->parsetree, AlterTableStmt) && !has_command(ddl->parsetree, AT_ChangeOwner)))
		return;
	if (renames_table(ddl->parsetree))
		old = ((RenameStmt *) ddl->parsetree)->relation->relname;
	len = strlen(old);
	partitions = relation_members(relid, NoLock);
	foreach(lc, partitions)
	{
		const char *name = get_rel_name(lfirst_oid(lc));
		size_t digits;

		CHECK_FOR_INTERRUPTS();
		if (name == NULL || strncmp(name, old, len) != 0 || strncmp(name + len, "_p", 2) != 0)
			continue;
		digits = strspn(name + len + 2, "0123456789");
		if (digits > 0 && name[len + 2 + digits] == '\0')
			sibling_follow(ddl, relid, lfirst_oid(lc), pstrdup(name + len));
	}
}

/*
 * sibling_follow repeats a command on the table of totals for another table of the counter.
 */
void
sibling_follow(const DcDdl *ddl, Oid relid, Oid sibling, const char *suffix)
{
	Node *parsetree = ddl->parsetree;
	char *old;

	if (!OidIsValid(sibling) || get_rel_name(sibling) == NULL)
		return;
	if (has_command(parsetree, AT_SetLogged) || has_command(parsetree, AT_SetUnLogged))
		persistence_follow(relid, sibling);
	old = relation_sql_name(sibling);
	if (renames_table(parsetree))
	{
		char *name = sibling_name(get_rel_name(relid), suffix);

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
			 has_command(parsetree, AT_ChangeOwner))
	{
		run_ddl(psprintf("ALTER TABLE %s OWNER TO %s", old,
						 quote_identifier(GetUserNameFromId(relation_owner(relid), false))));
		run_ddl_done(relation_owner(sibling) == relation_owner(relid), old);
	}
}

/*
 * siblings_follow does the same for all tables of a command, each of which may have one other
 * table.
 */
void
siblings_follow(const DcDdl *ddl, Oid (*sibling_of)(Oid relid), const char *suffix)
{
	ListCell *lc;

	if (!ddl_alters(ddl))
		return;
	foreach(lc, ddl->relations)
		sibling_follow(ddl, lfirst_oid(lc), sibling_of(lfirst_oid(lc)), suffix);
}

/*
 * Return true if a command drops with CASCADE.
 */
bool
ddl_cascades(const DcDdl *ddl)
{
	Node *parsetree = ddl->parsetree;

	if (IsA(parsetree, DropStmt))
		return ((DropStmt *) parsetree)->behavior == DROP_CASCADE;
	if (IsA(parsetree, DropOwnedStmt))
		return ((DropOwnedStmt *) parsetree)->behavior == DROP_CASCADE;
	if (IsA(parsetree, AlterTableStmt))
	{
		ListCell *lc;

		foreach(lc, ((AlterTableStmt *) parsetree)->cmds)
		{
			if (lfirst_node(AlterTableCmd, lc)->behavior == DROP_CASCADE)
				return true;
		}
	}
	return false;
}

const DcDdlHook table_ddl = {tables_dropped, tables_altered, NULL};
