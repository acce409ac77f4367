/*
 * workerhooks.c
 *		DDL that the launcher has to know about.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Statements that need a database without connections (DROP DATABASE, RENAME, SET
 * TABLESPACE, CREATE DATABASE from it) would fail because of the worker. So it is
 * asked to leave before they run, and comes back when they have ended. Only a
 * role that may run the statement can make it do so.
 *
 * Statements that change which databases should have a worker wake the launcher
 * when they have committed.
 *
 * All this is only done with shared_preload_libraries. From PostgreSQL 19 on the server itself ends
 * workers for such statements (BGWORKER_INTERRUPTIBLE), even one that dc_worker_start() has started
 * without preload.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/latch.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/utility.h"
#include "base/xactrooms.h"
#include "core/worker/slots.h"
#include "core/worker/worker.h"

/* How long a worker stays away if it is not called back. */
#define PAUSE_MS (60 * 1000)

/* How long to wait for it to leave. */
#define HOOK_LEAVE_MS (10 * 1000)

/* When to ask it again (worker.c). */
#define AGAIN_MS (2 * 1000)

/* To do when this transaction commits. */
static bool wake_at_commit = false;
static bool recheck_at_commit = false;
static bool all_at_commit = false;

static void workerhooks_around_statement(DcUtility *utility);
static const char *database_to_leave(Node *statement);
static Oid pause_worker(const char *name);
static void wait_until_left(Oid database);
static void resume_worker(Oid database);
static void note_statement(Node *statement);
static bool workerhooks_is_idle(void);
static void workerhooks_xact_callback(XactEvent event, void *arg);

/*
 * hooks_init registers the functions around statements and at the end of transactions; called
 * once, at preload.
 */
void
hooks_init(void)
{
	utility_add(workerhooks_around_statement);
	xact_room_add(DC_XACT_WORKER, workerhooks_xact_callback, NULL, workerhooks_is_idle);
	activity_set_wake(launcher_wake);
}

/*
 * Have the worker leave a database that a statement needs for itself, run the statement, and
 * let the worker come back, even after an error.
 */
static void
workerhooks_around_statement(DcUtility *utility)
{
	const char *name = database_to_leave(utility->statement);
	volatile Oid paused = name != NULL ? pause_worker(name) : InvalidOid;

	/* before it runs: DROP EXTENSION and others may free the statement */
	note_statement(utility->statement);
	PG_TRY();
	{
		if (OidIsValid(paused))
			wait_until_left(paused);
		utility_run(utility);
	}
	PG_FINALLY();
	{
		if (OidIsValid(paused))
			resume_worker(paused);
	}
	PG_END_TRY();
}

/*
 * database_to_leave returns the name of the database that a statement needs for
 * itself, or NULL.
 */
static const char *
database_to_leave(Node *statement)
{
	List *options;
	const char *name;
	const char *option;
	ListCell *lc;

	switch (nodeTag(statement))
	{
		case T_DropdbStmt:
			return ((DropdbStmt *) statement)->dbname;
		case T_RenameStmt:
			return ((RenameStmt *) statement)->renameType == OBJECT_DATABASE ? ((RenameStmt *) statement)->subname : NULL;
		case T_AlterDatabaseStmt:
			options = ((AlterDatabaseStmt *) statement)->options;
			name = ((AlterDatabaseStmt *) statement)->dbname;
			option = "tablespace";
			break;
		case T_CreatedbStmt:
			options = ((CreatedbStmt *) statement)->options;
			name = NULL;
			option = "template";
			break;
		default:
			return NULL;
	}
	foreach(lc, options)
	{
		DefElem *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, option) == 0 && def->arg != NULL)
			return name != NULL ? name : defGetString(def);
	}
	return NULL;
}

/*
 * pause_worker asks the worker of a database to leave, and returns the database,
 * or InvalidOid if there is nothing to do.
 */
static Oid
pause_worker(const char *name)
{
	Oid database = get_database_oid(name, true);
	DcWorkerSlot *slot;

	if (!OidIsValid(database) || !compat_owns_database(database, GetUserId()))
		return InvalidOid;
	slot = slot_lock(database, LW_EXCLUSIVE);
	if (slot != NULL)
	{
		slot->paused_until = moment_in(PAUSE_MS);
		(void) slot_terminate(slot);
	}
	slots_unlock();
	return slot != NULL ? database : InvalidOid;
}

/*
 * wait_until_left waits until the worker of a database has left, or gives up: then the
 * statement itself fails with an error that another session is in the way.
 */
static void
wait_until_left(Oid database)
{
	DcMoment end = moment_in(HOOK_LEAVE_MS);
	DcMoment again = moment_in(AGAIN_MS);

	for (;;)
	{
		DcWorkerSlot *slot = slot_lock(database, LW_SHARED);
		bool there;

		there = slot != NULL && slot->pid != 0;
		if (there && moment_is_reached(again))
		{
			(void) slot_terminate(slot);
			again = moment_in(AGAIN_MS);
		}
		slots_unlock();
		if (!there || moment_is_reached(end))
			return;
		CHECK_FOR_INTERRUPTS();
		sleep_on_latch(10, "DcounterWorkerLeave");
	}
}

/*
 * Let the worker of a database come back, at once.
 */
static void
resume_worker(Oid database)
{
	DcWorkerSlot *slot = slot_lock(database, LW_EXCLUSIVE);

	if (slot != NULL)
	{
		slot->paused_until = DC_LONG_AGO;
		slot->start_after = DC_LONG_AGO;
	}
	slots_unlock();
	launcher_wake();
}

/*
 * note_statement remembers whether the launcher has to be told of a statement.
 */
static void
note_statement(Node *statement)
{
	TransactionStmtKind kind;

	switch (nodeTag(statement))
	{
		case T_CreatedbStmt:
		case T_DropdbStmt:
		case T_AlterDatabaseStmt:
			xact_mark(DC_XACT_WORKER);
			wake_at_commit = true;
			break;
		case T_CreateExtensionStmt:
			/* any extension: CASCADE may create ours as well */
			xact_mark(DC_XACT_WORKER);
			recheck_at_commit = true;
			break;
		case T_DropStmt:
			/* the worker leaves, if there is none just now, after a turn */
			if (((DropStmt *) statement)->removeType == OBJECT_EXTENSION)
				activity_note(DC_ACTIVITY_THINGS);
			break;
		case T_TransactionStmt:
			kind = ((TransactionStmt *) statement)->kind;
			if (kind != TRANS_STMT_COMMIT_PREPARED && kind != TRANS_STMT_ROLLBACK_PREPARED)
				break;
			xact_mark(DC_XACT_WORKER);
			/* the extension may have been created in it */
			recheck_at_commit |= kind == TRANS_STMT_COMMIT_PREPARED;
			/* it is unknown by now which tables it has changed, and which rows it had locked */
			all_at_commit = true;
			break;
		default:
			break;
	}
}

/*
 * Return true if there is nothing to do at the end of this transaction.
 */
static bool
workerhooks_is_idle(void)
{
	return !wake_at_commit && !recheck_at_commit && !all_at_commit;
}

/*
 * Tell the launcher at commit of changes that concern it, and publish changes of which tables
 * are unknown.
 */
static void
workerhooks_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT && recheck_at_commit)
		recheck_at_commit = OidIsValid(get_extension_oid("dcounter", true));
	else if (event == XACT_EVENT_COMMIT && recheck_at_commit)
		launcher_recheck(MyDatabaseId);
	else if (event == XACT_EVENT_COMMIT && wake_at_commit)
		launcher_wake();
	if (event == XACT_EVENT_COMMIT && all_at_commit)
	{
		activity_note_at_once(DC_ACTIVITY_ALL);
		activity_note_at_once(DC_ACTIVITY_THINGS);
	}
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PREPARE)
	{
		all_at_commit = false;
		wake_at_commit = false;
		recheck_at_commit = false;
	}
}
