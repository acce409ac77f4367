/*
 * sourceprobe.c
 *		Reading some keys of a source by indexes, and walking over its keys.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * An index serves if it is a btree of the server's own operator class, its first column is the
 * column that is the key, it has all rows, and it may be used in our snapshot. So no user's code
 * runs. Nor is an index's predicate examined, as the server would evaluate its constant parts. A
 * source is probed if each of its leaves has one; otherwise it is scanned.
 *
 * The text of a key is turned into a value of the column's type, and the key of each row that
 * the index finds is compared with it: an index may treat different keys as equal (a collation that
 * is not deterministic). A text that is not how the type writes a value is not a key of any row.
 * The types are those whose texts are known here: integers, texts, uuid.
 *
 * Where a row counts the same whatever is in it, as it is the rows that are counted, it is not
 * fetched if all rows of its page are visible to everybody: the server's index-only scans do the
 * same. (The scan asks for index entries, though it does not look at them: then it keeps a pin on
 * the page of the index, without which VACUUM could remove an entry that we are at, with its row,
 * and call the page visible.)
 *
 * A walk goes from one key to the next by descents of the indexes, as rows of a key may be many. It
 * reads index entries alone. Its order is that of the indexes, which for numbers is not that of
 * texts.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/relopen.h"
#include "core/counter/read.h"
#include "core/rows/sums.h"
#include "transactional/bound/keysums.h"
#include "transactional/bound/sourceexpr.h"
#include "transactional/bound/sourceprobe.h"

/* Rows of a key after which the clock is checked. */
#define LOOK_EVERY 1024

/* A leaf whose index is in use. */
typedef struct DcProbeLeaf
{
	Relation rel;
	Relation index;
	DcSourceEval *eval;
	TupleTableSlot *slot;
	IndexScanDesc scan;
	int64 constant;	   /* what each of its rows counts for, or 0 */
	Buffer visibility; /* a page of the visibility map, or invalid */
	Datum key;		   /* of a walk: the key that comes next in this leaf, */
	bool has_key;	   /* if there is one */
} DcProbeLeaf;

typedef struct DcProbe
{
	DcSourceRead *read;
	Relation source;
	Oid type;		   /* of the column, without domains */
	FmgrInfo *compare; /* of the first index: all have the same order */
	int nleaves;
	DcProbeLeaf *leaves;
	MemoryContext row;
} DcProbe;

static bool probe_leaf(DcProbe *probe, Oid relid);
static bool probe_open(DcProbe *probe, DcSourceRead *read);
static void probe_close(DcProbe *probe);
static bool sourceprobe_next_row(DcProbeLeaf *leaf, bool *fetched);
static Relation find_index(const DcSourceRead *read, Relation rel, AttrNumber column, Relation first);
static bool same_order(Relation a, Relation b);
static bool index_serves(Relation index, AttrNumber column);
static bool key_to_value(Oid type, const DcKey *key, Datum *value);
static bool text_to_integer(const DcKey *key, int64 min, int64 max, int64 *value);
static bool text_to_uuid(const DcKey *key, Datum *value);
static void init_scankey(const DcProbeLeaf *leaf, ScanKey key, StrategyNumber strategy, Datum value);
static bool limit_is_reached(const DcProbeLimits *limits, int64 rows);
static bool sourceprobe_read_key(DcProbe *probe, const DcKey *key, const DcProbeLimits *limits, INT128 *sum, int64 *rows);
static DcSourceDiff *take_diffs(Datum *keys, const int64 *values, int nkeys, DcKeySums *sums, int *n);
static DcSourceDiff *probe_by_scan(DcSourceRead *read, Datum *keys, int nkeys, int *ndiffs, int64 *rows);
static bool sourceprobe_fits(INT128 source, int64 value);
static void walk_to(DcProbe *probe, DcProbeLeaf *leaf, bool any, Datum after, int64 *visits);
static int compare_values(const DcProbe *probe, Datum a, Datum b);

/*
 * source_probe reads some keys; see sourceprobe.h.
 */
DcSourceDiff *
source_probe(DcSourceRead *read, Datum *keys, int nkeys, int *ndiffs, int64 *rows)
{
	DcProbeLimits none = {0};

	if (read->row.distinct_of != NULL || OidIsValid(read->row.carried) || !source_probe_is_indexed(read))
		return probe_by_scan(read, keys, nkeys, ndiffs, rows);
	return source_probe_within(read, keys, nkeys, &none, ndiffs, rows);
}

/*
 * source_probe_within reads some keys, up to limits; see sourceprobe.h.
 */
DcSourceDiff *
source_probe_within(DcSourceRead *read, Datum *keys, int nkeys, DcProbeLimits *limits, int *ndiffs,
					int64 *rows)
{
	Datum *whole = palloc_extended(Max(nkeys, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	int64 *values = palloc_extended(Max(nkeys, 1) * sizeof(int64), MCXT_ALLOC_HUGE);
	int nwhole = 0;
	DcSourceDiff *diffs;
	DcKeySums *sums;
	DcProbe probe;

	*rows = 0;
	limits->left_out = 0;
	if (!probe_open(&probe, read))
		elog(ERROR, "a leaf of source %u has no index on the key", read->row.source);
	sums = key_sums_begin(maintenance_work_mem, false);
	for (limits->read = 0; limits->read < nkeys && !limit_is_reached(limits, *rows); limits->read++)
	{
		DcKey key;
		INT128 sum = int64_to_int128(0);

		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[limits->read], &key);
		if (key_sums_has(sums, key.data, key.len))
			continue;
		if (!sourceprobe_read_key(&probe, &key, limits, &sum, rows) || (limits->values != NULL && !sourceprobe_fits(sum, limits->values[limits->read])))
		{
			limits->left_out++;
			continue;
		}
		key_sums_set_sum(sums, key.data, key.len, DC_SIDE_SOURCE, sum);
		if (limits->values != NULL)
			values[nwhole] = limits->values[limits->read];
		whole[nwhole++] = keys[limits->read];
	}
	probe_close(&probe);
	if (limits->values == NULL)
		counter_values(read->counter, whole, nwhole, values);
	diffs = take_diffs(whole, values, nwhole, sums, ndiffs);
	key_sums_end(sums);
	pfree(whole);
	pfree(values);
	return diffs;
}

/*
 * Return true if what a key has in the source, and its difference from a value of the counter, are
 * bigints.
 */
static bool
sourceprobe_fits(INT128 source, int64 value)
{
	int64 amount;

	return sums_fit(source, &amount) && !pg_sub_s64_overflow(amount, value, &amount);
}

/*
 * Return true if no more keys must be read: `rows` reaches the limit, or it is late.
 */
static bool
limit_is_reached(const DcProbeLimits *limits, int64 rows)
{
	return (limits->rows > 0 && rows >= limits->rows) ||
		(limits->late.us != 0 && moment_is_reached(limits->late));
}

/*
 * See sourceprobe.h.
 */
bool
source_probe_is_indexed(DcSourceRead *read)
{
	DcProbe probe;

	if (!probe_open(&probe, read))
		return false;
	probe_close(&probe);
	return true;
}

/*
 * probe_open opens all leaves and their indexes; false if one has none.
 */
static bool
probe_open(DcProbe *probe, DcSourceRead *read)
{
	memset(probe, 0, sizeof(*probe));
	probe->read = read;
	probe->source = table_open_present(read->row.source, NoLock);
	probe->leaves = palloc0(Max(list_length(read->leaves), 1) * sizeof(DcProbeLeaf));
	probe->row = AllocSetContextCreate(CurrentMemoryContext, "dcounter probe: row", ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < list_length(read->leaves); i++)
	{
		if (!probe_leaf(probe, list_nth_oid(read->leaves, i)))
		{
			probe_close(probe);
			return false;
		}
	}
	return true;
}

/*
 * Open a leaf and the index to read it by; false if it has no index that serves. The first leaf
 * determines the type and order of keys.
 */
static bool
probe_leaf(DcProbe *probe, Oid relid)
{
	DcProbeLeaf *leaf = &probe->leaves[probe->nleaves++];
	Relation first = probe->leaves[0].index;
	AttrNumber column;

	leaf->rel = table_open_present(relid, NoLock);
	leaf->eval = source_eval_make(&probe->read->row, probe->source, leaf->rel, CurrentMemoryContext);
	leaf->slot = table_slot_create(leaf->rel, NULL);
	column = source_eval_key_column(leaf->eval);
	if (column > 0)
		leaf->index = find_index(probe->read, leaf->rel, column, first);
	if (leaf->index == NULL)
		return false;
	if (first == NULL)
	{
		probe->type = getBaseType(TupleDescAttr(RelationGetDescr(leaf->rel), column - 1)->atttypid);
		probe->compare = index_getprocinfo(leaf->index, 1, BTORDER_PROC);
	}
	leaf->scan = compat_index_beginscan(leaf->rel, leaf->index, probe->read->snapshot, 1);
	if (leaf->rel->rd_rel->relam == HEAP_TABLE_AM_OID)
		leaf->constant = source_eval_constant(leaf->eval);
	leaf->scan->xs_want_itup = leaf->constant != 0;
	return true;
}

/*
 * Close all leaves that were opened, even after probe_leaf() has returned false, and free the
 * probe's memory.
 */
static void
probe_close(DcProbe *probe)
{
	for (int i = 0; i < probe->nleaves; i++)
	{
		DcProbeLeaf *leaf = &probe->leaves[i];

		if (leaf->scan != NULL)
			index_endscan(leaf->scan);
		if (BufferIsValid(leaf->visibility))
			ReleaseBuffer(leaf->visibility);
		if (leaf->index != NULL)
			index_close(leaf->index, NoLock);
		ExecDropSingleTupleTableSlot(leaf->slot);
		source_eval_free(leaf->eval);
		table_close(leaf->rel, NoLock);
	}
	table_close(probe->source, NoLock);
	MemoryContextDelete(probe->row);
	pfree(probe->leaves);
}

/*
 * find_index opens an index that serves and has the same order as the first leaf's (`first`, or
 * NULL). Returns NULL if there is none.
 */
static Relation
find_index(const DcSourceRead *read, Relation rel, AttrNumber column, Relation first)
{
	List *indexes = RelationGetIndexList(rel);
	Relation found = NULL;

	for (int i = 0; i < list_length(indexes) && found == NULL; i++)
	{
		Oid relid = list_nth_oid(indexes, i);

		/* REINDEX holds the index, and lets others read the table */
		if (read->wait != DC_SOURCE_AT_ONCE)
			LockRelationOid(relid, AccessShareLock);
		else if (!ConditionalLockRelationOid(relid, AccessShareLock))
			continue;
		found = index_open(relid, NoLock);
		if (!index_serves(found, column) || (first != NULL && !same_order(first, found)))
		{
			index_close(found, NoLock);
			found = NULL;
		}
	}
	list_free(indexes);
	return found;
}

/*
 * Return true if an index can be used: a valid, complete btree on this column, which our
 * snapshot may use, whose operators are the server's and whose equal values have equal texts.
 */
static bool
index_serves(Relation index, AttrNumber column)
{
	Form_pg_index form = index->rd_index;
	Oid collation;

	if (!form->indisvalid || !form->indisready || !form->indislive ||
		index->rd_rel->relam != BTREE_AM_OID || form->indkey.values[0] != column ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL))
		return false;
	/* as the planner does: it may lack old versions of rows */
	if (form->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data), TransactionXmin))
		return false;
	collation = index->rd_indcollation[0];
	return index->rd_opfamily[0] < FirstUnpinnedObjectId &&
		OidIsValid(get_opfamily_member(index->rd_opfamily[0], index->rd_opcintype[0], index->rd_opcintype[0], BTEqualStrategyNumber)) &&
		(!OidIsValid(collation) || get_collation_isdeterministic(collation));
}

/*
 * Return true if two indexes have their first column in the same order.
 */
static bool
same_order(Relation a, Relation b)
{
	return a->rd_opfamily[0] == b->rd_opfamily[0] && a->rd_opcintype[0] == b->rd_opcintype[0] &&
		a->rd_indcollation[0] == b->rd_indcollation[0];
}

/*
 * init_scankey compares the first column of a leaf's index with a value.
 */
static void
init_scankey(const DcProbeLeaf *leaf, ScanKey key, StrategyNumber strategy, Datum value)
{
	Oid type = leaf->index->rd_opcintype[0];
	Oid operator= get_opfamily_member(leaf->index->rd_opfamily[0], type, type, strategy);

	ScanKeyEntryInitialize(key, 0, 1, strategy, InvalidOid, leaf->index->rd_indcollation[0],
						   get_opcode(operator), value);
}

/*
 * sourceprobe_read_key adds up the rows of a key; false if they are too many.
 */
static bool
sourceprobe_read_key(DcProbe *probe, const DcKey *key, const DcProbeLimits *limits, INT128 *sum, int64 *rows)
{
	MemoryContext old = MemoryContextSwitchTo(probe->row);
	int64 n = 0;
	bool possible;
	Datum value;

	MemoryContextReset(probe->row);
	possible = key_to_value(probe->type, key, &value);
	MemoryContextSwitchTo(old);
	for (int i = 0; possible && i < probe->nleaves; i++)
	{
		DcProbeLeaf *leaf = &probe->leaves[i];
		ScanKeyData scankey;
		bool fetched;

		init_scankey(leaf, &scankey, BTEqualStrategyNumber, value);
		index_rescan(leaf->scan, &scankey, 1, NULL, 0);
		while (sourceprobe_next_row(leaf, &fetched))
		{
			DcCounted counted;

			CHECK_FOR_INTERRUPTS();
			(*rows)++;
			n++;
			if ((limits->key_rows > 0 && n > limits->key_rows) ||
				(n % LOOK_EVERY == 0 && limits->late.us != 0 && moment_is_reached(limits->late)))
				return false;
			if (!fetched)
			{
				int128_add_int64(sum, leaf->constant);
				continue;
			}
			if (source_eval(leaf->eval, leaf->slot, &counted) && key_compare(&counted.key, key) == 0)
				int128_add_int64(sum, counted.value);
			source_eval_reset(leaf->eval);
		}
	}
	return true;
}

/*
 * sourceprobe_next_row goes to the next visible row that the index has for the key, and fetches it
 * unless it counts the same in any case. The index takes nothing for equal that is not the same
 * (index_serves).
 */
static bool
sourceprobe_next_row(DcProbeLeaf *leaf, bool *fetched)
{
	ItemPointer tid;

	*fetched = true;
	if (leaf->constant == 0)
		return index_getnext_slot(leaf->scan, ForwardScanDirection, leaf->slot);
	while ((tid = index_getnext_tid(leaf->scan, ForwardScanDirection)) != NULL)
	{
		BlockNumber block = ItemPointerGetBlockNumber(tid);

		*fetched = !VM_ALL_VISIBLE(leaf->rel, block, &leaf->visibility);
		if (!*fetched)
		{
			PredicateLockPage(leaf->rel, block, leaf->scan->xs_snapshot);
			return true;
		}
		if (index_fetch_heap(leaf->scan, leaf->slot))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/*
 * take_diffs adds the counter's side, and returns both sides in the order of the keys.
 */
static DcSourceDiff *
take_diffs(Datum *keys, const int64 *values, int nkeys, DcKeySums *sums, int *n)
{
	DcSourceDiff *diffs = palloc_extended(Max(nkeys, 1) * sizeof(DcSourceDiff), MCXT_ALLOC_HUGE);
	DcKeySumsRow row;

	for (int i = 0; i < nkeys; i++)
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[i], &key);
		key_sums_set(sums, key.data, key.len, DC_SIDE_COUNTER, values[i]);
	}
	key_sums_sort(sums);
	*n = 0;
	while (key_sums_next(sums, &row))
	{
		DcSourceDiff *diff = &diffs[(*n)++];

		memset(diff, 0, sizeof(*diff));
		diff->key.data = memcpy(palloc(Max(row.len, 1)), row.data, row.len);
		diff->key.len = row.len;
		diff->items = row.marked;
		source_diff_set(diff, sums_to_bigint(row.sums[DC_SIDE_SOURCE], "value in the source"),
						sums_to_bigint(row.sums[DC_SIDE_COUNTER], "value"));
	}
	return diffs;
}

/*
 * probe_by_scan reads the keys by a scan of the source, where indexes do not serve.
 */
static DcSourceDiff *
probe_by_scan(DcSourceRead *read, Datum *keys, int nkeys, int *ndiffs, int64 *rows)
{
	DcSourceScanOptions options = {.keys = keys, .nkeys = nkeys, .any_keys = true};
	DcSourceDiff *diffs = palloc_extended(Max(nkeys, 1) * sizeof(DcSourceDiff), MCXT_ALLOC_HUGE);
	DcSourceScan *scan = source_scan_begin(read, &options);

	*ndiffs = 0;
	*rows = source_scan_rows(scan);
	while (source_scan_next(scan, &diffs[*ndiffs]))
	{
		DcKey *key = &diffs[(*ndiffs)++].key;

		key->data = memcpy(palloc(Max(key->len, 1)), key->data, key->len);
	}
	source_scan_end(scan);
	return diffs;
}

/*
 * source_walk lists the next keys; see sourceprobe.h.
 */
Datum *
source_walk(DcSourceRead *read, const char *after, int max, int *nkeys, int64 *visits)
{
	Datum *keys = palloc_extended(Max(max, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	DcProbe probe;
	Datum last = (Datum) 0;

	*nkeys = 0;
	*visits = 0;
	if (!probe_open(&probe, read))
		elog(ERROR, "a leaf of source %u has no index on the key", read->row.source);
	if (after != NULL)
	{
		DcKey key = {.data = after, .len = strlen(after)};

		if (!key_to_value(probe.type, &key, &last))
			after = NULL; /* of another type: from the beginning */
	}
	for (int i = 0; i < probe.nleaves; i++)
		walk_to(&probe, &probe.leaves[i], after == NULL, last, visits);
	while (*nkeys < max)
	{
		DcProbeLeaf *lowest = NULL;
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < probe.nleaves; i++)
		{
			DcProbeLeaf *leaf = &probe.leaves[i];

			if (leaf->has_key && (lowest == NULL || compare_values(&probe, leaf->key, lowest->key) < 0))
				lowest = leaf;
		}
		if (lowest == NULL)
			break;
		last = lowest->key;
		key_from_value(last, probe.type, &key);
		keys[(*nkeys)++] = key_text_datum(&key);
		for (int i = 0; i < probe.nleaves; i++)
		{
			DcProbeLeaf *leaf = &probe.leaves[i];

			if (leaf->has_key && compare_values(&probe, leaf->key, last) <= 0)
				walk_to(&probe, leaf, false, last, visits);
		}
	}
	probe_close(&probe);
	return keys;
}

/*
 * walk_to finds the first key of a leaf after another, or its first one (any).
 */
static void
walk_to(DcProbe *probe, DcProbeLeaf *leaf, bool any, Datum after, int64 *visits)
{
	IndexScanDesc scan = leaf->scan;
	bool descending = (leaf->index->rd_indoption[0] & INDOPTION_DESC) != 0;
	ScanKeyData scankey;

	if (any)
		ScanKeyEntryInitialize(&scankey, SK_ISNULL | SK_SEARCHNOTNULL, 1, InvalidStrategy, InvalidOid, InvalidOid, InvalidOid, (Datum) 0);
	else
		init_scankey(leaf, &scankey, BTGreaterStrategyNumber, after);
	scan->xs_want_itup = true;
	index_rescan(scan, &scankey, 1, NULL, 0);
	(*visits)++;
	leaf->has_key = index_getnext_tid(scan, descending ? BackwardScanDirection : ForwardScanDirection) != NULL;
	if (leaf->has_key)
	{
		Form_pg_attribute att = TupleDescAttr(scan->xs_itupdesc, 0);
		bool isnull;
		Datum key = index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &isnull);

		leaf->key = datumCopy(key, att->attbyval, att->attlen);
	}
}

/*
 * Compare two values in the order of the indexes.
 */
static int
compare_values(const DcProbe *probe, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(probe->compare, probe->leaves[0].index->rd_indcollation[0], a, b));
}

/*
 * key_to_value creates a value of a type from a key; returns false if no value of the type has this
 * text.
 */
static bool
key_to_value(Oid type, const DcKey *key, Datum *value)
{
	int64 number;

	switch (type)
	{
		case INT2OID:
			if (!text_to_integer(key, PG_INT16_MIN, PG_INT16_MAX, &number))
				return false;
			*value = Int16GetDatum((int16) number);
			return true;
		case INT4OID:
			if (!text_to_integer(key, PG_INT32_MIN, PG_INT32_MAX, &number))
				return false;
			*value = Int32GetDatum((int32) number);
			return true;
		case INT8OID:
			if (!text_to_integer(key, PG_INT64_MIN, PG_INT64_MAX, &number))
				return false;
			*value = Int64GetDatum(number);
			return true;
		case UUIDOID:
			return text_to_uuid(key, value);
		case TEXTOID:
		case VARCHAROID:
			*value = key_text_datum(key);
			return true;
	}
	elog(ERROR, "keys of type %u cannot be probed", type);
}

/*
 * text_to_integer reads an integer as the server writes it, and in no other way.
 */
static bool
text_to_integer(const DcKey *key, int64 min, int64 max, int64 *value)
{
	char text[MAXINT8LEN + 1];
	char again[MAXINT8LEN + 1];
	char *end;

	if (key->len == 0 || key->len >= sizeof(text))
		return false;
	memcpy(text, key->data, key->len);
	text[key->len] = '\0';
	errno = 0;
	*value = strtoll(text, &end, 10);
	if (errno != 0 || *end != '\0' || *value < min || *value > max)
		return false;
	pg_lltoa(*value, again);
	return strcmp(text, again) == 0;
}

/*
 * text_to_uuid does the same for a uuid.
 */
static bool
text_to_uuid(const DcKey *key, Datum *value)
{
	pg_uuid_t *uuid = palloc0(sizeof(pg_uuid_t));
	char again[40];
	int n = 0;

	for (uint32 i = 0; i < key->len && n < 2 * UUID_LEN; i++)
	{
		char c = key->data[i];
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
																		  : -1;

		if (digit >= 0)
		{
			uuid->data[n / 2] |= digit << (n % 2 == 0 ? 4 : 0);
			n++;
		}
	}
	*value = UUIDPGetDatum(uuid);
	return n == 2 * UUID_LEN && uuid_to_text(uuid, again) == key->len &&
		memcmp(again, key->data, key->len) == 0;
}
