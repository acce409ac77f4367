/*
 * sourceexpr.h
 *		The expressions that say what a row of a source counts for (see sourceexpr.c).
 */
#ifndef DC_SOURCEEXPR_H
#define DC_SOURCEEXPR_H

#include "bound/bound.h"

/* What a row counts for. */
typedef struct DcCounted
{
	DcKey key;	 /* lives as long as the row, or until source_eval_reset() */
	int64 value; /* not 0 */
	DcKey item;	 /* of distinct_of: the value, of at most DC_MAX_KEY_BYTES; value is 1 then */
} DcCounted;

/* The expressions of a binding, ready to be evaluated on rows of one relation. */
typedef struct DcSourceEval DcSourceEval;

/* An expression, for SQL. */
typedef struct DcSourceText
{
	char *text;
	char *column; /* the text of an expression is that of this column of a common type, or NULL */
	Oid type;	  /* of that */
	bool collatable;
	bool exact; /* equal values, by their bytes if they are texts, have one text */
} DcSourceText;

typedef struct DcSourceTexts
{
	List *keys; /* DcSourceText *, one at least */
	DcSourceText item;
} DcSourceTexts;

extern DcSourceEval *source_eval_make(const DcSourceRow *row, Relation source, Relation rel,
									  MemoryContext cxt);
extern bool source_eval(DcSourceEval *eval, TupleTableSlot *slot, DcCounted *counted);
extern void source_eval_reset(DcSourceEval *eval);
extern void source_eval_free(DcSourceEval *eval);
extern void source_texts(const DcSourceRow *row, Relation source, DcSourceTexts *texts);
extern bool source_equal_is_same(Oid type, Oid collation);
extern bool source_counts_rows(const DcSourceRow *row);
extern int source_settings_pin(void);
extern bool source_is_harmless(const DcSourceRow *row, Relation source);

extern void source_expr_check(Node *expr, Relation source, const char *what);
extern void source_item_check(Node *expr);
extern void source_type_check(Relation source);
extern void source_expressions_check(DcSourceRow *row, Relation source);
extern Bitmapset *source_columns(const DcSourceRow *row, Relation source);
extern List *source_parse(const DcSourceRow *row, Relation source);
extern void source_deparse(DcSourceRow *row, List *parsed, Relation source);

#endif /* DC_SOURCEEXPR_H */
