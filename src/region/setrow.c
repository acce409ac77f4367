/*
 * setrow.c
 *		Finding and writing rows of sets, without SQL, and the required shape of their table.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The caller has locked the key, and so is the only one who writes rows of it. An apply worker may
 * have one locked for a moment, when it has come back along a ring: that is waited for.
 *
 * A row is written in three ways. A new one is inserted. An existing one is updated, or deleted and
 * inserted again: then others get it as a new row. A region that has removed the rows of a deleted
 * key would skip an update of one of them, and lose its contents.
 *
 * dc_set() updates the row of its region if that is the last one of the key and not a deletion, and
 * inserts it again otherwise. No region can have removed such a last row: the removal would need a
 * deletion that was the last row of the key there, and so is later than this row. Each region knew
 * of that deletion before (regionvacuum.c): here a row of the region that has deleted the key, the
 * deletion or a later one, would be later than this region's row. It is not enough to look for a
 * deletion among the rows, since the region that has deleted the key may have set it again.
 *
 * A row from another region is written in the way in which it has come, so a hub passes it on as it
 * was sent.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/errors.h"
#include "base/rowread.h"
#include "core/compact/compactbatch.h"
#include "core/rows/locks.h"
#include "region/sets.h"
#include "types/crdt/crdttype.h"

const DcShape set_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 2,
	.keys = {SET_KEY, SET_REGION},
	.ncolumns = SET_NUM_COLUMNS,
	.columns = {[SET_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[SET_REGION] = {"region", TEXTOID, C_COLLATION_OID},
				[SET_HLC] = {"hlc", INT8OID},
				[SET_VALUE] = {"value", INT8OID},
				[SET_DELETED] = {"deleted", BOOLOID},
				[SET_UPTO] = {"upto", InvalidOid}}};

static void store_set_row(DcRegionRel *rel, const DcSetRow *row);

/*
 * set_upto_type returns the type of the column "upto", if it is a type of this extension, in
 * whatever schema.
 */
Oid
set_upto_type(Relation rel)
{
	TupleDesc desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), set_shape.columns[SET_UPTO].name) == 0 &&
			getBaseType(att->atttypid) == att->atttypid && crdt_type_of(att->atttypid) == &crdt_pncounter)
			return att->atttypid;
	}
	return InvalidOid;
}

/*
 * Return true if no key was ever set. VACUUM may restore that state.
 */
bool
setrel_is_empty(DcRegionRel *rel)
{
	return RelationGetNumberOfBlocks(rel->heap) == 0;
}

/*
 * sets_first keeps compaction away if no key was ever set, until the transaction ends: a batch that
 * is under way does not look for sets. Called before a key is locked.
 */
void
sets_first(DcRegionRel *rel)
{
	if (setrel_is_empty(rel))
		lock_out_compaction(rel->counter);
}

/*
 * set_rows_read reads the rows of a key that a snapshot sees, in the order of regions, unless there
 * are too many.
 */
void
set_rows_read(DcRegionRel *rel, Datum key, Snapshot snapshot, DcSetRows *rows)
{
	const AttrNumber *atts = rel->layout->atts;
	Oid type = TupleDescAttr(RelationGetDescr(rel->heap), atts[SET_UPTO] - 1)->atttypid;
	IndexScanDesc scan;
	ScanKeyData keys[1];
	Size observed = 0;
	int size = 4;

	*rows = (DcSetRows){.rows = palloc(size * sizeof(DcSetRow))};
	rows->rows[0].key = key; /* for set_rows_check() */
	keyrow_text(&keys[0], 1, key);
	scan = keyrow_scan(rel->heap, rel->index, keys, lengthof(keys), snapshot);
	while (index_getnext_slot(scan, ForwardScanDirection, rel->found))
	{
		Datum upto = slot_datum(rel->found, atts[SET_UPTO], type);

		CHECK_FOR_INTERRUPTS();
		observed += toast_raw_datum_size(upto) + toast_raw_datum_size(slot_datum(rel->found, atts[SET_REGION], TEXTOID));
		rows->too_many = rows->n == SET_ROWS_MAX || (observed > SET_BYTES_MAX);
		if (rows->too_many)
			break;
		if (rows->n == size)
			rows->rows = repalloc(rows->rows, (size *= 2) * sizeof(DcSetRow));
		rows->rows[rows->n++] = (DcSetRow){
			.key = key,
			.region = datumCopy(slot_datum(rel->found, atts[SET_REGION], TEXTOID), false, -1),
			.hlc = DatumGetInt64(slot_datum(rel->found, atts[SET_HLC], INT8OID)),
			.value = DatumGetInt64(slot_datum(rel->found, atts[SET_VALUE], INT8OID)),
			.deleted = DatumGetBool(slot_datum(rel->found, atts[SET_DELETED], BOOLOID)),
			.upto = PointerGetDatum(PG_DETOAST_DATUM_COPY(upto)),
			.tid = rel->found->tts_tid,
		};
	}
	ExecClearTuple(rel->found);
	index_endscan(scan);
}

/*
 * Raise 54000 if not all rows of a key were read.
 */
void
set_rows_check(DcRegionRel *rel, const DcSetRows *rows)
{
	if (rows->too_many)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key \"%s\" of counter table \"%s\" has too many sets", TextDatumGetCString(rows->rows[0].key), get_rel_name(rel->counter->relid)),
				 errdetail("There is one per region, unless some were written by hand."),
				 errhint("Delete those from table \"%s\" whose region does not exist.", RelationGetRelationName(rel->heap))));
}

/*
 * set_observed_now returns what sets of a key have observed, as of now.
 */
Datum
set_observed_now(DcRegionRel *rel, Datum key)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	DcSetRows rows;

	set_rows_read(rel, key, snapshot, &rows);
	UnregisterSnapshot(snapshot);
	set_rows_check(rel, &rows);
	return sets_observed(&rows);
}

/*
 * set_rows_find returns the row of a region, or NULL.
 */
DcSetRow *
set_rows_find(const DcSetRows *rows, Datum region)
{
	for (int i = 0; i < rows->n; i++)
	{
		if (batch_key_equal(rows->rows[i].region, region))
			return &rows->rows[i];
	}
	return NULL;
}

/*
 * Store the row's values in the relation's slot, to be written.
 */
static void
store_set_row(DcRegionRel *rel, const DcSetRow *row)
{
	Datum values[] = {[SET_KEY] = row->key,
					  [SET_REGION] = row->region,
					  [SET_HLC] = Int64GetDatum(row->hlc),
					  [SET_VALUE] = Int64GetDatum(row->value),
					  [SET_DELETED] = BoolGetDatum(row->deleted),
					  [SET_UPTO] = row->upto};

	keyrow_store(rel->slot, rel->heap, rel->layout->atts, values, NULL, SET_NUM_COLUMNS);
}

/*
 * Insert a row; false, with nothing done, if there may be another one of its key and region by now.
 */
bool
set_row_try_insert(DcRegionRel *rel, DcSetRow *row)
{
	bool inserted;

	store_set_row(rel, row);
	inserted = keyrow_try_insert(rel->heap, rel->index, rel->slot);
	row->tid = rel->slot->tts_tid;
	ExecClearTuple(rel->slot);
	if (inserted)
		CommandCounterIncrement();
	return inserted;
}

/*
 * set_row_insert inserts a row that does not exist yet.
 */
void
set_row_insert(DcRegionRel *rel, const DcSetRow *row)
{
	store_set_row(rel, row);
	keyrow_insert(rel->heap, rel->slot);
	ExecClearTuple(rel->slot);
	CommandCounterIncrement();
}

/*
 * Wait for a transaction that inserts or changes the row of a key and region; false if there is
 * none.
 */
bool
set_row_wait(DcRegionRel *rel, const DcSetRow *row)
{
	ScanKeyData keys[2];

	keyrow_text(&keys[0], 1, row->key);
	keyrow_text(&keys[1], 2, row->region);
	return keyrow_wait(rel->heap, rel->index, keys, lengthof(keys), rel->found);
}

/*
 * set_row_update writes a row in place of the version at row->tid.
 */
void
set_row_update(DcRegionRel *rel, const DcSetRow *row)
{
	store_set_row(rel, row);
	if (!keyrow_replace(rel->heap, &row->tid, rel->slot, true))
		serialization_error(); /* changed by hand */
	ExecClearTuple(rel->slot);
	CommandCounterIncrement();
}

/*
 * set_row_insert_again deletes the version at row->tid, and inserts the row.
 */
void
set_row_insert_again(DcRegionRel *rel, const DcSetRow *row)
{
	set_row_delete(rel, row);
	set_row_insert(rel, row);
}

/*
 * Delete the version at row->tid.
 */
void
set_row_delete(DcRegionRel *rel, const DcSetRow *row)
{
	ItemPointerData tid = row->tid;
	TM_FailureData failure;

	if (compat_tuple_delete(rel->heap, &tid, true, &failure) != TM_Ok)
		serialization_error();
	CommandCounterIncrement();
}
