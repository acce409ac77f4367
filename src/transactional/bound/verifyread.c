/*
 * verifyread.c
 *		The reading that a step of verification does: some keys, within a bound of rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * All is read in the snapshot of `read` (sourceread.c), so what differs in it differs: writers
 * change nothing about that. Keys come from the counter tables in "C" order, and from the
 * source in the order of its indexes, by a walk that makes one descent for each key. A key with
 * more rows than dcounter.verify_max_rows is left out. For counts without a filter its value
 * shows that beforehand; for others it shows while its rows are read. So is a key whose sums
 * overflow bigint.
 *
 * Without indexes on the key, and for distinct values, a source with no more rows than that is
 * scanned in one step.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/relopen.h"
#include "core/counter/read.h"
#include "core/counter/sqlpath.h"
#include "core/rows/sums.h"
#include "transactional/bound/sourceprobe.h"
#include "transactional/bound/verify.h"

/* Keys that a step goes over, and differences that it keeps of more. */
#define STEP_KEYS 5000

/*
 * How long a step may read, except for the pauses of a scan: all other work of the worker waits for
 * it.
 */
#define SCAN_MS 2000
#define PROBE_MS 2000

/* Rows of a page, in a table that was never analyzed. */
#define ROWS_OF_PAGE 60

/* first key, inclusive?, maximum number of keys */
static const DcStatement sql_next_keys = {
	.text = "SELECT u.key FROM ("
			"(SELECT DISTINCT t.key COLLATE \"C\" AS key FROM @totals AS t"
			" WHERE t.key >= $1 COLLATE \"C\" AND ($2 OR t.key <> $1) ORDER BY 1 LIMIT $3)"
			" UNION (SELECT DISTINCT s.key COLLATE \"C\" FROM @shards AS s"
			" WHERE s.key >= $1 COLLATE \"C\" AND ($2 OR s.key <> $1) ORDER BY 1 LIMIT $3)"
			") AS u ORDER BY u.key COLLATE \"C\" LIMIT $3",
	.argtypes = {TEXTOID, BOOLOID, INT4OID},
	.columns = {DC_TEXT("key")}};

static double verifyread_estimated_rows(const DcSourceRead *read);
static Datum *verifyread_next_keys(DcSourceRead *read, const char *after, int *nkeys);
static void compare_key(DcSourceRead *read, Datum *keys, int nkeys, bool only_zero, int64 max_rows, DcVerified *done);
static void add_diff(DcDrifts *drifts, const DcSourceDiff *diff);

/*
 * verify_how returns how a source can be read.
 */
DcVerifyHow
verify_how(DcSourceRead *read)
{
	if (read->row.distinct_of == NULL && !OidIsValid(read->row.carried) &&
		source_probe_is_indexed(read))
		return VERIFY_BY_INDEX;
	return verifyread_estimated_rows(read) <= dc_verify_max_rows ? VERIFY_BY_SCAN : VERIFY_NOT;
}

/*
 * verifyread_estimated_rows returns about how many rows a source has, by its size now.
 */
static double
verifyread_estimated_rows(const DcSourceRead *read)
{
	double rows = 0;
	ListCell *lc;

	foreach(lc, read->leaves)
	{
		Relation rel = table_open_present(lfirst_oid(lc), NoLock);
		double density = rel->rd_rel->relpages > 0 && rel->rd_rel->reltuples >= 0
			? rel->rd_rel->reltuples / rel->rd_rel->relpages
			: ROWS_OF_PAGE;

		rows += density * RelationGetNumberOfBlocks(rel);
		table_close(rel, NoLock);
	}
	return rows;
}

/*
 * verify_counter_keys compares the next keys of the counter tables after a position, or the first
 * ones (NULL).
 */
void
verify_counter_keys(DcSourceRead *read, const char *after, int64 max_rows, DcVerified *done)
{
	int nkeys;
	Datum *keys = verifyread_next_keys(read, after, &nkeys);

	compare_key(read, keys, nkeys, false, max_rows, done);
}

/*
 * Read the next keys of the counter tables after a position (NULL: from the beginning), at most
 * STEP_KEYS, in "C" order. The array is in the caller's memory context. Raises an error for a
 * key that cannot be one: the owner of the tables can write to them.
 */
static Datum *
verifyread_next_keys(DcSourceRead *read, const char *after, int *nkeys)
{
	Datum values[] = {CStringGetTextDatum(after != NULL ? after : ""), BoolGetDatum(after == NULL),
					  Int32GetDatum(STEP_KEYS)};
	Datum *keys = palloc(STEP_KEYS * sizeof(Datum));
	MemoryContext caller = CurrentMemoryContext;
	DcSqlSession session;
	MemoryContext old;

	sql_begin(&session, read->counter);
	*nkeys = (int) sql_read(&session, &sql_next_keys, values);
	old = MemoryContextSwitchTo(caller);
	for (int i = 0; i < *nkeys; i++)
	{
		DcKey key;

		key_from_text(rows_datum(&session.rows, i, 1), &key); /* or an error, before it is copied */
		keys[i] = key_text_datum(&key);
	}
	MemoryContextSwitchTo(old);
	sql_end(&session);
	return keys;
}

/*
 * verify_source_keys compares the next keys of the source after a position: all, or those that have
 * nothing in the counter tables. The others were compared as keys of these, if they had something
 * there by then.
 */
void
verify_source_keys(DcSourceRead *read, const char *after, bool all, int64 max_rows, DcVerified *done)
{
	int64 visits;
	int nkeys;
	Datum *keys = source_walk(read, after, STEP_KEYS, &nkeys, &visits);

	compare_key(read, keys, nkeys, !all, max_rows, done);
	done->rows += visits;
}

/*
 * compare_key reads both sides of keys, one after the other, up to about max_rows rows of the
 * source.
 */
static void
compare_key(DcSourceRead *read, Datum *keys, int nkeys, bool only_zero, int64 max_rows, DcVerified *done)
{
	DcProbeLimits limits = {.key_rows = dc_verify_max_rows, .rows = max_rows, .late = moment_in(PROBE_MS)};
	bool count = strcmp(read->row.value, "1") == 0; /* the value of a key is the number of its rows */
	DcSums *sums = palloc_extended(Max(nkeys, 1) * sizeof(DcSums), MCXT_ALLOC_HUGE);
	bool *left = palloc(Max(nkeys, 1) * sizeof(bool));
	int64 *known = palloc(Max(nkeys, 1) * sizeof(int64));
	int *places = palloc(Max(nkeys, 1) * sizeof(int));
	Datum *probed = palloc(Max(nkeys, 1) * sizeof(Datum));
	DcSourceDiff *diffs;
	int nprobed = 0;
	int ndiffs;
	int upto;

	for (int n = counter_sums(read->counter, keys, nkeys, sums); n > 0; n--)
		PopActiveSnapshot();
	for (int i = 0; i < nkeys; i++)
	{
		int64 value;

		left[i] = !sums_fit(sums[i].net, &value) || (count && value > dc_verify_max_rows);
		if (left[i] || (only_zero && value != 0))
			continue;
		places[nprobed] = i;
		known[nprobed] = value;
		probed[nprobed++] = keys[i];
	}
	limits.values = known;
	diffs = source_probe_within(read, probed, nprobed, &limits, &ndiffs, &done->rows);
	upto = limits.read < nprobed ? places[limits.read] : nkeys;
	done->left_out = limits.left_out;
	for (int i = 0; i < upto; i++)
		done->left_out += !only_zero && left[i];
	for (int i = 0; i < ndiffs; i++)
		add_diff(&done->drifts, &diffs[i]);
	done->keys = ndiffs;
	done->end = upto == nkeys && nkeys < STEP_KEYS;
	done->last = upto > 0 ? TextDatumGetCString(keys[upto - 1]) : NULL;
}

/*
 * verify_all_keys compares all keys by a scan; false if that takes too long.
 */
bool
verify_all_keys(DcSourceRead *read, DcVerified *done)
{
	DcScanPace pace = {.source = read->row.source, .counter = read->counter_id};
	int64 left_out = 0;
	DcSourceScanOptions options = {.passes_over = DEBUG1,
								   .left_out = &left_out,
								   .late = moment_in(SCAN_MS),
								   .pace = compat_is_background_worker() ? &pace : NULL};
	DcSourceScan *scan = source_scan_begin(read, &options);
	DcSourceDiff diff;

	if (scan == NULL)
		return false;
	while (source_scan_next(scan, &diff))
	{
		CHECK_FOR_INTERRUPTS();
		done->keys++;
		add_diff(&done->drifts, &diff);
	}
	done->rows = source_scan_rows(scan);
	done->left_out = left_out;
	done->end = true;
	source_scan_end(scan);
	return true;
}

/*
 * add_diff counts a difference, if it is one, and keeps it, if there is room.
 */
static void
add_diff(DcDrifts *drifts, const DcSourceDiff *diff)
{
	DcSourceDiff *kept;

	if (!diff_to_repair(diff))
		return;
	drifts->total++;
	drifts->sum = drift_add(drifts->sum != NULL ? drifts->sum : int64_to_numeric(0), diff->drift);
	if (drifts->diffs == NULL)
		drifts->diffs = palloc(STEP_KEYS * sizeof(DcSourceDiff));
	if (drifts->n == STEP_KEYS)
		return;
	kept = &drifts->diffs[drifts->n++];
	*kept = *diff;
	kept->key.data = memcpy(palloc(Max(diff->key.len, 1)), diff->key.data, diff->key.len);
}
