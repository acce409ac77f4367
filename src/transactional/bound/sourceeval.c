/*
 * sourceeval.c
 *		Evaluating the expressions of a binding: what a row of a source counts for.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The trigger that counts a change and the scan that compares use the same code, so they
 * cannot disagree. A row counts if the filter is true, no part of the key is null, and
 * the value is neither null nor zero.
 *
 * With grouping sets or several values it counts for a list of keys, one for each set and value:
 * the array of all elements of the key, null for those that are not in the set, and the name of the
 * value behind them, if there are several. That is what GROUP BY GROUPING SETS returns. A set of
 * which an element is null is left out, so null always means all. Each element is evaluated, and
 * written, once.
 *
 * A scan that adds up rows before it makes keys of them (sourcegroups.c) takes a row in parts.
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "port/pg_bitutils.h"
#include "utils/json.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/args.h"
#include "transactional/bound/sourceexpr.h"
#include "transactional/bound/sourcesets.h"
#include "transactional/bound/sourcetext.h"

/* One of the values. */
typedef struct DcValueOf
{
	DcTextOf text;		   /* of type bigint if it is an expression */
	int64 constant;		   /* instead, if it is not 0 */
	StringInfoData suffix; /* what the array of a key ends with: the name of the value, if there are several */
} DcValueOf;

struct DcSourceEval
{
	ExprContext *context;
	MemoryContext cxt;
	DcTextOf key;		  /* of one expression, */
	int nelements;		  /* or 0: */
	DcTextOf *elements;	  /* of several */
	StringInfoData array; /* the text of the latter, for one row */
	int nvalues;
	DcValueOf *values;
	ExprState *filter;
	DcTextOf item;
	bool distinct;
	int nsets; /* 0: there is one key and one value */
	uint32 *sets;
	StringInfoData set_key; /* of a list: a key that is being made */
	DcCounted one;
};

static void check_code(List *parsed, const DcSourceRow *row, Relation source);
static void make_key(DcSourceEval *eval, List *keys, bool list);
static void make_values(DcSourceEval *eval, List *values);
static void make_sets(DcSourceEval *eval, List *sets);
static uint32 all_elements(int n);
static bool passes_filter(DcSourceEval *eval);
static uint32 values_of(DcSourceEval *eval, TupleTableSlot *slot, int64 *values);
static bool value_of(DcSourceEval *eval, const DcValueOf *of, TupleTableSlot *slot, int64 *value);
static bool key_of(DcSourceEval *eval, TupleTableSlot *slot, DcKey *key);
static uint32 elements_of(DcSourceEval *eval, TupleTableSlot *slot, int *ends);
static void set_key_begin(DcSourceEval *eval, uint32 set, const int *ends);

/*
 * source_eval_make prepares the expressions for rows of `rel`: the source, or a partition of
 * it. Both are open and locked. What is created lives in a new child of `cxt`.
 */
DcSourceEval *
source_eval_make(const DcSourceRow *row, Relation source, Relation rel, MemoryContext cxt)
{
	MemoryContext own = AllocSetContextCreate(cxt, "dcounter source expressions", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(own);
	DcSourceEval *eval = palloc0(sizeof(DcSourceEval));
	List *parsed = source_parse(row, source);
	Node *filter;
	bool list;

	check_code(parsed, row, source);
	if (RelationGetRelid(rel) != RelationGetRelid(source))
		parsed = map_partition_varattnos(parsed, 1, rel, source);
	filter = list_nth(parsed, PARSED_FILTER);
	list = list_nth(parsed, PARSED_SETS) != NIL || list_length(list_nth(parsed, PARSED_VALUES)) > 1;
	eval->cxt = own;
	eval->context = CreateStandaloneExprContext();
	make_key(eval, list_nth(parsed, PARSED_KEYS), list);
	make_values(eval, list_nth(parsed, PARSED_VALUES));
	if (list)
		make_sets(eval, list_nth(parsed, PARSED_SETS));
	if (filter != NULL)
		eval->filter = ExecInitExpr(expression_planner((Expr *) filter), NULL);
	eval->distinct = list_nth(parsed, PARSED_DISTINCT_OF) != NULL;
	if (eval->distinct)
		sourcetext_make(&eval->item, sourcetext_cast(list_nth(parsed, PARSED_DISTINCT_OF), "distinct_of"));
	MemoryContextSwitchTo(old);
	return eval;
}

/*
 * Raise an error if what a stored text was parsed to has code of users, or its cast to text.
 */
static void
check_code(List *parsed, const DcSourceRow *row, Relation source)
{
	ListCell *lc;

	foreach(lc, (List *) list_nth(parsed, PARSED_VALUES))
		source_code_check((Node *) lfirst_node(TargetEntry, lc)->expr, source, row->source, "value");
	foreach(lc, (List *) list_nth(parsed, PARSED_KEYS))
	{
		source_code_check(sourcetext_cast(lfirst(lc), "key"), source, row->source, "key");
		source_json_check(exprType(lfirst(lc)), "key");
	}
	source_code_check(list_nth(parsed, PARSED_FILTER), source, row->source, "filter");
	if (list_nth(parsed, PARSED_DISTINCT_OF) != NULL)
		source_code_check(sourcetext_cast(list_nth(parsed, PARSED_DISTINCT_OF), "distinct_of"), source, row->source, "distinct_of");
}

/*
 * Prepare the key: one text, or, for several expressions or sets, the elements of a JSON array.
 */
static void
make_key(DcSourceEval *eval, List *keys, bool list)
{
	ListCell *lc;

	if (list_length(keys) == 1 && !list)
	{
		sourcetext_make(&eval->key, sourcetext_cast(linitial(keys), "key"));
		return;
	}
	initStringInfo(&eval->array);
	eval->elements = palloc0(list_length(keys) * sizeof(DcTextOf));
	foreach(lc, keys)
		sourcetext_make_element(&eval->elements[eval->nelements++], lfirst(lc));
}

/*
 * Prepare the values, and for each what its keys end with.
 */
static void
make_values(DcSourceEval *eval, List *values)
{
	ListCell *lc;

	eval->values = palloc0(list_length(values) * sizeof(DcValueOf));
	foreach(lc, values)
	{
		const TargetEntry *target = lfirst_node(TargetEntry, lc);
		Node *expr = (Node *) target->expr;
		DcValueOf *value = &eval->values[eval->nvalues++];

		if (IsA(expr, Const) && !((Const *) expr)->constisnull && ((Const *) expr)->consttype == INT4OID)
			value->constant = DatumGetInt32(((Const *) expr)->constvalue);
		if (value->constant == 0)
			sourcetext_make(&value->text, coerce_to_target_type(NULL, expr, exprType(expr), INT8OID, -1, COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1));
		initStringInfo(&value->suffix);
		if (target->resname != NULL)
		{
			appendStringInfoString(&value->suffix, ", ");
			escape_json(&value->suffix, target->resname);
		}
		appendStringInfoChar(&value->suffix, ']');
	}
}

/*
 * Take over the grouping sets, each as a mask of elements of the key; without group_by, one of all
 * elements.
 */
static void
make_sets(DcSourceEval *eval, List *sets)
{
	ListCell *lc;

	if (eval->nelements > SOURCE_MAX_ELEMENTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key has more than %d elements", SOURCE_MAX_ELEMENTS)));
	initStringInfo(&eval->set_key);
	eval->sets = palloc(Max(list_length(sets), 1) * sizeof(uint32));
	foreach(lc, sets)
		eval->sets[eval->nsets++] = source_set_mask(lfirst(lc));
	if (sets == NIL)
		eval->sets[eval->nsets++] = all_elements(eval->nelements);
}

/*
 * Return the set of all of n elements.
 */
static uint32
all_elements(int n)
{
	return PG_UINT32_MAX >> (SOURCE_MAX_ELEMENTS - n);
}

/*
 * Return true if a row counts, and for what. The result may point into the row, and
 * into memory that source_eval_reset() frees. Not for lists.
 */
bool
source_eval(DcSourceEval *eval, TupleTableSlot *slot, DcCounted *counted)
{
	MemoryContext old = MemoryContextSwitchTo(eval->context->ecxt_per_tuple_memory);
	bool counts;

	Assert(eval->nsets == 0);
	eval->context->ecxt_scantuple = slot;
	counts = passes_filter(eval) && value_of(eval, &eval->values[0], slot, &counted->value) &&
		key_of(eval, slot, &counted->key) &&
		(!eval->distinct || sourcetext_key(&eval->item, eval->context, slot, &counted->item));
	MemoryContextSwitchTo(old);
	return counts;
}

/*
 * Return true if rows count for lists.
 */
bool
source_eval_is_list(const DcSourceEval *eval)
{
	return eval->nsets > 0;
}

/*
 * source_eval_list sets *list to what a row counts for, in `cxt`, and returns the length: the same
 * for all rows, with the same set and value at each place. What the row does not count for has the
 * value 0.
 */
int
source_eval_list(DcSourceEval *eval, TupleTableSlot *slot, MemoryContext cxt, DcCounted **list)
{
	int n = eval->nsets * eval->nvalues;
	MemoryContext old = MemoryContextSwitchTo(eval->context->ecxt_per_tuple_memory);
	DcCounted *counted = MemoryContextAllocZero(cxt, n * sizeof(DcCounted));
	int64 values[SOURCE_MAX_VALUES];
	int ends[SOURCE_MAX_ELEMENTS];
	uint32 nulls = 0;
	bool any;

	*list = counted;
	eval->context->ecxt_scantuple = slot;
	any = passes_filter(eval) && values_of(eval, slot, values) != 0;
	if (any)
		nulls = elements_of(eval, slot, ends);
	for (int s = 0; any && s < eval->nsets; s++)
	{
		if ((eval->sets[s] & nulls) != 0)
			continue;
		set_key_begin(eval, eval->sets[s], ends);
		for (int v = 0; v < eval->nvalues; v++)
		{
			const StringInfoData *suffix = &eval->values[v].suffix;
			DcCounted *one = &counted[s * eval->nvalues + v];
			Size len = eval->set_key.len + suffix->len;
			char *data;

			if (values[v] == 0)
				continue;
			check_length("counter key", len, 0, DC_MAX_KEY_BYTES);
			data = MemoryContextAlloc(cxt, len);
			memcpy(data, eval->set_key.data, eval->set_key.len);
			memcpy(data + eval->set_key.len, suffix->data, suffix->len);
			one->key.data = data;
			one->key.len = len;
			one->value = values[v];
		}
	}
	MemoryContextSwitchTo(old);
	return n;
}

/*
 * source_eval_row is source_eval() or source_eval_list(), until source_eval_reset().
 */
int
source_eval_row(DcSourceEval *eval, TupleTableSlot *slot, DcCounted **list)
{
	if (eval->nsets > 0)
		return source_eval_list(eval, slot, eval->context->ecxt_per_tuple_memory, list);
	*list = &eval->one;
	return source_eval(eval, slot, &eval->one) ? 1 : 0;
}

/*
 * source_eval_sets sets `sets` to the sets of elements, of which rows make keys, and returns their
 * number; 0 if rows cannot be taken in parts: the key is not an array, or a very long one, or
 * distinct values are counted.
 */
int
source_eval_sets(const DcSourceEval *eval, uint32 *sets)
{
	if (eval->nelements == 0 || eval->nelements > SOURCE_MAX_ELEMENTS || eval->distinct)
		return 0;
	if (eval->nsets == 0)
	{
		sets[0] = all_elements(eval->nelements);
		return 1;
	}
	memcpy(sets, eval->sets, eval->nsets * sizeof(uint32));
	return eval->nsets;
}

/*
 * source_eval_values returns the number of values.
 */
int
source_eval_values(const DcSourceEval *eval)
{
	return eval->nvalues;
}

/*
 * source_eval_parts evaluates a row, for bindings that have sets; false if it does not count at
 * all.
 */
bool
source_eval_parts(DcSourceEval *eval, TupleTableSlot *slot, DcCountedParts *parts)
{
	MemoryContext old = MemoryContextSwitchTo(eval->context->ecxt_per_tuple_memory);
	bool counts = false;

	eval->context->ecxt_scantuple = slot;
	parts->nulls = 0;
	parts->counts = passes_filter(eval) ? values_of(eval, slot, parts->values) : 0;
	if (parts->counts != 0)
	{
		counts = true;
		for (int i = 0; i < eval->nelements && counts; i++)
		{
			const DcTextOf *text = &eval->elements[i];

			if (sourcetext_value(text, eval->context, slot, &parts->elements[i]) && !(eval->nsets > 0 && sourcetext_is_json_null(text, parts->elements[i])))
				continue;
			parts->nulls |= 1U << i;
			counts = eval->nsets > 0;
		}
	}
	MemoryContextSwitchTo(old);
	return counts;
}

/*
 * source_eval_pack appends the bytes of the elements of a set, none of them null. They are the same
 * for the same key.
 */
void
source_eval_pack(const DcSourceEval *eval, const Datum *elements, uint32 set, StringInfo packed)
{
	for (; set != 0; set &= set - 1)
	{
		int i = pg_rightmost_one_pos32(set);

		sourcetext_pack(&eval->elements[i], elements[i], packed);
	}
}

/*
 * source_eval_unpack sets the elements of a set to what source_eval_pack() has appended, which is
 * at an aligned address and must stay there.
 */
void
source_eval_unpack(const DcSourceEval *eval, const char *packed, uint32 set, Datum *elements)
{
	for (; set != 0; set &= set - 1)
	{
		int i = pg_rightmost_one_pos32(set);

		packed = sourcetext_unpack(&eval->elements[i], packed, &elements[i]);
	}
}

/*
 * source_eval_key makes the key of a set and a value (its number), which lives until the next call
 * or source_eval_reset(). One that is too long is an error (54000).
 */
void
source_eval_key(DcSourceEval *eval, const Datum *elements, uint32 set, int value, DcKey *key)
{
	const StringInfoData *suffix = &eval->values[value].suffix;
	StringInfo array = &eval->array;
	MemoryContext old = MemoryContextSwitchTo(eval->context->ecxt_per_tuple_memory);

	resetStringInfo(array);
	for (int i = 0; i < eval->nelements; i++)
	{
		appendStringInfoString(array, i > 0 ? ", " : "[");
		if ((set & (1U << i)) != 0)
			sourcetext_append(&eval->elements[i], elements[i], array);
		else
			appendStringInfoString(array, "null");
	}
	appendBinaryStringInfo(array, suffix->data, suffix->len);
	MemoryContextSwitchTo(old);
	check_length("counter key", array->len, 0, DC_MAX_KEY_BYTES);
	key->data = array->data;
	key->len = array->len;
}

/*
 * Return true if the filter is true for the row at hand, or there is none.
 */
static bool
passes_filter(DcSourceEval *eval)
{
	bool isnull;

	return eval->filter == NULL || (DatumGetBool(ExecEvalExpr(eval->filter, eval->context, &isnull)) && !isnull);
}

/*
 * Set the values of a row, and return a mask of those that are neither null nor zero.
 */
static uint32
values_of(DcSourceEval *eval, TupleTableSlot *slot, int64 *values)
{
	uint32 counts = 0;

	for (int v = 0; v < eval->nvalues; v++)
	{
		if (value_of(eval, &eval->values[v], slot, &values[v]))
			counts |= 1U << v;
		else
			values[v] = 0;
	}
	return counts;
}

/*
 * Return true if a value of a row is neither null nor zero.
 */
static bool
value_of(DcSourceEval *eval, const DcValueOf *of, TupleTableSlot *slot, int64 *value)
{
	if (of->constant != 0)
	{
		*value = of->constant;
		return true;
	}
	return sourcetext_number(&of->text, eval->context, slot, value) && *value != 0;
}

/*
 * key_of makes the key of a row; false if a part of it is null. One that is too long is an error
 * (54000).
 */
static bool
key_of(DcSourceEval *eval, TupleTableSlot *slot, DcKey *key)
{
	if (eval->nelements == 0)
		return sourcetext_key(&eval->key, eval->context, slot, key);
	resetStringInfo(&eval->array);
	for (int i = 0; i < eval->nelements; i++)
	{
		appendStringInfoString(&eval->array, i > 0 ? ", " : "[");
		if (!sourcetext_element(&eval->elements[i], eval->context, slot, &eval->array))
			return false;
	}
	appendStringInfoChar(&eval->array, ']');
	check_length("counter key", eval->array.len, 0, DC_MAX_KEY_BYTES);
	key->data = eval->array.data;
	key->len = eval->array.len;
	return true;
}

/*
 * elements_of writes all elements of a row, one after the other, with where each ends, and returns
 * which of them are null. A JSON null is as well: in keys it means all.
 */
static uint32
elements_of(DcSourceEval *eval, TupleTableSlot *slot, int *ends)
{
	uint32 nulls = 0;

	resetStringInfo(&eval->array);
	for (int i = 0; i < eval->nelements; i++)
	{
		int begin = eval->array.len;

		if (!sourcetext_element(&eval->elements[i], eval->context, slot, &eval->array) || strcmp(eval->array.data + begin, "null") == 0)
			nulls |= 1U << i;
		ends[i] = eval->array.len;
	}
	return nulls;
}

/*
 * set_key_begin writes the key of a set, up to the bracket or the name of a value.
 */
static void
set_key_begin(DcSourceEval *eval, uint32 set, const int *ends)
{
	StringInfo key = &eval->set_key;

	resetStringInfo(key);
	for (int i = 0; i < eval->nelements; i++)
	{
		int begin = i > 0 ? ends[i - 1] : 0;

		appendStringInfoString(key, i > 0 ? ", " : "[");
		if ((set & (1U << i)) != 0)
			appendBinaryStringInfo(key, eval->array.data + begin, ends[i] - begin);
		else
			appendStringInfoString(key, "null");
	}
}

/*
 * source_eval_reset frees the memory of what was evaluated since the last call.
 */
void
source_eval_reset(DcSourceEval *eval)
{
	ResetExprContext(eval->context);
}

/*
 * Free the expressions, and all that was evaluated with them.
 */
void
source_eval_free(DcSourceEval *eval)
{
	FreeExprContext(eval->context, true);
	MemoryContextDelete(eval->cxt);
}

/*
 * source_eval_key_column returns the number of the column that is the key, in the relation that the
 * expressions were prepared for; 0 if it is an expression, or of a type that is not looked for by
 * indexes.
 */
AttrNumber
source_eval_key_column(const DcSourceEval *eval)
{
	return eval->key.base == DATEOID ? 0 : eval->key.column;
}

/*
 * source_eval_constant returns what each row counts for whose key is not null, if that is the same
 * for all; else 0.
 */
int64
source_eval_constant(const DcSourceEval *eval)
{
	return eval->filter == NULL && !eval->distinct ? eval->values[0].constant : 0;
}
