/*
 * runas.c
 *		Running SQL as a table's owner, safely.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The owner of a counter table may have put code on it (a trigger, an index expression,
 * a default). All statements that the extension runs against such a table run as that
 * owner, inside a security-restricted operation and with search_path pinned. So the code
 * cannot act as the caller, and the caller's search_path cannot redirect it. Nor can the
 * code touch the cursors of the caller, or leave cursors of its own (portals.c).
 *
 * Nor can it leave other things: within a security-restricted operation the server itself
 * refuses deferred triggers, cursors WITH HOLD, temporary tables, prepared statements,
 * LISTEN, and changes of the role. Settings are undone in runas_end. SET CONSTRAINTS, which
 * the server lets pass, would run the caller's own deferred triggers as the owner, or put
 * off checks that the caller relies on: it is refused here. There remain a few things that
 * any role can do by any trigger, and that the server has no way to undo: advisory locks of
 * the session, lastval(), setseed().
 *
 * An error needs no clean-up here: the abort of the (sub)transaction restores
 * the user, the security context, the settings and the portals.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/guc.h"

#include "base/portals.h"
#include "base/runas.h"
#include "base/utility.h"

static void refuse_constraints(DcUtility *utility);

/*
 * runas_init adds the function that refuses SET CONSTRAINTS; called once, before other rooms
 * add functions, so that theirs are called before it.
 */
void
runas_init(void)
{
	utility_add(refuse_constraints);
}

/*
 * Raise 42501 for SET CONSTRAINTS while code of an owner may run.
 */
static void
refuse_constraints(DcUtility *utility)
{
	if (IsA(utility->statement, ConstraintsSetStmt) && portals_are_shut())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot execute %s within security-restricted operation",
						"SET CONSTRAINTS")));
	utility_run(utility);
}

/*
 * runas_begin switches to roleid until runas_end. The search_path is pinned
 * even when the role does not change: names must mean the same for everyone.
 */
void
runas_begin(DcRunAs *state, Oid roleid)
{
	GetUserIdAndSecContext(&state->saved_userid, &state->saved_sec_context);
	SetUserIdAndSecContext(roleid,
						   state->saved_sec_context |
							   SECURITY_LOCAL_USERID_CHANGE |
							   SECURITY_RESTRICTED_OPERATION);
	state->guc_level = search_path_pin();
	portals_enter();
}

/*
 * runas_end undoes runas_begin.
 */
void
runas_end(DcRunAs *state)
{
	portals_leave();
	AtEOXact_GUC(false, state->guc_level);
	SetUserIdAndSecContext(state->saved_userid, state->saved_sec_context);
}

/*
 * search_path_pin makes unqualified names mean the system's own, until
 * AtEOXact_GUC(false, level) of the level it returns.
 */
int
search_path_pin(void)
{
	int level = NewGUCNestLevel();

	set_config_option("search_path", "pg_catalog, pg_temp",
					  PGC_USERSET, PGC_S_SESSION,
					  GUC_ACTION_SAVE, true, 0, false);
	return level;
}

/*
 * run_ddl runs a utility statement as the current user, with search_path
 * pinned.
 */
void
run_ddl(const char *sql)
{
	int level = search_path_pin();
	int result;

	SPI_connect();
	result = SPI_execute(sql, false, 0);
	if (result != SPI_OK_UTILITY)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
	SPI_finish();
	AtEOXact_GUC(false, level);
}

/*
 * run_ddl_done raises 55000 if a statement that was run for a table has not changed it. A
 * statement names its table. The table's owner, if the statement runs as another role, could
 * have put another table in its place in the meantime, by renaming schemas. The error undoes the
 * change of that other table.
 */
void
run_ddl_done(bool done, const char *name)
{
	if (!done)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s was renamed while it was being altered", name)));
}
