/*
 * ledgertable.c
 *		Creating the tables of a ledger.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are ordinary tables of the caller's, made with plain DDL in the caller's name. The
 * tables of the catalog row can be found again without it: all are named
 * after the table of balances (dc_ledger_adopt).
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/guard.h"
#include "core/table/protect.h"
#include "core/table/table.h"
#include "transactional/ledger/entrymonth.h"
#include "transactional/ledger/ledger.h"
#include "transactional/ledger/ledgerinit.h"
#include "transactional/ledger/ledgersql.h"
#include "transactional/once/opslot.h"

PG_FUNCTION_INFO_V1(dc_ledger_create);

#define MAKER "dc_ledger_create()"

/* Accounts hardly change; entries and ops never do. */
#define ACCOUNT_OPTIONS "fillfactor=100"
#define ACCOUNT_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" PRIMARY KEY," \
	" min_balance pg_catalog.int8," \
	" max_balance pg_catalog.int8," \
	" opened_at pg_catalog.timestamptz NOT NULL"

#define ENTRY_COLUMNS \
	"entry_id pg_catalog.int8 NOT NULL," \
	" transfer_id pg_catalog.int8 NOT NULL," \
	" key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" amount pg_catalog.int8 NOT NULL," \
	" op_id pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" at pg_catalog.timestamptz NOT NULL," \
	" memo pg_catalog.jsonb"

#define PENDING_OPTIONS "fillfactor=80"
#define PENDING_COLUMNS \
	"transfer_id pg_catalog.int8 PRIMARY KEY," \
	" from_key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" to_key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" amount pg_catalog.int8 NOT NULL CHECK (amount OPERATOR(pg_catalog.>) 0)," \
	" state pg_catalog.text NOT NULL DEFAULT 'open'" \
	" CHECK (state OPERATOR(pg_catalog.=) ANY ('{open,posted,voided,expired}'::pg_catalog.text[]))," \
	" posted pg_catalog.int8 NOT NULL DEFAULT 0," \
	" op_id pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" memo pg_catalog.jsonb," \
	" created_at pg_catalog.timestamptz NOT NULL," \
	" expires_at pg_catalog.timestamptz," \
	" ended_at pg_catalog.timestamptz"

static void create_entries(const char *schema, const char *name, const char *ids,
						   bool by_month);
static bool by_month_arg(FunctionCallInfo fcinfo, int argno);
static List *ledger_tables(const DcCounterRow *row, List *tables);
static void ledger_empty(const DcCounterRow *row);
static void check_adoptable(Oid relid);
static void create_pendings(const char *schema, const char *name);

/*
 * ledger_init sets the hooks and registers the job of this room; called once.
 */
void
ledger_init(void)
{
	static const DcLedgerHooks hooks = {
		.tables = ledger_tables,
		.emptied = ledger_empty,
		.check_adoptable = check_adoptable,
	};

	ledger_hooks = &hooks;
	ddl_hook_add(&ledger_ddl);
	job_register((DcJob){.name = "ledger", .interval = &dc_expire_interval, .run = ledger_job});
}

/*
 * dc_ledger_create(ledger text, auto_open boolean, op_retention interval,
 * partition_by text, if_not_exists boolean) -> regclass, the table of balances. Ops are kept
 * forever if op_retention is NULL. With 'month' for partition_by, entries are kept by month.
 *
 * Errors: those of dc_create().
 */
Datum
dc_ledger_create(PG_FUNCTION_ARGS)
{
	DcLedgerRow ledger = {0};
	DcCounterRow row;
	RangeVar *name;
	RangeVar *limits;
	char *schema;
	char *entries;
	char *ids;
	char *accounts;
	char *pendings;
	bool by_month;
	Oid namespace;

	arg_not_null(fcinfo, 0, "ledger");
	ledger.auto_open = bool_arg(fcinfo, 1, "auto_open");
	by_month = by_month_arg(fcinfo, 3);
	prevent_write("dc_ledger_create()");
	catalog_row_defaults(&row);
	row.op_retention = 0;
	op_retention_arg(fcinfo, 2, &row);

	name = table_name_arg(fcinfo, 0);
	ledger.ledger = table_existing(fcinfo, 4, name, "ledger");
	if (OidIsValid(ledger.ledger))
		PG_RETURN_OID(ledger.ledger);
	entries = sibling_name(name->relname, DC_ENTRY_SUFFIX);
	ids = sibling_name(name->relname, DC_ENTRY_ID_SUFFIX);
	accounts = sibling_name(name->relname, DC_ACCOUNT_SUFFIX);
	pendings = sibling_name(name->relname, DC_PENDING_SUFFIX);
	if (by_month)
		(void) sibling_name(name->relname, DC_ENTRY_SUFFIX "_2000_01");

	ledger.ledger = row.ledger = row.counter = table_create(name, row, false, 0, MAKER);
	schema = name->schemaname;
	limits = makeRangeVar(schema, sibling_name(name->relname, DC_LIMIT_SUFFIX), -1);
	ledger.limits = table_create(limits, row, true, 0, MAKER);

	create_table(schema, accounts, ACCOUNT_COLUMNS, ACCOUNT_OPTIONS, "accounts of a ledger; see " MAKER);
	guard_create(quote_qualified_identifier(schema, accounts));
	create_entries(schema, entries, ids, by_month);
	create_pendings(schema, pendings);
	namespace = get_namespace_oid(schema, false);
	ledger.entries = get_relname_relid(entries, namespace);
	ledger.entry_ids = get_relname_relid(ids, namespace);
	ledger.accounts = get_relname_relid(accounts, namespace);
	ledger.pendings = get_relname_relid(pendings, namespace);
	ledger_register(&ledger);
	ops_create(counter_lookup(ledger.ledger));
	PG_RETURN_OID(ledger.ledger);
}

/*
 * ledger_register notes the tables of a ledger in the catalogs.
 */
void
ledger_register(const DcLedgerRow *ledger)
{
	DcCounterRow row;

	ledger_insert(ledger);
	for (int i = 0; i < 2; i++)
	{
		if (!catalog_read(i == 0 ? ledger->ledger : ledger->limits, &row))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is not a counter table", get_rel_name(i == 0 ? ledger->ledger : ledger->limits)),
					 errdetail("Its shard table was just dropped.")));
		row.ledger = ledger->ledger;
		catalog_update(&row);
		protect_create(&row);
	}
	ledger_guard_counters(ledger);
}

/*
 * Return true if argument partition_by is 'month', false if it is NULL; 22023 for anything
 * else.
 */
static bool
by_month_arg(FunctionCallInfo fcinfo, int argno)
{
	char *value;

	if (PG_ARGISNULL(argno))
		return false;
	value = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	if (strcmp(value, "month") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for partition_by: \"%s\"", value),
				 errhint("Entries are partitioned by \"month\", or not at all (NULL).")));
	return true;
}

/*
 * Create the table of entries, with its sequence, index and guard, and its first months if it
 * is partitioned.
 */
static void
create_entries(const char *schema, const char *name, const char *ids, bool by_month)
{
	char *table = quote_qualified_identifier(schema, name);
	char *sequence = quote_qualified_identifier(schema, ids);

	run_ddl(psprintf("CREATE TABLE %s (%s) %s", table, ENTRY_COLUMNS,
					 by_month ? "PARTITION BY RANGE (at)" : "WITH (fillfactor=100)"));
	comment_table(schema, name, DC_ENTRY_COMMENT);
	run_ddl(psprintf("CREATE SEQUENCE %s OWNED BY %s.entry_id", sequence, table));
	/* one index serves all queries: each further one would slow down each transfer */
	run_ddl(psprintf("ALTER TABLE %s ADD PRIMARY KEY (key, at, entry_id)", table));
	guard_create(table);
	if (by_month)
		months_create(schema, name);
}

/*
 * create_pendings creates the table of pending transfers, with indexes on the open ones: by account
 * and time for a transfer that needs the amounts set aside, and by time for the worker.
 */
static void
create_pendings(const char *schema, const char *name)
{
	static const char *const columns[] = {"from_key, expires_at", "to_key, expires_at", "expires_at"};
	char *table = quote_qualified_identifier(schema, name);

	create_table(schema, name, PENDING_COLUMNS, PENDING_OPTIONS, "pending transfers of a ledger; see " MAKER);
	for (int i = 0; i < lengthof(columns); i++)
		run_ddl(psprintf("CREATE INDEX ON %s (%s) WHERE state OPERATOR(pg_catalog.=) 'open'",
						 table, columns[i]));
	guard_create(table);
}

/*
 * ledger_tables adds all tables of the ledger that a counter table belongs to.
 */
static List *
ledger_tables(const DcCounterRow *row, List *tables)
{
	DcLedgerRow ledger;
	DcCounterRow other;

	if (!OidIsValid(row->ledger) || !ledger_read(row->ledger, &ledger))
		return tables;
	if (catalog_read(row->counter == ledger.ledger ? ledger.limits : ledger.ledger, &other))
	{
		tables = lappend_oid(lappend_oid(tables, other.counter), other.shards);
		if (OidIsValid(other.holds))
			tables = lappend_oid(tables, other.holds);
		tables = ops_tables(other.counter, tables);
	}
	tables = lappend_oid(lappend_oid(tables, ledger.entries), ledger.accounts);
	tables = lappend_oid(tables, ledger.pendings);
	if (OidIsValid(ledger.openings))
		tables = lappend_oid(tables, ledger.openings);
	return tables;
}

/*
 * ledger_empty empties the other tables of a ledger whose balances were truncated, so that it
 * is as it was created, without accounts. The owner may do that as the ledger may be dropped.
 * Tables of months that were detached before do not belong to it. The order of locks is that of
 * transfers (core/table/protect.c has the protocol).
 */
static void
ledger_empty(const DcCounterRow *row)
{
	List *tables = NIL;
	ListCell *lc;

	if (row->ledger == row->counter)
		tables = ops_tables(row->counter, ledger_tables(row, NIL));
	foreach(lc, tables)
		relation_truncate(lfirst_oid(lc));
}

/*
 * check_adoptable raises 42809 for a table that, going by the names of those
 * around it, belongs to a ledger: if it were a plain counter, increments could change it.
 */
static void
check_adoptable(Oid relid)
{
	char *name = get_rel_name(relid);
	Oid schema = get_rel_namespace(relid);
	int len;

	if (name == NULL)
		return;
	len = strlen(name) - strlen(DC_LIMIT_SUFFIX);
	if (len > 0 && strcmp(name + len, DC_LIMIT_SUFFIX) == 0)
		name = pnstrdup(name, len);
	if (!OidIsValid(get_relname_relid(psprintf("%s%s", name, DC_LIMIT_SUFFIX), schema)) ||
		!OidIsValid(get_relname_relid(psprintf("%s%s", name, DC_ENTRY_SUFFIX), schema)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot adopt \"%s\" as a counter table", get_rel_name(relid)),
			 errdetail("It is a table of a ledger."),
			 errhint("Use dc_ledger_adopt() on \"%s\".", name)));
}
