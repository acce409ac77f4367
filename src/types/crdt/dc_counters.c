/*
 * dc_counters.c
 *		SQL functions of dc_gcounter, dc_pncounter and dc_vclock.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"

#include "base/compat.h"
#include "types/crdt/amounts.h"
#include "types/crdt/crdttype.h"

PG_FUNCTION_INFO_V1(dc_gcounter);
PG_FUNCTION_INFO_V1(dc_pncounter);
PG_FUNCTION_INFO_V1(dc_vclock);
PG_FUNCTION_INFO_V1(dc_add_amount);
PG_FUNCTION_INFO_V1(dc_reset_pncounter);
PG_FUNCTION_INFO_V1(dc_value_counter);
PG_FUNCTION_INFO_V1(dc_values_amounts);

/*
 * Return a counter or vector clock without nodes.
 */
static Datum
empty_value(CrdtKind kind)
{
	CrdtBuf buf = {NULL, 0, 0};

	amounts_empty(&buf, kind);
	return crdt_datum(&buf);
}

/*
 * dc_gcounter(): Return an empty grow-only counter.
 */
Datum
dc_gcounter(PG_FUNCTION_ARGS)
{
	return empty_value(CRDT_GCOUNTER);
}

/*
 * dc_pncounter(): Return an empty counter that can also be decremented.
 */
Datum
dc_pncounter(PG_FUNCTION_ARGS)
{
	return empty_value(CRDT_PNCOUNTER);
}

/*
 * dc_vclock(): Return an empty vector clock.
 */
Datum
dc_vclock(PG_FUNCTION_ARGS)
{
	return empty_value(CRDT_VCLOCK);
}

/*
 * dc_add(counter, amount, node): raises the node's amount. A negative amount lowers a
 * dc_pncounter (by raising the node's decrements); the other types only grow (22023).
 * Raises 22003 if the node's amount would overflow bigint.
 */
Datum
dc_add_amount(PG_FUNCTION_ARGS)
{
	CrdtBytes state = CRDT_ARG(0);
	const CrdtType *type = crdt_type_of_value(state);
	int64 amount = PG_GETARG_INT64(1);
	CrdtString node = crdt_node_arg(fcinfo, 2);
	AmountsField field = amount < 0 ? AMOUNT_DEC : AMOUNT_INC;
	CrdtBuf buf = {NULL, 0, 0};

	if (amount < 0 && type->kind != CRDT_PNCOUNTER)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("amount must not be negative"),
				 errdetail("A value of type %s only grows.", type->name)));
	if (amount == PG_INT64_MIN || !amounts_add(&buf, state, node, field, amount < 0 ? -amount : amount))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("amounts of node \"%.*s\" would be out of range", (int) node.len, node.data)));
	return crdt_datum(&buf);
}

/*
 * dc_reset(counter): takes away what this state has seen. What others count
 * in the meantime stays.
 */
Datum
dc_reset_pncounter(PG_FUNCTION_ARGS)
{
	CrdtBuf buf = {NULL, 0, 0};

	amounts_reset(&buf, CRDT_ARG(0));
	return crdt_datum(&buf);
}

/*
 * dc_value(counter): its value; 22003 if that is not a bigint.
 */
Datum
dc_value_counter(PG_FUNCTION_ARGS)
{
	CrdtBytes state = CRDT_ARG(0);
	int64 value;

	if (!amounts_value(state, &value))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("the value of the counter is out of range")));
	PG_RETURN_INT64(value);
}

/*
 * dc_values(state): the amounts of each node.
 */
Datum
dc_values_amounts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	AmountsIter iter = amounts_iter(CRDT_ARG(0));
	AmountsEntry entry;

	InitMaterializedSRF(fcinfo, 0);
	while (amounts_next(&iter, &entry))
	{
		Datum values[1 + AMOUNTS_FIELDS];
		bool nulls[1 + AMOUNTS_FIELDS] = {false};

		CHECK_FOR_INTERRUPTS();
		values[0] = crdt_string_datum(entry.node);
		for (int i = 0; i < iter.fields; i++)
			values[1 + i] = Int64GetDatum(entry.amounts[i]);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		pfree(DatumGetPointer(values[0]));
	}
	return (Datum) 0;
}
