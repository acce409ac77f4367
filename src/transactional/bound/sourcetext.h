/*
 * sourcetext.h
 *		Texts and numbers that are made of a row of a source (see sourcetext.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCETEXT_H
#define DC_SOURCETEXT_H

#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"

#include "base/key.h"

/* A text or number that is made of a row. Plain columns of common types need no executor. */
typedef struct DcTextOf
{
	AttrNumber column; /* a plain column, or 0 */
	Oid type;		   /* of the column */
	Oid base;		   /* what it is read as; InvalidOid: the expression makes the text itself */
	ExprState *state;
} DcTextOf;

extern Node *sourcetext_cast(Node *expr, const char *what);
extern void sourcetext_make(DcTextOf *text, Node *expr);
extern void sourcetext_make_element(DcTextOf *text, Node *expr);
extern bool sourcetext_key(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, DcKey *key);
extern bool sourcetext_number(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, int64 *value);
extern bool sourcetext_element(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, StringInfo array);

#endif /* DC_SOURCETEXT_H */
