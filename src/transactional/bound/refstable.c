/*
 * refstable.c
 *		The tables of reference counts: making them, what they must look like, and DDL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A table of counts, NAME_ref, belongs to the owner of its counter table, is beside it, and is
 * made when that is bound with distinct_of. It follows the counter table when that is
 * renamed, moved or given to another owner, and is dropped with the binding. Code of the
 * owner on it counts as code on the counter: the worker leaves both to the owner
 * (core/table/ownercode.c, by DcBoundHooks.tables).
 *
 * Rows come and go with items, and change in place with further rows of an item: so there is
 * some room in the pages, and vacuum comes early. Truncating the table's end would need an
 * exclusive lock.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/errors.h"
#include "base/relcached.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "core/table/table.h"
#include "transactional/bound/refs.h"
#include "transactional/bound/sourcetrigger.h"

#define REFS_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" item pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" n pg_catalog.int8 NOT NULL," \
	" PRIMARY KEY (key, item)"
#define REFS_OPTIONS \
	"fillfactor=80, autovacuum_vacuum_scale_factor=0.02," \
	" autovacuum_vacuum_threshold=500, vacuum_truncate=off"

enum
{
	REF_KEY,
	REF_ITEM,
	REF_N,
	REF_NUM_COLUMNS
};

/* The same. After a crash that emptied it, values would be wrong. */
static const DcShape refs_shape = {
	.relkinds = "r",
	.logged = true,
	.nkeys = 2,
	.keys = {REF_KEY, REF_ITEM},
	.ncolumns = REF_NUM_COLUMNS,
	.columns = {[REF_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[REF_ITEM] = {"item", TEXTOID, C_COLLATION_OID},
				[REF_N] = {"n", INT8OID}}};

/* A table of counts that had its shape when it was checked last. */
typedef struct DcRefsChecked
{
	Oid refs; /* hash key */
	bool valid;
	AttrNumber atts[REF_NUM_COLUMNS];
} DcRefsChecked;

static void checked_changed(void *entry, Oid relid);
static bool refstable_fill(void *entry, void *rel);
static void left_over(const DcKey *key, const DcKey *item, int64 n, void *row);
static void refstable_check_table(SPIPlanPtr plan, Oid refs);

/* Entries (DcRefsChecked) are never removed. */
static DcRelCached checked_cache = {
	.name = "dcounter reference counts",
	.keysize = sizeof(Oid),
	.size = sizeof(DcRefsChecked),
	.changed = checked_changed,
};

/*
 * refs_create makes the table of reference counts of a counter table, as the current user, who
 * owns that.
 */
Oid
refs_create(Oid counter)
{
	return sibling_create(counter, DC_REF_SUFFIX, REFS_COLUMNS, REFS_OPTIONS, true,
						  "how many rows of the source there are of each item; see dc_bind()");
}

/*
 * refs_open opens a table of reference counts, which must have its shape (42809), and sets the
 * numbers of its columns.
 */
Relation
refs_open(Oid refs, LOCKMODE mode, AttrNumber *atts)
{
	Relation rel = try_table_open(refs, mode);
	DcRefsChecked *checked = relcached_enter(&checked_cache, &refs);

	if (rel == NULL)
		relation_missing_error(refs);
	if (!checked->valid)
		(void) relcached_fill(checked, &checked->valid, refstable_fill, rel);
	memcpy(atts, checked->atts, sizeof(checked->atts));
	return rel;
}

/*
 * Check the shape of a table of counts (42809), and remember the numbers of its columns; for
 * relcached_fill().
 */
static bool
refstable_fill(void *entry, void *rel)
{
	DcRefsChecked *checked = entry;
	DcTableLayout layout;

	shape_check(rel, &refs_shape, &layout);
	memcpy(checked->atts, layout.atts, sizeof(checked->atts));
	return true;
}

/*
 * Forget the shape of a table of counts that DDL has changed; InvalidOid stands for all tables.
 */
static void
checked_changed(void *entry, Oid relid)
{
	DcRefsChecked *checked = entry;

	if (!OidIsValid(relid) || relid == checked->refs)
		checked->valid = false;
}

/*
 * refs_scan calls a function for each row of a table of reference counts in a snapshot. No code
 * of the owner runs.
 */
void
refs_scan(const DcSourceRow *row, Snapshot snapshot, DcRefScanned scanned, void *arg)
{
	AttrNumber atts[REF_NUM_COLUMNS];
	Relation rel = refs_open(row->refs, AccessShareLock, atts);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = compat_table_beginscan(rel, snapshot, 0, NULL);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter reference counts",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		DcKey key;
		DcKey item;

		CHECK_FOR_INTERRUPTS();
		key_from_text(slot_datum(slot, atts[REF_KEY], TEXTOID), &key);
		key_from_text(slot_datum(slot, atts[REF_ITEM], TEXTOID), &item);
		scanned(&key, &item, DatumGetInt64(slot_datum(slot, atts[REF_N], INT8OID)), arg);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
}

/*
 * refs_empty deletes all rows of a table of reference counts, whatever this transaction's
 * snapshot shows, as its owner: the source is being truncated. The values of the counter table
 * do not change. The caller has had the transaction's own changes written, and keeps other sessions
 * from changing rows of the source.
 */
void
refs_empty(const DcSourceRow *row)
{
	AttrNumber atts[REF_NUM_COLUMNS];
	Relation rel = refs_open(row->refs, RowExclusiveLock, atts);
	char *sql = psprintf("DELETE FROM %s", relation_sql_name(row->refs));
	SPIPlanPtr plan;
	Snapshot snapshot;
	DcRunAs state;

	sibling_check_owner(row->counter, row->refs);
	SPI_connect();
	runas_begin(&state, rel->rd_rel->relowner);
	plan = SPI_prepare(sql, 0, NULL);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s", sql,
			 SPI_result_code_string(SPI_result));
	refstable_check_table(plan, row->refs);
	CommandCounterIncrement();
	(void) SPI_execute_snapshot(plan, NULL, NULL, GetLatestSnapshot(), InvalidSnapshot, false, true, 0);
	runas_end(&state);
	SPI_finish();
	table_close(rel, NoLock);
	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	refs_scan(row, snapshot, left_over, (void *) row);
	UnregisterSnapshot(snapshot);
}

/*
 * left_over raises 55000: the owner of the table of counts has kept a row from being deleted.
 */
static void
left_over(const DcKey *key, const DcKey *item, int64 n, void *row)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("reference counts of \"%s\" were not deleted", get_rel_name(((DcSourceRow *) row)->counter)),
			 errdetail("A trigger, a rule or row-level security prevented rows from being deleted.")));
}

/*
 * refstable_check_table raises 55000 if the name of the table stood for another one: its schema may
 * be another role's, who can rename schemas.
 */
static void
refstable_check_table(SPIPlanPtr plan, Oid refs)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));

	if (source->query_list != NIL && !list_member_oid(source->relationOids, refs))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" was renamed while it was being used", get_rel_name(refs))));
}
