/*
 * ledgertable.c
 *		Creating the tables of a ledger.
 *
 * They are ordinary tables of the caller's, made with plain DDL in the caller's name. What
 * the catalog row stands for can be found again from the tables alone: all are named
 * after the table of balances (dc_ledger_adopt).
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/runas.h"
#include "catalog/namespace.h"
#include "ledger/entrymonth.h"
#include "ledger/ledger.h"
#include "ledger/ledgerinit.h"
#include "ledger/ledgersql.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "once/opslot.h"
#include "table/access.h"
#include "table/protect.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(dc_ledger_create);

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
static List *add_ops(Oid counter, List *tables);
static void create_pendings(const char *schema, const char *name);

/*
 * ledger_init is called once.
 */
void
ledger_init(void)
{
	ledger_sql_init();
	ddl_hook_add(&ledger_ddl);
	counter_adopted = ops_adopt;
	counter_more_tables = ledger_tables;
	counter_emptied = ledger_empty;
}

/*
 * dc_ledger_create(ledger text, auto_open boolean, op_retention interval,
 * partition_by text) -> regclass, the table of balances. Ops are kept for good if
 * op_retention is NULL. With 'month' for partition_by, entries are kept by month.
 *
 * Errors as of dc_create().
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

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("ledger must not be null")));
	ledger.auto_open = auto_open_arg(fcinfo);
	by_month = by_month_arg(fcinfo, 3);
	prevent_write("dc_ledger_create()");
	catalog_row_defaults(&row);
	row.op_retention = 0;
	op_retention_arg(fcinfo, 2, &row);

	name = table_name_arg(fcinfo, 0);
	entries = sibling_name(name->relname, DC_ENTRY_SUFFIX);
	ids = sibling_name(name->relname, DC_ENTRY_ID_SUFFIX);
	accounts = sibling_name(name->relname, DC_ACCOUNT_SUFFIX);
	pendings = sibling_name(name->relname, DC_PENDING_SUFFIX);
	if (by_month)
		(void) sibling_name(name->relname, DC_ENTRY_SUFFIX "_2000_01");

	ledger.ledger = row.ledger = row.counter = table_create(name, row, false, 0);
	schema = name->schemaname;
	limits = makeRangeVar(schema, sibling_name(name->relname, DC_LIMIT_SUFFIX), -1);
	ledger.limits = table_create(limits, row, true, 0);

	create_table(schema, accounts, ACCOUNT_COLUMNS, ACCOUNT_OPTIONS);
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
			elog(ERROR, "counter table of a ledger is not registered");
		row.ledger = ledger->ledger;
		catalog_update(&row);
		protect_create(&row);
	}
	guard_counters(ledger);
}

/*
 * auto_open_arg returns argument 1.
 */
bool
auto_open_arg(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("auto_open must not be null")));
	return PG_GETARG_BOOL(1);
}

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

static void
create_entries(const char *schema, const char *name, const char *ids, bool by_month)
{
	char *table = quote_qualified_identifier(schema, name);
	char *sequence = quote_qualified_identifier(schema, ids);

	if (by_month)
		run_ddl(psprintf("CREATE TABLE %s (%s) PARTITION BY RANGE (at)", table, ENTRY_COLUMNS));
	else
		create_table(schema, name, ENTRY_COLUMNS, "fillfactor=100");
	run_ddl(psprintf("CREATE SEQUENCE %s OWNED BY %s.entry_id", sequence, table));
	/* one index for all that is asked of them: each more costs each transfer */
	run_ddl(psprintf("ALTER TABLE %s ADD PRIMARY KEY (key, at, entry_id)", table));
	guard_create(table);
	if (by_month)
		months_create(schema, name);
}

/*
 * create_pendings makes the table of pending transfers, with indexes on the open ones:
 * by account and time for who needs what is set aside, and by time for the worker.
 */
static void
create_pendings(const char *schema, const char *name)
{
	static const char *const columns[] = {"from_key, expires_at", "to_key, expires_at", "expires_at"};
	char *table = quote_qualified_identifier(schema, name);

	create_table(schema, name, PENDING_COLUMNS, PENDING_OPTIONS);
	for (int i = 0; i < lengthof(columns); i++)
		run_ddl(psprintf("CREATE INDEX ON %s (%s) WHERE state OPERATOR(pg_catalog.=) 'open'",
						 table, columns[i]));
	guard_create(table);
}

/*
 * ledger_tables adds the tables of ops to those of a counter table, and all tables
 * of the ledger that it belongs to.
 */
static List *
ledger_tables(const DcCounterRow *row, List *tables)
{
	DcLedgerRow ledger;
	DcCounterRow other;

	tables = add_ops(row->counter, tables);
	if (!OidIsValid(row->ledger) || !ledger_read(row->ledger, &ledger))
		return tables;
	if (catalog_read(row->counter == ledger.ledger ? ledger.limits : ledger.ledger, &other))
	{
		tables = lappend_oid(lappend_oid(tables, other.counter), other.shards);
		if (OidIsValid(other.holds))
			tables = lappend_oid(tables, other.holds);
		tables = add_ops(other.counter, tables);
	}
	tables = lappend_oid(lappend_oid(tables, ledger.entries), ledger.accounts);
	tables = lappend_oid(tables, ledger.pendings);
	if (OidIsValid(ledger.openings))
		tables = lappend_oid(tables, ledger.openings);
	return tables;
}

/*
 * add_ops adds the table of ops of a counter table, if it has one.
 */
static List *
add_ops(Oid counter, List *tables)
{
	DcOpSlot slot;

	if (opslots_read_first(counter, &slot))
		tables = lappend_oid(tables, slot.ops);
	return tables;
}
