/*
 * sourceexpr.h
 *		The expressions that say what a row of a source counts for (see sourceexpr.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCEEXPR_H
#define DC_SOURCEEXPR_H

#include "lib/stringinfo.h"

#include "transactional/bound/bound.h"

#define SOURCE_MAX_VALUES 8
#define SOURCE_MAX_ELEMENTS 32

/* The members of the list that source_parse() returns. */
enum
{
	PARSED_KEYS,		/* expressions */
	PARSED_VALUES,		/* TargetEntry; with names if there are several */
	PARSED_FILTER,		/* or NULL */
	PARSED_DISTINCT_OF, /* or NULL */
	PARSED_SETS			/* sourcesets.c; NIL: all elements of the key are one set */
};

/* What a row counts for. */
typedef struct DcCounted
{
	DcKey key;	 /* lives as long as the row, or until source_eval_reset() */
	int64 value; /* not 0, or, in a list: 0, it does not count */
	DcKey item;	 /* of distinct_of: the value, of at most DC_MAX_KEY_BYTES; value is 1 then */
} DcCounted;

/*
 * A row in parts, before keys are built from it. The elements live as long as the row, or until
 * source_eval_reset().
 */
typedef struct DcCountedParts
{
	Datum elements[SOURCE_MAX_ELEMENTS]; /* of the key */
	uint32 nulls;						 /* those that are null, as a mask */
	uint32 counts;						 /* those of the values that count, as a mask */
	int64 values[SOURCE_MAX_VALUES];
} DcCountedParts;

/* The expressions of a binding, ready to be evaluated on rows of one relation. */
typedef struct DcSourceEval DcSourceEval;

extern DcSourceEval *source_eval_make(const DcSourceRow *row, Relation source, Relation rel,
									  MemoryContext cxt);
extern bool source_eval(DcSourceEval *eval, TupleTableSlot *slot, DcCounted *counted);
extern bool source_eval_is_list(const DcSourceEval *eval);
extern int source_eval_list(DcSourceEval *eval, TupleTableSlot *slot, MemoryContext cxt, DcCounted **list);
extern int source_eval_row(DcSourceEval *eval, TupleTableSlot *slot, DcCounted **list);
extern int source_eval_sets(const DcSourceEval *eval, uint32 *sets);
extern int source_eval_values(const DcSourceEval *eval);
extern bool source_eval_parts(DcSourceEval *eval, TupleTableSlot *slot, DcCountedParts *parts);
extern void source_eval_pack(const DcSourceEval *eval, const Datum *elements, uint32 set, StringInfo packed);
extern void source_eval_unpack(const DcSourceEval *eval, const char *packed, uint32 set, Datum *elements);
extern void source_eval_key(DcSourceEval *eval, const Datum *elements, uint32 set, int value, DcKey *key);
extern void source_eval_reset(DcSourceEval *eval);
extern void source_eval_free(DcSourceEval *eval);
extern AttrNumber source_eval_key_column(const DcSourceEval *eval);
extern int64 source_eval_constant(const DcSourceEval *eval);
extern bool source_is_harmless(const DcSourceRow *row, Relation source);

extern void source_expr_check(Node *expr, Relation source, const char *what);
extern void source_code_check(Node *expr, Relation rel, Oid source, const char *what);
extern void source_type_check_input(Oid type, const char *what);
extern void source_json_check(Oid type, const char *what);
extern void source_name_check(List *name, bool function, const char *what);
extern void source_item_check(Node *expr);
extern void source_type_check(Relation source);
extern void source_expressions_check(DcSourceRow *row, const char *group_by, Relation source);
extern Bitmapset *source_columns(const DcSourceRow *row, Relation source);
extern List *source_parse(const DcSourceRow *row, Relation source);
extern void source_deparse(DcSourceRow *row, List *parsed, Relation source);

#endif /* DC_SOURCEEXPR_H */
