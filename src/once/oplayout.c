/*
 * oplayout.c
 *		What a partition of ops must look like, and how it can be accessed.
 *
 * The tables are the user's, who may alter them. Only one that is as it was made, but
 * for the guard of a ledger, is written to without SQL; code that an owner has put on
 * it thus never runs as somebody else.
 */
#include "postgres.h"

#include "commands/extension.h"
#include "commands/trigger.h"
#include "ledger/ledgershape.h"
#include "once/opslot.h"
#include "utils/lsyscache.h"
#include "utils/reltrigger.h"

static bool has_own_triggers(Relation heap);

/*
 * opslot_layout finds out how a partition, which is locked and open, can be accessed.
 * What was known before may have changed since: while we waited for the lock, or by code
 * of the owner in this session, which can give an open table triggers and indexes.
 * Raises 42809 if it does not have its shape any more.
 */
void
opslot_layout(DcOpSlot *slot, Relation heap)
{
	TupleDesc desc = RelationGetDescr(heap);
	uint64 latest = opslots_changes();
	DcTableLayout layout;

	if (slot->checked == latest)
		return;
	shape_check(heap, &op_shape, &layout);
	slot->index = layout.index;
	slot->by_index = layout.in_order && OidIsValid(layout.index);
	slot->direct = slot->by_index && layout.exact && layout.only_index &&
		heap->rd_rules == NULL &&
		has_own_triggers(heap) &&
		(desc->constr == NULL || desc->constr->num_check == 0) &&
		!OidIsValid(get_extension_oid("citus", true));
	slot->checked = latest;
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
