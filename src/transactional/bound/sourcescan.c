/*
 * sourcescan.c
 *		Reading all of a source and of its counter table, or some keys, in one snapshot.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Neither the executor nor the planner takes part in reading the source: each of its leaf
 * partitions is scanned through the table access method, and its rows are evaluated by the
 * code that the trigger uses (sourceexpr.c). Tables that inherit from the source do not count.
 * The amounts of detached partitions that still count (the table of carried amounts) are added
 * to the source's side.
 *
 * The counter's side is all rows of both tables and this transaction's pending deltas. Tables
 * that cannot be read without SQL are read page by page, in the order of their keys.
 *
 * Amounts are added up by key (keysums.c), rows whose keys are arrays in groups before that
 * (sourcegroups.c), so memory is bounded by maintenance_work_mem. Keys come out in "C" order. With
 * distinct_of there are two layers: source and reference counts, by key and item; and the number of
 * items, and the counter, by key. A key and an item are added up as one string, with a zero byte in
 * between, which no text has: so these are in the order of the key, and then of the item.
 *
 * Everything is read in the active snapshot, that of source_read_begin(). Nothing may be written
 * before the reading is done: rows written by this command would not be seen.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "common/int.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "core/counter/pending.h"
#include "core/counter/read.h"
#include "core/counter/sqlpath.h"
#include "core/rows/sums.h"
#include "core/table/layout.h"
#include "transactional/bound/keysums.h"
#include "transactional/bound/refs.h"
#include "transactional/bound/sourceexpr.h"
#include "transactional/bound/sourcegroups.h"
#include "transactional/bound/sourcescan.h"

/* Rows after which the clock is checked, and memory of values is freed. */
#define LOOK_EVERY 1024

struct DcSourceScan
{
	DcSourceRead *read;
	DcSourceScanOptions options;
	DcSourceFilter filter;
	DcKeySums *known; /* the keys that are asked for, or NULL: all */
	DcKeySums *sums;
	int64 rows;		   /* of the source, that were read */
	int64 given;	   /* sums of groups of them */
	MemoryContext row; /* of the rows of other tables */
	char pair[2 * DC_MAX_KEY_BYTES + 1];
};

/* A page of totals from a key on. */
static const DcStatement sql_totals_page = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t WHERE t.key >= $1 ORDER BY t.key LIMIT 10000",
	.argtypes = {TEXTOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* A page of shard rows from a key, and a number of it, on. */
static const DcStatement sql_shards_page = {
	.text = "SELECT s.key, s.inc, s.dec, s.shard FROM @shards AS s WHERE (s.key, s.shard) >= ($1, $2)"
			" ORDER BY s.key, s.shard LIMIT 10000",
	.argtypes = {TEXTOID, INT8OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_COLUMN("shard", INT4OID)}};

static void know_keys(DcSourceScan *scan);
static bool sourcescan_wanted(DcSourceScan *scan, const char *data, uint32 len);
static bool sourcescan_look(DcSourceScan *scan);
static bool scan_source(DcSourceScan *scan, DcKeySums *sums, bool pairs);
static bool scan_leaf(DcSourceScan *scan, Relation source, Oid relid, DcKeySums *sums, bool pairs, DcSourceGroups *groups);
static void sourcescan_add_counted(DcSourceScan *scan, DcSourceEval *eval, TupleTableSlot *slot, DcKeySums *sums, bool pairs);
static bool sourcescan_add_group(void *arg, const DcKey *key, int64 sum);
static uint32 make_pair(DcSourceScan *scan, const DcKey *key, const DcKey *item);
static bool sourcescan_count_items(DcSourceScan *scan);
static bool scan_carried(DcSourceScan *scan);
static bool scan_refs(DcSourceScan *scan);
static void add_count(const DcKey *key, const DcKey *item, int64 n, void *arg);
static void add_counted(const DcKey *key, const DcKey *item, int64 n, void *arg);
static void add_counted_pending(const DcKey *key, int64 change, void *arg);
static void add_pending_value(const DcKey *key, int64 change, void *arg);
static bool scan_counter(DcSourceScan *scan);
static void sourcescan_read_keys(DcSourceScan *scan);
static bool scan_direct(DcSourceScan *scan, DcCounterTable table);
static bool scan_totals_by_sql(DcSourceScan *scan, DcSqlSession *session);
static bool scan_shards_by_sql(DcSourceScan *scan, DcSqlSession *session);
static void next_key(text **key, Datum last);
static void sourcescan_add_pending(DcSourceScan *scan);
static bool pass_over(const DcSourceScan *scan, const DcKeySumsRow *row);
static void sourcescan_add_row(DcSourceScan *scan, Datum key, int64 inc, int64 dec);

/*
 * source_scan_begin reads both sides. Returns NULL if that has taken too long.
 */
DcSourceScan *
source_scan_begin(DcSourceRead *read, const DcSourceScanOptions *options)
{
	DcSourceScan *scan = palloc0(sizeof(DcSourceScan));
	bool done;

	Assert(ActiveSnapshotSet() && GetActiveSnapshot() == read->snapshot);
	scan->read = read;
	scan->options = *options;
	source_filter_init(&scan->filter, options);
	scan->row = AllocSetContextCreate(CurrentMemoryContext, "dcounter scan: row", ALLOCSET_DEFAULT_SIZES);
	scan->sums = key_sums_begin(maintenance_work_mem, options->only_different);
	if (options->any_keys)
		know_keys(scan);

	if (options->layer == DC_LAYER_REFS)
		done = scan_source(scan, scan->sums, true) && scan_refs(scan);
	else
	{
		if (options->layer == DC_LAYER_COUNTER)
			done = scan_refs(scan);
		else if (read->row.distinct_of != NULL)
			done = sourcescan_count_items(scan);
		else
			done = scan_source(scan, scan->sums, false);
		done = done && scan_carried(scan) && scan_counter(scan);
	}
	if (!done)
	{
		source_scan_end(scan);
		return NULL;
	}
	key_sums_sort(scan->sums);
	return scan;
}

/*
 * know_keys notes the keys that are asked for. Each of them has sums in any case.
 */
static void
know_keys(DcSourceScan *scan)
{
	scan->known = key_sums_begin(maintenance_work_mem, false);
	for (int i = 0; i < scan->options.nkeys; i++)
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(scan->options.keys[i], &key);
		key_sums_know(scan->known, key.data, key.len);
		if (scan->options.layer != DC_LAYER_REFS)
			key_sums_know(scan->sums, key.data, key.len);
	}
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
 * Return true if a filter lets a key pass.
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
 * Return true if the scan's options and the list of keys ask for a comparison of a key.
 */
static bool
sourcescan_wanted(DcSourceScan *scan, const char *data, uint32 len)
{
	return source_filter(&scan->filter, data, len) &&
		(scan->known == NULL || key_sums_has(scan->known, data, len));
}

/*
 * sourcescan_look is called now and then; false if it is late.
 */
static bool
sourcescan_look(DcSourceScan *scan)
{
	DcScanPace *pace = scan->options.pace;

	MemoryContextReset(scan->row);
	if (pace != NULL)
		scan_pace(pace);
	return scan->options.late.us == DC_LONG_AGO.us ||
		!moment_is_reached(moment_after(scan->options.late, pace != NULL ? pace->slept : 0));
}

/*
 * scan_source adds up all rows of the source, by key or by key and item.
 */
static bool
scan_source(DcSourceScan *scan, DcKeySums *sums, bool pairs)
{
	Relation source = table_open_present(scan->read->row.source, NoLock);
	DcSourceGroups *groups = source_groups_begin(&scan->read->row, source, maintenance_work_mem / 2, sourcescan_add_group, scan);
	bool done = true;
	ListCell *lc;

	Assert(groups == NULL || (sums == scan->sums && !pairs));
	foreach(lc, scan->read->leaves)
		done = done && scan_leaf(scan, source, lfirst_oid(lc), sums, pairs, groups);
	if (groups != NULL)
	{
		done = done && source_groups_finish(groups);
		source_groups_end(groups);
	}
	table_close(source, NoLock);
	return done;
}

/*
 * Add up the rows of a leaf partition, by key or (pairs) by key and item, or in groups; false if
 * that took too long.
 */
static bool
scan_leaf(DcSourceScan *scan, Relation source, Oid relid, DcKeySums *sums, bool pairs, DcSourceGroups *groups)
{
	Relation rel = table_open_present(relid, NoLock);
	DcSourceEval *eval = source_eval_make(&scan->read->row, source, rel, CurrentMemoryContext);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc heap = compat_table_beginscan(rel, scan->read->snapshot, 0, NULL);
	bool done = true;

	if (scan->options.pace != NULL)
		scan->options.pace->relid = relid;
	while (done && table_scan_getnextslot(heap, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (groups != NULL)
			done = source_groups_add(groups, eval, slot);
		else
			sourcescan_add_counted(scan, eval, slot, sums, pairs);
		source_eval_reset(eval);
		if (++scan->rows % LOOK_EVERY == 0)
			done = done && sourcescan_look(scan);
	}
	table_endscan(heap);
	ExecDropSingleTupleTableSlot(slot);
	source_eval_free(eval);
	table_close(rel, NoLock);
	return done;
}

/*
 * Add up a row of the source, by key or (pairs) by key and item.
 */
static void
sourcescan_add_counted(DcSourceScan *scan, DcSourceEval *eval, TupleTableSlot *slot, DcKeySums *sums, bool pairs)
{
	DcCounted *counted;
	int n = source_eval_row(eval, slot, &counted);

	for (int i = 0; i < n; i++)
	{
		const DcKey *key = &counted[i].key;

		if (counted[i].value == 0 || !sourcescan_wanted(scan, key->data, key->len))
			continue;
		if (pairs)
			key_sums_add(sums, scan->pair, make_pair(scan, key, &counted[i].item), DC_SIDE_SOURCE, counted[i].value, 0);
		else
			key_sums_add(sums, key->data, key->len, DC_SIDE_SOURCE, counted[i].value, 0);
	}
}

/*
 * Add the sum of a group of rows to its key; false if the scan is late. arg is the scan.
 */
static bool
sourcescan_add_group(void *arg, const DcKey *key, int64 sum)
{
	DcSourceScan *scan = arg;

	if (sourcescan_wanted(scan, key->data, key->len))
		key_sums_add(scan->sums, key->data, key->len, DC_SIDE_SOURCE, sum, 0);
	return ++scan->given % LOOK_EVERY != 0 || sourcescan_look(scan);
}

/*
 * make_pair combines a key and an item into one string.
 */
static uint32
make_pair(DcSourceScan *scan, const DcKey *key, const DcKey *item)
{
	memcpy(scan->pair, key->data, key->len);
	scan->pair[key->len] = '\0';
	memcpy(scan->pair + key->len + 1, item->data, item->len);
	return key->len + 1 + item->len;
}

/*
 * sourcescan_count_items adds up the number of different items of each key, and marks keys with
 * items whose reference counts differ from the rows that there are: their values differ sooner or
 * later.
 */
static bool
sourcescan_count_items(DcSourceScan *scan)
{
	DcKeySums *sums = scan->sums;
	DcKeySums *items = key_sums_begin(maintenance_work_mem / 2, false);
	bool done;
	DcKeySumsRow row;

	scan->sums = items; /* for add_count() */
	done = scan_source(scan, items, true);
	if (done)
	{
		refs_scan(&scan->read->row, scan->read->snapshot, add_count, scan);
		refs_pending_counts(scan->read->counter_id, add_count, scan);
		done = sourcescan_look(scan);
	}
	scan->sums = sums;
	if (done)
		key_sums_sort(items);
	while (done && key_sums_next(items, &row))
	{
		uint32 len = strnlen(row.data, row.len);

		if (int128_compare(row.sums[DC_SIDE_SOURCE], int64_to_int128(0)) != 0)
			key_sums_add(sums, row.data, len, DC_SIDE_SOURCE, 1, 0);
		if (int128_compare(row.sums[DC_SIDE_SOURCE], row.sums[DC_SIDE_COUNTER]) != 0)
			key_sums_mark(sums, row.data, len);
	}
	key_sums_end(items);
	return done;
}

/*
 * scan_carried adds what detached partitions have left.
 */
static bool
scan_carried(DcSourceScan *scan)
{
	Relation rel;
	TupleTableSlot *slot;
	TableScanDesc heap;

	if (!OidIsValid(scan->read->row.carried))
		return true;
	rel = table_open_present(scan->read->row.carried, NoLock);
	slot = table_slot_create(rel, NULL);
	heap = compat_table_beginscan(rel, scan->read->snapshot, 0, NULL);
	while (table_scan_getnextslot(heap, ForwardScanDirection, slot))
	{
		MemoryContext old = MemoryContextSwitchTo(scan->row);
		int64 amount = DatumGetInt64(slot_datum(slot, 2, INT8OID));
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(slot_datum(slot, 1, TEXTOID), &key);
		MemoryContextSwitchTo(old);
		if (sourcescan_wanted(scan, key.data, key.len))
			key_sums_add(scan->sums, key.data, key.len, DC_SIDE_SOURCE, amount, 0);
		MemoryContextReset(scan->row);
	}
	table_endscan(heap);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return sourcescan_look(scan);
}

/*
 * scan_refs adds up the reference counts, by key and item, or how many items of a key have one
 * above zero. What this transaction has not written yet belongs to them.
 */
static bool
scan_refs(DcSourceScan *scan)
{
	Oid counter = scan->read->counter_id;

	if (scan->options.layer == DC_LAYER_REFS)
	{
		refs_scan(&scan->read->row, scan->read->snapshot, add_count, scan);
		refs_pending_counts(counter, add_count, scan);
	}
	else
	{
		refs_scan(&scan->read->row, scan->read->snapshot, add_counted, scan);
		refs_pending_values(counter, add_counted_pending, scan);
	}
	return sourcescan_look(scan);
}

/*
 * Add a reference count to the counter's side of the layer of keys and items; arg is the scan.
 */
static void
add_count(const DcKey *key, const DcKey *item, int64 n, void *arg)
{
	DcSourceScan *scan = arg;

	if (sourcescan_wanted(scan, key->data, key->len))
		key_sums_add(scan->sums, scan->pair, make_pair(scan, key, item), DC_SIDE_COUNTER, n, 0);
}

/*
 * Count an item of a key whose reference count is above zero.
 */
static void
add_counted(const DcKey *key, const DcKey *item, int64 n, void *arg)
{
	if (n > 0)
		add_counted_pending(key, 1, arg);
}

/*
 * Add a change of the number of a key's items to the source's side of the upper layer; arg is
 * the scan.
 */
static void
add_counted_pending(const DcKey *key, int64 change, void *arg)
{
	DcSourceScan *scan = arg;

	if (sourcescan_wanted(scan, key->data, key->len))
		key_sums_add(scan->sums, key->data, key->len, DC_SIDE_SOURCE, change, 0);
}

/*
 * scan_counter adds up the counter's side.
 */
static bool
scan_counter(DcSourceScan *scan)
{
	DcCounter *counter = scan->read->counter;
	bool done;

	counter_layout(counter);
	if (scan->known != NULL)
	{
		sourcescan_read_keys(scan);
		return true;
	}
	if (counter->direct_read)
		done = scan_direct(scan, DC_TABLE_TOTALS) && scan_direct(scan, DC_TABLE_SHARDS);
	else
	{
		DcSqlSession session;

		sql_begin(&session, counter);
		done = scan_totals_by_sql(scan, &session) && scan_shards_by_sql(scan, &session);
		sql_end(&session);
	}
	sourcescan_add_pending(scan);
	return done;
}

/*
 * sourcescan_read_keys reads the keys that are asked for by the indexes.
 */
static void
sourcescan_read_keys(DcSourceScan *scan)
{
	Datum *keys = scan->options.keys;
	int n = scan->options.nkeys;
	int64 *values = palloc_extended(Max(n, 1) * sizeof(int64), MCXT_ALLOC_HUGE);

	counter_values(scan->read->counter, keys, n, values);
	for (int i = 0; i < n; i++)
	{
		DcKey key;

		key_from_text(keys[i], &key);
		if (sourcescan_wanted(scan, key.data, key.len))
			key_sums_set(scan->sums, key.data, key.len, DC_SIDE_COUNTER, values[i]); /* keys may repeat */
	}
	pfree(values);
}

/*
 * scan_direct reads all rows of a table of the counter without SQL.
 */
static bool
scan_direct(DcSourceScan *scan, DcCounterTable table)
{
	DcCounter *counter = scan->read->counter;
	Relation rel = counter_direct_open(counter, table);
	const AttrNumber *atts = table == DC_TABLE_TOTALS ? counter->totals.atts : counter->shards.atts;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc heap = compat_table_beginscan(rel, scan->read->snapshot, 0, NULL);
	bool done = true;
	int64 n = 0;

	while (done && table_scan_getnextslot(heap, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		sourcescan_add_row(scan, slot_datum(slot, atts[DC_COL_KEY], TEXTOID),
						   DatumGetInt64(slot_datum(slot, atts[DC_COL_INC], INT8OID)),
						   DatumGetInt64(slot_datum(slot, atts[DC_COL_DEC], INT8OID)));
		if (++n % LOOK_EVERY == 0)
			done = sourcescan_look(scan);
	}
	table_endscan(heap);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return done;
}

/*
 * Add up the table of totals, a page at a time; false if that took too long.
 */
static bool
scan_totals_by_sql(DcSourceScan *scan, DcSqlSession *session)
{
	text *from = cstring_to_text(scan->options.from != NULL ? scan->options.from : "");

	for (;;)
	{
		Datum values[] = {PointerGetDatum(from)};
		uint64 n = sql_read(session, &sql_totals_page, values);

		for (uint64 i = 0; i < n; i++)
			sourcescan_add_row(scan, rows_datum(&session->rows, i, 1), rows_bigint(&session->rows, i, 2), rows_bigint(&session->rows, i, 3));
		if (n == 0)
			return true;
		next_key(&from, rows_datum(&session->rows, n - 1, 1));
		SPI_freetuptable(session->rows.result);
		if (!sourcescan_look(scan))
			return false;
	}
}

/*
 * Add up the table of shard rows, a page at a time; false if that took too long.
 */
static bool
scan_shards_by_sql(DcSourceScan *scan, DcSqlSession *session)
{
	text *from = cstring_to_text(scan->options.from != NULL ? scan->options.from : "");
	int64 number = PG_INT64_MIN;

	for (;;)
	{
		Datum values[] = {PointerGetDatum(from), Int64GetDatum(number)};
		uint64 n = sql_read(session, &sql_shards_page, values);

		for (uint64 i = 0; i < n; i++)
			sourcescan_add_row(scan, rows_datum(&session->rows, i, 1), rows_bigint(&session->rows, i, 2), rows_bigint(&session->rows, i, 3));
		if (n == 0)
			return true;
		pfree(from);
		from = DatumGetTextPCopy(rows_datum(&session->rows, n - 1, 1));
		number = (int64) DatumGetInt32(rows_datum(&session->rows, n - 1, 4)) + 1;
		SPI_freetuptable(session->rows.result);
		if (!sourcescan_look(scan))
			return false;
	}
}

/*
 * next_key sets *key to the first text after another: no text has a zero byte.
 */
static void
next_key(text **key, Datum last)
{
	text *old = DatumGetTextPP(last);
	int len = VARSIZE_ANY_EXHDR(old);

	pfree(*key);
	*key = palloc(VARHDRSZ + len + 1);
	SET_VARSIZE(*key, VARHDRSZ + len + 1);
	memcpy(VARDATA(*key), VARDATA_ANY(old), len);
	VARDATA(*key)
	[len] = '\001';
}

/*
 * sourcescan_add_pending adds what this transaction is about to write.
 */
static void
sourcescan_add_pending(DcSourceScan *scan)
{
	int n;
	DcDelta **deltas;

	if (scan->read->row.distinct_of != NULL)
		refs_pending_values(scan->read->counter_id, add_pending_value, scan);
	if (pending_is_empty())
		return;
	deltas = pending_sorted(&n);
	for (int i = 0; i < n; i++)
	{
		const DcDeltaKey *key = &deltas[i]->key;

		if (key->counter == scan->read->counter_id && sourcescan_wanted(scan, key->data, key->len))
			key_sums_add(scan->sums, key->data, key->len, DC_SIDE_COUNTER, deltas[i]->inc, deltas[i]->dec);
	}
}

/*
 * Add a pending change of a value to the counter's side; arg is the scan.
 */
static void
add_pending_value(const DcKey *key, int64 change, void *arg)
{
	DcSourceScan *scan = arg;

	if (sourcescan_wanted(scan, key->data, key->len))
		key_sums_add(scan->sums, key->data, key->len, DC_SIDE_COUNTER, change, 0);
}

/*
 * sourcescan_add_row adds a row of either table.
 */
static void
sourcescan_add_row(DcSourceScan *scan, Datum value, int64 inc, int64 dec)
{
	MemoryContext old = MemoryContextSwitchTo(scan->row);
	DcKey key;

	key_from_text(value, &key);
	MemoryContextSwitchTo(old);
	if (sourcescan_wanted(scan, key.data, key.len))
		key_sums_add(scan->sums, key.data, key.len, DC_SIDE_COUNTER, inc, dec);
}

/*
 * Return true if a key with these sums must be skipped, after a message if the user should know.
 */
static bool
pass_over(const DcSourceScan *scan, const DcKeySumsRow *row)
{
	int64 source;
	int64 counter;
	int64 drift;

	if (scan->options.passes_over == 0 ||
		(sums_fit(row->sums[DC_SIDE_SOURCE], &source) && sums_fit(row->sums[DC_SIDE_COUNTER], &counter) &&
		 !pg_sub_s64_overflow(source, counter, &drift)))
		return false;
	if (int128_compare(row->sums[DC_SIDE_SOURCE], row->sums[DC_SIDE_COUNTER]) == 0)
		return true;
	ereport(scan->options.passes_over,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("key \"%.*s\" is not compared: bigint out of range", (int) row->len, row->data)));
	if (scan->options.left_out != NULL)
		(*scan->options.left_out)++;
	return true;
}

/*
 * Fetch what both sides have for the next key; return false when there is none left. Errors: 22003
 * for what overflows bigint, unless the scan skips that.
 */
bool
source_scan_next(DcSourceScan *scan, DcSourceDiff *diff)
{
	DcKeySumsRow row;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!key_sums_next(scan->sums, &row))
			return false;
	} while (pass_over(scan, &row));
	diff->key.data = row.data;
	diff->key.len = row.len;
	diff->item.data = NULL;
	diff->item.len = 0;
	if (scan->options.layer == DC_LAYER_REFS)
	{
		diff->key.len = strnlen(row.data, row.len);
		diff->item.data = row.data + diff->key.len + 1;
		diff->item.len = row.len - diff->key.len - 1;
	}
	diff->items = row.marked;
	source_diff_set(diff, sums_to_bigint(row.sums[DC_SIDE_SOURCE], "value in the source"),
					sums_to_bigint(row.sums[DC_SIDE_COUNTER], "value"));
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
 * source_scan_rows returns how many rows of the source were read.
 */
int64
source_scan_rows(const DcSourceScan *scan)
{
	return scan->rows;
}

/*
 * Free a scan, read to its end or not.
 */
void
source_scan_end(DcSourceScan *scan)
{
	key_sums_end(scan->sums);
	if (scan->known != NULL)
		key_sums_end(scan->known);
	MemoryContextDelete(scan->row);
	pfree(scan);
}
