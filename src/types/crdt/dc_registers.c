/*
 * dc_registers.c
 *		SQL functions of dc_lww and dc_mvreg.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "base/compat.h"
#include "types/crdt/crdttype.h"
#include "types/crdt/dots.h"
#include "types/crdt/hlcclock.h"
#include "types/crdt/stamp.h"

PG_FUNCTION_INFO_V1(dc_lww);
PG_FUNCTION_INFO_V1(dc_mvreg);
PG_FUNCTION_INFO_V1(dc_set_lww);
PG_FUNCTION_INFO_V1(dc_set_mvreg);
PG_FUNCTION_INFO_V1(dc_set_as_lww);
PG_FUNCTION_INFO_V1(dc_set_as_mvreg);
PG_FUNCTION_INFO_V1(dc_reset_mvreg);
PG_FUNCTION_INFO_V1(dc_value_lww);
PG_FUNCTION_INFO_V1(dc_value_mvreg);
PG_FUNCTION_INFO_V1(dc_values_mvreg);
PG_FUNCTION_INFO_V1(dc_stamp);

/*
 * dc_lww(): Return a last-writer-wins register that was never written.
 */
Datum
dc_lww(PG_FUNCTION_ARGS)
{
	CrdtBuf buf = {NULL, 0, 0};

	lww_empty(&buf);
	return crdt_datum(&buf);
}

/*
 * dc_mvreg(): Return a multi-value register without values.
 */
Datum
dc_mvreg(PG_FUNCTION_ARGS)
{
	CrdtBuf buf = {NULL, 0, 0};

	dots_empty(&buf, CRDT_MVREG);
	return crdt_datum(&buf);
}

/*
 * value_arg is a register's new value, as it is stored.
 */
static CrdtString
value_arg(FunctionCallInfo fcinfo, int argno)
{
	CrdtString value;

	if (!crdt_json_value(PG_GETARG_DATUM(argno), &value))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value is too long"),
				 errdetail("Its text has more than %d bytes.", CRDT_MAX_ELEMENT)));
	return value;
}

/*
 * Return this database's node name; 55000 if it has none.
 */
static CrdtString
own_node(void)
{
	const char *name = node_name();

	return (CrdtString){name, strlen(name)};
}

/*
 * set_lww writes a value with a stamp after the register's present one.
 */
static Datum
set_lww(FunctionCallInfo fcinfo, CrdtString node)
{
	Lww lww = lww_decode(CRDT_ARG(0));
	CrdtBuf buf = {NULL, 0, 0};

	lww.value = value_arg(fcinfo, 1);
	lww.stamp.time = hlc_clock_next(lww.written ? lww.stamp.time : 0);
	lww.stamp.node = node;
	lww.written = true;
	lww_encode(&buf, &lww);
	return crdt_datum(&buf);
}

/*
 * set_mvreg replaces all values that this state has.
 */
static Datum
set_mvreg(FunctionCallInfo fcinfo, CrdtString node)
{
	CrdtBuf buf = {NULL, 0, 0};

	if (!dots_set(&buf, CRDT_ARG(0), value_arg(fcinfo, 1), node))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("node \"%.*s\" has no dots left", (int) node.len, node.data)));
	return crdt_datum(&buf);
}

/*
 * dc_set(register, value): Write a value to a dc_lww, with a new stamp of this database.
 */
Datum
dc_set_lww(PG_FUNCTION_ARGS)
{
	return set_lww(fcinfo, own_node());
}

/*
 * dc_set_as(register, value, node): Write a value to a dc_lww on behalf of a node.
 */
Datum
dc_set_as_lww(PG_FUNCTION_ARGS)
{
	return set_lww(fcinfo, crdt_node_arg(fcinfo, 2));
}

/*
 * dc_set(register, value): Replace the values of a dc_mvreg, on behalf of this database.
 */
Datum
dc_set_mvreg(PG_FUNCTION_ARGS)
{
	return set_mvreg(fcinfo, own_node());
}

/*
 * dc_set_as(register, value, node): Replace the values of a dc_mvreg on behalf of a node.
 */
Datum
dc_set_as_mvreg(PG_FUNCTION_ARGS)
{
	return set_mvreg(fcinfo, crdt_node_arg(fcinfo, 2));
}

/*
 * dc_reset(register): removes all values that this state has.
 */
Datum
dc_reset_mvreg(PG_FUNCTION_ARGS)
{
	CrdtBuf buf = {NULL, 0, 0};

	dots_reset(&buf, CRDT_ARG(0));
	return crdt_datum(&buf);
}

/*
 * dc_value(register): its value, NULL if it never was written.
 */
Datum
dc_value_lww(PG_FUNCTION_ARGS)
{
	Lww lww = lww_decode(CRDT_ARG(0));

	if (!lww.written)
		PG_RETURN_NULL();
	return crdt_jsonb_of(lww.value);
}

/*
 * dc_stamp(register): when and the node that wrote it, NULL if none did.
 */
Datum
dc_stamp(PG_FUNCTION_ARGS)
{
	Lww lww = lww_decode(CRDT_ARG(0));
	CrdtBuf buf = {NULL, 0, 0};

	if (!lww.written)
		PG_RETURN_NULL();
	hlc_encode(&buf, &lww.stamp);
	return crdt_datum(&buf);
}

/*
 * dc_value(register): an array of its values; more than one after concurrent writings.
 */
Datum
dc_value_mvreg(PG_FUNCTION_ARGS)
{
	ArrayBuildState *array = initArrayResult(JSONBOID, CurrentMemoryContext, false);
	DotsReader reader;

	dots_reader_open(&reader, CRDT_ARG(0));
	while (dots_reader_next(&reader))
		(void) accumArrayResult(array, crdt_jsonb_of(reader.current.element), false, JSONBOID, CurrentMemoryContext);
	dots_reader_close(&reader);
	return makeArrayResult(array, CurrentMemoryContext);
}

/*
 * dc_values(register): the same as rows.
 */
Datum
dc_values_mvreg(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	DotsReader reader;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	dots_reader_open(&reader, CRDT_ARG(0));
	while (dots_reader_next(&reader))
	{
		Datum value = crdt_jsonb_of(reader.current.element);
		bool null = false;

		CHECK_FOR_INTERRUPTS();
		tuplestore_putvalues(result->setResult, result->setDesc, &value, &null);
		pfree(DatumGetPointer(value));
	}
	dots_reader_close(&reader);
	return (Datum) 0;
}
