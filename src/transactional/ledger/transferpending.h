/*
 * transferpending.h
 *		Pending transfers (see transferpending.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LEDGER_PENDING_H
#define DC_LEDGER_PENDING_H

#include "transactional/ledger/ledger.h"

extern bool pendings_expire_key(DcLedger *ledger, const DcKey *key);
extern uint64 pendings_expire(DcLedger *ledger, int limit);
extern TimestampTz pendings_next(DcLedger *ledger);

#endif /* DC_LEDGER_PENDING_H */
