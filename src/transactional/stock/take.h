/*
 * take.h
 *		Taking units, for the functions of this room.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_TAKE_H
#define DC_TAKE_H

#include "fmgr.h"

#include "base/key.h"
#include "core/table/catalog.h"

/* How to take. */
#define TAKE_WAIT 1	  /* wait for other transactions while the answer depends on them */
#define TAKE_PARTLY 2 /* as many as there are */
#define TAKE_FREE 4	  /* as many as no other transaction holds, without waiting; holds stay as they are */

extern bool stock_is_shut(FunctionCallInfo fcinfo, const DcKey *key,
						  const char *function);
extern int64 stock_take(DcCounter *counter, const DcKey *key, int64 qty,
						int flags);

/* stocktable.c */
extern void stock_give_back(DcCounter *counter, const DcKey *key, int64 qty);
extern void stock_give(DcCounter *counter, const DcKey *key, int64 qty);

#endif /* DC_TAKE_H */
