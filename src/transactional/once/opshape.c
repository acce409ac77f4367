/*
 * opshape.c
 *		The required shape of a partition of ops.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The tables are the user's, who may alter them. Ops are found and recorded without SQL alone
 * (opdirect.c), as SQL would not see that a transaction is about to record one. So a partition has
 * nothing on it but the guard of a ledger and indexes of the owner's, and no further columns; one
 * that has is refused, with all calls that need it. No code of an owner runs. Tables that Citus
 * distributes have a trigger, and so are refused as well. What is written is not compared with the
 * bounds of partitions. So it must be the partition that it was created as, and the table of ops
 * must not be a partition of another table.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/relopen.h"
#include "core/table/extras.h"
#include "transactional/once/opslot.h"

/* After a crash that emptied it, ops could be applied again. */
static const DcShape op_shape = {
	.relkinds = "r",
	.part = true, /* only of the counter's table of ops (part_problem) */
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
 * Return true if a partition takes rows of a slot, by its bound.
 */
static bool
takes_slot(Oid relid, int number)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	PartitionBoundSpec *bound = NULL;
	bool isnull = true;
	Datum value = (Datum) 0;
	ListCell *lc;

	if (!HeapTupleIsValid(tuple))
		return false;
	value = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	if (!isnull)
		bound = stringToNode(TextDatumGetCString(value));
	ReleaseSysCache(tuple);
	if (bound == NULL || bound->strategy != PARTITION_STRATEGY_LIST)
		return false;
	foreach(lc, bound->listdatums)
	{
		const Const *datum = lfirst_node(Const, lc);

		if (datum->consttype == INT2OID && !datum->constisnull && DatumGetInt16(datum->constvalue) == number)
			return true;
	}
	return false;
}

/*
 * part_problem returns why rows of a slot may not belong into a partition, as a sentence, or NULL.
 */
static const char *
part_problem(const DcOpSlot *slot, Oid relid)
{
	if (relation_partition_parent(relid) != slot->ops || !takes_slot(relid, slot->number))
		return _("It is not the partition of its slot.");
	if (get_rel_relispartition(slot->ops))
		return _("What it is a partition of is one of another table.");
	return NULL;
}

/*
 * opslot_check raises 42809 if a partition, which is locked and open, does not have its
 * shape, or has something, such as a trigger, that would be skipped. The table may have changed
 * since the last check: while we waited for the lock, or by code of the owner in this session,
 * which can add triggers and indexes to an open table.
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
		problem.detail = _("It has additional columns, or NOT NULL constraints.");
	else if (!OidIsValid(layout.index))
		problem.detail = _("Its index on (op_id) has a different order, or additional columns.");
	else
		problem.detail = extras_problem(heap, EXTRAS_OF_INSERT);
	if (problem.detail == NULL)
		problem.detail = part_problem(slot, RelationGetRelid(heap));
	if (problem.detail != NULL)
	{
		problem.hint = _("Only plain indexes may be added to a table of ops.");
		shape_error(RelationGetRelationName(heap), &problem);
	}
	slot->layout = layout;
	slot->checked = latest;
}
