/*
 * args.h
 *		Arguments that must not be null, of functions that are not strict.
 */
#ifndef DC_ARGS_H
#define DC_ARGS_H

#include "base/compat.h"
#include "fmgr.h"

pg_noreturn extern void null_not_allowed(const char *what);

/*
 * arg_not_null raises an error (22004) if an argument is null.
 */
static inline void
arg_not_null(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (unlikely(PG_ARGISNULL(argno)))
		null_not_allowed(name);
}

#endif /* DC_ARGS_H */
