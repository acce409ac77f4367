/*
 * keyclock.h
 *		Whether the wall clock can be trusted to tell which keys have expired (see keyclock.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_KEYCLOCK_H
#define DC_KEYCLOCK_H

#include "base/clock.h"

typedef enum DcClockState
{
	CLOCK_TRUSTED,
	CLOCK_STEPPED, /* it was set forward not long ago */
	CLOCK_UNKNOWN  /* the server was started recently, maybe with a wrong clock */
} DcClockState;

/* What is known of the clock, for a table. */
typedef struct DcClockTrust
{
	DcClockState state;
	DcMoment until;				/* it is trusted from then on */
	TimestampTz written_before; /* CLOCK_UNKNOWN: it is right if a key was written lately, but before that; wall time */
} DcClockTrust;

extern void keyclock_init(bool preloading);
extern void keyclock_look(void);
extern bool keyclock_is_shared(void);
extern DcClockTrust keyclock_trust(int64 idle, DcMoment trusted);

#endif /* DC_KEYCLOCK_H */
