/*
 * ledgersql.h
 *		The SQL statements of ledgers (see ledgersql.c).
 */
#ifndef DC_LEDGERSQL_H
#define DC_LEDGERSQL_H

#include "counter/sqlpath.h"
#include "ledger/ledger.h"

/* In the order of the texts. */
typedef enum DcLedgerStatement
{
	DC_SQL_ACCOUNT_INSERT = DC_NUM_STATEMENTS,
	DC_SQL_ACCOUNT_UPDATE,
	DC_SQL_ACCOUNT_FIND,
	DC_SQL_ENTRY_INSERT,
	DC_SQL_BALANCE,
	DC_SQL_BALANCE_AT,
	DC_SQL_STATEMENT,
	DC_SQL_PENDING_INSERT,
	DC_SQL_PENDING_LOCK,
	DC_SQL_PENDING_FIND,
	DC_SQL_PENDING_END,
	DC_SQL_PENDING_EXPIRE,
	DC_SQL_PENDING_EXPIRE_KEY,
	DC_SQL_PENDING_LIST,
	DC_SQL_PENDING_LIST_ALL,
	DC_SQL_OPENING_ADD,
	DC_SQL_OPENING_MOVE,
	DC_SQL_LEDGER_CHECK,
	DC_SQL_LEDGER_END
} DcLedgerStatement;

/* The tables that are kept open, besides those of the counter. */
enum
{
	DC_OF_ACCOUNTS = DC_OF_MORE,
	DC_OF_ENTRIES,
	DC_OF_PENDINGS,
	DC_OF_OPENINGS,
	DC_OF_LIMITS,
	DC_OF_LIMIT_SHARDS
};

StaticAssertDecl((int) DC_OF_LIMIT_SHARDS < (int) DC_OF_TABLES, "too many tables");

extern void ledger_sql_init(void);
extern void ledger_sql_begin(DcSqlSession *session, DcLedger *ledger);
extern uint64 ledger_sql_write(DcSqlSession *session, DcLedgerStatement statement,
							   Datum *values, const char *nulls);
extern uint64 ledger_sql_read(DcSqlSession *session, DcLedgerStatement statement,
							  Datum *values);

#endif /* DC_LEDGERSQL_H */
