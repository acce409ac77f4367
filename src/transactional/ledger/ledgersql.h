/*
 * ledgersql.h
 *		The SQL statements of ledgers (see ledgersql.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LEDGERSQL_H
#define DC_LEDGERSQL_H

#include "core/counter/sqlpath.h"
#include "transactional/ledger/ledger.h"

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

/* balance.c */
extern const DcStatement sql_balance;

extern void ledger_sql_begin(DcSqlSession *session, DcLedger *ledger);

#endif /* DC_LEDGERSQL_H */
