/*
 * sourcetruncate.c
 *		TRUNCATE of a source, or of partitions of one.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The trigger is on the source and on all of its partitions with rows, as it is for the
 * statement and partitions do not get it from their parent. It is called before the
 * statement does its work, when all tables that the statement empties are locked ACCESS
 * EXCLUSIVE, those of CASCADE included.
 *
 *	- If the source itself is truncated, its values are subtracted (source_count_nothing).
 *	- If a partition is, its rows are read, and subtracted.
 *
 * In one statement the triggers of the source and of its partitions are called, in any order. A
 * partition whose source comes later is read, and then there is less to subtract for the source.
 * One that comes later than its source is skipped: the source is marked in the context of the
 * statement, which the hook for utility statements keeps on a stack, as triggers may run such
 * statements of their own. There are statements without a context: those that a subscription
 * applies, and the first of a session that has not loaded the library yet. Then the trigger of a
 * partitioned source does nothing, and all partitions are read. The same is done if a partition is
 * being detached concurrently: its rows are not truncated with the others, and still count until
 * that is final.
 *
 * Code of users may run between that and the work of the statement: their triggers BEFORE TRUNCATE,
 * and those of a counter's owner if amounts are written early. A row that it changes in a table
 * that is about to be emptied would be counted, and then vanish. So the tables are noted with their
 * files (source_any_emptied), and as long as one has the same file, a change of its rows is an
 * error. The notes end with the statement, where that is seen, and with its subtransaction. A table
 * that is emptied in place, as it was created in this subtransaction, keeps its file, and is noted
 * only if the end of the statement is seen.
 *
 * A subscription's TRUNCATE counts for the bindings that are replicated. Which trigger is called,
 * and for which event, is checked: another one with this function does nothing twice.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/relopen.h"
#include "base/utility.h"
#include "transactional/bound/sourceddl.h"

PG_FUNCTION_INFO_V1(source_truncate);

/* A TRUNCATE that is being run; on the stack of around_truncate(). */
typedef struct DcTruncating
{
	struct DcTruncating *outer;
	List *whole; /* OIDs of sources whose values were subtracted, in TopTransactionContext */
} DcTruncating;

/* A table that is about to be emptied, and whose rows were subtracted. */
typedef struct DcEmptied
{
	Oid relid;
	Oid file;
	SubTransactionId subxact;
} DcEmptied;

/* DcEmptied *, in TopTransactionContext of the transaction with this number. */
static List *emptied = NIL;
static LocalTransactionId emptied_in = InvalidLocalTransactionId;
bool source_any_emptied = false;

/* The innermost one, or NULL; around_truncate() sets it back on every way out. */
static DcTruncating *truncating = NULL;

static void around_truncate(DcUtility *utility);
static void note_emptied(Oid relid);
static List *counted_rows(Oid source);
static bool truncated_whole(Oid source, const List *rows, bool has_rows);
static bool is_being_detached(Oid relid);

/*
 * Install the hook around utility statements; called when the library is loaded.
 */
void
source_truncate_init(void)
{
	utility_add(around_truncate);
}

/*
 * Run a utility statement; a TRUNCATE gets a context (`truncating`), and notes of emptied tables
 * end with it, even after an error.
 */
static void
around_truncate(DcUtility *utility)
{
	DcTruncating context = {.outer = truncating};
	volatile int noted = emptied_in == compat_local_xid() ? list_length(emptied) : 0;

	if (!IsA(utility->statement, TruncateStmt))
	{
		utility_run(utility);
		return;
	}
	PG_TRY();
	{
		truncating = &context;
		utility_run(utility);
	}
	PG_FINALLY();
	{
		truncating = context.outer;
		emptied = noted > 0 ? list_truncate(emptied, noted) : NIL;
		source_any_emptied = emptied != NIL;
	}
	PG_END_TRY();
}

/*
 * note_emptied notes a table whose rows are being subtracted, and which is about to be emptied.
 */
static void
note_emptied(Oid relid)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Relation rel = table_open_present(relid, NoLock);
	SubTransactionId subxact = GetCurrentSubTransactionId();
	DcEmptied *note;

	if (emptied_in != compat_local_xid())
		emptied = NIL;
	emptied_in = compat_local_xid();
	if (truncating != NULL || (rel->rd_createSubid != subxact && compat_new_file_subxact(rel) != subxact))
	{
		note = palloc(sizeof(DcEmptied));
		note->relid = relid;
		note->file = rel->rd_rel->relfilenode;
		note->subxact = subxact;
		emptied = lappend(emptied, note);
		source_any_emptied = true;
	}
	table_close(rel, NoLock);
	MemoryContextSwitchTo(old);
}

/*
 * source_check_emptied raises 55006 if rows of a table change that were subtracted already, as
 * they are about to be truncated.
 */
void
source_check_emptied(Relation rel)
{
	ListCell *lc;

	source_any_emptied = emptied_in == compat_local_xid() && emptied != NIL;
	if (!source_any_emptied)
		return;
	foreach(lc, emptied)
	{
		const DcEmptied *note = lfirst(lc);

		if (note->relid == RelationGetRelid(rel) && note->file == rel->rd_rel->relfilenode &&
			SubTransactionIsActive(note->subxact))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot change rows of \"%s\" while it is being truncated", RelationGetRelationName(rel)),
					 errdetail("Its rows were subtracted from the counters that are bound to it."),
					 errhint("A trigger that changes rows BEFORE TRUNCATE needs a name that sorts before \"%s\".", SOURCE_TRIGGER_TRUNCATE)));
	}
}

/*
 * source_truncate() -> trigger, BEFORE TRUNCATE FOR EACH STATEMENT
 *
 * Errors: 39P01 if it is another kind of trigger.
 */
Datum
source_truncate(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	Oid relid;
	bool has_rows;
	ListCell *lc;

	trigger_check(fcinfo, SOURCE_TRUNCATE_FUNCTION "()");
	if (!TRIGGER_FIRED_BY_TRUNCATE(data->tg_event) || !TRIGGER_FIRED_BEFORE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("source_truncate() must be a BEFORE TRUNCATE trigger"),
				 errhint("Use dc_bind().")));
	if (strcmp(data->tg_trigger->tgname, SOURCE_TRIGGER_TRUNCATE) != 0) /* another one with this function */
		PG_RETURN_POINTER(NULL);
	relid = RelationGetRelid(data->tg_relation);
	has_rows = data->tg_relation->rd_rel->relkind != RELKIND_PARTITIONED_TABLE;
	foreach(lc, source_lineage(relid))
	{
		Oid source = lfirst_oid(lc);
		List *rows = counted_rows(source);
		ListCell *lc2;

		if (rows == NIL || (source == relid && truncated_whole(source, rows, has_rows)) || !has_rows ||
			(truncating != NULL && list_member_oid(truncating->whole, source)))
			continue;
		foreach(lc2, rows)
		{
			if (!source_begin_change(lfirst(lc2)))
				rows = foreach_delete_current(rows, lc2);
		}
		note_emptied(relid);
		source_count_rows(rows, relid, -1);
	}
	PG_RETURN_POINTER(NULL);
}

/*
 * counted_rows lists the bindings that this session's changes of a source count for.
 */
static List *
counted_rows(Oid source)
{
	List *rows = source_rows_of(source);
	ListCell *lc;

	foreach(lc, rows)
	{
		if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA &&
			!((DcSourceRow *) lfirst(lc))->replicated)
			rows = foreach_delete_current(rows, lc);
		else
			source_check_owners(source, ((DcSourceRow *) lfirst(lc))->counter);
	}
	return rows;
}

/*
 * truncated_whole subtracts all values of a source that is being truncated; false if the
 * triggers of its partitions are to do it.
 */
static bool
truncated_whole(Oid source, const List *rows, bool has_rows)
{
	ListCell *lc;

	if (!has_rows)
	{
		MemoryContext old;

		if (truncating == NULL || is_being_detached(source))
			return false;
		old = MemoryContextSwitchTo(TopTransactionContext);
		truncating->whole = lappend_oid(truncating->whole, source);
		MemoryContextSwitchTo(old);
	}
	foreach(lc, source_leaves(source, AccessExclusiveLock))
		note_emptied(lfirst_oid(lc));
	foreach(lc, rows)
		source_count_nothing(lfirst(lc));
	return true;
}

/*
 * Return true if a partition of a table, of any level, is being detached concurrently.
 */
static bool
is_being_detached(Oid relid)
{
	bool detached = false;
	ListCell *lc;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return false;
	foreach(lc, find_inheritance_children_extended(relid, false, NoLock, &detached, NULL))
	{
		if (detached || is_being_detached(lfirst_oid(lc)))
			return true;
	}
	return detached;
}
