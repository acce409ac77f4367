/*
 * dc_sets.c
 *		SQL functions of dc_gset and dc_orset.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/compat.h"
#include "types/crdt/crdttype.h"
#include "types/crdt/dots.h"
#include "types/crdt/gset.h"
#include "types/crdt/setexpanded.h"

PG_FUNCTION_INFO_V1(dc_gset);
PG_FUNCTION_INFO_V1(dc_orset);
PG_FUNCTION_INFO_V1(dc_add_gset);
PG_FUNCTION_INFO_V1(dc_add_orset);
PG_FUNCTION_INFO_V1(dc_remove);
PG_FUNCTION_INFO_V1(dc_reset_orset);
PG_FUNCTION_INFO_V1(dc_contains_gset);
PG_FUNCTION_INFO_V1(dc_contains_orset);
PG_FUNCTION_INFO_V1(dc_value_gset);
PG_FUNCTION_INFO_V1(dc_value_orset);
PG_FUNCTION_INFO_V1(dc_values_gset);
PG_FUNCTION_INFO_V1(dc_values_orset);

/*
 * dc_gset(): Return an empty grow-only set.
 */
Datum
dc_gset(PG_FUNCTION_ARGS)
{
	CrdtBuf buf = {NULL, 0, 0};

	gset_empty(&buf);
	return crdt_datum(&buf);
}

/*
 * dc_orset(): Return an empty observed-remove set.
 */
Datum
dc_orset(PG_FUNCTION_ARGS)
{
	CrdtBuf buf = {NULL, 0, 0};

	dots_empty(&buf, CRDT_ORSET);
	return crdt_datum(&buf);
}

/*
 * dc_add(set, element) of a grow-only set
 */
Datum
dc_add_gset(PG_FUNCTION_ARGS)
{
	return set_add(fcinfo, crdt_element_arg(fcinfo, 1), (CrdtString){NULL, 0});
}

/*
 * dc_add(set, element, node): adds an element, also where it is there, so that a
 * removal elsewhere that has not seen this does not undo it.
 */
Datum
dc_add_orset(PG_FUNCTION_ARGS)
{
	return set_add(fcinfo, crdt_element_arg(fcinfo, 1), crdt_node_arg(fcinfo, 2));
}

/*
 * dc_remove(set, element): removes an element as far as this state has seen it added.
 */
Datum
dc_remove(PG_FUNCTION_ARGS)
{
	return set_remove(fcinfo, crdt_element_arg(fcinfo, 1));
}

/*
 * dc_reset(set): removes all elements that this state has.
 */
Datum
dc_reset_orset(PG_FUNCTION_ARGS)
{
	return set_reset(PG_GETARG_DATUM(0));
}

/*
 * dc_contains(set, element): Return true if a dc_gset has the element.
 */
Datum
dc_contains_gset(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(set_contains(PG_GETARG_DATUM(0), crdt_element_arg(fcinfo, 1)));
}

/*
 * dc_contains(set, element): Return true if a dc_orset has the element.
 */
Datum
dc_contains_orset(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(set_contains(PG_GETARG_DATUM(0), crdt_element_arg(fcinfo, 1)));
}

/* Elements one after the other, of either kind of set. */
typedef struct Elements
{
	bool dotted;
	GsetIter gset;
	DotsReader dots;
} Elements;

/*
 * Begin to read the elements of a state; `dotted` is true for a dc_orset.
 */
static void
open_elements(Elements *elements, CrdtBytes state, bool dotted)
{
	elements->dotted = dotted;
	if (dotted)
		dots_reader_open(&elements->dots, state);
	else
		elements->gset = gset_iter(state);
}

/*
 * Read the next element, as a view; return false after the last.
 */
static bool
next_element(Elements *elements, CrdtString *element)
{
	CHECK_FOR_INTERRUPTS();
	if (!elements->dotted)
		return gset_next(&elements->gset, element);
	if (!dots_reader_next(&elements->dots))
		return false;
	*element = elements->dots.current.element;
	return true;
}

/*
 * dc_value(set): an array of the elements, in order of their bytes.
 */
static Datum
elements_array(CrdtBytes state, bool dotted)
{
	Elements elements;
	CrdtString element;
	ArrayBuildState *array = initArrayResult(TEXTOID, CurrentMemoryContext, false);

	open_elements(&elements, state, dotted);
	while (next_element(&elements, &element))
		(void) accumArrayResult(array, crdt_string_datum(element), false, TEXTOID, CurrentMemoryContext);
	return makeArrayResult(array, CurrentMemoryContext);
}

/*
 * dc_value(set): Return the elements of a dc_gset as a text array.
 */
Datum
dc_value_gset(PG_FUNCTION_ARGS)
{
	return elements_array(set_bytes(PG_GETARG_DATUM(0)), false);
}

/*
 * dc_value(set): Return the elements of a dc_orset as a text array.
 */
Datum
dc_value_orset(PG_FUNCTION_ARGS)
{
	return elements_array(set_bytes(PG_GETARG_DATUM(0)), true);
}

/*
 * dc_values(set): the elements, in order of their bytes.
 */
static Datum
elements_rows(FunctionCallInfo fcinfo, bool dotted)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Elements elements;
	CrdtString element;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	open_elements(&elements, set_bytes(PG_GETARG_DATUM(0)), dotted);
	while (next_element(&elements, &element))
	{
		Datum value = crdt_string_datum(element);
		bool null = false;

		tuplestore_putvalues(result->setResult, result->setDesc, &value, &null);
		pfree(DatumGetPointer(value));
	}
	return (Datum) 0;
}

/*
 * dc_values(set): Return the elements of a dc_gset as rows.
 */
Datum
dc_values_gset(PG_FUNCTION_ARGS)
{
	return elements_rows(fcinfo, false);
}

/*
 * dc_values(set): Return the elements of a dc_orset as rows.
 */
Datum
dc_values_orset(PG_FUNCTION_ARGS)
{
	return elements_rows(fcinfo, true);
}
