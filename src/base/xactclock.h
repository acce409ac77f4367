/*
 * xactclock.h
 *		The start of a transaction, by the monotonic clock (see xactclock.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_XACTCLOCK_H
#define DC_XACTCLOCK_H

#include "base/clock.h"

extern void xact_clock_init(void);
extern DcMoment xact_moment(void);

#endif /* DC_XACTCLOCK_H */
