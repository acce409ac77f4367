/*
 * arg.c
 *		Arguments of SQL functions.
 */
#include "postgres.h"

#include "base/arg.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

void
arg_null_error(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", name)));
}

/*
 * bool_arg returns a boolean argument (22004 for NULL).
 */
bool
bool_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	arg_check(fcinfo, argno, name);
	return PG_GETARG_BOOL(argno);
}

/*
 * array_arg returns the members of an array argument (22004 for NULL, as one of them,
 * too). `name` and `member` are what error messages call it and them.
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

	arg_check(fcinfo, argno, name);
	array = PG_GETARG_ARRAYTYPE_P(argno);
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, by_value, align,
					  &values, &nulls, count);
	for (int i = 0; i < *count; i++)
	{
		if (nulls[i])
			arg_null_error(member);
	}
	return values;
}
