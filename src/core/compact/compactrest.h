/*
 * compactrest.h
 *		Tables that the worker leaves alone for a while (see compactrest.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_COMPACTREST_H
#define DC_COMPACTREST_H

#include "base/clock.h"

extern bool compact_rests(Oid table);
extern void compact_rest(Oid table, int64 spent);

#endif /* DC_COMPACTREST_H */
