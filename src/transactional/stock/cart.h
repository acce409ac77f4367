/*
 * cart.h
 *		Units of several keys (see cart.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CART_H
#define DC_CART_H

#include "fmgr.h"

#include "base/key.h"
#include "core/table/catalog.h"

/* A line of a cart. */
typedef struct DcCartLine
{
	DcKey key;
	int64 qty;
} DcCartLine;

typedef struct DcCart
{
	DcCounter *counter;
	DcCartLine *lines;
	int count;
} DcCart;

extern void cart_args(FunctionCallInfo fcinfo, DcCart *cart, const char *function);
extern bool cart_take(DcCart *cart);

#endif /* DC_CART_H */
