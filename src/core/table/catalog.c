/*
 * catalog.c
 *		The catalog dcounter.counter, which has the settings of counter tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It is read and written as base/catrow.c says. A change takes effect in other sessions by
 * a relcache invalidation of the counter table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/errors.h"
#include "core/table/catalog.h"

PG_FUNCTION_INFO_V1(on_catalog_change);

/* Columns of dcounter.counter, besides the first, by which rows are looked up */
#define COL_SHARDS 2
#define COL_HOLDS 5
#define COL_REGIONS 12
#define COL_SETS 13
#define COL_GRANTS 14
#define COL_WANTS 15
#define COL_TRENDS 19

static const char *const shard_by_names[] = {"random", "backend", "hash"};
static const char *const mode_names[] = {"exact", "buffered"};
static const char *const durability_names[] = {"async", "sync"};
static const char *const totals_names[] = {"direct", "compacted"};

static int by_table(const ListCell *a, const ListCell *b);
static void catalog_columns(DcCatRow *io, void *data);

static const DcCatalog counters = {
	.table = "counter",
	.pkey = "counter_pkey",
	.nkeys = 1,
	.size = sizeof(DcCounterRow),
	.columns = catalog_columns,
	.tells = true,
};

/*
 * Read or write the columns of a row of dcounter.counter.
 */
static void
catalog_columns(DcCatRow *io, void *data)
{
	DcCounterRow *row = data;

	cat_oid(io, &row->counter);
	cat_oid(io, &row->shards);
	row->shard_by = cat_choice(io, row->shard_by, shard_by_names, lengthof(shard_by_names));
	cat_int4(io, &row->max_shards);
	cat_oid(io, &row->holds);
	row->mode = cat_choice(io, row->mode, mode_names, lengthof(mode_names));
	cat_duration(io, &row->flush_interval, false);
	row->durability = cat_choice(io, row->durability, durability_names,
								 lengthof(durability_names));
	cat_duration(io, &row->op_retention, true);
	cat_oid(io, &row->ledger);
	row->totals = cat_choice(io, row->totals, totals_names, lengthof(totals_names));
	cat_oid(io, &row->regions);
	cat_oid(io, &row->sets);
	cat_oid(io, &row->grants);
	cat_oid(io, &row->wants);
	cat_int8(io, &row->rights_epoch);
	cat_int4(io, &row->sample);
	cat_int4(io, &row->sample_max);
	cat_oid(io, &row->trends);
	cat_duration(io, &row->half_life, true);
	if (cat_has_more(io)) /* the script of 0.1 ends here */
		cat_duration(io, &row->idle, true);
	if (io->reading)
		row->changed_by = io->xmin;
}

/*
 * catalog_read fetches the row of a counter table; false when there is none.
 */
bool
catalog_read(Oid counter, DcCounterRow *row)
{
	return cat_read(&counters, row, ObjectIdGetDatum(counter));
}

/*
 * catalog_read_by_shards fetches the row whose shard table is given.
 */
bool
catalog_read_by_shards(Oid shards, DcCounterRow *row)
{
	return cat_read_by(&counters, row, "counter_shards_key", COL_SHARDS,
					   ObjectIdGetDatum(shards));
}

/*
 * catalog_read_by_holds fetches the row whose table of holds is given.
 */
bool
catalog_read_by_holds(Oid holds, DcCounterRow *row)
{
	return cat_read_by(&counters, row, "counter_holds_key", COL_HOLDS,
					   ObjectIdGetDatum(holds));
}

/*
 * catalog_read_by_regions fetches the row whose amounts of regions are in a table, and
 * catalog_read_by_sets the one whose settings are.
 */
bool
catalog_read_by_regions(Oid regions, DcCounterRow *row)
{
	return cat_read_by(&counters, row, "counter_regions_key", COL_REGIONS,
					   ObjectIdGetDatum(regions));
}

/*
 * See catalog_read_by_regions().
 */
bool
catalog_read_by_sets(Oid sets, DcCounterRow *row)
{
	return cat_read_by(&counters, row, "counter_sets_key", COL_SETS, ObjectIdGetDatum(sets));
}

/*
 * catalog_read_by_grants fetches the row of the stock whose grants are in a table, and
 * catalog_read_by_wants the one whose wants are.
 */
bool
catalog_read_by_grants(Oid grants, DcCounterRow *row)
{
	return cat_read_by(&counters, row, "counter_grants_key", COL_GRANTS, ObjectIdGetDatum(grants));
}

/*
 * See catalog_read_by_grants().
 */
bool
catalog_read_by_wants(Oid wants, DcCounterRow *row)
{
	return cat_read_by(&counters, row, "counter_wants_key", COL_WANTS, ObjectIdGetDatum(wants));
}

/*
 * catalog_read_by_trends fetches the row whose decayed weights are in a table.
 */
bool
catalog_read_by_trends(Oid trends, DcCounterRow *row)
{
	return cat_read_by(&counters, row, "counter_trends_key", COL_TRENDS, ObjectIdGetDatum(trends));
}

/*
 * catalog_lock_at_once locks the settings for reading; false if that would have to wait, as
 * while the extension is being dropped.
 */
bool
catalog_lock_at_once(void)
{
	return ConditionalLockRelationOid(catalog_relation(counters.table), AccessShareLock);
}

/*
 * catalog_is_leaving returns true if the settings are gone, or are being dropped.
 */
bool
catalog_is_leaving(void)
{
	Oid relid = catalog_relation_if_any(counters.table);

	return !OidIsValid(relid) || !ConditionalLockRelationOid(relid, AccessShareLock);
}

/*
 * catalog_read_all returns a list of all rows (DcCounterRow *), in the order in which all
 * transactions lock the tables.
 */
List *
catalog_read_all(void)
{
	List *rows = cat_read_all(&counters, SnapshotSelf);

	list_sort(rows, by_table);
	return rows;
}

/*
 * catalog_read_replicated does the same for those that are replicated between regions. It reads no
 * others, as each command of any role may call it.
 */
List *
catalog_read_replicated(void)
{
	static const struct
	{
		const char *index;
		AttrNumber column;
	} by[] = {{"counter_regions_key", COL_REGIONS}, {"counter_grants_key", COL_GRANTS}};
	List *rows = NIL;

	for (int i = 0; i < lengthof(by); i++)
	{
		DcCatScan scan;
		ScanKeyData key;
		DcCounterRow row;

		/* any table; a null is not greater than anything */
		ScanKeyInit(&key, by[i].column, BTGreaterStrategyNumber, F_OIDGT, ObjectIdGetDatum(InvalidOid));
		cat_scan_begin(&scan, &counters, by[i].index, AccessShareLock, &key, 1);
		while (cat_scan_next(&scan, ForwardScanDirection, &row))
		{
			if (i == 0 || !OidIsValid(row.regions))
				rows = lappend(rows, memcpy(palloc(sizeof(row)), &row, sizeof(row)));
		}
		cat_scan_end(&scan);
	}
	list_sort(rows, by_table);
	return rows;
}

/*
 * Compare two rows (DcCounterRow *) by the OID of their counter table, for list_sort().
 */
static int
by_table(const ListCell *a, const ListCell *b)
{
	Oid left = ((DcCounterRow *) lfirst(a))->counter;
	Oid right = ((DcCounterRow *) lfirst(b))->counter;

	return left < right ? -1 : left > right;
}

/*
 * Return true if there is a counter table, or could be.
 */
bool
catalog_has_rows(void)
{
	DcCatScan scan;
	bool found;

	if (!catalog_lock_at_once())
		return true;
	cat_scan_begin(&scan, &counters, NULL, AccessShareLock, NULL, 0);
	found = cat_scan_next(&scan, ForwardScanDirection, NULL);
	cat_scan_end(&scan);
	return found;
}

/*
 * catalog_insert adds a row; a unique violation is raised as usual.
 */
void
catalog_insert(const DcCounterRow *row)
{
	cat_insert(&counters, row);
}

/*
 * catalog_update replaces the row of a counter table; false when there is none.
 */
bool
catalog_update(const DcCounterRow *row)
{
	return cat_update(&counters, row);
}

/*
 * catalog_delete removes the row of a counter table; false when there is none.
 */
bool
catalog_delete(Oid counter)
{
	return cat_delete(&counters, ObjectIdGetDatum(counter)) > 0;
}

/*
 * on_catalog_change() -> trigger on dcounter.counter
 */
Datum
on_catalog_change(PG_FUNCTION_ARGS)
{
	return cat_on_change(fcinfo, &counters, "on_catalog_change()");
}

/*
 * relation_sql_name returns the qualified and quoted name of a relation. If it is gone (a
 * trigger may have dropped it), the error is 42P01.
 */
char *
relation_sql_name(Oid relid)
{
	char *name = get_rel_name(relid);

	if (name == NULL)
		relation_missing_error(relid);
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  name);
}

/*
 * shard_by_from_text parses the SQL name of a shard choice (22023 if unknown).
 */
DcShardBy
shard_by_from_text(const char *value)
{
	return choice_from_text("shard_by", value, shard_by_names, lengthof(shard_by_names));
}

/*
 * mode_from_text parses the SQL name of a mode (22023 if unknown).
 */
DcMode
mode_from_text(const char *value)
{
	return choice_from_text("mode", value, mode_names, lengthof(mode_names));
}

/*
 * durability_from_text parses the SQL name of a durability (22023 if unknown).
 */
DcDurability
durability_from_text(const char *value)
{
	return choice_from_text("durability", value, durability_names, lengthof(durability_names));
}

/*
 * totals_from_text parses the SQL name of how totals are written (22023 if unknown), and
 * totals_to_text returns it.
 */
DcTotals
totals_from_text(const char *value)
{
	return choice_from_text("totals", value, totals_names, lengthof(totals_names));
}

/*
 * See totals_from_text().
 */
const char *
totals_to_text(DcTotals totals)
{
	return totals_names[totals];
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
	row->totals = DC_TOTALS_DIRECT;
	row->sample = 1;
	row->sample_max = 1;
}
