/*
 * adopt.c
 *		dc_ledger_adopt(): registering the tables of a ledger, and protecting them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The tables are found by their names (ledgertable.c). The lock taken here, on the table
 * of balances first, conflicts with each lock of a transaction that posts.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/relopen.h"
#include "core/table/access.h"
#include "core/table/guard.h"
#include "core/table/protect.h"
#include "core/table/table.h"
#include "transactional/ledger/ledger.h"
#include "transactional/ledger/ledgerinit.h"
#include "transactional/once/opslot.h"

PG_FUNCTION_INFO_V1(dc_ledger_adopt);

#define ADOPT_LOCK ShareRowExclusiveLock

static void find_tables(Oid relid, DcLedgerRow *ledger);
static Oid find_table(Oid relid, const char *suffix, bool sequence, bool optional);
static void adopt_counter(Oid ledger, Oid relid, bool stock);
static void adopt_ledger_error(Oid relid, const char *detail);
static void lock_tables(const DcLedgerRow *ledger);
static void protect_counters(const DcLedgerRow *ledger);
static void adopt_protect(Oid relid);
static void protect_ops(Oid ledger);
static List *unprotected_partitions(Oid relid);
static bool is_protected(Oid relid);

/*
 * dc_ledger_adopt(ledger regclass, auto_open boolean) -> void: registers a ledger whose tables
 * exist but are not in the catalogs, as after restoring one schema or re-creating the
 * extension. Its ops are kept forever. It also puts back the triggers that protect the tables;
 * for a ledger that is registered, it does nothing else. For the owner. Errors: 42809 when the
 * tables are not those of a ledger.
 */
Datum
dc_ledger_adopt(PG_FUNCTION_ARGS)
{
	Oid relid = counter_arg(fcinfo);
	DcLedgerRow ledger = {0};

	ledger.auto_open = bool_arg(fcinfo, 1, "auto_open");
	prevent_write("dc_ledger_adopt()");
	lock_own_table(relid, ADOPT_LOCK);
	if (ledger_read(relid, &ledger))
	{
		lock_tables(&ledger);
		protect_counters(&ledger);
	}
	else
	{
		find_tables(relid, &ledger);
		lock_tables(&ledger);
		adopt_counter(relid, ledger.ledger, false);
		adopt_counter(relid, ledger.limits, true);
		ledger_register(&ledger);
	}
	adopt_protect(ledger.entries);
	adopt_protect(ledger.accounts);
	adopt_protect(ledger.pendings);
	protect_ops(relid);
	if (OidIsValid(ledger.openings))
		adopt_protect(ledger.openings);
	ledger_check(relid);
	PG_RETURN_VOID();
}

/*
 * find_tables finds the tables that go with a table of balances.
 */
static void
find_tables(Oid relid, DcLedgerRow *ledger)
{
	ledger->ledger = relid;
	ledger->limits = find_table(relid, DC_LIMIT_SUFFIX, false, false);
	ledger->entries = find_table(relid, DC_ENTRY_SUFFIX, false, false);
	ledger->entry_ids = find_table(relid, DC_ENTRY_ID_SUFFIX, true, false);
	ledger->accounts = find_table(relid, DC_ACCOUNT_SUFFIX, false, false);
	ledger->pendings = find_table(relid, DC_PENDING_SUFFIX, false, false);
	ledger->openings = find_table(relid, DC_OPENING_SUFFIX, false, true);
}

/*
 * Return the table (or sequence) beside a table of balances whose name has this suffix. Raises
 * 42809 if there is none, unless it is optional, or if it is of another kind.
 */
static Oid
find_table(Oid relid, const char *suffix, bool sequence, bool optional)
{
	char *name = psprintf("%s%s", get_rel_name(relid), suffix);
	Oid found = get_relname_relid(name, get_rel_namespace(relid));
	char kind = OidIsValid(found) ? get_rel_relkind(found) : '\0';

	if (!OidIsValid(found) && !optional)
		adopt_ledger_error(relid, psprintf(_("There is no \"%s\" in the same schema."), name));
	if (OidIsValid(found) &&
		(sequence ? kind != RELKIND_SEQUENCE
				  : kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE))
		adopt_ledger_error(relid, psprintf(_("\"%s\" is not a %s."), name, sequence ? "sequence" : "table"));
	return found;
}

/*
 * Lock all tables of a ledger, in the order of all calls; raises an error for one that the
 * caller does not own.
 */
static void
lock_tables(const DcLedgerRow *ledger)
{
	const Oid tables[] = {ledger->limits, ledger->entries, ledger->entry_ids,
						  ledger->accounts, ledger->pendings, ledger->openings};

	for (int i = 0; i < lengthof(tables); i++)
	{
		if (OidIsValid(tables[i]))
			lock_own_table(tables[i], ADOPT_LOCK);
	}
}

/*
 * adopt_counter registers one of the ledger's two counter tables, unless it is
 * registered.
 */
static void
adopt_counter(Oid ledger, Oid relid, bool stock)
{
	DcCounterRow row;

	if (!catalog_read(relid, &row))
	{
		catalog_row_defaults(&row);
		row.counter = relid;
		row.op_retention = 0;
		table_adopt(&row, InvalidOid);
	}
	if (OidIsValid(row.ledger))
		adopt_ledger_error(ledger, psprintf(_("\"%s\" belongs to another ledger."), get_rel_name(relid)));
	if (OidIsValid(row.holds) != stock)
		adopt_ledger_error(ledger, psprintf(stock ? _("\"%s\" is not a stock.") : _("\"%s\" is a stock."), get_rel_name(relid)));
	if (row.mode != DC_MODE_EXACT)
		adopt_ledger_error(ledger, psprintf(_("\"%s\" is buffered."), get_rel_name(relid)));
}

/*
 * protect_counters puts back the triggers of the tables of balances and of limits.
 */
static void
protect_counters(const DcLedgerRow *ledger)
{
	DcCounterRow row;

	if (catalog_read(ledger->ledger, &row))
		protect_create(&row);
	if (catalog_read(ledger->limits, &row))
		protect_create(&row);
	ledger_guard_counters(ledger);
}

/*
 * Raise 42809 with the reason as DETAIL, which is translated already.
 */
static void
adopt_ledger_error(Oid relid, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot adopt \"%s\" as a ledger", get_rel_name(relid)),
			 errdetail_internal("%s", detail)));
}

/*
 * adopt_protect puts the guard on a table and its partitions where it is missing or disabled.
 * Creating it again on a partitioned table enables its clones, too.
 */
static void
adopt_protect(Oid relid)
{
	List *partitions = unprotected_partitions(relid);
	ListCell *lc;

	if (is_protected(relid) && partitions == NIL)
		return;
	guard_create(relation_sql_name(relid));
	foreach(lc, partitions)
		guard_create_truncate(relation_sql_name(lfirst_oid(lc)));
}

/*
 * protect_ops puts the guard on the table of ops.
 */
static void
protect_ops(Oid ledger)
{
	DcOpSlot slots[DC_OP_SLOTS];

	if (opslots_read(ledger, slots) > 0)
		adopt_protect(slots[0].ops);
}

/*
 * unprotected_partitions lists the partitions on which the guard is missing or disabled.
 */
static List *
unprotected_partitions(Oid relid)
{
	List *result = NIL;
	List *partitions;
	ListCell *lc;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return NIL;
	partitions = relation_members(relid, AccessShareLock);
	foreach(lc, partitions)
	{
		if (lfirst_oid(lc) != relid && !is_protected(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
}

/*
 * Return true if the guard's triggers are on a table and enabled.
 */
static bool
is_protected(Oid relid)
{
	Relation rel = table_open_present(relid, AccessShareLock); /* the ops are not locked yet */
	bool on = guard_is_on(rel);

	table_close(rel, NoLock);
	return on;
}
