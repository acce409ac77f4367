/*
 * crdtagg.c
 *		dc_merge_agg of the types whose values may be large: dc_gset, dc_orset, dc_mvreg.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Merging each row into the result so far would process all of that for each row. So the state is a
 * stack of values, each more than twice as large as the next one, like the digits of a binary
 * counter: a row is pushed, and the top is merged while it is not small compared to the value below
 * it. A byte is rewritten about as often as sizes double. Rows with equal values make a stack of
 * one value.
 *
 * The values are in the aggregate's context, and those that have been merged are freed.
 * Functions that finish or serialize a state only read it: aggregates may share one, and
 * window frames may be extended after a result was taken.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/compat.h"
#include "types/crdt/crdttype.h"
#include "types/sketch/io.h"

PG_FUNCTION_INFO_V1(crdt_agg_add);
PG_FUNCTION_INFO_V1(crdt_agg_combine);
PG_FUNCTION_INFO_V1(crdt_agg_serialize);
PG_FUNCTION_INFO_V1(crdt_agg_deserialize);
PG_FUNCTION_INFO_V1(crdt_agg_final);

typedef struct Stack
{
	int n;
	int size;		 /* of the array */
	CrdtBuf *values; /* the largest first */
} Stack;

/*
 * new_stack creates an empty state, in the current context. There may be one for each of many
 * groups, so it is small.
 */
static Stack *
new_stack(void)
{
	Stack *stack = palloc(sizeof(Stack));

	stack->n = 0;
	stack->size = 2;
	stack->values = palloc(stack->size * sizeof(CrdtBuf));
	return stack;
}

/*
 * merge_of merges two values, in the current context.
 */
static CrdtBuf
merge_of(CrdtBytes a, CrdtBytes b)
{
	const CrdtType *type = crdt_type_of_value(a);
	CrdtBuf merged = {NULL, 0, 0};

	CHECK_FOR_INTERRUPTS();
	if (crdt_same(a, b))
		crdt_put_bytes(&merged, a.data, a.len);
	else
		type->merge(&merged, a, b);
	if (merged.len > CRDT_MAX_SIZE)
		crdt_too_large(type, merged.len);
	return merged;
}

/*
 * crdtagg_push puts a copy of a value on the stack, in the current context.
 */
static void
crdtagg_push(Stack *stack, CrdtBytes value)
{
	CrdtBuf top = {NULL, 0, 0};

	while (stack->n > 0 && stack->values[stack->n - 1].len <= 2 * value.len)
	{
		CrdtBuf merged = merge_of(crdt_bytes(&stack->values[stack->n - 1]), value);

		crdt_buf_free(&stack->values[--stack->n]);
		crdt_buf_free(&top);
		top = merged;
		value = crdt_bytes(&top);
	}
	if (top.data == NULL)
		crdt_put_bytes(&top, value.data, value.len);
	if (stack->n == stack->size)
	{
		stack->size *= 2;
		stack->values = repalloc(stack->values, stack->size * sizeof(CrdtBuf));
	}
	stack->values[stack->n++] = top;
}

/*
 * merged_value is what a stack's values become, in the current context.
 */
static CrdtBuf
merged_value(const Stack *stack)
{
	CrdtBuf all = {NULL, 0, 0};

	crdt_put_bytes(&all, stack->values[stack->n - 1].data, stack->values[stack->n - 1].len);
	for (int i = stack->n - 2; i >= 0; i--)
	{
		CrdtBuf merged = merge_of(crdt_bytes(&stack->values[i]), crdt_bytes(&all));

		crdt_buf_free(&all);
		all = merged;
	}
	return all;
}

/*
 * Transition: (state, value)
 */
Datum
crdt_agg_add(PG_FUNCTION_ARGS)
{
	MemoryContext context = sketch_aggregate_context(fcinfo);
	Stack *stack = sketch_state_arg(fcinfo, 0);
	MemoryContext before;
	bytea *value;

	if (PG_ARGISNULL(1))
		return sketch_state_result(fcinfo, stack);
	value = PG_GETARG_BYTEA_PP(1);
	before = MemoryContextSwitchTo(context);
	if (stack == NULL)
		stack = new_stack();
	crdtagg_push(stack, (CrdtBytes){(const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)});
	MemoryContextSwitchTo(before);
	PG_FREE_IF_COPY(value, 1);
	PG_RETURN_POINTER(stack);
}

/*
 * Merge the second state into the first, which alone may be changed.
 */
Datum
crdt_agg_combine(PG_FUNCTION_ARGS)
{
	MemoryContext before = MemoryContextSwitchTo(sketch_aggregate_context(fcinfo));
	Stack *into = sketch_state_arg(fcinfo, 0);
	const Stack *from = sketch_state_arg(fcinfo, 1);

	if (into == NULL && from != NULL)
		into = new_stack();
	for (int i = 0; from != NULL && i < from->n; i++)
		crdtagg_push(into, crdt_bytes(&from->values[i]));
	MemoryContextSwitchTo(before);
	return sketch_state_result(fcinfo, into);
}

/*
 * A state is written as the value of what it has.
 */
Datum
crdt_agg_serialize(PG_FUNCTION_ARGS)
{
	const Stack *stack = sketch_state_arg(fcinfo, 0);
	CrdtBuf all;

	(void) sketch_aggregate_context(fcinfo);
	all = merged_value(stack);
	return crdt_datum(&all);
}

/*
 * The bytes are checked, but not whether each string is text: they were values before.
 */
Datum
crdt_agg_deserialize(PG_FUNCTION_ARGS)
{
	CrdtBytes value = CRDT_ARG(0);
	Stack *stack;

	(void) sketch_aggregate_context(fcinfo);
	if (value.len == 0 || crdt_check(crdt_type_of_value(value), value, NULL) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid state of dc_merge_agg")));
	stack = new_stack();
	crdtagg_push(stack, value);
	PG_RETURN_POINTER(stack);
}

/*
 * The second argument, which is NULL, tells the type of the result.
 */
Datum
crdt_agg_final(PG_FUNCTION_ARGS)
{
	const Stack *stack = sketch_state_arg(fcinfo, 0);
	CrdtBuf all;

	(void) sketch_aggregate_context(fcinfo);
	if (stack == NULL)
		PG_RETURN_NULL();
	all = merged_value(stack);
	return crdt_datum(&all);
}
