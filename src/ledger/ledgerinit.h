/*
 * ledgerinit.h
 *		Setting up the room of ledgers, and ledgers themselves.
 */
#ifndef DC_LEDGERINIT_H
#define DC_LEDGERINIT_H

#include "ledger/ledger.h"
#include "table/ddlhooks.h"

extern void ledger_init(void);
extern const DcDdlHook ledger_ddl;
extern void ledger_register(const DcLedgerRow *ledger);
extern bool auto_open_arg(FunctionCallInfo fcinfo);

#endif /* DC_LEDGERINIT_H */
