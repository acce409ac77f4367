/*
 * args.h
 *		Arguments of SQL functions, which are not STRICT: NULL is an error. Results
 *		of several columns.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ARGS_H
#define DC_ARGS_H

#include "datatype/timestamp.h"
#include "fmgr.h"

#include "base/compat.h"

pg_noreturn extern void null_not_allowed(const char *name);
pg_noreturn extern void length_error(const char *what, Size len, Size max);
extern char *text_arg_limited(FunctionCallInfo fcinfo, int argno, const char *what, Size max);
extern Oid role_arg(FunctionCallInfo fcinfo, int argno, bool must_exist, bool or_everybody);
extern void trigger_check(FunctionCallInfo fcinfo, const char *function);
extern int64 interval_to_duration(const Interval *interval, const char *name);
extern bool bool_arg(FunctionCallInfo fcinfo, int argno, const char *name);
extern Datum array_datum(Datum *values, int count, Oid type);
extern Datum *array_arg(FunctionCallInfo fcinfo, int argno, const char *name,
						const char *member, int *count);
extern Datum record_result(FunctionCallInfo fcinfo, Datum *values, bool *nulls);
extern void prevent_write(const char *function);
extern void prevent_lasting(const char *function);

/*
 * arg_not_null raises 22004 if an argument is NULL; the message calls it `name`.
 */
static inline void
arg_not_null(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (unlikely(PG_ARGISNULL(argno)))
		null_not_allowed(name);
}

/*
 * check_length raises an error unless a text has from min (0 or 1) to max bytes.
 */
static inline void
check_length(const char *what, Size len, Size min, Size max)
{
	if (unlikely(len < min || len > max))
		length_error(what, len, max);
}

/*
 * amount_arg returns a bigint argument (22004 for NULL).
 */
static inline int64
amount_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	arg_not_null(fcinfo, argno, name);
	return PG_GETARG_INT64(argno);
}

#endif /* DC_ARGS_H */
