/*
 * errors.c
 *		Errors that many rooms raise.
 *
 * Copyright (c) 2026, the dcounter developers
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
