/*
 * catalog.c
 *		Reading and writing the catalog dcounter.counter.
 *
 * The rows are read and written below the executor, with the extension's own
 * checks in front (table.c): no role needs a privilege on the catalog to own a
 * counter table, and none may edit it with SQL.
 *
 * Reads use SnapshotSelf: to serializable snapshot isolation the catalog is a
 * user's table, and a read of it in an MVCC snapshot would make transactions
 * conflict that have nothing in common. Such a read may miss a row that is
 * being replaced just then, so what is not found is looked for once more.
 *
 * A change takes effect in other sessions by a relcache invalidation of the
 * counter table (counter_invalidate), which they receive at commit.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/interval.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
#include "table/catalog.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* Columns of dcounter.counter */
enum
{
	COL_COUNTER = 1,
	COL_SHARDS,
	COL_SHARD_BY,
	COL_MAX_SHARDS,
	COL_HOLDS,
	COL_MODE,
	COL_FLUSH_INTERVAL,
	COL_DURABILITY,
	COL_OP_RETENTION,
	COL_LEDGER,
	NUM_COLS = COL_LEDGER
};

static const char *const mode_names[] = {"exact", "buffered"};
static const char *const durability_names[] = {"async", "sync"};

static bool catalog_change(Oid counter, const DcCounterRow *row);
static HeapTuple catalog_form(Relation rel, const DcCounterRow *row);
static bool catalog_scan(Oid value, AttrNumber column, DcCounterRow *row);

/*
 * catalog_read fetches the row of a counter table; false when there is none.
 */
bool
catalog_read(Oid counter, DcCounterRow *row)
{
	return catalog_scan(counter, COL_COUNTER, row) ||
		catalog_scan(counter, COL_COUNTER, row);
}

/*
 * catalog_read_by_shards fetches the row whose shard table is given.
 */
bool
catalog_read_by_shards(Oid shards, DcCounterRow *row)
{
	return catalog_scan(shards, COL_SHARDS, row) ||
		catalog_scan(shards, COL_SHARDS, row);
}

/*
 * catalog_read_by_holds fetches the row whose table of holds is given.
 */
bool
catalog_read_by_holds(Oid holds, DcCounterRow *row)
{
	return catalog_scan(holds, COL_HOLDS, row) ||
		catalog_scan(holds, COL_HOLDS, row);
}

/*
 * catalog_lock_at_once locks the settings for reading; false if that would have
 * to wait: the extension is being dropped, say.
 */
bool
catalog_lock_at_once(void)
{
	return ConditionalLockRelationOid(catalog_relation(DC_CATALOG_TABLE),
									  AccessShareLock);
}

/*
 * catalog_read_all returns a list of all rows (DcCounterRow *).
 */
List *
catalog_read_all(void)
{
	Relation rel = table_open(catalog_relation(DC_CATALOG_TABLE),
							  AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false,
										  SnapshotSelf, 0, NULL);
	HeapTuple tuple;
	List *rows = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		DcCounterRow *row = palloc(sizeof(DcCounterRow));

		catalog_deform(rel, tuple, row);
		rows = lappend(rows, row);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return rows;
}

/*
 * catalog_insert adds a row; a unique violation is raised as usual.
 */
void
catalog_insert(const DcCounterRow *row)
{
	Relation rel = table_open(catalog_relation(DC_CATALOG_TABLE),
							  RowExclusiveLock);

	CatalogTupleInsert(rel, catalog_form(rel, row));
	table_close(rel, RowExclusiveLock);
	counter_invalidate(row->counter);
	CommandCounterIncrement();
}

/*
 * catalog_update replaces the row of a counter table; false when there is none.
 */
bool
catalog_update(const DcCounterRow *row)
{
	return catalog_change(row->counter, row);
}

/*
 * catalog_delete removes the row of a counter table; false when there is none.
 */
bool
catalog_delete(Oid counter)
{
	return catalog_change(counter, NULL);
}

/*
 * catalog_change replaces the row of a counter table, or removes it if there is
 * no new one.
 */
static bool
catalog_change(Oid counter, const DcCounterRow *row)
{
	Relation rel = table_open(catalog_relation(DC_CATALOG_TABLE),
							  RowExclusiveLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple old;
	bool found;

	ScanKeyInit(&key, COL_COUNTER, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(counter));
	scan = systable_beginscan(rel, catalog_relation(DC_CATALOG_INDEX), true,
							  SnapshotSelf, 1, &key);
	old = systable_getnext(scan);
	found = HeapTupleIsValid(old);
	if (found)
	{
		ItemPointerData tid = old->t_self;

		if (row != NULL)
			CatalogTupleUpdate(rel, &tid, catalog_form(rel, row));
		else
			CatalogTupleDelete(rel, &tid);
	}
	systable_endscan(scan);
	table_close(rel, RowExclusiveLock);
	if (found)
	{
		counter_invalidate(counter);
		CommandCounterIncrement();
	}
	return found;
}

/*
 * is_catalog tells whether a relation is the catalog.
 */
bool
is_catalog(Oid relid)
{
	return relid == catalog_relation(DC_CATALOG_TABLE);
}

/*
 * catalog_deform reads a tuple of the catalog; false if it has a NULL, as one
 * that is about to be inserted may.
 */
bool
catalog_deform(Relation rel, HeapTuple tuple, DcCounterRow *row)
{
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS];

	heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
	for (int i = 0; i < NUM_COLS; i++)
	{
		if (nulls[i] && i != COL_HOLDS - 1 && i != COL_OP_RETENTION - 1 &&
			i != COL_LEDGER - 1)
			return false;
	}
	row->counter = DatumGetObjectId(values[COL_COUNTER - 1]);
	row->shards = DatumGetObjectId(values[COL_SHARDS - 1]);
	row->shard_by =
		shard_by_from_text(TextDatumGetCString(values[COL_SHARD_BY - 1]));
	row->max_shards = DatumGetInt32(values[COL_MAX_SHARDS - 1]);
	row->holds = nulls[COL_HOLDS - 1] ? InvalidOid : DatumGetObjectId(values[COL_HOLDS - 1]);
	row->mode = mode_from_text(TextDatumGetCString(values[COL_MODE - 1]));
	row->flush_interval =
		interval_to_us(DatumGetIntervalP(values[COL_FLUSH_INTERVAL - 1]));
	row->durability =
		durability_from_text(TextDatumGetCString(values[COL_DURABILITY - 1]));
	row->op_retention = nulls[COL_OP_RETENTION - 1]
		? 0
		: interval_to_us(DatumGetIntervalP(values[COL_OP_RETENTION - 1]));
	row->ledger = nulls[COL_LEDGER - 1] ? InvalidOid : DatumGetObjectId(values[COL_LEDGER - 1]);
	row->changed_by = HeapTupleHeaderGetXmin(tuple->t_data);
	return true;
}

/*
 * relation_sql_name returns the qualified and quoted name of a relation. A
 * trigger, say, may have dropped it under us: then the error is 42P01.
 */
char *
relation_sql_name(Oid relid)
{
	char *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  name);
}

/*
 * relation_sql_kind returns what DROP calls a table.
 */
const char *
relation_sql_kind(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE ? "FOREIGN TABLE" : "TABLE";
}

/*
 * relation_owner returns the owner of a relation, or 0 if it does not exist.
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
 * shard_by_from_text parses the SQL name of a shard choice (22023 if unknown).
 */
DcShardBy
shard_by_from_text(const char *value)
{
	for (int i = DC_SHARD_BY_RANDOM; i <= DC_SHARD_BY_HASH; i++)
	{
		if (strcmp(value, shard_by_to_text((DcShardBy) i)) == 0)
			return (DcShardBy) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"%s\": \"%s\"", "shard_by", value),
			 errhint("Valid values are \"random\", \"backend\" and \"hash\".")));
}

/*
 * shard_by_to_text returns the SQL name of a shard choice.
 */
const char *
shard_by_to_text(DcShardBy value)
{
	switch (value)
	{
		case DC_SHARD_BY_RANDOM:
			return "random";
		case DC_SHARD_BY_BACKEND:
			return "backend";
		case DC_SHARD_BY_HASH:
			return "hash";
	}
	elog(ERROR, "unrecognized shard choice: %d", (int) value);
}

/*
 * mode_from_text parses the SQL name of a mode (22023 if unknown).
 */
DcMode
mode_from_text(const char *value)
{
	for (int i = 0; i < lengthof(mode_names); i++)
	{
		if (strcmp(value, mode_names[i]) == 0)
			return (DcMode) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"%s\": \"%s\"", "mode", value),
			 errhint("Valid values are \"exact\" and \"buffered\".")));
}

/*
 * durability_from_text parses the SQL name of a durability (22023 if unknown).
 */
DcDurability
durability_from_text(const char *value)
{
	for (int i = 0; i < lengthof(durability_names); i++)
	{
		if (strcmp(value, durability_names[i]) == 0)
			return (DcDurability) i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"%s\": \"%s\"", "durability", value),
			 errhint("Valid values are \"async\" and \"sync\".")));
}

/*
 * catalog_row_defaults fills in the settings that a table starts with.
 */
void
catalog_row_defaults(DcCounterRow *row)
{
	memset(row, 0, sizeof(*row));
	row->shard_by = DC_SHARD_BY_BACKEND;
	row->max_shards = DC_MAX_SHARDS_DEFAULT;
	row->mode = DC_MODE_EXACT;
	row->flush_interval = DC_FLUSH_INTERVAL_DEFAULT;
	row->durability = DC_DURABILITY_ASYNC;
	row->op_retention = DC_OP_RETENTION_DEFAULT;
}

/*
 * catalog_relation resolves a table or index of the extension's own schema.
 */
Oid
catalog_relation(const char *name)
{
	Oid schema = get_namespace_oid(DC_SCHEMA, true);
	Oid relid = InvalidOid;

	if (OidIsValid(schema))
		relid = get_relname_relid(name, schema);
	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s.%s\" does not exist", DC_SCHEMA, name),
				 errhint("The extension is not installed in this database, or not completely: run CREATE EXTENSION dcounter.")));
	return relid;
}

static HeapTuple
catalog_form(Relation rel, const DcCounterRow *row)
{
	Interval flush_interval = {0};
	Interval op_retention = {0};
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};

	values[COL_COUNTER - 1] = ObjectIdGetDatum(row->counter);
	values[COL_SHARDS - 1] = ObjectIdGetDatum(row->shards);
	values[COL_SHARD_BY - 1] =
		CStringGetTextDatum(shard_by_to_text(row->shard_by));
	values[COL_MAX_SHARDS - 1] = Int32GetDatum(row->max_shards);
	values[COL_HOLDS - 1] = ObjectIdGetDatum(row->holds);
	nulls[COL_HOLDS - 1] = !OidIsValid(row->holds);
	values[COL_MODE - 1] = CStringGetTextDatum(mode_names[row->mode]);
	flush_interval.time = row->flush_interval;
	values[COL_FLUSH_INTERVAL - 1] = IntervalPGetDatum(&flush_interval);
	values[COL_DURABILITY - 1] =
		CStringGetTextDatum(durability_names[row->durability]);
	op_retention.day = row->op_retention / USECS_PER_DAY;
	op_retention.time = row->op_retention % USECS_PER_DAY;
	values[COL_OP_RETENTION - 1] = IntervalPGetDatum(&op_retention);
	nulls[COL_OP_RETENTION - 1] = row->op_retention == 0;
	values[COL_LEDGER - 1] = ObjectIdGetDatum(row->ledger);
	nulls[COL_LEDGER - 1] = !OidIsValid(row->ledger);
	return heap_form_tuple(RelationGetDescr(rel), values, nulls);
}

static bool
catalog_scan(Oid value, AttrNumber column, DcCounterRow *row)
{
	Relation rel = table_open(catalog_relation(DC_CATALOG_TABLE),
							  AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	bool found;
	const char *index = column == COL_COUNTER ? DC_CATALOG_INDEX : column == COL_SHARDS ? DC_CATALOG_SHARDS_INDEX
																						: DC_CATALOG_HOLDS_INDEX;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(value));
	scan = systable_beginscan(rel, catalog_relation(index), true, SnapshotSelf,
							  1, &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
		catalog_deform(rel, tuple, row);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * relation_may_have_children tells whether a relation has, or had, partitions or children by
 * inheritance. One that is not locked may be gone.
 */
bool
relation_may_have_children(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool may = HeapTupleIsValid(tuple) && ((Form_pg_class) GETSTRUCT(tuple))->relhassubclass;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return may;
}
