/*
 * sourcetrigger.c
 *		dcounter.source_row(): the trigger that counts changes of a source's rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It adds what a row counts for to the pending deltas of the transaction, so source and
 * counter change in one commit, savepoints and PREPARE TRANSACTION included. It is a trigger for
 * rows since the server copies such triggers to partitions, fires them for upserts, MERGE,
 * cascades and rows that move between partitions (as a DELETE and an INSERT), and
 * can fire them for rows that a subscription writes. Triggers for statements lack some of each.
 *
 * All that depends on the tables is prepared once per session (sourcecache.c). Adding to a counter
 * may run code of its owner, when amounts are written early, and that may change rows of the same
 * source: the trigger is called again in the meantime, with the same expressions and their memory.
 * So what a row counts for is copied before it is added.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "common/int.h"
#include "fmgr.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "transactional/bound/sourcetrigger.h"

PG_FUNCTION_INFO_V1(source_row);

/* What a row counts for, with the memory of it. */
typedef struct DcRowCount
{
	DcCounted counted;
	char key_bytes[DC_MAX_KEY_BYTES];
	char item_bytes[DC_MAX_KEY_BYTES];
} DcRowCount;

static void sourcetrigger_check_call(FunctionCallInfo fcinfo);
static bool is_own_trigger(const TriggerData *data);
static void warn_unbound(Relation rel);
static bool sourcetrigger_counts(const DcBound *bound);
static bool sourcetrigger_evaluate(DcBound *bound, TupleTableSlot *slot, DcRowCount *row);
static void keep_key(DcKey *key, char *bytes);
static void count_update(DcBound *bound, TupleTableSlot *old, TupleTableSlot *new);
static void count_lists(DcBound *bound, const TriggerData *data);
static void count_change(DcBound *bound, const DcCounted *before, DcCounted *after);

/*
 * source_row() -> trigger, AFTER INSERT, UPDATE or DELETE FOR EACH ROW
 *
 * Errors: 39P01 if it is another kind of trigger, 42501 if source and counter have owners that
 * have nothing to do with each other, 54000 for keys that are too long, 22003 for amounts that
 * overflow bigint.
 */
Datum
source_row(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	const DcBoundList *list;

	sourcetrigger_check_call(fcinfo);
	if (!is_own_trigger(data))
		return PointerGetDatum(NULL);
	if (unlikely(source_any_emptied))
		source_check_emptied(data->tg_relation);
	list = source_bindings(data->tg_relation);
	if (unlikely(list->n == 0))
		warn_unbound(data->tg_relation);
	for (int i = 0; i < list->n; i++)
	{
		DcBound *bound = &list->bound[i];
		DcRowCount row;

		if (!sourcetrigger_counts(bound))
			continue;
		if (source_eval_is_list(bound->eval))
			count_lists(bound, data);
		else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
			count_update(bound, data->tg_trigslot, data->tg_newslot);
		else if (sourcetrigger_evaluate(bound, data->tg_trigslot, &row))
			bound_add(bound, &row.counted, TRIGGER_FIRED_BY_INSERT(data->tg_event) ? 1 : -1);
	}
	return PointerGetDatum(NULL);
}

/*
 * Raise 39P01 unless source_row() is called as an AFTER trigger, FOR EACH ROW.
 */
static void
sourcetrigger_check_call(FunctionCallInfo fcinfo)
{
	TriggerEvent event;

	trigger_check(fcinfo, "source_row()");
	event = ((TriggerData *) fcinfo->context)->tg_event;
	if (!TRIGGER_FIRED_AFTER(event) || !TRIGGER_FIRED_FOR_ROW(event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("source_row() must be an AFTER trigger, FOR EACH ROW"),
				 errhint("Use dc_bind().")));
}

/*
 * Return true if a trigger is ours: another one with this function must not count
 * the same rows again. A table has one trigger by a name.
 */
static bool
is_own_trigger(const TriggerData *data)
{
	return strcmp(data->tg_trigger->tgname,
				  TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? SOURCE_TRIGGER_UPDATE : SOURCE_TRIGGER_ROW) == 0;
}

/*
 * warn_unbound warns, once per session, of triggers that count nothing, as after restoring the
 * schema alone.
 */
static void
warn_unbound(Relation rel)
{
	static bool warned = false;

	if (warned)
		return;
	warned = true;
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" has triggers of bound counters, but no counter is bound to it", RelationGetRelationName(rel)),
			 errhint("Call dc_bind(), or drop the triggers whose function is dcounter.source_row() or dcounter.source_truncate().")));
}

/*
 * Return true if a binding counts changes of this session: those that a
 * subscription applies, only if it was created so.
 */
static bool
sourcetrigger_counts(const DcBound *bound)
{
	return SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA || bound->row.replicated;
}

/*
 * Return true if a row counts, and for what.
 */
static bool
sourcetrigger_evaluate(DcBound *bound, TupleTableSlot *slot, DcRowCount *row)
{
	bool result = source_eval(bound->eval, slot, &row->counted);

	if (result)
	{
		keep_key(&row->counted.key, row->key_bytes);
		if (bound->row.distinct_of != NULL)
			keep_key(&row->counted.item, row->item_bytes);
	}
	source_eval_reset(bound->eval);
	return result;
}

/*
 * Copy a key's bytes, unless they are in the key itself: adding to a counter may reuse the
 * memory they are in.
 */
static void
keep_key(DcKey *key, char *bytes)
{
	if (key->data != key->buf)
		key->data = memcpy(bytes, key->data, key->len);
}

/*
 * count_update counts the difference of two rows.
 */
static void
count_update(DcBound *bound, TupleTableSlot *old, TupleTableSlot *new)
{
	DcRowCount before;
	DcRowCount after;
	bool was = sourcetrigger_evaluate(bound, old, &before);
	bool is = sourcetrigger_evaluate(bound, new, &after);

	count_change(bound, was ? &before.counted : NULL, is ? &after.counted : NULL);
}

/*
 * count_lists does so, or counts a row, for all sets and values. The lists live as long as the call
 * of the trigger.
 */
static void
count_lists(DcBound *bound, const TriggerData *data)
{
	DcCounted *before = NULL;
	DcCounted *after = NULL;
	int n;

	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		(void) source_eval_list(bound->eval, data->tg_trigslot, CurrentMemoryContext, &before);
	n = source_eval_list(bound->eval, TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newslot : data->tg_trigslot, CurrentMemoryContext, &after);
	source_eval_reset(bound->eval);
	if (TRIGGER_FIRED_BY_DELETE(data->tg_event))
	{
		before = after;
		after = NULL;
	}
	for (int i = 0; i < n; i++)
		count_change(bound, before != NULL && before[i].value != 0 ? &before[i] : NULL, after != NULL && after[i].value != 0 ? &after[i] : NULL);
}

/*
 * count_change counts what a row has counted for and counts for now (either may be NULL); the
 * difference, if the key is the same.
 */
static void
count_change(DcBound *bound, const DcCounted *before, DcCounted *after)
{
	if (before != NULL && after != NULL && key_compare(&before->key, &after->key) == 0)
	{
		int64 difference;

		if (bound->row.distinct_of != NULL)
		{
			if (key_compare(&before->item, &after->item) == 0)
				return;
		}
		else if (!pg_sub_s64_overflow(after->value, before->value, &difference))
		{
			after->value = difference;
			if (difference != 0)
				bound_add(bound, after, 1);
			return;
		}
	}
	if (before != NULL)
		bound_add(bound, before, -1);
	if (after != NULL)
		bound_add(bound, after, 1);
}
