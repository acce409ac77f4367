/*
 * counter.h
 *		The counter room's interface to the rest of the extension.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_COUNTER_H
#define DC_COUNTER_H

extern void counter_xact_init(void);

#endif /* DC_COUNTER_H */
