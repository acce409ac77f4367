/*
 * ledgersql.c
 *		The SQL statements of ledgers.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They run as the owner of the ledger, like those of counter tables (sqlpath.c), and
 * pass the guard of its tables.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/lsyscache.h"

#include "transactional/ledger/ledgersql.h"
#include "transactional/once/opslot.h"

static const char *no_op(DcCounter *counter);

/*
 * ledger_word returns the SQL that a word in a statement's text stands for. As long as
 * nothing was detached, there are no openings.
 */
static const char *
ledger_word(DcCounter *counter, const char *word)
{
	DcLedgerRow row;

	if (!ledger_read(counter->relid, &row))
		elog(ERROR, "ledger \"%s\" is not registered", get_rel_name(counter->relid));
	if (strcmp(word, "entries") == 0)
		return relation_sql_name(row.entries);
	if (strcmp(word, "accounts") == 0)
		return relation_sql_name(row.accounts);
	if (strcmp(word, "pendings") == 0)
		return relation_sql_name(row.pendings);
	if (strcmp(word, "limits") == 0)
		return relation_sql_name(row.limits);
	if (strcmp(word, "limitshards") == 0)
		return relation_sql_name(counter_lookup(row.limits)->row.shards);
	if (strcmp(word, "noop") == 0)
		return no_op(counter);
	if (strcmp(word, "openings") == 0)
		return OidIsValid(row.openings)
			? relation_sql_name(row.openings)
			: "(SELECT NULL::text AS key, NULL::int8 AS amount, NULL::timestamptz AS before WHERE false)";
	elog(ERROR, "unrecognized word: %s", word);
}

/*
 * no_op returns the condition that there is no op of x. The condition is meaningful
 * only if ops are kept forever.
 */
static const char *
no_op(DcCounter *counter)
{
	DcOpSlot slots[DC_OP_SLOTS];

	if (counter->row.op_retention != 0 ||
		opslots_read(counter->relid, slots) == 0)
		return "false";
	return psprintf("NOT EXISTS (SELECT FROM %s AS v WHERE v.op_id = x.op_id AND v.transfer_id = x.transfer_id)",
					relation_sql_name(slots[0].ops));
}

/*
 * ledger_sql_begin connects to SPI and becomes the owner of the ledger, all of whose
 * tables have their shape then.
 */
void
ledger_sql_begin(DcSqlSession *session, DcLedger *ledger)
{
	ledger_lock_rest(ledger);
	sql_begin(session, ledger->counter);
	session->word = ledger_word;
	sql_keep_open(session, DC_OF_ACCOUNTS, ledger->row.accounts);
	sql_keep_open(session, DC_OF_ENTRIES, ledger->row.entries);
	sql_keep_open(session, DC_OF_PENDINGS, ledger->row.pendings);
	sql_keep_open(session, DC_OF_OPENINGS, ledger->row.openings);
	sql_keep_open(session, DC_OF_LIMITS, ledger->row.limits);
	sql_keep_open(session, DC_OF_LIMIT_SHARDS, ledger->limits->row.shards);
}
