/*
 * refs.c
 *		Reference counts of distinct values.
 */
#include "postgres.h"

#include "bound/refs.h"

Oid
refs_create(Oid counter)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("distinct_of is not supported")));
}

void
refs_add(const DcSourceRow *row, const DcKey *key, const DcKey *item, int sign)
{
	elog(ERROR, "no reference counts");
}
