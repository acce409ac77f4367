/*
 * ledgerddl.c
 *		What follows from DDL on tables of ops and of ledgers.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * These tables are treated as a shard table is (core/table/ddlhooks.c), with the same
 * rules about rights:
 *
 *	- At a drop: dropping a counter table drops its table of ops, and dropping the balances of a
 *	  ledger drops all of its tables. Dropping the table of ops by itself forgets the ops, with a
 *	  notice. Other tables of a ledger, its shard rows and ops included, or a single partition
 *	  cannot be dropped by themselves: the rest could no longer be trusted.
 *	- At the end of other commands: ALTER TABLE ... RENAME TO, SET SCHEMA and OWNER TO are
 *	  repeated on these tables and their partitions.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"

#include "base/relopen.h"
#include "core/table/ddlhooks.h"
#include "transactional/ledger/ledgerinit.h"
#include "transactional/once/opslot.h"

/* The tables of a ledger besides its balances, and its ops. */
#define SIBLINGS 7

typedef struct DcSibling
{
	Oid relid;
	const char *suffix;
} DcSibling;

static void ledger_siblings(const DcLedgerRow *row, DcSibling *siblings);
static void drop_all(Oid relid, const DcDdl *ddl);
static void check_member(Oid relid, const DcDdl *ddl, List *ledgers);
static void check_shards(Oid relid, const DcDdl *ddl);
static void check_ops(Oid relid, const DcDdl *ddl);
static void ledgerddl_refuse(Oid needed_by);
static void follow_all(const DcDdl *ddl, Oid relid, const DcSibling *sibling);

/*
 * Drop the tables that belong to dropped ones; raise an error if a table was dropped that
 * another one needs.
 */
static void
ledger_dropped(const DcDdl *ddl)
{
	List *ledgers;
	ListCell *lc;

	if (ddl->relations == NIL) /* then there is no need to read all ledgers */
		return;
	foreach(lc, ddl->relations)
		drop_all(lfirst_oid(lc), ddl);
	ledgers = ledger_read_all();
	foreach(lc, ddl->relations)
	{
		check_member(lfirst_oid(lc), ddl, ledgers);
		check_shards(lfirst_oid(lc), ddl);
		check_ops(lfirst_oid(lc), ddl);
	}
}

/*
 * drop_all drops the tables that belong to one that was dropped.
 */
static void
drop_all(Oid relid, const DcDdl *ddl)
{
	DcOpSlot slots[DC_OP_SLOTS];
	DcLedgerRow row;

	if (opslots_read_first(relid, &slots[0]))
	{
		opslots_delete(relid); /* so that the next call has nothing to do */
		sibling_drop(slots[0].ops, ddl);
	}
	if (ledger_read(relid, &row))
	{
		DcSibling siblings[SIBLINGS];

		ledger_siblings(&row, siblings);
		ledger_delete(relid);
		for (int i = 0; i < SIBLINGS; i++)
		{
			/* a sequence goes with its table */
			if (get_rel_relkind(siblings[i].relid) != RELKIND_SEQUENCE)
				sibling_drop(siblings[i].relid, ddl);
		}
	}
}

/*
 * ledger_siblings lists the tables of a ledger, and how they are named after its table of
 * balances. Its ops are not among them. Those that it does not have are InvalidOid.
 */
static void
ledger_siblings(const DcLedgerRow *row, DcSibling *siblings)
{
	const DcSibling all[SIBLINGS] = {
		{row->limits, DC_LIMIT_SUFFIX},
		{row->entries, DC_ENTRY_SUFFIX},
		{row->entry_ids, DC_ENTRY_ID_SUFFIX},
		{row->accounts, DC_ACCOUNT_SUFFIX},
		{row->pendings, DC_PENDING_SUFFIX},
		{row->openings, DC_OPENING_SUFFIX},
	};

	memcpy(siblings, all, sizeof(all));
}

/*
 * check_member raises an error if a table was dropped that a ledger needs.
 */
static void
check_member(Oid relid, const DcDdl *ddl, List *ledgers)
{
	ListCell *lc;

	foreach(lc, ledgers)
	{
		const DcLedgerRow *row = lfirst(lc);
		DcSibling siblings[SIBLINGS];

		CHECK_FOR_INTERRUPTS();
		ledger_siblings(row, siblings);
		for (int i = 0; i < SIBLINGS; i++)
		{
			if (siblings[i].relid == relid && ddl_keeps(ddl, row->ledger))
				ledgerddl_refuse(row->ledger);
		}
	}
}

/*
 * Raise an error if shard rows, or holds, of balances or of limits were dropped: amounts would be
 * lost with them.
 */
static void
check_shards(Oid relid, const DcDdl *ddl)
{
	DcCounterRow row;

	if ((catalog_read_by_shards(relid, &row) || catalog_read_by_holds(relid, &row)) && ddl_keeps(ddl, row.ledger))
		ledgerddl_refuse(row.ledger);
}

/*
 * check_ops forgets the ops whose table was dropped, or raises an error.
 */
static void
check_ops(Oid relid, const DcDdl *ddl)
{
	DcCounterRow row;
	Oid counter;
	Oid ops;

	if (!opslots_find_table(relid, &counter, &ops) || !ddl_keeps(ddl, counter))
		return;
	if (relid != ops)
	{
		if (!list_member_oid(ddl->relations, ops))
			ledgerddl_refuse(ops);
		return;
	}
	if (catalog_read(counter, &row) && row.ledger == counter)
		ledgerddl_refuse(counter);
	opslots_delete(counter);
	ereport(NOTICE,
			(errmsg("the ops of counter table \"%s\" are no longer known",
					get_rel_name(counter)),
			 errdetail("The next dc_incr_once() creates new tables of ops. "
					   "Ops that were applied before could be applied again.")));
}

/*
 * Raise 2BP01: a table cannot be dropped without the one that needs it.
 */
static void
ledgerddl_refuse(Oid needed_by)
{
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot drop a table that \"%s\" needs", get_rel_name(needed_by)),
			 errhint("Drop \"%s\" instead, which drops all of its tables.",
					 get_rel_name(needed_by))));
}

/*
 * Repeat ALTER TABLE ... RENAME TO, SET SCHEMA and OWNER TO on the tables of a ledger, and on a
 * table of ops.
 */
static void
ledger_altered(const DcDdl *ddl)
{
	ListCell *lc;

	if (!ddl_alters(ddl))
		return;
	foreach(lc, ddl->relations)
	{
		Oid relid = lfirst_oid(lc);
		DcSibling siblings[SIBLINGS] = {0};
		DcOpSlot slot;
		DcLedgerRow row;

		if (ledger_read(relid, &row))
			ledger_siblings(&row, siblings);
		if (opslots_read_first(relid, &slot))
			siblings[SIBLINGS - 1] = (DcSibling){slot.ops, DC_OP_SUFFIX};
		for (int i = 0; i < SIBLINGS; i++)
			follow_all(ddl, relid, &siblings[i]);
	}
}

/*
 * follow_all repeats on another table and its partitions the command that has changed a
 * table. A partition keeps the end that its name has in addition to that of its table.
 */
static void
follow_all(const DcDdl *ddl, Oid relid, const DcSibling *sibling)
{
	char *name = get_rel_name(sibling->relid);
	char kind = get_rel_relkind(sibling->relid);
	List *children = NIL;
	ListCell *lc;

	if (name == NULL)
		return;
	if (kind == RELKIND_PARTITIONED_TABLE)
		children = relation_children(sibling->relid, NoLock);
	/* a sequence follows its table by itself, except for the name */
	if (kind != RELKIND_SEQUENCE || IsA(ddl->parsetree, RenameStmt))
		sibling_follow(ddl, relid, sibling->relid, sibling->suffix);
	foreach(lc, children)
	{
		char *child = get_rel_name(lfirst_oid(lc));

		CHECK_FOR_INTERRUPTS();
		if (child == NULL)
			continue;
		if (strncmp(child, name, strlen(name)) == 0)
			sibling_follow(ddl, relid, lfirst_oid(lc),
						   psprintf("%s%s", sibling->suffix, child + strlen(name)));
		else if (!IsA(ddl->parsetree, RenameStmt))
			sibling_follow(ddl, relid, lfirst_oid(lc), "");
	}
}

const DcDdlHook ledger_ddl = {ledger_dropped, ledger_altered, NULL};
