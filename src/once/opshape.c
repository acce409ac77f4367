/*
 * opshape.c
 *		What a partition of ops must look like.
 *
 * The tables are the user's, who may alter them. Ops are found and recorded without SQL
 * alone (opdirect.c), as SQL would not see that a transaction is about to record one. So a
 * partition has nothing on it but the guard of a ledger and indexes of the owner's, and no
 * further columns; one that has is refused, with all calls that need it. No code of
 * an owner runs. Tables that Citus distributes have a trigger, and so are refused as well.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "once/opslot.h"
#include "rows/insert.h"
#include "utils/rel.h"

/* After a crash that emptied it, ops could be applied again. */
static const DcShape op_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 1,
	.keys = {OP_ID},
	.ncolumns = OP_NUM_COLUMNS,
	.columns = {[OP_SLOT] = {"slot", INT2OID},
				[OP_ID] = {"op_id", TEXTOID, C_COLLATION_OID},
				[OP_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[OP_DELTA] = {"delta", INT8OID},
				[OP_TRANSFER_ID] = {"transfer_id", INT8OID, InvalidOid, SHAPE_NULLABLE},
				[OP_DIGEST] = {"digest", INT8OID, InvalidOid, SHAPE_NULLABLE},
				[OP_AT] = {"at", TIMESTAMPTZOID}}};

/*
 * opslot_check raises 42809 if a partition, which is locked and open, does not have its
 * shape, or has something on it that would be passed over.
 * The table may have changed since it was checked last: while we waited for the lock, or by
 * code of the owner in this session, which can give an open table triggers and indexes.
 */
void
opslot_check(DcOpSlot *slot, Relation heap)
{
	uint64 latest = opslots_changes();
	DcTableLayout layout;
	DcShapeProblem problem = {0};

	if (slot->checked == latest)
		return;
	shape_check(heap, &op_shape, &layout);
	if (!layout.heap)
		problem.detail = _("It is not stored as a heap.");
	else if (!layout.alone)
		problem.detail = _("It has further columns, or constraints NOT NULL.");
	else if (!OidIsValid(layout.index))
		problem.detail = _("Its index on (op_id) has another order, or further columns.");
	else
		problem.detail = insert_problem(heap);
	if (problem.detail != NULL)
	{
		problem.hint = _("Nothing but plain indexes may be added to a table of ops.");
		shape_error(RelationGetRelationName(heap), &problem);
	}
	slot->layout = layout;
	slot->checked = latest;
}
