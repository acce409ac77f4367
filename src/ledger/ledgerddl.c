/*
 * ledgerddl.c
 *		What DDL on tables of ops and of ledgers entails.
 *
 * Two event triggers do for these tables what those of the counter room do for a
 * shard table (counter/ops.c), with the same rules about rights:
 *
 *	- sql_drop: dropping a counter table drops its table of ops, and dropping the
 *	  balances of a ledger drops all of its tables. Dropping the table of ops by
 *	  itself forgets the ops, of which there is a notice. Other tables of a
 *	  ledger, the ops of one, or a single partition cannot be dropped by
 *	  themselves: what is left could no longer be trusted.
 *	- ddl_command_end: ALTER TABLE ... RENAME TO, SET SCHEMA and OWNER TO are repeated
 *	  on these tables and their partitions.
 */
#include "postgres.h"

#include "base/runas.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/event_trigger.h"
#include "fmgr.h"
#include "ledger/ledger.h"
#include "nodes/parsenodes.h"
#include "once/opslot.h"
#include "table/sibling.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(on_ledger_drop);
PG_FUNCTION_INFO_V1(on_ledger_alter);

#define MAX_SIBLINGS 8

typedef struct DcSibling
{
	Oid relid;
	const char *suffix;
} DcSibling;

static EventTriggerData *op_data(FunctionCallInfo fcinfo, const char *function);
static int ledger_siblings(const DcLedgerRow *row, DcSibling *siblings);
static void drop_all(Oid relid, List *dropped, Node *parsetree);
static void check_member(Oid relid, List *dropped, List *ledgers);
static void check_ops(Oid relid, List *dropped);
static void refuse(Oid needed_by);
static void follow_all(Node *parsetree, Oid relid, const DcSibling *sibling);

/*
 * on_ledger_drop() -> event_trigger, sql_drop
 */
Datum
on_ledger_drop(PG_FUNCTION_ARGS)
{
	EventTriggerData *data = op_data(fcinfo, "on_ledger_drop()");
	List *dropped = ddl_relations("SELECT objid"
								  " FROM pg_event_trigger_dropped_objects()"
								  " WHERE classid = 'pg_class'::regclass"
								  " AND objsubid = 0 AND object_type ~ 'table|sequence'");
	List *ledgers;
	ListCell *lc;

	if (dropped == NIL)
		PG_RETURN_NULL();
	foreach(lc, dropped)
		drop_all(lfirst_oid(lc), dropped, data->parsetree);
	ledgers = ledger_read_all();
	foreach(lc, dropped)
	{
		check_member(lfirst_oid(lc), dropped, ledgers);
		check_ops(lfirst_oid(lc), dropped);
	}
	PG_RETURN_NULL();
}

/*
 * drop_all drops what belongs to a table that was dropped.
 */
static void
drop_all(Oid relid, List *dropped, Node *parsetree)
{
	DcOpSlot slots[DC_OP_SLOTS];
	DcLedgerRow row;

	if (opslots_read_first(relid, &slots[0]))
	{
		opslots_delete(relid); /* so that the next call has nothing to do */
		sibling_drop(slots[0].ops, dropped, parsetree);
	}
	if (ledger_read(relid, &row))
	{
		DcSibling siblings[MAX_SIBLINGS];
		int n = ledger_siblings(&row, siblings);

		ledger_delete(relid);
		for (int i = 0; i < n; i++)
		{
			/* a sequence goes with its table */
			if (get_rel_relkind(siblings[i].relid) != RELKIND_SEQUENCE)
				sibling_drop(siblings[i].relid, dropped, parsetree);
		}
	}
}

/*
 * ledger_siblings lists the tables of a ledger that are there, and how they are named after
 * its table of balances. Its ops are not among them.
 */
static int
ledger_siblings(const DcLedgerRow *row, DcSibling *siblings)
{
	const DcSibling all[] = {
		{row->limits, DC_LIMIT_SUFFIX},
		{row->entries, DC_ENTRY_SUFFIX},
		{row->entry_ids, DC_ENTRY_ID_SUFFIX},
		{row->accounts, DC_ACCOUNT_SUFFIX},
		{row->pendings, DC_PENDING_SUFFIX},
		{row->openings, DC_OPENING_SUFFIX},
	};
	int n = 0;

	for (int i = 0; i < lengthof(all); i++)
	{
		if (OidIsValid(all[i].relid))
			siblings[n++] = all[i];
	}
	return n;
}

/*
 * check_member raises an error if a table was dropped that a ledger needs.
 */
static void
check_member(Oid relid, List *dropped, List *ledgers)
{
	ListCell *lc;

	foreach(lc, ledgers)
	{
		const DcLedgerRow *row = lfirst(lc);
		DcSibling siblings[MAX_SIBLINGS];
		int n;

		if (list_member_oid(dropped, row->ledger) || get_rel_name(row->ledger) == NULL)
			continue;
		n = ledger_siblings(row, siblings);
		for (int i = 0; i < n; i++)
		{
			if (siblings[i].relid == relid)
				refuse(row->ledger);
		}
	}
}

/*
 * check_ops forgets the ops whose table was dropped, or raises an error.
 */
static void
check_ops(Oid relid, List *dropped)
{
	DcCounterRow row;
	Oid counter;
	Oid ops;

	if (!opslots_find_table(relid, &counter, &ops) ||
		list_member_oid(dropped, counter) || get_rel_name(counter) == NULL)
		return;
	if (relid != ops)
	{
		if (!list_member_oid(dropped, ops))
			refuse(ops);
		return;
	}
	if (catalog_read(counter, &row) && row.ledger == counter)
		refuse(counter);
	opslots_delete(counter);
	ereport(NOTICE,
			(errmsg("the ops of counter table \"%s\" are forgotten",
					get_rel_name(counter)),
			 errdetail("The next dc_incr_once() makes new tables of ops. "
					   "What was applied before could be applied again.")));
}

static void
refuse(Oid needed_by)
{
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot drop a table that \"%s\" needs", get_rel_name(needed_by)),
			 errhint("Drop \"%s\", and all of its tables are dropped.",
					 get_rel_name(needed_by))));
}

/*
 * on_ledger_alter() -> event_trigger, ddl_command_end of ALTER TABLE
 */
Datum
on_ledger_alter(PG_FUNCTION_ARGS)
{
	EventTriggerData *data = op_data(fcinfo, "on_ledger_alter()");
	List *altered;
	ListCell *lc;

	if (!IsA(data->parsetree, RenameStmt) &&
		!IsA(data->parsetree, AlterObjectSchemaStmt) &&
		!IsA(data->parsetree, AlterTableStmt))
		PG_RETURN_NULL();
	altered = ddl_relations("SELECT objid"
							" FROM pg_event_trigger_ddl_commands()"
							" WHERE classid = 'pg_class'::regclass"
							" AND objsubid = 0");
	foreach(lc, altered)
	{
		Oid relid = lfirst_oid(lc);
		DcSibling siblings[MAX_SIBLINGS];
		DcOpSlot slot;
		DcLedgerRow row;
		int n = 0;

		if (ledger_read(relid, &row))
			n = ledger_siblings(&row, siblings);
		if (opslots_read_first(relid, &slot))
		{
			siblings[n].relid = slot.ops;
			siblings[n++].suffix = DC_OP_SUFFIX;
		}
		for (int i = 0; i < n; i++)
			follow_all(data->parsetree, relid, &siblings[i]);
	}
	PG_RETURN_NULL();
}

/*
 * follow_all does to another table and its partitions what was done to a table. A
 * partition keeps what its name has in addition to that of its table.
 */
static void
follow_all(Node *parsetree, Oid relid, const DcSibling *sibling)
{
	char *name = get_rel_name(sibling->relid);
	char kind = get_rel_relkind(sibling->relid);
	List *children = NIL;
	ListCell *lc;

	if (name == NULL)
		return;
	if (kind == RELKIND_PARTITIONED_TABLE)
		children = find_inheritance_children(sibling->relid, NoLock);
	/* a sequence follows its table by itself, but for the name */
	if (kind != RELKIND_SEQUENCE || IsA(parsetree, RenameStmt))
		sibling_follow(parsetree, relid, sibling->relid, sibling->suffix);
	foreach(lc, children)
	{
		char *child = get_rel_name(lfirst_oid(lc));

		if (child == NULL)
			continue;
		if (strncmp(child, name, strlen(name)) == 0)
			sibling_follow(parsetree, relid, lfirst_oid(lc),
						   psprintf("%s%s", sibling->suffix, child + strlen(name)));
		else if (!IsA(parsetree, RenameStmt))
			sibling_follow(parsetree, relid, lfirst_oid(lc), "");
	}
}

static EventTriggerData *
op_data(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as an event trigger", function)));
	return (EventTriggerData *) fcinfo->context;
}
