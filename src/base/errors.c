/*
 * errors.c
 *		Errors that many rooms raise.
 */
#include "postgres.h"

#include "base/errors.h"

/*
 * serialization_error raises 40001, in the server's words.
 */
void
serialization_error(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update")));
}
