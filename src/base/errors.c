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

/*
 * relation_missing_error raises 42P01 for a relation that does not exist any more.
 */
void
relation_missing_error(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("relation with OID %u does not exist", relid)));
}

/*
 * trigger_call_error raises 39P01: a trigger's function was called in another way. `when`
 * says for what it may be called, or is empty.
 */
void
trigger_call_error(const char *function, const char *when)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("%s can only be called as a trigger%s", function, when)));
}
