/*
 * sourcescan.c
 *		Comparing all of a source with its counter table, or some keys, in one snapshot.
 *
 * It is one SQL statement (sourcesql.c), whose result is kept until it is fetched, in a file if it is large. The source is
 * summed up by key. To it belongs what partitions have left that were detached and still count (the table of carried amounts). The
 * counter's side is all rows of both tables, and what this transaction is about to write, which the statement gets
 * as arrays. With distinct_of the source is summed up by key and item first: a key has as many as have
 * rows, and is marked if a reference count is another number than that of the rows.
 *
 * Sums are numeric: amounts that fit bigint may have a sum that does not.
 *
 * All is read in the active snapshot, that of source_read_begin(). Nothing may be written
 * before it has been read: what is written by this command would not be seen.
 */
#include "postgres.h"

#include "base/args.h"
#include "base/rowread.h"
#include "bound/refs.h"
#include "bound/sourcescan.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "common/int.h"
#include "common/pg_prng.h"
#include "counter/pending.h"
#include "miscadmin.h"
#include "table/layout.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* The parameters of the statement, all arrays: the keys that are asked for, pending amounts, pending reference counts. */
enum
{
	SCAN_PARAM_KEYS,
	SCAN_PARAM_KEY,
	SCAN_PARAM_CHANGE,
	SCAN_PARAM_REF_KEY,
	SCAN_PARAM_REF_ITEM,
	SCAN_PARAM_REF_N,
	NUM_PARAMS
};

static const Oid param_types[NUM_PARAMS] = {TEXTOID, TEXTOID, INT8OID, TEXTOID, TEXTOID, INT8OID};

/* The columns of its result. Sums that are no bigints are null. */
enum
{
	SCAN_KEY,
	SCAN_ITEM,
	SCAN_SOURCE,
	SCAN_COUNTER,
	SCAN_DIFFERS,
	SCAN_MARKED,
	NUM_COLUMNS
};

static const Oid column_types[NUM_COLUMNS] = {TEXTOID, TEXTOID, INT8OID, INT8OID, BOOLOID, BOOLOID};

struct DcSourceScan
{
	MemoryContext cxt;
	DcSourceFilter filter;
	DcSourceStep step;
	ArrayBuildState *params[NUM_PARAMS];
	Tuplestorestate *result;
	TupleTableSlot *slot;
	int64 left_out;
};

static void add_pending(DcSourceScan *scan, const DcSourceRead *read);
static void add_value(const DcKey *key, int64 change, void *scan);
static void add_count(const DcKey *key, const DcKey *item, int64 n, void *scan);
static void add_param(DcSourceScan *scan, int param, Datum value);
static char *make_sql(const DcSourceRead *read, const DcSourceScanOptions *options, List **tables);
static char *pairs_sql(const DcSourceRead *read);
static char *source_sql(const DcSourceRead *read, const DcSourceScanOptions *options, List **tables);
static char *changes_sql(const DcSourceRead *read);
static bool execute(DcSourceScan *scan, DcSourceRead *read);
static bool pass_over(DcSourceScan *scan, const DcKey *key, bool differs, bool fits);

/*
 * source_scan_begin reads both sides. NULL if that has taken too long.
 */
DcSourceScan *
source_scan_begin(DcSourceRead *read, const DcSourceScanOptions *options)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter scan", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	DcSourceScan *scan = palloc0(sizeof(DcSourceScan));
	bool done;

	Assert(ActiveSnapshotSet() && GetActiveSnapshot() == read->snapshot);
	counter_layout(read->counter);
	scan->cxt = cxt;
	scan->step = (DcSourceStep){.read = read, .late = options->late, .paced = options->paced};
	source_filter_init(&scan->filter, options);
	for (int i = 0; i < options->nkeys; i++)
		add_param(scan, SCAN_PARAM_KEYS, options->keys[i]);
	add_pending(scan, read);
	done = execute(scan, read);
	MemoryContextSwitchTo(old);
	if (done)
		return scan;
	source_scan_end(scan);
	return NULL;
}

/*
 * add_pending adds what this transaction is about to write.
 */
static void
add_pending(DcSourceScan *scan, const DcSourceRead *read)
{
	int n;
	DcDelta **deltas;

	if (read->row.distinct_of != NULL)
		refs_pending_counts(read->counter_id, add_count, scan);
	/* with what is compared with the counts that are written, both sides are without these */
	if (read->row.distinct_of != NULL && scan->filter.options.layer == DC_LAYER_VALUES)
		refs_pending_values(read->counter_id, add_value, scan);
	if (pending_is_empty())
		return;
	deltas = pending_sorted(&n);
	for (int i = 0; i < n; i++)
	{
		DcKey key = {.data = deltas[i]->key.data, .len = deltas[i]->key.len};

		if (deltas[i]->key.counter != read->counter_id)
			continue;
		add_value(&key, deltas[i]->inc - deltas[i]->dec, scan); /* both are positive */
	}
}

static void
add_value(const DcKey *key, int64 change, void *scan)
{
	add_param(scan, SCAN_PARAM_KEY, key_text_datum(key));
	add_param(scan, SCAN_PARAM_CHANGE, Int64GetDatum(change));
}

static void
add_count(const DcKey *key, const DcKey *item, int64 n, void *scan)
{
	add_param(scan, SCAN_PARAM_REF_KEY, key_text_datum(key));
	add_param(scan, SCAN_PARAM_REF_ITEM, key_text_datum(item));
	add_param(scan, SCAN_PARAM_REF_N, Int64GetDatum(n));
}

static void
add_param(DcSourceScan *scan, int param, Datum value)
{
	CHECK_FOR_INTERRUPTS();
	scan->params[param] = accumArrayResult(scan->params[param], value, false, param_types[param], scan->cxt);
}

static bool
execute(DcSourceScan *scan, DcSourceRead *read)
{
	ParamListInfo params = makeParamList(NUM_PARAMS);
	List *tables;
	char *sql = make_sql(read, &scan->filter.options, &tables);

	for (int i = 0; i < NUM_PARAMS; i++)
	{
		Datum array = scan->params[i] != NULL ? makeArrayResult(scan->params[i], scan->cxt)
											  : PointerGetDatum(construct_empty_array(param_types[i]));

		params->params[i] = (ParamExternData){array, false, PARAM_FLAG_CONST, get_array_type(param_types[i])};
	}
	scan->slot = source_sql_slot(NUM_COLUMNS, column_types);
	scan->result = source_sql_run(read, sql, tables, params, &scan->step);
	return scan->result != NULL;
}

/* A sum as a bigint, or null. */
#define AS_BIGINT(sum) \
	"CASE WHEN " sum " BETWEEN -9223372036854775808 AND 9223372036854775807 THEN " sum "::pg_catalog.int8 END"

/* The columns of the result, by those of "z". */
#define RESULT(item) \
	"SELECT z.key, " item " AS item, " AS_BIGINT("z.source") ", " AS_BIGINT("z.counter") ", z.source <> z.counter, z.marked FROM "

/*
 * Return the statement, and the tables that it names: values of the source, totals, and the other amounts of the counter, joined by key.
 */
static char *
make_sql(const DcSourceRead *read, const DcSourceScanOptions *options, List **tables)
{
	const char *join = options->any_keys ? "LEFT" : "FULL";
	StringInfoData sql;

	*tables = list_make2_oid(read->counter_id, read->counter->row.shards);
	if (options->layer != DC_LAYER_NO_SOURCE)
		*tables = lappend_oid(*tables, read->row.source);
	initStringInfo(&sql);
	if (options->layer != DC_LAYER_NO_SOURCE && OidIsValid(read->row.refs))
	{
		*tables = lappend_oid(*tables, read->row.refs);
		appendStringInfo(&sql, "WITH pairs AS (%s) ", pairs_sql(read));
	}
	if (options->layer == DC_LAYER_REFS)
		appendStringInfo(&sql, RESULT("z.item") "pairs AS z WHERE z.marked%s UNION ALL ", options->any_keys ? " AND z.key = ANY ($1)" : "");
	appendStringInfoString(&sql, RESULT("NULL::pg_catalog.text COLLATE \"C\"") "(SELECT key, coalesce(s.n, 0)::pg_catalog.numeric AS source,"
																			   " coalesce(t.inc - t.dec, 0)::pg_catalog.numeric + coalesce(d.change, 0) AS counter, coalesce(s.marked, false) AS marked FROM ");
	if (options->any_keys)
		appendStringInfoString(&sql, "(SELECT DISTINCT k.key COLLATE \"C\" AS key FROM pg_catalog.unnest($1) AS k (key)) AS k LEFT JOIN ");
	appendStringInfo(&sql, "(%s) AS s%s %s JOIN (SELECT t.key COLLATE \"C\" AS key, t.inc, t.dec FROM %s AS t WHERE dcounter.source_step(-2)) AS t USING (key)"
						   " %s JOIN (%s) AS d USING (key)) AS z%s ORDER BY key, item NULLS LAST",
					 source_sql(read, options, tables), options->any_keys ? " USING (key)" : "", join, relation_sql_name(read->counter_id),
					 join, changes_sql(read), options->only_different ? " WHERE z.source <> z.counter OR z.marked" : "");
	return sql.data;
}

/*
 * pairs_sql selects, by key and item, how many rows the source has, and the reference count, and whether these differ.
 */
static char *
pairs_sql(const DcSourceRead *read)
{
	return psprintf("SELECT p.key, p.item, sum(p.source) AS source, sum(p.n) AS counter, sum(p.source) <> sum(p.n) AS marked FROM ("
					"SELECT g.key COLLATE \"C\", g.item, g.n, 0 FROM (%s) AS g"
					" UNION ALL SELECT r.key COLLATE \"C\", r.item COLLATE \"C\", 0, r.n FROM %s AS r WHERE dcounter.source_step(-2)"
					" UNION ALL SELECT r.key COLLATE \"C\", r.item COLLATE \"C\", 0, r.n FROM ROWS FROM (pg_catalog.unnest($4), pg_catalog.unnest($5), pg_catalog.unnest($6)) AS r (key, item, n)"
					") AS p (key, item, source, n) WHERE p.key IS NOT NULL AND p.item IS NOT NULL GROUP BY p.key, p.item",
					source_groups_sql(read, true), relation_sql_name(read->row.refs));
}

/*
 * source_sql selects key, n (what the source has), and whether reference counts of the key are marked.
 */
static char *
source_sql(const DcSourceRead *read, const DcSourceScanOptions *options, List **tables)
{
	const char *values = "SELECT NULL::pg_catalog.text COLLATE \"C\" AS key, 0 AS n, false AS marked WHERE false";

	if (options->layer == DC_LAYER_REFS)
		values = psprintf("SELECT r.key COLLATE \"C\" AS key, count(*) AS n, false AS marked FROM %s AS r WHERE r.n > 0 GROUP BY 1", relation_sql_name(read->row.refs));
	else if (options->layer == DC_LAYER_VALUES && OidIsValid(read->row.refs))
		values = "SELECT p.key, count(*) FILTER (WHERE p.source <> 0) AS n, bool_or(p.marked) AS marked FROM pairs AS p GROUP BY p.key";
	else if (options->layer == DC_LAYER_VALUES)
		values = psprintf("SELECT g.key COLLATE \"C\" AS key, g.n, false AS marked FROM (%s) AS g WHERE g.key IS NOT NULL",
						  source_groups_sql(read, false));
	if (!OidIsValid(read->row.carried))
		return pstrdup(values);
	*tables = lappend_oid(*tables, read->row.carried);
	return psprintf("SELECT v.key, sum(v.n) AS n, bool_or(v.marked) AS marked FROM (%s UNION ALL SELECT c.key COLLATE \"C\", c.amount, false FROM %s AS c) AS v GROUP BY v.key",
					values, relation_sql_name(read->row.carried));
}

/*
 * changes_sql selects key, change: what the counter has besides totals.
 */
static char *
changes_sql(const DcSourceRead *read)
{
	return psprintf("SELECT c.key, sum(c.change) AS change FROM (SELECT s.key COLLATE \"C\", s.inc - s.dec FROM %s AS s WHERE dcounter.source_step(-2)"
					" UNION ALL SELECT p.key COLLATE \"C\", p.change FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3)) AS p (key, change)) AS c (key, change) GROUP BY c.key",
					relation_sql_name(read->counter->row.shards));
}

/*
 * source_filter_init prepares to tell which keys to compare.
 */
void
source_filter_init(DcSourceFilter *filter, const DcSourceScanOptions *options)
{
	filter->options = *options;
	if (options->from != NULL)
		key_from_text(CStringGetTextDatum(options->from), &filter->from);
	if (options->to != NULL)
		key_from_text(CStringGetTextDatum(options->to), &filter->to);
	filter->seed = pg_prng_uint64(&pg_global_prng_state);
}

/*
 * source_filter tells whether a key is one of those.
 */
bool
source_filter(const DcSourceFilter *filter, const char *data, uint32 len)
{
	const DcSourceScanOptions *options = &filter->options;

	if (options->from != NULL && bytes_compare(data, len, filter->from.data, filter->from.len) <= 0)
		return false;
	if (options->to != NULL && bytes_compare(data, len, filter->to.data, filter->to.len) > 0)
		return false;
	return options->sample <= 0 ||
		(hash_bytes_extended((const unsigned char *) data, len, filter->seed) >> 11) * 0x1.0p-53 < options->sample;
}

/*
 * Return true if a key is to be passed over, after a message if its sums leave bigint and are not the same.
 */
static bool
pass_over(DcSourceScan *scan, const DcKey *key, bool differs, bool fits)
{
	const DcSourceScanOptions *options = &scan->filter.options;

	if (!source_filter(&scan->filter, key->data, key->len))
		return true;
	if (fits || options->passes_over == 0)
		return false;
	if (!differs)
		return true;
	ereport(options->passes_over,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("key \"%.*s\" is not compared: bigint out of range", (int) key->len, key->data)));
	scan->left_out++;
	return true;
}

/*
 * Fetch what both sides have for the next key; return false when there is none left. Errors: 22003 for what leaves
 * bigint, unless the scan passes over that.
 */
bool
source_scan_next(DcSourceScan *scan, DcSourceDiff *diff)
{
	TupleTableSlot *slot = scan->slot;
	bool nulls[NUM_COLUMNS];
	Datum values[NUM_COLUMNS];
	int64 drift;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!tuplestore_gettupleslot(scan->result, true, false, slot))
			return false;
		for (int i = 0; i < NUM_COLUMNS; i++)
			values[i] = slot_nullable(slot, i + 1, column_types[i], &nulls[i]);
		memset(diff, 0, sizeof(*diff));
		key_from_text(values[SCAN_KEY], &diff->key);
		if (!nulls[SCAN_ITEM])
			key_from_text(values[SCAN_ITEM], &diff->item);
	} while (pass_over(scan, &diff->key, DatumGetBool(values[SCAN_DIFFERS]),
					   !nulls[SCAN_SOURCE] && !nulls[SCAN_COUNTER] &&
						   !pg_sub_s64_overflow(DatumGetInt64(values[SCAN_SOURCE]), DatumGetInt64(values[SCAN_COUNTER]), &drift)));
	if (nulls[SCAN_SOURCE] || nulls[SCAN_COUNTER])
		source_sum_error(nulls[SCAN_SOURCE] ? "value in the source" : "value");
	diff->items = DatumGetBool(values[SCAN_MARKED]) && nulls[SCAN_ITEM];
	source_diff_set(diff, DatumGetInt64(values[SCAN_SOURCE]), DatumGetInt64(values[SCAN_COUNTER]));
	return true;
}

/*
 * source_diff_set sets what both sides have.
 */
void
source_diff_set(DcSourceDiff *diff, int64 source, int64 counter)
{
	diff->source = source;
	diff->counter = counter;
	if (pg_sub_s64_overflow(source, counter, &diff->drift))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The difference of source and counter is too large.")));
}

/*
 * source_sum_error raises 22003 as sums_to_bigint() does.
 */
void
source_sum_error(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("bigint out of range"),
			 errdetail("The %s of the counter key is too large.", what)));
}

/*
 * source_scan_rows returns how many rows of the source were read, and source_scan_left_out how many keys were
 * passed over so far.
 */
int64
source_scan_rows(const DcSourceScan *scan)
{
	return scan->step.rows;
}

int64
source_scan_left_out(const DcSourceScan *scan)
{
	return scan->left_out;
}

void
source_scan_end(DcSourceScan *scan)
{
	ExecDropSingleTupleTableSlot(scan->slot);
	if (scan->result != NULL)
		tuplestore_end(scan->result);
	MemoryContextDelete(scan->cxt);
}
