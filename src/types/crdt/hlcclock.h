/*
 * hlcclock.h
 *		This database's hybrid logical clock, and its name (see hlcclock.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_HLCCLOCK_H
#define DC_HLCCLOCK_H

#include "c.h"

extern void hlc_clock_init(void);
extern const char *node_name(void);
extern int64 hlc_clock_next(int64 seen);
extern void hlc_clock_observe(int64 time);

#endif /* DC_HLCCLOCK_H */
