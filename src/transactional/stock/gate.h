/*
 * gate.h
 *		The sold-out gate (see gate.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_GATE_H
#define DC_GATE_H

#include "utils/timestamp.h"

#include "core/counter/pending.h"
#include "core/table/catalog.h"

extern void gate_init(void);
extern bool gate_is_shut(const DcDeltaKey *key);
extern bool gate_can_shut(const DcDeltaKey *key);
extern uint64 gate_epoch(const DcDeltaKey *key);
extern void gate_shut(const DcDeltaKey *key, uint64 epoch, TimestampTz expires_at);
extern void gate_open(DcCounter *counter, const DcDeltaKey *key);

#endif /* DC_GATE_H */
