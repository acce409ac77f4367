/*
 * markrow.c
 *		The catalogs dcounter.mark and dcounter.mark_value.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A mark and its values are written and removed by transactions that hold the lock of the mark,
 * which is exclusive. So rows are read with SnapshotSelf (base/catrow.c), and an update cannot
 * meet a newer version. The names of marks are locked by their hash: two names with the same
 * hash wait for each other without need.
 *
 * A mark has as many values as the counter table has keys. They are inserted many at a time, in
 * the order of their index.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/lockclass.h"
#include "base/relopen.h"
#include "transactional/bound/mark.h"

/* Columns of both tables, and of the second one alone. */
#define MARK_COUNTER 1
#define MARK_MARK 2
#define MARK_KEY 3

/* Values that are inserted together. */
#define BATCH 1000

struct DcMarkWriter
{
	DcMarkValue value; /* with the counter and the mark */
	Relation rel;
	CatalogIndexState indexes;
	MemoryContext cxt; /* of a batch */
	TupleTableSlot *slots[BATCH];
	int nslots;
	int64 count;
};

static void markrow_mark_columns(DcCatRow *io, void *data);
static void value_columns(DcCatRow *io, void *data);
static int markrow_keys_of(ScanKey keys, Oid counter, const char *mark);
static int64 delete_all(const DcCatalog *cat, Oid counter, const char *mark);
static void writer_flush(DcMarkWriter *writer);

static const DcCatalog marks = {
	.table = "mark",
	.pkey = "mark_pkey",
	.nkeys = 2,
	.size = sizeof(DcMark),
	.columns = markrow_mark_columns,
};

static const DcCatalog mark_values = {
	.table = "mark_value",
	.pkey = "mark_value_pkey",
	.nkeys = 3,
	.size = sizeof(DcMarkValue),
	.columns = value_columns,
};

/*
 * Read or write the columns of a row of dcounter.mark.
 */
static void
markrow_mark_columns(DcCatRow *io, void *data)
{
	DcMark *mark = data;

	cat_oid(io, &mark->counter);
	cat_string(io, &mark->mark);
	cat_time(io, &mark->at);
	cat_int8(io, &mark->keys);
}

/*
 * Read or write the columns of a row of dcounter.mark_value. Reading also sets where the row
 * is, so that it can be updated.
 */
static void
value_columns(DcCatRow *io, void *data)
{
	DcMarkValue *value = data;

	cat_oid(io, &value->counter);
	cat_string(io, &value->mark);
	cat_datum(io, TEXTOID, &value->key);
	cat_not_null(io);
	cat_int8(io, &value->value);
	cat_int8(io, &value->exact);
	/* 0 is a value of this column, unlike null */
	if (io->reading)
	{
		value->noted = !io->nulls[io->column - 1];
		value->tid = io->tid;
		value->xmin = io->xmin;
	}
	else
		io->nulls[io->column - 1] = !value->noted;
}

/*
 * mark_lock makes this transaction the only one that uses a mark, or creates one of that name.
 */
void
mark_lock(Oid counter, const char *mark)
{
	(void) advisory_lock(MARK_LOCK_CLASS, counter,
						 hash_bytes((const unsigned char *) mark, strlen(mark)), ExclusiveLock, true);
}

/*
 * markrow_keys_of makes the keys of a scan for a mark, and returns how many there are.
 */
static int
markrow_keys_of(ScanKey keys, Oid counter, const char *mark)
{
	ScanKeyInit(&keys[0], MARK_COUNTER, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(counter));
	ScanKeyInit(&keys[1], MARK_MARK, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(mark));
	return 2;
}

/*
 * Return true if there is a mark.
 */
bool
mark_find(Oid counter, const char *mark)
{
	DcCatScan scan;
	ScanKeyData keys[2];
	int nkeys = markrow_keys_of(keys, counter, mark);
	bool found;

	cat_scan_begin(&scan, &marks, marks.pkey, AccessShareLock, keys, nkeys);
	found = cat_scan_next(&scan, ForwardScanDirection, NULL);
	cat_scan_end(&scan);
	return found;
}

/*
 * Return true if a snapshot shows a mark of this name.
 */
bool
mark_find_in(Oid counter, const char *mark, Snapshot snapshot)
{
	DcCatScan scan;
	ScanKeyData keys[2];
	int nkeys = markrow_keys_of(keys, counter, mark);
	bool found;

	cat_scan_begin_ordered(&scan, &marks, marks.pkey, snapshot, keys, nkeys);
	found = cat_scan_next(&scan, ForwardScanDirection, NULL);
	cat_scan_end(&scan);
	return found;
}

/*
 * Add a mark. The caller holds its lock (mark_lock) and has found that there is none of this
 * name.
 */
void
mark_insert(const DcMark *mark)
{
	cat_insert(&marks, mark);
}

/*
 * mark_delete removes a mark with its values, and returns how many keys it had; -1 if there
 * is none.
 */
int64
mark_delete(Oid counter, const char *mark)
{
	if (delete_all(&marks, counter, mark) == 0)
		return -1;
	return delete_all(&mark_values, counter, mark);
}

/*
 * Delete all rows of a catalog for a counter table, or of one of its marks; return how many
 * there were.
 */
static int64
delete_all(const DcCatalog *cat, Oid counter, const char *mark)
{
	DcCatScan scan;
	ScanKeyData keys[2];
	int nkeys = markrow_keys_of(keys, counter, mark);
	int64 n = 0;

	cat_scan_begin(&scan, cat, cat->pkey, RowExclusiveLock, keys, nkeys);
	while (cat_scan_next(&scan, ForwardScanDirection, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		cat_scan_delete(&scan);
		n++;
	}
	cat_scan_end(&scan);
	CommandCounterIncrement();
	return n;
}

/*
 * marks_forget removes the marks of a table that is no longer a counter table.
 */
void
marks_forget(Oid counter)
{
	if (OidIsValid(catalog_relation_if_any(marks.table)) &&
		cat_delete(&marks, ObjectIdGetDatum(counter)) > 0)
		(void) cat_delete(&mark_values, ObjectIdGetDatum(counter));
}

/*
 * mark_value_find fetches a key of a mark; false if it has none.
 */
bool
mark_value_find(Oid counter, const char *mark, Datum key, DcMarkValue *value)
{
	DcCatScan scan;
	ScanKeyData keys[3];
	int nkeys = markrow_keys_of(keys, counter, mark);
	bool found;

	ScanKeyInit(&keys[nkeys++], MARK_KEY, BTEqualStrategyNumber, F_TEXTEQ, key);
	cat_scan_begin(&scan, &mark_values, mark_values.pkey, AccessShareLock, keys, nkeys);
	found = cat_scan_next(&scan, ForwardScanDirection, value);
	cat_scan_end(&scan);
	return found;
}

/*
 * mark_value_store writes a key of a mark: it replaces the row that was found, or inserts one
 * if its tid is invalid.
 */
void
mark_value_store(DcMarkValue *value)
{
	ItemPointerData tid = value->tid;

	cat_store_at(&mark_values, &tid, value);
}

/*
 * mark_writer_begin starts to write the values of a new mark.
 */
DcMarkWriter *
mark_writer_begin(Oid counter, const char *mark)
{
	DcMarkWriter *writer = palloc0(sizeof(DcMarkWriter));

	writer->value.counter = counter;
	writer->value.mark = pstrdup(mark);
	writer->rel = table_open_present(catalog_relation(mark_values.table), RowExclusiveLock);
	writer->indexes = CatalogOpenIndexes(writer->rel);
	writer->cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter mark", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < BATCH; i++)
		writer->slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(writer->rel), &TTSOpsHeapTuple);
	return writer;
}

/*
 * mark_writer_add writes the value of a key; keys come in their order, each once. No command ends
 * in the meantime.
 */
void
mark_writer_add(DcMarkWriter *writer, Datum key, int64 value)
{
	MemoryContext old = MemoryContextSwitchTo(writer->cxt);
	DcCatRow io;

	writer->value.key = key;
	writer->value.value = value;
	ExecStoreHeapTuple(cat_form(&mark_values, RelationGetDescr(writer->rel), &writer->value, &io),
					   writer->slots[writer->nslots++], false);
	MemoryContextSwitchTo(old);
	if (writer->nslots == BATCH)
		writer_flush(writer);
}

/*
 * Insert the rows of the current batch, and free their memory.
 */
static void
writer_flush(DcMarkWriter *writer)
{
	MemoryContext old = MemoryContextSwitchTo(writer->cxt);

	CHECK_FOR_INTERRUPTS();
	CatalogTuplesMultiInsertWithInfo(writer->rel, writer->slots, writer->nslots, writer->indexes);
	for (int i = 0; i < writer->nslots; i++)
		ExecClearTuple(writer->slots[i]);
	writer->count += writer->nslots;
	writer->nslots = 0;
	MemoryContextSwitchTo(old);
	MemoryContextReset(writer->cxt);
}

/*
 * mark_writer_end writes the rest, and returns how many keys there were.
 */
int64
mark_writer_end(DcMarkWriter *writer)
{
	int64 count;

	if (writer->nslots > 0)
		writer_flush(writer);
	count = writer->count;
	for (int i = 0; i < BATCH; i++)
		ExecDropSingleTupleTableSlot(writer->slots[i]);
	CatalogCloseIndexes(writer->indexes);
	table_close(writer->rel, RowExclusiveLock);
	MemoryContextDelete(writer->cxt);
	pfree(writer);
	CommandCounterIncrement();
	return count;
}
