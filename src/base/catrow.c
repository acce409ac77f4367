/*
 * catrow.c
 *		Reading and writing the extension's own tables, its catalogs.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Their rows are read and written below the executor: no role needs a privilege on a catalog to
 * use what it describes, and none may edit it with SQL. The SQL functions check rights.
 *
 * How rows are read (the snapshot rule):
 *
 *	- Reads use SnapshotSelf, which shows the rows that are committed at this moment, and
 *	  the changes of this transaction. A transaction's snapshot may be older than a setting.
 *	  A caller that acts upon a row locks first and reads afterwards, so the row as it is
 *	  now is the right one at any isolation level. And to serializable snapshot isolation a
 *	  catalog is a user's table: reads with an MVCC snapshot would make transactions conflict
 *	  that have nothing in common. It does not look at reads with SnapshotSelf.
 *	- Such a read is not of one moment. It may come to the old version of a row when the
 *	  replacement has been committed already, having passed by the place of the new version before
 *	  that was there. So if a row is not found by its key, the search is repeated once. The second
 *	  read begins when the replacement is committed, and finds it. A row could be missed twice only
 *	  if two changes of it were committed just within these two reads. Where rows change often, the
 *	  writer holds a lock that readers take, too (see events/consumer/memberrow.c).
 *	- A read of many rows may miss one that is being replaced, or show both versions. Its callers
 *	  look at each row again under a lock, or read again (transactional/once/opslot.c). Or the rows
 *	  of this moment are good enough, as for statistics and jobs. With a lock that keeps other
 *	  sessions from changing these rows, all is as in any snapshot.
 *
 * A transaction that changes a row holds a lock that keeps other sessions from changing it:
 * updating a row that was replaced in the meantime is an error. The transaction itself sees the
 * change at once. Other sessions learn of it at commit, by a relcache invalidation of the relation
 * that the row is about.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/activity.h"
#include "base/args.h"
#include "base/catrow.h"
#include "base/relcached.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/version.h"

/* A name in the extension's schema, as this backend knows it. */
typedef struct Known
{
	char name[NAMEDATALEN]; /* hash key */
	Oid relid;				/* InvalidOid: it has changed */
} Known;

static void known_changed(void *entry, Oid relid);

static DcRelCached known = {
	.name = "dcounter catalogs",
	.keysize = NAMEDATALEN,
	.size = sizeof(Known),
	.changed = known_changed,
};
static uint64 known_changes = 0; /* how often any relation may have changed */

static void scan_open(DcCatScan *scan, const DcCatalog *cat, LOCKMODE mode);
static void catrow_scan_start(DcCatScan *scan, const char *index, const ScanKeyData *keys, int nkeys);
static void catrow_take(DcCatScan *scan, void *row);
static void catrow_tell(const DcCatalog *cat, Oid relid);
static void catrow_changed(const DcCatalog *cat, Datum first);

/*
 * catalog_relation finds a table, index or sequence of the extension's own schema (42P01 if
 * there is none).
 */
Oid
catalog_relation(const char *name)
{
	Oid relid = catalog_relation_if_any(name);

	if (!version_checked)
		version_check();
	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s.%s\" does not exist", DC_SCHEMA, name),
				 errhint("The extension is missing from this database, or incomplete: run CREATE EXTENSION dcounter.")));
	return relid;
}

/*
 * catalog_relation_if_any returns InvalidOid if there is no such relation.
 */
Oid
catalog_relation_if_any(const char *name)
{
	Known *entry = relcached_enter(&known, name);
	uint64 changes = known_changes;
	Oid schema;
	Oid relid;

	if (OidIsValid(entry->relid))
		return entry->relid;
	schema = get_namespace_oid(DC_SCHEMA, true);
	relid = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
	if (changes == known_changes)
		entry->relid = relid;
	return relid;
}

/*
 * extension_function finds a function without arguments in that schema; InvalidOid if
 * there is none.
 */
Oid
extension_function(const char *name)
{
	return LookupFuncName(list_make2(makeString(DC_SCHEMA), makeString(pstrdup(name))),
						  0, NULL, true);
}

/*
 * Forget the OID of a relation that has changed; InvalidOid stands for all. Must not throw.
 */
static void
known_changed(void *data, Oid relid)
{
	Known *entry = data;

	known_changes++;
	if (!OidIsValid(relid) || entry->relid == relid)
		entry->relid = InvalidOid;
}

/*
 * relation_invalidate tells all sessions, at commit, that facts about a relation have changed. A
 * dropped relation needs no message.
 */
void
relation_invalidate(Oid relid)
{
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		CacheInvalidateRelcacheByRelid(relid);
}

/*
 * relation_owner returns the owner of a relation, or InvalidOid if it does not exist.
 */
Oid
relation_owner(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return owner;
}

/*
 * cat_scan_begin starts to read the rows that match the keys, in no particular order: by an index,
 * or, if `index` is NULL, by reading all rows.
 */
void
cat_scan_begin(DcCatScan *scan, const DcCatalog *cat, const char *index, LOCKMODE mode,
			   const ScanKeyData *keys, int nkeys)
{
	scan_open(scan, cat, mode);
	catrow_scan_start(scan, index, keys, nkeys);
}

/*
 * cat_scan_begin_ordered does the same in the order of the index, and with any snapshot.
 */
void
cat_scan_begin_ordered(DcCatScan *scan, const DcCatalog *cat, const char *index,
					   Snapshot snapshot, const ScanKeyData *keys, int nkeys)
{
	scan_open(scan, cat, AccessShareLock);
	scan->index = index_open(catalog_relation(index), AccessShareLock);
	memcpy(scan->keys, keys, nkeys * sizeof(ScanKeyData));
	scan->scan = systable_beginscan_ordered(scan->rel, scan->index, snapshot, nkeys, scan->keys);
}

/*
 * Open a catalog for a scan; 42P01 if it is gone.
 */
static void
scan_open(DcCatScan *scan, const DcCatalog *cat, LOCKMODE mode)
{
	CHECK_FOR_INTERRUPTS(); /* some callers look up each object of a command */
	scan->cat = cat;
	scan->mode = mode;
	scan->rel = table_open_present(catalog_relation(cat->table), mode);
	scan->index = NULL;
	scan->scan = NULL;
}

/*
 * Start a scan with SnapshotSelf, by an index or (NULL) of the whole catalog.
 */
static void
catrow_scan_start(DcCatScan *scan, const char *index, const ScanKeyData *keys, int nkeys)
{
	Assert(nkeys <= CAT_MAX_KEYS);
	if (nkeys > 0)
		memcpy(scan->keys, keys, nkeys * sizeof(ScanKeyData)); /* the scan changes them */
	scan->scan = systable_beginscan(scan->rel, index != NULL ? catalog_relation(index) : InvalidOid,
									index != NULL, SnapshotSelf, nkeys, scan->keys);
}

/*
 * cat_scan_next reads the next row, into `row` unless that is NULL; false if there is none.
 */
bool
cat_scan_next(DcCatScan *scan, ScanDirection direction, void *row)
{
	CHECK_FOR_INTERRUPTS(); /* there may be many */
	scan->tuple = scan->index != NULL ? systable_getnext_ordered(scan->scan, direction)
									  : systable_getnext(scan->scan);
	if (HeapTupleIsValid(scan->tuple) && row != NULL)
		catrow_take(scan, row);
	return HeapTupleIsValid(scan->tuple);
}

/*
 * Read the scan's tuple into a struct; raises an error if a value is missing.
 */
static void
catrow_take(DcCatScan *scan, void *row)
{
	if (!cat_deform(scan->cat, RelationGetDescr(scan->rel), scan->tuple, row))
		elog(ERROR, "unexpected null in table \"%s.%s\"", DC_SCHEMA, scan->cat->table);
}

/*
 * cat_scan_delete deletes the row that was read last. The caller increments the command
 * counter when the scan has ended.
 */
void
cat_scan_delete(DcCatScan *scan)
{
	CatalogTupleDelete(scan->rel, &scan->tuple->t_self);
}

/*
 * cat_scan_end ends a scan. After a scan that writes, the table stays locked if the catalog
 * says so.
 */
void
cat_scan_end(DcCatScan *scan)
{
	bool keep = scan->mode != AccessShareLock && scan->cat->keeps_lock;

	if (scan->index == NULL)
		systable_endscan(scan->scan);
	else
	{
		systable_endscan_ordered(scan->scan);
		index_close(scan->index, AccessShareLock);
	}
	table_close(scan->rel, keep ? NoLock : scan->mode);
}

/*
 * catrow_find reads the first row that fits the keys, with a second look; false if there is none.
 */
static bool
catrow_find(DcCatScan *scan, const char *index, const ScanKeyData *keys, int nkeys)
{
	for (int i = 0; i < 2; i++)
	{
		if (scan->scan != NULL)
			systable_endscan(scan->scan);
		catrow_scan_start(scan, index, keys, nkeys);
		if (cat_scan_next(scan, ForwardScanDirection, NULL))
			return true;
	}
	return false;
}

/*
 * cat_read reads the row that has a value in the first column; false if there is none.
 */
bool
cat_read(const DcCatalog *cat, void *row, Datum key)
{
	return cat_read_by(cat, row, cat->pkey, 1, key);
}

/*
 * cat_read_by reads a row by another column, which is the first of an index.
 */
bool
cat_read_by(const DcCatalog *cat, void *row, const char *index, AttrNumber column, Datum value)
{
	DcCatScan scan;
	ScanKeyData key;
	bool found;

	scan_open(&scan, cat, AccessShareLock);
	cat_key(&key, RelationGetDescr(scan.rel), column, value);
	found = catrow_find(&scan, index, &key, 1);
	if (found)
		catrow_take(&scan, row);
	cat_scan_end(&scan);
	return found;
}

/*
 * cat_read_all returns a list of all rows, each in memory of its own, as a snapshot shows
 * them.
 */
List *
cat_read_all(const DcCatalog *cat, Snapshot snapshot)
{
	Relation rel = table_open_present(catalog_relation(cat->table), AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple tuple;
	List *rows = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		void *row = palloc(cat->size);

		CHECK_FOR_INTERRUPTS();
		if (cat_deform(cat, RelationGetDescr(rel), tuple, row))
			rows = lappend(rows, row);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return rows;
}

/*
 * cat_insert adds a row; a unique violation is raised as usual.
 */
void
cat_insert(const DcCatalog *cat, const void *row)
{
	ItemPointerData tid;

	ItemPointerSetInvalid(&tid);
	cat_store_at(cat, &tid, row);
	activity_note(DC_ACTIVITY_THINGS);
}

/*
 * cat_update replaces the row that has the same primary key; false if there is none.
 */
bool
cat_update(const DcCatalog *cat, const void *row)
{
	DcCatScan scan;
	ScanKeyData keys[CAT_MAX_KEYS];
	DcCatRow io;
	HeapTuple tuple;
	ItemPointerData tid;
	bool found;

	scan_open(&scan, cat, RowExclusiveLock);
	tuple = cat_form(cat, RelationGetDescr(scan.rel), row, &io);
	for (int i = 0; i < cat->nkeys; i++)
		cat_key(&keys[i], RelationGetDescr(scan.rel), i + 1, io.values[i]);
	found = catrow_find(&scan, cat->pkey, keys, cat->nkeys);
	if (found)
	{
		tid = scan.tuple->t_self;
		CatalogTupleUpdate(scan.rel, &tid, tuple);
	}
	cat_scan_end(&scan);
	if (found)
		catrow_changed(cat, io.values[0]);
	return found;
}

/*
 * cat_delete removes the rows that have a value in the first column, and returns how many
 * there were.
 */
int
cat_delete(const DcCatalog *cat, Datum key)
{
	DcCatScan scan;
	ScanKeyData scankey;
	int n = 0;

	scan_open(&scan, cat, RowExclusiveLock);
	cat_key(&scankey, RelationGetDescr(scan.rel), 1, key);
	for (bool found = catrow_find(&scan, cat->pkey, &scankey, 1); found;
		 found = cat_scan_next(&scan, ForwardScanDirection, NULL))
	{
		cat_scan_delete(&scan);
		n++;
	}
	cat_scan_end(&scan);
	if (n > 0)
		catrow_changed(cat, key);
	return n;
}

/*
 * cat_store_at replaces the row at a place, or adds one if that is invalid; *tid becomes
 * the new place. The caller has read the row under a lock that it still holds.
 */
void
cat_store_at(const DcCatalog *cat, ItemPointer tid, const void *row)
{
	Relation rel = table_open_present(catalog_relation(cat->table), RowExclusiveLock);
	DcCatRow io;
	HeapTuple tuple = cat_form(cat, RelationGetDescr(rel), row, &io);

	if (ItemPointerIsValid(tid))
		CatalogTupleUpdate(rel, tid, tuple);
	else
		CatalogTupleInsert(rel, tuple);
	*tid = tuple->t_self;
	heap_freetuple(tuple);
	table_close(rel, cat->keeps_lock ? NoLock : RowExclusiveLock);
	catrow_changed(cat, io.values[0]);
}

/*
 * cat_delete_at removes the row at a place.
 */
void
cat_delete_at(const DcCatalog *cat, ItemPointer tid)
{
	Relation rel = table_open_present(catalog_relation(cat->table), RowExclusiveLock);

	Assert(!cat->tells);
	CatalogTupleDelete(rel, tid);
	table_close(rel, cat->keeps_lock ? NoLock : RowExclusiveLock);
	CommandCounterIncrement();
}

/*
 * catrow_tell tells all sessions, at commit, that a catalog has changed, and for which relation.
 */
static void
catrow_tell(const DcCatalog *cat, Oid relid)
{
	relation_invalidate(relid);
	relation_invalidate(catalog_relation_if_any(cat->table));
}

/*
 * Tell other sessions of a change, if the catalog does so, and make it visible to this one.
 */
static void
catrow_changed(const DcCatalog *cat, Datum first)
{
	if (cat->tells)
		catrow_tell(cat, DatumGetObjectId(first));
	CommandCounterIncrement();
}

/*
 * cat_on_change is the body of the triggers BEFORE INSERT OR UPDATE OR DELETE FOR EACH ROW of
 * catalogs whose first column is a relation. They make a restore idempotent: rows of pg_dump's data
 * may exist already, and an INSERT of such a row replaces it. They also tell sessions of the
 * change.
 */
Datum
cat_on_change(FunctionCallInfo fcinfo, const DcCatalog *cat, const char *function)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	void *row = palloc(cat->size);
	HeapTuple tuple;

	trigger_check(fcinfo, function);
	if (RelationGetRelid(data->tg_relation) != catalog_relation(cat->table) ||
		!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be a trigger of the extension's own table", function)));
	tuple = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
	if (!cat_deform(cat, RelationGetDescr(data->tg_relation), tuple, row))
		return PointerGetDatum(tuple); /* the NOT NULL constraint will raise the error */
	catrow_tell(cat, DatumGetObjectId(tuple_datum(data->tg_relation, tuple, 1, REGCLASSOID)));
	activity_note(DC_ACTIVITY_THINGS);
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event) && cat_update(cat, row))
		return PointerGetDatum(NULL);
	return PointerGetDatum(tuple);
}
