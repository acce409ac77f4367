/*
 * ledger.h
 *		Ledgers: their tables, and what a session remembers of them (see ledger.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LEDGER_H
#define DC_LEDGER_H

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/hsearch.h"

#include "base/key.h"
#include "core/table/catalog.h"


#define DC_LIMIT_SUFFIX "_limit"
#define DC_ENTRY_SUFFIX "_entry"
#define DC_ENTRY_ID_SUFFIX "_entry_id"
#define DC_ACCOUNT_SUFFIX "_account"
#define DC_PENDING_SUFFIX "_pending"
#define DC_OPENING_SUFFIX "_opening"

#define DC_ENTRY_COMMENT "entries of a ledger; see dc_ledger_create()"

#define ERRCODE_DC_BALANCE_TOO_LOW MAKE_SQLSTATE('L', 'G', '0', '0', '1')
#define ERRCODE_DC_BALANCE_TOO_HIGH MAKE_SQLSTATE('L', 'G', '0', '0', '2')
#define ERRCODE_DC_ACCOUNT_NOT_OPEN MAKE_SQLSTATE('L', 'G', '0', '0', '3')

/* A row of dcounter.ledger. */
typedef struct DcLedgerRow
{
	Oid ledger;	   /* the table of balances, which is a counter table */
	Oid limits;	   /* the stock of amounts that bounded accounts may still post */
	Oid entries;   /* the entries, perhaps partitioned, */
	Oid entry_ids; /* and their sequence */
	Oid accounts;
	Oid pendings;
	Oid openings; /* balances of detached entries, or InvalidOid */
	bool auto_open;
} DcLedgerRow;

/* The most counter tables that a ledger has: balances, limits, shards and holds. */
#define DC_LEDGER_COUNTER_TABLES 6

/* What a session remembers of a ledger. Entries are never moved or freed. */
typedef struct DcLedger
{
	Oid relid; /* hash key: the table of balances */
	bool valid;
	DcLedgerRow row;
	int ncounters; /* tables of balances and limits: */
	Oid counters[DC_LEDGER_COUNTER_TABLES];
	bool direct;		/* entries can be inserted without SQL */
	bool by_month;		/* they are partitioned by month */
	bool parent_direct; /* then: nothing but the guard is on the parent; */
	Oid leaf;			/* the partition of the last entry, or InvalidOid, */
	TimestampTz leaf_from;
	TimestampTz leaf_to;
	bool leaf_direct; /* into which they can be inserted without SQL */
	Oid unguarded;	  /* a table that the guard is not on, or InvalidOid */
	DcTableLayout account_layout;
	DcTableLayout opening_layout; /* if there are openings */
	HTAB *rules;				  /* those of some accounts, see account.c */
	DcCounter *counter;			  /* set by each ledger_open(), */
	DcCounter *limits;			  /* as is this */
} DcLedger;

/* ledger.c */
extern DcLedger *ledger_open(FunctionCallInfo fcinfo, const char *function,
							 LOCKMODE mode, AclMode rights);
extern DcLedger *ledger_open_at_once(Oid relid, bool all_owners);
extern void ledger_check(Oid relid);
extern void ledger_recheck(DcLedger *ledger);
extern void ledger_lock_rest(DcLedger *ledger);
extern bool entries_are_plain(Relation entries, const DcTableLayout *layout);
extern void ledger_guard_counters(const DcLedgerRow *ledger);

/* ledgerrow.c */
extern bool ledger_read(Oid relid, DcLedgerRow *row);
extern List *ledger_read_all(void);
extern void ledger_insert(const DcLedgerRow *row);
extern void ledger_set_openings(Oid relid, Oid openings);
extern bool ledger_delete(Oid relid);


#endif /* DC_LEDGER_H */
