/*
 * sourceprobe.c
 *		Reading some keys of a source by indexes, and walking over its keys.
 *
 * An index serves if it is a btree of the server's own operator class, its first column is the
 * column that is the key, it has all rows, and it may be used in our snapshot. A source is probed if each of its leaves has one;
 * otherwise it is scanned.
 *
 * One SQL statement (sourcesql.c) reads the keys one after the other, each by a subquery, so that limits can be kept: it
 * ends between two keys, and a key with too many rows is left out. Conditions name the operators and the collation of the
 * index, and scans of whole tables are disabled: then there is no other way for the planner. Rows of counts are not fetched where
 * all rows of their page are visible to everybody, as these are index-only scans.
 *
 * The text of a key is turned into a value of the column's type. A text that is not how the type writes a value is
 * nobody's key. The types are those whose texts are known here: integers, texts, uuid; and for these an index takes for equal
 * what is the same key, unless its collation is not deterministic.
 *
 * A walk goes from one key to the next by descents of the indexes, as rows of a key may be many. Its order is that of
 * the indexes, which for numbers is not that of texts.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/transam.h"
#include "base/args.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "bound/sourceexpr.h"
#include "bound/sourceprobe.h"
#include "catalog/pg_am.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "counter/read.h"
#include "lib/qunique.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

/* How the leaves of a source are read by indexes. */
typedef struct DcProbe
{
	DcSourceRead *read;
	char *column;
	Oid type;	   /* of the column, without domains */
	Oid opfamily;  /* of all indexes, */
	Oid opcintype; /* with this */
	Oid collation;
	char *collate;	  /* " COLLATE ..." of that, or "", */
	char *compared;	  /* and the column with it */
	bool nulls_first; /* in ascending order */
	int nleaves;
} DcProbe;

static bool probe_make(DcProbe *probe, DcSourceRead *read);
static bool probe_leaf(DcProbe *probe, Oid relid);
static bool index_serves(const DcProbe *probe, Relation rel, Relation index);
static char *operator_sql(const DcProbe *probe, StrategyNumber strategy);
static char *rows_sql(const DcProbe *probe);
static char *next_sql(const DcProbe *probe, const char *after);
static ParamListInfo params_make(const DcProbe *probe, Datum value, bool single, int64 limit);
static void read_keys(DcProbe *probe, Datum *keys, int nkeys, DcProbeLimits *limits, DcSourceDiff *diffs, int64 *rows);
static bool nulls_first(Relation index);
static char *collate_sql(Oid collation);
static Datum key_values(const DcProbe *probe, Datum *keys, int nkeys, int *places, int *nvalues);
static DcSourceDiff *probe_by_scan(DcSourceRead *read, Datum *keys, int nkeys, int *ndiffs, int64 *rows);
static int diff_compare(const void *a, const void *b);
static bool key_to_value(Oid type, const DcKey *key, Datum *value);
static bool text_to_integer(const DcKey *key, int64 min, int64 max, int64 *value);
static bool text_to_uuid(const DcKey *key, Datum *value);

/*
 * source_probe reads some keys; see sourceprobe.h.
 */
DcSourceDiff *
source_probe(DcSourceRead *read, Datum *keys, int nkeys, int *ndiffs, int64 *rows)
{
	DcProbeLimits none = {0};

	if (!source_probe_is_indexed(read))
		return probe_by_scan(read, keys, nkeys, ndiffs, rows);
	return source_probe_within(read, keys, nkeys, &none, ndiffs, rows);
}

bool
source_probe_is_indexed(DcSourceRead *read)
{
	DcProbe probe;

	return read->row.distinct_of == NULL && !OidIsValid(read->row.carried) && probe_make(&probe, read);
}

/*
 * source_probe_within reads some keys, up to limits; see sourceprobe.h.
 */
DcSourceDiff *
source_probe_within(DcSourceRead *read, Datum *keys, int nkeys, DcProbeLimits *limits, int *ndiffs,
					int64 *rows)
{
	DcSourceDiff *diffs = palloc_extended(Max(nkeys, 1) * sizeof(DcSourceDiff), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	Datum *whole = palloc_extended(Max(nkeys, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	int64 *values = palloc_extended(Max(nkeys, 1) * sizeof(int64), MCXT_ALLOC_HUGE);
	int n = 0;
	DcProbe probe;

	if (!probe_make(&probe, read))
		elog(ERROR, "a leaf of source %u has no index on the key", read->row.source);
	read_keys(&probe, keys, nkeys, limits, diffs, rows);
	for (int i = 0; i < limits->read; i++)
	{
		DcSourceDiff *diff = &diffs[i];

		CHECK_FOR_INTERRUPTS();
		if (diff->left_out || (limits->values != NULL && pg_sub_s64_overflow(diff->source, limits->values[i], &diff->drift)))
		{
			limits->left_out++;
			continue;
		}
		whole[n] = keys[i];
		values[n] = limits->values != NULL ? limits->values[i] : 0;
		diffs[n] = *diff;
		key_from_text(keys[i], &diffs[n++].key);
	}
	if (limits->values == NULL)
		counter_values(read->counter, whole, n, values);
	for (int i = 0; i < n; i++)
		source_diff_set(&diffs[i], diffs[i].source, values[i]);
	qsort(diffs, n, sizeof(DcSourceDiff), diff_compare);
	*ndiffs = n == 0 ? 0 : (int) qunique(diffs, n, sizeof(DcSourceDiff), diff_compare);
	pfree(whole);
	pfree(values);
	return diffs;
}

static int
diff_compare(const void *a, const void *b)
{
	return key_compare(&((const DcSourceDiff *) a)->key, &((const DcSourceDiff *) b)->key);
}

/*
 * read_keys sets what the source has for the keys, as far as the limits let it, which is noted in these.
 */
static void
read_keys(DcProbe *probe, Datum *keys, int nkeys, DcProbeLimits *limits, DcSourceDiff *diffs, int64 *rows)
{
	static const Oid types[] = {INT8OID, INT8OID, INT8OID};
	DcSourceStep step = {.read = probe->read, .late = limits->late, .stops = true, .by_index = true, .max_rows = limits->rows};
	TupleTableSlot *slot = source_sql_slot(lengthof(types), types);
	int *places = palloc_extended(Max(nkeys, 1) * sizeof(int), MCXT_ALLOC_HUGE);
	int nvalues;
	Datum values = key_values(probe, keys, nkeys, places, &nvalues);
	Tuplestorestate *result = source_sql_run(probe->read,
											 psprintf("SELECT k.i, CASE WHEN l.n BETWEEN -9223372036854775808 AND 9223372036854775807 THEN l.n::pg_catalog.int8 END, l.rows"
													  " FROM (SELECT k.v, k.i FROM pg_catalog.unnest($1) WITH ORDINALITY AS k (v, i) WHERE dcounter.source_step(-1) OFFSET 0) AS k,"
													  " LATERAL (SELECT coalesce(sum(r.v), 0) AS n, count(*) AS rows FROM (%s LIMIT $2) AS r WHERE dcounter.source_step(0)) AS l",
													  rows_sql(probe)),
											 list_make1_oid(probe->read->row.source),
											 params_make(probe, values, false, limits->key_rows > 0 ? limits->key_rows + 1 : 0), &step);
	int read = 0;

	limits->left_out = 0;
	while (tuplestore_gettupleslot(result, true, false, slot))
	{
		DcSourceDiff *diff = &diffs[places[read++]];
		bool isnull;

		CHECK_FOR_INTERRUPTS();
		diff->source = DatumGetInt64(slot_nullable(slot, 2, INT8OID, &isnull));
		if (isnull && limits->values == NULL)
			source_sum_error("value in the source");
		diff->left_out = isnull || (limits->key_rows > 0 && DatumGetInt64(slot_datum(slot, 3, INT8OID)) > limits->key_rows);
	}
	if (step.cut && read > 0)
		diffs[places[read - 1]].left_out = true;
	limits->read = read < nvalues ? places[read] : nkeys;
	*rows = step.rows;
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(result);
	pfree(places);
}

/*
 * key_values makes an array of the values of keys, but for those that are of no value, and notes where these stand among the keys.
 */
static Datum
key_values(const DcProbe *probe, Datum *keys, int nkeys, int *places, int *nvalues)
{
	Datum *values = palloc_extended(Max(nkeys, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	int n = 0;

	for (int i = 0; i < nkeys; i++)
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(keys[i], &key);
		if (key_to_value(probe->type, &key, &values[n]))
			places[n++] = i;
	}
	*nvalues = n;
	return array_datum(values, n, probe->type);
}

/*
 * rows_sql selects what each row of a key counts for, or null.
 */
static char *
rows_sql(const DcProbe *probe)
{
	const DcSourceRow *row = &probe->read->row;
	char *value = psprintf("(%s)::pg_catalog.int8", row->value);

	if (row->filter != NULL)
		value = psprintf("CASE WHEN %s THEN %s END", row->filter, value);
	return psprintf("SELECT %s AS v FROM %s AND %s %s k.v", value, source_from_sql(probe->read), probe->compared,
					operator_sql(probe, BTEqualStrategyNumber));
}

/*
 * source_walk lists the next keys; see sourceprobe.h.
 */
Datum *
source_walk(DcSourceRead *read, const char *after, int max, DcMoment late, int *nkeys, int64 *visits, bool *end)
{
	static const Oid types[] = {TEXTOID};
	DcSourceStep step = {.read = read, .late = late, .stops = true, .by_index = true};
	Datum *keys = palloc_extended(Max(max, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	TupleTableSlot *slot = source_sql_slot(lengthof(types), types);
	Datum last = (Datum) 0;
	Tuplestorestate *result;
	DcProbe probe;

	if (!probe_make(&probe, read))
		elog(ERROR, "a leaf of source %u has no index on the key", read->row.source);
	if (after != NULL)
	{
		DcKey key = {.data = after, .len = strlen(after)};

		if (!key_to_value(probe.type, &key, &last))
			after = NULL; /* of another type: from the beginning */
	}
	max = Max(max / Max(probe.nleaves, 1), 1); /* a step of the walk goes to each leaf */
	result = source_sql_run(read, psprintf("WITH RECURSIVE w (k, n) AS (SELECT m.k, 1 FROM (%s) AS m UNION ALL"
										   " SELECT m.k, w.n + 1 FROM w, LATERAL (%s) AS m WHERE w.n < $2 AND dcounter.source_step(-1))"
										   " SELECT w.k::pg_catalog.text FROM w",
										   next_sql(&probe, after != NULL ? "$1" : NULL), next_sql(&probe, "w.k")),
							list_make1_oid(read->row.source),
							params_make(&probe, last, after != NULL, max), &step);
	*nkeys = 0;
	while (tuplestore_gettupleslot(result, true, false, slot))
		keys[(*nkeys)++] = PointerGetDatum(DatumGetTextPCopy(slot_datum(slot, 1, TEXTOID)));
	*visits = (*nkeys + 1) * probe.nleaves;
	*end = *nkeys < max && !step.was_late;
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(result);
	return keys;
}

/*
 * next_sql selects the lowest key of the source that is after another one, or its first one (NULL).
 */
static char *
next_sql(const DcProbe *probe, const char *after)
{
	return psprintf("SELECT %s::%s%s AS k FROM %s AND %s %s %s ORDER BY %s USING %s NULLS %s LIMIT 1", quote_identifier(probe->column),
					format_type_be_qualified(probe->type), probe->collate, source_from_sql(probe->read), probe->compared,
					after != NULL ? operator_sql(probe, BTGreaterStrategyNumber) : "IS NOT", after != NULL ? after : "NULL",
					probe->compared, operator_sql(probe, BTLessStrategyNumber), probe->nulls_first ? "FIRST" : "LAST");
}

static char *
operator_sql(const DcProbe *probe, StrategyNumber strategy)
{
	return psprintf("OPERATOR(pg_catalog.%s)",
					get_opname(get_opfamily_member(probe->opfamily, probe->opcintype, probe->opcintype, strategy)));
}

/*
 * params_make makes the parameters: an array of values, or a value; and a limit (0: none).
 */
static ParamListInfo
params_make(const DcProbe *probe, Datum value, bool single, int64 limit)
{
	ParamListInfo params = makeParamList(2);
	bool none = single && value == (Datum) 0 && !get_typbyval(probe->type);

	params->params[0] = (ParamExternData){value, none, PARAM_FLAG_CONST, single ? probe->type : get_array_type(probe->type)};
	params->params[1] = (ParamExternData){Int64GetDatum(limit), limit == 0, PARAM_FLAG_CONST, INT8OID};
	return params;
}

/*
 * probe_make finds out how all leaves can be read; false if one has no index.
 */
static bool
probe_make(DcProbe *probe, DcSourceRead *read)
{
	Relation source = table_open_present(read->row.source, NoLock);
	DcSourceTexts texts;
	bool found;

	memset(probe, 0, sizeof(*probe));
	source_texts(&read->row, source, &texts);
	table_close(source, NoLock);
	probe->read = read;
	probe->column = ((DcSourceText *) linitial(texts.keys))->column;
	probe->type = ((DcSourceText *) linitial(texts.keys))->type;
	found = probe->column != NULL && read->leaves != NIL;
	for (int i = 0; found && i < list_length(read->leaves); i++)
		found = probe_leaf(probe, list_nth_oid(read->leaves, i));
	if (!found)
		return false;
	probe->collate = collate_sql(probe->collation);
	probe->compared = psprintf("%s%s", quote_identifier(probe->column), probe->collate);
	return true;
}

/*
 * probe_leaf finds an index that serves, and has the order of that of the first leaf.
 */
static bool
probe_leaf(DcProbe *probe, Oid relid)
{
	Relation rel = table_open_present(relid, NoLock);
	List *indexes = RelationGetIndexList(rel);
	bool found = false;

	for (int i = 0; i < list_length(indexes) && !found; i++)
	{
		Oid oid = list_nth_oid(indexes, i);
		Relation index;

		/* REINDEX has the index, and lets the table be read */
		if (probe->read->wait != DC_SOURCE_AT_ONCE)
			LockRelationOid(oid, AccessShareLock);
		else if (!ConditionalLockRelationOid(oid, AccessShareLock))
			continue;
		index = index_open(oid, NoLock);
		found = index_serves(probe, rel, index);
		if (found)
		{
			probe->opfamily = index->rd_opfamily[0];
			probe->opcintype = index->rd_opcintype[0];
			probe->collation = index->rd_indcollation[0];
			probe->nulls_first = nulls_first(index);
			probe->nleaves++;
		}
		index_close(index, NoLock);
	}
	list_free(indexes);
	table_close(rel, NoLock);
	return found;
}

static bool
index_serves(const DcProbe *probe, Relation rel, Relation index)
{
	Form_pg_index form = index->rd_index;
	Oid collation = index->rd_indcollation[0];

	if (!form->indisvalid || !form->indisready || !form->indislive || index->rd_rel->relam != BTREE_AM_OID ||
		form->indkey.values[0] != get_attnum(RelationGetRelid(rel), probe->column) ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL))
		return false;
	/* as the planner does: it may lack old versions of rows */
	if (form->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data), TransactionXmin))
		return false;
	if (probe->nleaves > 0)
		return probe->opfamily == index->rd_opfamily[0] && probe->opcintype == index->rd_opcintype[0] && probe->collation == collation &&
			probe->nulls_first == nulls_first(index);
	return index->rd_opfamily[0] < FirstUnpinnedObjectId &&
		OidIsValid(get_opfamily_member(index->rd_opfamily[0], index->rd_opcintype[0], index->rd_opcintype[0], BTEqualStrategyNumber)) &&
		(!OidIsValid(collation) || get_collation_isdeterministic(collation));
}

static bool
nulls_first(Relation index)
{
	int16 option = index->rd_indoption[0];

	return ((option & INDOPTION_DESC) != 0) != ((option & INDOPTION_NULLS_FIRST) != 0);
}

/*
 * collate_sql returns what makes an expression be compared as the indexes do it.
 */
static char *
collate_sql(Oid collation)
{
	int level = source_settings_pin();
	char *sql = OidIsValid(collation) ? psprintf(" COLLATE %s", generate_collation_name(collation)) : pstrdup("");

	AtEOXact_GUC(false, level);
	return sql;
}

/*
 * probe_by_scan does the same where indexes do not serve.
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
 * key_to_value makes a value of a type of a key; false if no value of the type has this text.
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
