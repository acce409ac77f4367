/*
 * limitinit.h
 *		The room's entry point.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LIMITINIT_H
#define DC_LIMITINIT_H

extern void limiter_init(bool preloading);

#endif /* DC_LIMITINIT_H */
