/*
 * arg.h
 *		Arguments of SQL functions, which are not STRICT: NULL is an error.
 */
#ifndef DC_ARG_H
#define DC_ARG_H

#include "base/compat.h"
#include "fmgr.h"

pg_noreturn extern void arg_null_error(const char *name);
extern bool bool_arg(FunctionCallInfo fcinfo, int argno, const char *name);
extern Datum *array_arg(FunctionCallInfo fcinfo, int argno, const char *name,
						const char *member, int *count);

/*
 * arg_check raises 22004 if an argument is NULL; `name` is what the message calls it.
 */
static inline void
arg_check(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (unlikely(PG_ARGISNULL(argno)))
		arg_null_error(name);
}

/*
 * amount_arg returns a bigint argument (22004 for NULL).
 */
static inline int64
amount_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	arg_check(fcinfo, argno, name);
	return PG_GETARG_INT64(argno);
}

#endif /* DC_ARG_H */
