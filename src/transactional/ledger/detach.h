/*
 * detach.h
 *		Months that were detached, and the openings that stand for them (see detach.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DETACH_H
#define DC_DETACH_H

#include "datatype/timestamp.h"
#include "utils/snapshot.h"

#include "transactional/ledger/ledger.h"

extern bool openings_before(DcLedger *ledger, Snapshot snapshot, TimestampTz *before);
extern void openings_snapshot_push(DcLedger *ledger);

#endif /* DC_DETACH_H */
