/*
 * range.c
 *		Reading a range of keys, in the order of the "C" collation; dc_scan().
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A range is read in one snapshot, as one key is (read.c): rows of totals, shard rows, and the
 * pending deltas of this transaction. Amounts that a buffered table has in memory cannot be found
 * by range, so dc_scan() refuses such a table; windows are not buffered.
 *
 * dc_scan() is for keys that are the text of a JSON array, as those of bound counters with several
 * expressions are. Those that begin with [7] are "[7]" and the keys from "[7," up to "[7-", the
 * next character after the comma. A key that is not the text of any jsonb was written directly, and
 * is skipped. That is seen by reading it as jsonb and writing it again, which takes longer than
 * finding it; arrays of plain elements, as nearly all are, are read here (plain_array()).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "core/counter/pending.h"
#include "core/counter/range.h"
#include "core/counter/read.h"
#include "core/counter/sqlpath.h"
#include "core/table/access.h"

PG_FUNCTION_INFO_V1(dc_scan);

/* two keys: the rows from the first one up to the other */
static const DcStatement sql_read_range = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t"
			" WHERE t.key >= $1 AND t.key < $2 UNION ALL"
			" SELECT s.key, s.inc, s.dec FROM @shards AS s"
			" WHERE s.key >= $1 AND s.key < $2",
	/* both tables of a shard by one query */
	.distributed = "SELECT u.key, u.inc, u.dec FROM (SELECT t.key, t.inc, t.dec FROM @totals AS t"
				   " WHERE t.key >= $1 AND t.key < $2 UNION ALL"
				   " SELECT s.key, s.inc, s.dec FROM @shards AS s"
				   " WHERE s.key >= $1 AND s.key < $2) AS u",
	.argtypes = {TEXTOID, TEXTOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* A range that is being read. */
typedef struct DcRange
{
	const DcKey *from;
	const DcKey *end; /* itself not in it */
	DcRangeVisit visit;
	void *arg;
} DcRange;

/*
 * Bytes for parsing a key and writing it again, with some to spare: this memory is not given back
 * in between.
 */
#define KEY_MEMORY (32 * 1024)

/* Digits of an integer that fits into bigint, whatever they are. */
#define PLAIN_DIGITS 18

/* Amounts of a key that dc_scan() has found; in the end, one for each key, and its value. */
typedef struct DcScanned
{
	char *data;
	uint32 len;
	int64 inc;
	int64 dec;
	DcSums sums; /* set in the end, as are */
	Jsonb *key;
	int64 value;
} DcScanned;

/* All of them. */
typedef struct DcScannedList
{
	MemoryContext cxt;
	DcScanned *found;
	int64 n;
	int64 size;
} DcScannedList;

static void range_read_by_sql(DcCounter *counter, Datum *values, DcRangeVisit visit, void *arg);
static void range_visit(const DcRange *range, const DcKey *key, int64 inc, int64 dec);
static void range_add_pending(void *range, const DcDelta *delta);
static void range_add_distinct(const DcKey *key, int64 change, void *range);
static void range_add_expired(void *range, Datum key, int64 units);
static void scan_prefix(DcCounter *counter, const DcKey *prefix, DcScannedList *list);
static void range_of(const DcKey *prefix, char end, char after, DcCounter *counter, DcScannedList *list);
static void range_add_found(void *list, const DcKey *key, int64 inc, int64 dec);
static void scanned_sum(DcScannedList *list);
static bool scanned_finish(DcScanned *scanned, MemoryContext row);
static bool scanned_parse(const DcScanned *scanned, Datum *key);
static bool plain_array(const DcScanned *scanned, Datum *key);
static const char *plain_element(const char *at, JsonbValue *element);
static const char *plain_integer(const char *at, JsonbValue *element);
static int scanned_compare_text(const void *a, const void *b);
static int scanned_compare(const void *a, const void *b);

/*
 * counter_range_read calls a function for all amounts of the keys from one up to another, which is
 * not in the range: those of rows, and of this transaction. The snapshot is the active one.
 * Buffered amounts are left out.
 */
void
counter_range_read(DcCounter *counter, const DcKey *from, const DcKey *end, DcRangeVisit visit, void *arg)
{
	DcRange range = {from, end, visit, arg};
	Datum values[] = {key_text_datum(from), key_text_datum(end)};

	if (counter->direct_read)
	{
		read_snapshot_push();
		scan_range(counter, DC_TABLE_TOTALS, values[0], values[1], visit, arg);
		scan_range(counter, DC_TABLE_SHARDS, values[0], values[1], visit, arg);
		PopActiveSnapshot();
	}
	else
		range_read_by_sql(counter, values, visit, arg);
	if (!pending_is_empty())
		pending_each(counter->relid, range_add_pending, &range);
	if (counter->bound && bound_hooks->any_pending(counter->relid))
		bound_hooks->pending_each(counter->relid, range_add_distinct, &range);
	if (counter_is_stock(counter) && !counter_is_limit(counter))
		stock_hooks->expired_each(counter, (Datum) 0, range_add_expired, &range);
}

/*
 * Call a function for the rows of a range, which are read by SQL: those of tables that are not
 * plain local ones.
 */
static void
range_read_by_sql(DcCounter *counter, Datum *values, DcRangeVisit visit, void *arg)
{
	DcSqlSession session;

	sql_begin(&session, counter);
	sql_read(&session, &sql_read_range, values);
	for (uint64 i = 0; i < session.rows.count; i++)
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_text(rows_datum(&session.rows, i, 1), &key);
		visit(arg, &key, rows_bigint(&session.rows, i, 2), rows_bigint(&session.rows, i, 3));
	}
	sql_end(&session);
}

/*
 * range_visit passes amounts on, if they are of a key of the range.
 */
static void
range_visit(const DcRange *range, const DcKey *key, int64 inc, int64 dec)
{
	if (key_compare(key, range->from) >= 0 && key_compare(key, range->end) < 0)
		range->visit(range->arg, key, inc, dec);
}

/*
 * Visit a pending delta of this transaction.
 */
static void
range_add_pending(void *range, const DcDelta *delta)
{
	DcKey key = {.data = delta->key.data, .len = delta->key.len};

	range_visit(range, &key, delta->inc, delta->dec);
}

/*
 * Visit the change of a key that pending reference counts mean.
 */
static void
range_add_distinct(const DcKey *key, int64 change, void *range)
{
	range_visit(range, key, Max(change, 0), Max(-change, 0));
}

/*
 * Visit the units of an expired hold that has not been ended yet.
 */
static void
range_add_expired(void *range, Datum key, int64 units)
{
	DcKey expired;

	key_from_text(key, &expired);
	range_visit(range, &expired, units, 0);
}

/*
 * dc_scan(counter regclass, prefix jsonb) -> setof (key jsonb, value bigint)
 *
 * The exact values, except for those that are 0, of all keys that are JSON arrays and begin with
 * the elements of the prefix, in the order of jsonb.
 *
 * Errors: 22004 for NULL, 22023 if the prefix is not an array, 54000 if it is longer than a key,
 * 0A000 for a buffered counter, 22003 for a value that overflows bigint.
 */
Datum
dc_scan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	DcMoment started = stats_clock();
	DcScannedList list = {.cxt = CurrentMemoryContext};
	DcCounter *counter;
	DcKey prefix;

	arg_not_null(fcinfo, 1, "prefix");
	key_from_value(PG_GETARG_DATUM(1), JSONBOID, &prefix);
	if (!JB_ROOT_IS_ARRAY(PG_GETARG_JSONB_P(1)) || JB_ROOT_IS_SCALAR(PG_GETARG_JSONB_P(1)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("prefix must be a JSON array")));
	counter = counter_open_to_read(fcinfo, "dc_scan()");
	read_snapshot_push();
	if (counter_may_be_buffered(counter))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("dc_scan() cannot read a buffered counter"),
				 errhint("Keys that are only in memory cannot be found. Use dc_get_many().")));
	InitMaterializedSRF(fcinfo, 0);
	scan_prefix(counter, &prefix, &list);
	PopActiveSnapshot();
	for (int64 i = 0; i < list.n; i++)
	{
		Datum values[] = {JsonbPGetDatum(list.found[i].key), Int64GetDatum(list.found[i].value)};
		bool nulls[2] = {false};

		CHECK_FOR_INTERRUPTS();
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	if (stats_hooks != NULL)
		stats_hooks->read(counter, started);
	PG_RETURN_NULL();
}

/*
 * scan_prefix finds the keys that begin with a prefix, and their values.
 */
static void
scan_prefix(DcCounter *counter, const DcKey *prefix, DcScannedList *list)
{
	MemoryContext row = AllocSetContextCreate(list->cxt, "dcounter scan: key", 0, KEY_MEMORY, ALLOCSET_DEFAULT_MAXSIZE);
	int64 kept = 0;

	if (prefix->len == 2) /* no elements */
		range_of(prefix, '\0', '[' + 1, counter, list);
	else
	{
		range_of(prefix, ']', ']' + 1, counter, list);
		range_of(prefix, ',', ',' + 1, counter, list);
	}
	scanned_sum(list);
	for (int64 i = 0; i < list->n; i++)
	{
		if (scanned_finish(&list->found[i], row))
			list->found[kept++] = list->found[i];
		MemoryContextReset(row);
	}
	MemoryContextDelete(row);
	list->n = kept;
	qsort(list->found, list->n, sizeof(DcScanned), scanned_compare);
}

/*
 * range_of reads the keys that begin with the text of a prefix, without its bracket, and a
 * character: up to those with the character `after` in its place. No character: up to those with
 * `after` in the place of the first one.
 */
static void
range_of(const DcKey *prefix, char end, char after, DcCounter *counter, DcScannedList *list)
{
	uint32 len = prefix->len - 1;
	char *from = pnstrdup(prefix->data, prefix->len);
	char *to = pnstrdup(prefix->data, prefix->len);
	DcKey first = {.data = from, .len = len};
	DcKey last = {.data = to, .len = len};

	if (end != '\0')
	{
		from[first.len++] = end;
		to[last.len++] = after;
	}
	else
		to[0] = after;
	counter_range_read(counter, &first, &last, range_add_found, list);
}

/*
 * Add the amounts of a row to a list of what was found, in its memory context.
 */
static void
range_add_found(void *arg, const DcKey *key, int64 inc, int64 dec)
{
	DcScannedList *list = arg;
	DcScanned *scanned;

	if (list->n == list->size)
	{
		Size bytes = (list->size = Max(64, list->size * 2)) * sizeof(DcScanned);

		list->found = list->found == NULL ? MemoryContextAlloc(list->cxt, bytes) : repalloc_huge(list->found, bytes);
	}
	scanned = &list->found[list->n++];
	*scanned = (DcScanned){.data = MemoryContextAllocZero(list->cxt, key->len + 1), .len = key->len, .inc = inc, .dec = dec};
	memcpy(scanned->data, key->data, key->len);
}

/*
 * scanned_sum adds up the amounts of each key.
 */
static void
scanned_sum(DcScannedList *list)
{
	int64 n = 0;

	qsort(list->found, list->n, sizeof(DcScanned), scanned_compare_text);
	for (int64 i = 0; i < list->n; i++)
	{
		DcScanned *scanned = &list->found[i];

		CHECK_FOR_INTERRUPTS();
		if (n == 0 || scanned_compare_text(&list->found[n - 1], scanned) != 0)
		{
			sums_init(&scanned->sums);
			list->found[n++] = *scanned;
		}
		sums_add(&list->found[n - 1].sums, scanned->inc, scanned->dec);
	}
	list->n = n;
}

/*
 * scanned_finish sets key and value; false if the value is 0, or the key not the text of a jsonb.
 * Works in the memory of `row`.
 */
static bool
scanned_finish(DcScanned *scanned, MemoryContext row)
{
	MemoryContext old = MemoryContextSwitchTo(row);
	DcKey text = {.data = scanned->data, .len = scanned->len};
	Datum key;
	bool is_jsonb;

	CHECK_FOR_INTERRUPTS();
	scanned->value = sums_value(&scanned->sums, key_text_datum(&text));
	is_jsonb = scanned->value != 0 && (plain_array(scanned, &key) || scanned_parse(scanned, &key));
	MemoryContextSwitchTo(old);
	if (is_jsonb)
		scanned->key = DatumGetJsonbPCopy(key);
	return is_jsonb;
}

/*
 * Read a key as jsonb; false if it is not the text that jsonb has.
 */
static bool
scanned_parse(const DcScanned *scanned, Datum *key)
{
	DcKey text = {.data = scanned->data, .len = scanned->len};
	DcKey again;

	if (!compat_jsonb_try(scanned->data, key))
		return false;
	key_from_value(*key, JSONBOID, &again);
	return key_compare(&text, &again) == 0;
}

/*
 * plain_array reads a key that is the text, as jsonb writes it, of an array of integers, strings
 * without escapes, booleans and nulls. Returns false for any other text.
 */
static bool
plain_array(const DcScanned *scanned, Datum *key)
{
	JsonbValue array = {.type = jbvArray};
	const char *at = scanned->data;
	const char *end = at + scanned->len;

	if (*at++ != '[')
		return false;
	/* an element and what follows it have three bytes or more */
	array.val.array.elems = palloc((scanned->len / 3 + 1) * sizeof(JsonbValue));
	do
	{
		if (array.val.array.nElems > 0 && *at++ != ' ')
			return false;
		at = plain_element(at, &array.val.array.elems[array.val.array.nElems++]);
	} while (at != NULL && *at++ == ',');
	if (at != end || at[-1] != ']')
		return false;
	*key = JsonbPGetDatum(JsonbValueToJsonb(&array));
	return true;
}

/*
 * Read an element from a text that ends with a zero byte. Returns where it ends, or NULL if it is
 * not a plain one. The element points into the text.
 */
static const char *
plain_element(const char *at, JsonbValue *element)
{
	const char *from = at + 1;

	if (*at != '"')
	{
		static const char *const words[] = {"null", "true", "false"};

		for (int i = 0; i < lengthof(words); i++)
		{
			if (strncmp(at, words[i], strlen(words[i])) == 0)
			{
				*element = (JsonbValue){.type = i == 0 ? jbvNull : jbvBool};
				element->val.boolean = i == 1;
				return at + strlen(words[i]);
			}
		}
		return plain_integer(at, element);
	}
	for (at = from; *at != '"'; at++)
	{
		if ((unsigned char) *at < ' ' || *at == '\\')
			return NULL;
	}
	element->type = jbvString;
	element->val.string.val = unconstify(char *, from);
	element->val.string.len = at - from;
	return at + 1;
}

/*
 * Read an integer, as plain_element() does. One with a sign or a zero in front that jsonb would not
 * write is not a plain one.
 */
static const char *
plain_integer(const char *at, JsonbValue *element)
{
	bool negative = *at == '-';
	const char *from = at + negative;
	int64 number = 0;

	for (at = from; *at >= '0' && *at <= '9' && at - from < PLAIN_DIGITS; at++)
		number = number * 10 + (*at - '0');
	if (at == from || (*from == '0' && (at - from > 1 || negative)))
		return NULL;
	element->type = jbvNumeric;
	element->val.numeric = int64_to_numeric(negative ? -number : number);
	return at;
}

/*
 * Compare two results by the bytes of their keys, for qsort().
 */
static int
scanned_compare_text(const void *a, const void *b)
{
	const DcScanned *left = a;
	const DcScanned *right = b;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	return bytes_compare(left->data, left->len, right->data, right->len);
}

/*
 * Compare two results by their keys as jsonb does, for qsort().
 */
static int
scanned_compare(const void *a, const void *b)
{
	const DcScanned *left = a;
	const DcScanned *right = b;
	int order = compareJsonbContainers(&left->key->root, &right->key->root);

	CHECK_FOR_INTERRUPTS();
	return order != 0 ? order : scanned_compare_text(a, b); /* 1.0 and 1.00 */
}
