/*
 * args.c
 *		Arguments of SQL functions, and results of several columns.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/trigger.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/interval.h"
#include "base/roles.h"

/*
 * Raise 22004 for an argument, or a member of one.
 */
void
null_not_allowed(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", name)));
}

/*
 * length_error raises the error for a text that must not be empty and is (22023), or is too
 * long (54000).
 */
void
length_error(const char *what, Size len, Size max)
{
	if (len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be empty", what)));
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("%s is too long", what),
			 errdetail("It has %zu bytes; the limit is %zu.", len, max)));
}

/*
 * text_arg_limited returns a text argument of 1 to max bytes (22004 for NULL). Error messages
 * call it `what`.
 */
char *
text_arg_limited(FunctionCallInfo fcinfo, int argno, const char *what, Size max)
{
	text *value;

	arg_not_null(fcinfo, argno, what);
	value = PG_GETARG_TEXT_PP(argno);
	check_length(what, VARSIZE_ANY_EXHDR(value), 1, max);
	return text_to_cstring(value);
}

/*
 * role_arg returns a role (22004 for NULL; 42704 if it must exist, and does not). InvalidOid
 * ('-' as a regrole) may stand for all roles.
 */
Oid
role_arg(FunctionCallInfo fcinfo, int argno, bool must_exist, bool or_everybody)
{
	Oid role;

	arg_not_null(fcinfo, argno, "role");
	role = PG_GETARG_OID(argno);
	if (must_exist && !(or_everybody && !OidIsValid(role)) && role_is_lost(role))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role with OID %u does not exist", role)));
	return role;
}

/*
 * trigger_check raises 39P01 if a trigger's function was called by something else.
 */
void
trigger_check(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as a trigger", function)));
}

/*
 * interval_to_duration returns an interval in microseconds, one that does not fit as the nearest
 * number that does. Raises 22023 if it has months.
 */
int64
interval_to_duration(const Interval *interval, const char *name)
{
	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not have months or years", name),
				 errdetail("Months and years vary in length."),
				 errhint("Use days.")));
	return interval_to_us(interval);
}

/*
 * bool_arg returns a boolean argument (22004 for NULL).
 */
bool
bool_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	arg_not_null(fcinfo, argno, name);
	return PG_GETARG_BOOL(argno);
}

/*
 * array_datum creates an array of values of a type, none of which is null.
 */
Datum
array_datum(Datum *values, int count, Oid type)
{
	int16 len;
	bool by_value;
	char align;

	get_typlenbyvalalign(type, &len, &by_value, &align);
	return PointerGetDatum(construct_array(values, count, type, len, by_value, align));
}

/*
 * array_arg returns the members of an array argument (22004 for NULL, also as a member; 2202E
 * for an array of several dimensions). Error messages call the argument `name` and a member
 * `member`.
 */
Datum *
array_arg(FunctionCallInfo fcinfo, int argno, const char *name,
		  const char *member, int *count)
{
	ArrayType *array;
	Datum *values;
	bool *nulls;
	int16 len;
	bool by_value;
	char align;

	arg_not_null(fcinfo, argno, name);
	array = PG_GETARG_ARRAYTYPE_P(argno);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s must be a one-dimensional array", name)));
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, by_value, align,
					  &values, &nulls, count);
	for (int i = 0; i < *count; i++)
	{
		if (nulls[i])
			null_not_allowed(member);
	}
	return values;
}

/*
 * record_result makes the result of a function with output arguments.
 */
Datum
record_result(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * prevent_write raises an error where a function that writes must not run: in a read-only
 * transaction, on a standby, and where prevent_lasting() raises one.
 */
void
prevent_write(const char *function)
{
	PreventCommandIfReadOnly(function);
	prevent_lasting(function);
}

/*
 * prevent_lasting raises an error where a function whose work outlasts its call must not run:
 * in a parallel operation, and inside a security-restricted operation (an index expression,
 * REFRESH MATERIALIZED VIEW, ANALYZE), where work left for the commit would escape the sandbox.
 */
void
prevent_lasting(const char *function)
{
	PreventCommandIfParallelMode(function);
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot execute %s within security-restricted operation", function)));
}
