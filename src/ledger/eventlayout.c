/*
 * eventlayout.c
 *		What a partition of events must look like, and how it can be accessed.
 *
 * The tables are the user's, who may alter them. Only one that is as it was made, but
 * for the guard of a ledger, is written to without SQL; code that an owner has put on
 * it thus never runs as somebody else.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "ledger/eventslot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"

/* What a partition must have. */
static const struct
{
	const char *name;
	Oid type;
} columns[EVENT_NUM_COLUMNS] = {
	{"slot", INT2OID},
	{"event_id", TEXTOID},
	{"key", TEXTOID},
	{"delta", INT8OID},
	{"transfer_id", INT8OID},
	{"digest", INT8OID},
	{"at", TIMESTAMPTZOID},
};

static bool find_unique_index(Relation heap, Oid *index, bool *only);
static bool is_event_index(Relation index);
static bool has_own_triggers(Relation heap);

/*
 * eventslot_layout finds out how a partition, which is locked, can be accessed. What
 * was known before it was locked may have changed while we waited for the lock.
 * Raises 42809 if it has been altered so that it cannot hold events any more.
 */
void
eventslot_layout(DcEventSlot *slot, Relation heap)
{
	TupleDesc desc = RelationGetDescr(heap);
	bool in_order = true;
	bool only = false;
	uint64 latest = eventslots_changes();

	if (slot->checked == latest)
		return;
	for (int i = 0; i < EVENT_NUM_COLUMNS; i++)
	{
		AttrNumber att = get_attnum(RelationGetRelid(heap), columns[i].name);

		in_order &= att == i + 1;
		if (att == InvalidAttrNumber ||
			TupleDescAttr(desc, att - 1)->atttypid != columns[i].type)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" cannot hold events any more",
							RelationGetRelationName(heap)),
					 errdetail("It needs a column \"%s\" of type %s.",
							   columns[i].name, format_type_be(columns[i].type))));
	}
	if (heap->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot hold events any more",
						RelationGetRelationName(heap)),
				 errdetail("It is not logged: after a crash, events could be applied again."),
				 errhint("Use ALTER TABLE ... SET LOGGED.")));
	if (!find_unique_index(heap, &slot->index, &only))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot hold events any more",
						RelationGetRelationName(heap)),
				 errdetail("It needs a unique index on event_id.")));
	slot->by_index = in_order && OidIsValid(slot->index) &&
		heap->rd_rel->relkind == RELKIND_RELATION &&
		heap->rd_tableam == GetHeapamTableAmRoutine() &&
		!heap->rd_rel->relhassubclass;
	slot->direct = slot->by_index && only && desc->natts == EVENT_NUM_COLUMNS &&
		heap->rd_rules == NULL &&
		has_own_triggers(heap) &&
		(desc->constr == NULL || desc->constr->num_check == 0) &&
		!OidIsValid(get_extension_oid("citus", true));
	slot->checked = latest;
}

/*
 * find_unique_index looks for a unique index on event_id. *index is one that can
 * be used without SQL, if there is one, and *only tells whether there is no other.
 */
static bool
find_unique_index(Relation heap, Oid *index, bool *only)
{
	List *indexes = RelationGetIndexList(heap);
	AttrNumber att = get_attnum(RelationGetRelid(heap), "event_id");
	bool found = false;
	ListCell *lc;

	*index = InvalidOid;
	foreach(lc, indexes)
	{
		Relation rel = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = rel->rd_index;

		if (form->indisunique && form->indimmediate && form->indisvalid &&
			form->indnkeyatts == 1 && form->indkey.values[0] == att &&
			heap_attisnull(rel->rd_indextuple, Anum_pg_index_indpred, NULL) &&
			get_collation_isdeterministic(rel->rd_indcollation[0]))
		{
			found = true;
			if (is_event_index(rel))
				*index = lfirst_oid(lc);
		}
		index_close(rel, AccessShareLock);
	}
	*only = list_length(indexes) == 1;
	list_free(indexes);
	return found;
}

static bool
is_event_index(Relation index)
{
	return index->rd_rel->relam == BTREE_AM_OID &&
		index->rd_index->indnatts == 1 &&
		index->rd_opfamily[0] == TEXT_BTREE_FAM_OID &&
		index->rd_indoption[0] == 0 &&
		index->rd_indcollation[0] == C_COLLATION_OID;
}

/*
 * has_own_triggers tells whether all triggers are the guards of a ledger, which let
 * us pass.
 */
static bool
has_own_triggers(Relation heap)
{
	for (int i = 0; heap->trigdesc != NULL && i < heap->trigdesc->numtriggers; i++)
	{
		Oid function = heap->trigdesc->triggers[i].tgfoid;
		char *schema = get_namespace_name(get_func_namespace(function));
		char *name = get_func_name(function);

		if (schema == NULL || name == NULL || strcmp(schema, DC_SCHEMA) != 0 ||
			strcmp(name, "on_ledger_change") != 0)
			return false;
	}
	return true;
}
