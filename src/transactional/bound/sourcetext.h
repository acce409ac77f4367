/*
 * sourcetext.h
 *		Texts and numbers that are built from a row of a source (see sourcetext.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCETEXT_H
#define DC_SOURCETEXT_H

#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"

#include "base/key.h"

/* A text or number that is built from a row. Plain columns of common types need no executor. */
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
extern bool sourcetext_value(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, Datum *value);
extern bool sourcetext_is_json_null(const DcTextOf *text, Datum value);
extern void sourcetext_append(const DcTextOf *text, Datum value, StringInfo array);
extern void sourcetext_pack(const DcTextOf *text, Datum value, StringInfo packed);
extern const char *sourcetext_unpack(const DcTextOf *text, const char *packed, Datum *value);
extern bool sourcetext_element(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, StringInfo array);

#endif /* DC_SOURCETEXT_H */
