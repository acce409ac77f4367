/*
 * extras.c
 *		Objects on a table besides its columns and its key.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The tables belong to users, who may put triggers, rules, constraints and indexes on them. Writing
 * without SQL skips all of these, so each room refuses them, or leaves such a table to SQL: it has
 * a mask of the extras that it cannot handle (extras.h). ownercoderel.c looks more closely at
 * extras that can run code of the owner in the worker; triggers for that are found here.
 *
 * The caller has a lock on the table, which keeps other sessions from adding anything but an
 * index that is created concurrently. Indexes are not opened: another session may have locked
 * one.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "core/table/extras.h"
#include "core/table/guard.h"
#include "core/table/ownercode.h"
#include "core/table/protect.h"

static int all_trigger_extras(Relation rel);
static int trigger_extras(const Trigger *trigger, Size *conditions);
static int index_extras(Oid relid);

/*
 * Return which of the extras in a mask a relation has.
 */
int
relation_extras(Relation rel, int mask)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;
	int extras = 0;
	ListCell *lc;

	if (rel->rd_rules != NULL)
		extras |= EXTRA_RULES;
	if (rel->rd_rel->relrowsecurity)
		extras |= EXTRA_RLS;
	if (rel->rd_rel->relispartition)
		extras |= EXTRA_PART;
	if (constr != NULL && constr->num_check > 0)
		extras |= EXTRA_CHECK;
	if (rel->trigdesc != NULL && (mask & EXTRA_OF_TRIGGERS) != 0)
		extras |= all_trigger_extras(rel);
	if ((mask & (EXTRA_INDEX | EXTRA_INDEX_KIND)) == 0)
		return extras & mask;
	foreach(lc, RelationGetIndexList(rel))
		extras |= index_extras(lfirst_oid(lc));
	return extras & mask;
}

/*
 * Return the extras of all triggers of a relation.
 */
static int
all_trigger_extras(Relation rel)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter triggers", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc); /* the relcache entry may be rebuilt in the meantime */
	Size conditions = 0;
	int extras = 0;

	for (int i = 0; i < triggers->numtriggers; i++)
	{
		CHECK_FOR_INTERRUPTS();
		extras |= trigger_extras(&triggers->triggers[i], &conditions);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return extras;
}

/*
 * Return one of the extras in a mask that a relation has, as a sentence, or NULL.
 */
const char *
extras_problem(Relation rel, int mask)
{
	int extras = relation_extras(rel, mask);

	if (extras & EXTRA_PART)
		return _("It is a partition, which takes certain rows alone.");
	if (extras & EXTRA_INDEX_KIND)
		return _("It has an index that is not a btree.");
	if (extras & EXTRA_RULES)
		return _("It has a rule.");
	if (extras & EXTRA_RLS)
		return _("It has row-level security.");
	if (extras & EXTRA_TRIGGERS)
		return _("It has a trigger.");
	if (extras & EXTRA_CHECK)
		return _("It has a check constraint.");
	if (extras & EXTRA_INDEX)
		return _("It has an index with an expression or a condition, or one whose check is deferrable or excludes more than equal values.");
	return NULL;
}

/*
 * Return a trigger that is one of the extras in a mask, or NULL.
 */
const Trigger *
relation_trigger(Relation rel, int mask)
{
	/* reading catalogs may process an invalidation, which frees the original */
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);
	Size conditions = 0;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (trigger_extras(&triggers->triggers[i], &conditions) & mask)
			return &triggers->triggers[i];
	}
	return NULL;
}

/*
 * Return which extra a trigger is; *conditions: bytes of the conditions of its table's triggers
 * so far. One of ours with a condition that is not harmless is the owner's. The server's own of
 * a deferrable unique constraint, which only waits for rows that are not unique, does not
 * count: its index does.
 */
static int
trigger_extras(const Trigger *trigger, Size *conditions)
{
	bool write = TRIGGER_FOR_INSERT(trigger->tgtype) || TRIGGER_FOR_UPDATE(trigger->tgtype);
	int deferred = write && trigger->tginitdeferred ? EXTRA_DEFERRED : 0;

	if (trigger->tgenabled == TRIGGER_DISABLED || (trigger->tgisinternal && trigger->tgfoid == F_UNIQUE_KEY_RECHECK))
		return 0;
	if (trigger->tgisinternal && RI_FKey_trigger_type(trigger->tgfoid) == RI_TRIGGER_PK)
		return deferred | EXTRA_REFERENCED;
	if (trigger->tgfoid >= FirstUnpinnedObjectId &&
		is_trusted_object(ProcedureRelationId, trigger->tgfoid) &&
		(trigger->tgqual == NULL || !ownercode_in_condition(trigger->tgqual, conditions)))
	{
		if (trigger->tgfoid == guard_function() || trigger->tgfoid == extension_function(PROTECT_DELETE_FUNCTION) ||
			trigger->tgfoid == extension_function(PROTECT_TRUNCATE_FUNCTION))
			return deferred | (write ? EXTRA_REFUSES_WRITE : 0);
		return deferred | (write ? EXTRA_OURS_WRITE : EXTRA_OURS_OTHER);
	}
	if (write)
		return deferred | EXTRA_TRIGGER_WRITE;
	return TRIGGER_FOR_DELETE(trigger->tgtype) ? EXTRA_TRIGGER_DELETE : EXTRA_TRIGGER_TRUNCATE;
}

/*
 * Return the extras of an index, which is not opened.
 */
static int
index_extras(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(relid));
	HeapTuple class = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	int extras = 0;

	if (HeapTupleIsValid(tuple) && !index_is_plain(tuple))
		extras |= EXTRA_INDEX;
	if (HeapTupleIsValid(class) && ((Form_pg_class) GETSTRUCT(class))->relam != BTREE_AM_OID)
		extras |= EXTRA_INDEX_KIND;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (HeapTupleIsValid(class))
		ReleaseSysCache(class);
	return extras; /* none: it was dropped concurrently */
}

/*
 * Return true if an index, by its row of pg_index, runs no code of its owner, and defers nothing.
 */
bool
index_is_plain(HeapTuple tuple)
{
	Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);

	return form->indimmediate && !form->indisexclusion &&
		heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
}
