/*
 * control.c
 *		Errors of memory on purpose: a check that reports none of them checks nothing.
 *
 * Each function makes one, of the kinds that the sanitized server is there for.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(read_after_pfree);
PG_FUNCTION_INFO_V1(read_beyond_chunk);
PG_FUNCTION_INFO_V1(read_after_delete);
PG_FUNCTION_INFO_V1(overflow_int);

Datum
read_after_pfree(PG_FUNCTION_ARGS)
{
	char *volatile chunk = palloc0(100);

	pfree(chunk);
	PG_RETURN_INT32(chunk[10]);
}

Datum
read_beyond_chunk(PG_FUNCTION_ARGS)
{
	char *volatile chunk = palloc0(100);

	PG_RETURN_INT32(chunk[100]);
}

Datum
read_after_delete(PG_FUNCTION_ARGS)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "control",
												  ALLOCSET_SMALL_SIZES);
	char *volatile chunk = MemoryContextAllocZero(context, 100);

	MemoryContextDelete(context);
	PG_RETURN_INT32(chunk[10]);
}

Datum
overflow_int(PG_FUNCTION_ARGS)
{
	volatile int32 largest = PG_INT32_MAX;

	PG_RETURN_INT32(largest + 1);
}
