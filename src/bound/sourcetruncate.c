/*
 * sourcetruncate.c
 *		TRUNCATE of a source.
 */
#include "postgres.h"

#include "bound/bound.h"
#include "fmgr.h"

PG_FUNCTION_INFO_V1(source_truncate);

Datum
source_truncate(PG_FUNCTION_ARGS)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("cannot truncate a source")));
}
