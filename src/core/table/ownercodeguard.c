/*
 * ownercodeguard.c
 *		Refusing to call functions of users, while no code of an owner may run.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The server calls its hook for function calls for each function except those compiled into it,
 * before it calls the function for the first time, or inlines it. With the guard on, a function
 * that is not trusted is an error (42501) instead. Trusted are the server's functions, this
 * extension's, and those of superusers.
 *
 * Functions that were planned or looked up while the guard was off are not asked about
 * again. So the guard does not replace looking at the tables (ownercode.c): it is for
 * changes while they are in use, which make new plans.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "core/table/ownercode.h"

static needs_fmgr_hook_type previous_needs_hook = NULL;
static fmgr_hook_type previous_hook = NULL;

/* No owner's code must run now. */
static bool guarded = false;

static bool needs_hook(Oid function);
static void ownercodeguard_hook(FmgrHookEventType event, FmgrInfo *info, Datum *arg);
static bool is_trusted_function(Oid function);

/*
 * ownercode_guard_init installs the hooks; called once.
 */
void
ownercode_guard_init(void)
{
	previous_needs_hook = needs_fmgr_hook;
	needs_fmgr_hook = needs_hook;
	previous_hook = fmgr_hook;
	fmgr_hook = ownercodeguard_hook;
}

/*
 * ownercode_guard turns the guard on or off, and returns whether it was on.
 */
bool
ownercode_guard(bool on)
{
	bool before = guarded;

	guarded = on;
	return before;
}

/*
 * Return true if a function that is being looked up must not run now, so that the server asks
 * ownercodeguard_hook().
 */
static bool
needs_hook(Oid function)
{
	return (guarded && !is_trusted_function(function)) ||
		(previous_needs_hook != NULL && previous_needs_hook(function));
}

/*
 * ownercodeguard_hook raises 42501 for a function that is not trusted. It is called for these
 * functions, and for those that are SECURITY DEFINER or have settings, about which needs_hook()
 * is not asked.
 */
static void
ownercodeguard_hook(FmgrHookEventType event, FmgrInfo *info, Datum *arg)
{
	if (guarded && event == FHET_START && !is_trusted_function(info->fn_oid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("function %s must not run here", format_procedure(info->fn_oid)),
				 errdetail("Code of its owner was added to a table that was in use.")));
	if (previous_hook != NULL)
		previous_hook(event, info, arg);
}

/*
 * Return true if a function is the server's, this extension's, or owned by a superuser.
 */
static bool
is_trusted_function(Oid function)
{
	HeapTuple tuple;
	bool trusted = false;

	if (is_trusted_object(ProcedureRelationId, function))
		return true;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (HeapTupleIsValid(tuple))
	{
		trusted = superuser_arg(((Form_pg_proc) GETSTRUCT(tuple))->proowner);
		ReleaseSysCache(tuple);
	}
	return trusted;
}
