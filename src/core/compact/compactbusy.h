/*
 * compactbusy.h
 *		Keys with rows that others were just writing (see compactbusy.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_COMPACTBUSY_H
#define DC_COMPACTBUSY_H

#include "core/compact/compact.h"

extern void busy_wait(DcSweep *sweep);
extern int64 busy_sweep(DcSweep *sweep, DcCounter *counter);

#endif /* DC_COMPACTBUSY_H */
