/*
 * ledgerinit.h
 *		Setting up the room of ledgers, and ledgers themselves.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LEDGERINIT_H
#define DC_LEDGERINIT_H

#include "base/job.h"
#include "core/table/ddlhooks.h"
#include "transactional/ledger/ledger.h"

extern void ledger_init(void);
extern bool ledger_job(DcJobRun *run);
extern const DcDdlHook ledger_ddl;
extern void ledger_register(const DcLedgerRow *ledger);

#endif /* DC_LEDGERINIT_H */
