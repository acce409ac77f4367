/*
 * setexpanded.h
 *		dc_gset and dc_orset values that are kept in memory between calls (see
 *		setexpanded.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SETEXPANDED_H
#define DC_SETEXPANDED_H

#include "types/crdt/crdttype.h"

extern CrdtBytes set_bytes(Datum value);
extern bool set_contains(Datum value, CrdtString element);
extern Datum set_add(FunctionCallInfo fcinfo, CrdtString element, CrdtString node);
extern Datum set_remove(FunctionCallInfo fcinfo, CrdtString element);
extern Datum set_reset(Datum value);

#endif /* DC_SETEXPANDED_H */
