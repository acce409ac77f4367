/*
 * subxact.c
 *		Work in an internal subtransaction, and errors that are caught.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "base/subxact.h"

/*
 * subxact_run runs `work` in a subtransaction, which is rolled back if `work` returns false or
 * raises an error. The error is raised again to the caller, which would otherwise be left within
 * the subtransaction.
 */
bool
subxact_run(DcSubxactWork work, void *arg)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		done = work(arg);
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(cxt);

		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		ReThrowError(error);
	}
	PG_END_TRY();
	if (done)
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return done;
}

/*
 * error_caught returns the error that a PG_CATCH block is to handle, in a memory context
 * that it switches to.
 */
ErrorData *
error_caught(MemoryContext cxt)
{
	ErrorData *error;

	MemoryContextSwitchTo(cxt);
	error = CopyErrorData();
	FlushErrorState();
	return error;
}
