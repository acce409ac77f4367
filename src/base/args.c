/*
 * args.c
 *		Arguments that must not be null.
 */
#include "postgres.h"

#include "base/args.h"

/*
 * null_not_allowed raises the error (22004).
 */
void
null_not_allowed(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what)));
}
