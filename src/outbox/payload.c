/*
 * payload.c
 *		Rows as jsonb, quickly.
 *
 * The result is what to_jsonb() makes of the row, byte for byte. to_jsonb() looks
 * up each column's type and output function for each row, builds a tree of
 * values, sorts the keys, and turns it into jsonb. Here all that depends on the
 * table alone (types, functions, the sorted keys as they are stored) is prepared
 * once, and the values are appended where they are to be.
 *
 * An object is stored (utils/jsonb.h) as a header, an entry (type and length) for
 * each key and then each value, and then keys and values in the same order; keys
 * are ordered by length, then bytes. An array has no keys. Every
 * JB_OFFSET_STRIDE'th entry has the end's offset instead of the length. Numbers,
 * objects and arrays start at multiples of four, and their lengths include the
 * padding before. Nested values are stored in the same way, so the content of
 * a jsonb column is copied as it is.
 *
 * Types are treated as to_jsonb() treats them. Those whose treatment may
 * change (a type of an extension may get a cast to json), and those that have
 * parts, go through to_jsonb() itself, value by value.
 */
#include "postgres.h"

#include "base/compat.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/primnodes.h"
#include "outbox/payload.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

/* Types whose values are not made into jsonb by calling a function of theirs. */
static const struct
{
	Oid type;
	DcJsonKind kind;
} kinds[] = {
	{BOOLOID, JSON_BOOL},
	{INT2OID, JSON_INT2},
	{INT4OID, JSON_INT4},
	{INT8OID, JSON_INT8},
	{NUMERICOID, JSON_NUMERIC},
	{TEXTOID, JSON_TEXT},
	{VARCHAROID, JSON_TEXT},
	{BPCHAROID, JSON_TEXT},
	{DATEOID, JSON_DATETIME},
	{TIMESTAMPOID, JSON_DATETIME},
	{TIMESTAMPTZOID, JSON_DATETIME},
	{JSONBOID, JSON_JSONB},
};

static int compare_names(const void *a, const void *b);
static void reserve(DcJsonWriter *writer, StringInfo buf, uint32 header, int nentries);
static void pad(StringInfo buf);
static void check_length(Size len);
static void add_column(DcJsonWriter *writer, DcJsonColumn *column, Datum value);
static void column_make(DcJsonColumn *column, TupleDesc desc, AttrNumber attnum);
static void to_jsonb_make(FmgrInfo *function, Oid type, int32 typmod, Oid collation);

/*
 * json_keys_make prepares an object's keys, in the current memory context. The
 * key i of the object is names[order[i]].
 */
void
json_keys_make(DcJsonKeys *keys, const char **names, int n, int *order)
{
	const char ***sorted = palloc(sizeof(char **) * Max(n, 1));
	StringInfoData all;

	for (int i = 0; i < n; i++)
		sorted[i] = &names[i];
	qsort(sorted, n, sizeof(char **), compare_names);
	initStringInfo(&all);
	keys->entries = palloc(sizeof(JEntry) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		const char *name = *sorted[i];
		uint32 len = strlen(name);

		order[i] = sorted[i] - names;
		appendBinaryStringInfo(&all, name, len);
		keys->entries[i] = JENTRY_ISSTRING |
			(i % JB_OFFSET_STRIDE == 0 ? JENTRY_HAS_OFF | all.len : len);
	}
	keys->names = all.data;
	keys->length = all.len;
	keys->n = n; /* last: keys that are not 0 are complete (json_keys_keep) */
	pfree(sorted);
}

/*
 * json_keys_keep makes keys, which are in the order of jsonb already, at the first call,
 * for as long as the session lasts.
 */
void
json_keys_keep(DcJsonKeys *keys, const char *const *names, int n)
{
	int *order = palloc(sizeof(int) * n);
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	if (keys->n == 0)
		json_keys_make(keys, (const char **) names, n, order);
	MemoryContextSwitchTo(old);
	pfree(order);
}

static int
compare_names(const void *a, const void *b)
{
	const char *x = **(const char ***) a;
	const char *y = **(const char ***) b;
	Size len = strlen(x);

	if (len != strlen(y))
		return len < strlen(y) ? -1 : 1;
	return memcmp(x, y, len);
}

/*
 * json_begin starts a jsonb. The first thing to append is its root.
 */
void
json_begin(StringInfo buf)
{
	initStringInfo(buf);
	appendStringInfoSpaces(buf, VARHDRSZ);
}

Jsonb *
json_end(StringInfo buf)
{
	SET_VARSIZE(buf->data, buf->len);
	return (Jsonb *) buf->data;
}

/*
 * json_begin_object starts an object; its values are to be added in the order of keys.
 */
void
json_begin_object(DcJsonWriter *writer, StringInfo buf, const DcJsonKeys *keys)
{
	reserve(writer, buf, JB_FOBJECT | keys->n, keys->n * 2);
	memcpy(buf->data + writer->entries, keys->entries, sizeof(JEntry) * keys->n);
	appendBinaryStringInfo(buf, keys->names, keys->length);
	writer->n = keys->n;
	writer->total = keys->length;
}

static void
reserve(DcJsonWriter *writer, StringInfo buf, uint32 header, int nentries)
{
	writer->buf = buf;
	writer->begin = buf->len;
	pad(buf);
	appendBinaryStringInfo(buf, (char *) &header, sizeof(header));
	writer->entries = buf->len;
	enlargeStringInfo(buf, sizeof(JEntry) * nentries);
	buf->len += sizeof(JEntry) * nentries;
	writer->n = 0;
	writer->total = 0;
}

static void
pad(StringInfo buf)
{
	while (buf->len != INTALIGN(buf->len))
		appendStringInfoCharMacro(buf, '\0');
}

/*
 * add_entry makes the last len bytes that were appended the next value.
 */
static void
add_entry(DcJsonWriter *writer, JEntry type, uint32 len)
{
	JEntry entry;

	check_length((Size) writer->total + len);
	writer->total += len;
	if (writer->n % JB_OFFSET_STRIDE == 0)
		entry = type | JENTRY_HAS_OFF | writer->total;
	else
		entry = type | len;
	memcpy(writer->buf->data + writer->entries + sizeof(JEntry) * writer->n,
		   &entry, sizeof(JEntry));
	writer->n++;
}

static void
check_length(Size len)
{
	if (len > JENTRY_OFFLENMASK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too large for an event"),
				 errdetail("As jsonb it has more than %u bytes.", JENTRY_OFFLENMASK)));
}

void
json_add_null(DcJsonWriter *writer)
{
	add_entry(writer, JENTRY_ISNULL, 0);
}

void
json_add_bool(DcJsonWriter *writer, bool value)
{
	add_entry(writer, value ? JENTRY_ISBOOL_TRUE : JENTRY_ISBOOL_FALSE, 0);
}

void
json_add_string(DcJsonWriter *writer, const char *data, uint32 len)
{
	check_length(len);
	appendBinaryStringInfo(writer->buf, data, len);
	add_entry(writer, JENTRY_ISSTRING, len);
}

void
json_add_text(DcJsonWriter *writer, const text *value)
{
	if (value == NULL)
		json_add_null(writer);
	else
		json_add_string(writer, VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
}

void
json_add_time(DcJsonWriter *writer, TimestampTz time)
{
	char text[MAXDATELEN + 1];

	JsonEncodeDateTime(text, TimestampTzGetDatum(time), TIMESTAMPTZOID, NULL);
	json_add_string(writer, text, strlen(text));
}

/*
 * json_add_jsonb adds any jsonb, or null for NULL.
 */
void
json_add_jsonb(DcJsonWriter *writer, Jsonb *value)
{
	StringInfo buf = writer->buf;
	int begin = buf->len;
	JsonbValue scalar;

	if (value == NULL)
		json_add_null(writer);
	else if (!JB_ROOT_IS_SCALAR(value))
	{
		check_length(VARSIZE(value));
		pad(buf);
		appendBinaryStringInfo(buf, (char *) &value->root, VARSIZE(value) - VARHDRSZ);
		add_entry(writer, JENTRY_ISCONTAINER, buf->len - begin);
	}
	else if (!JsonbExtractScalar(&value->root, &scalar))
		elog(ERROR, "jsonb scalar expected");
	else
		switch (scalar.type)
		{
			case jbvNull:
				json_add_null(writer);
				break;
			case jbvString:
				json_add_string(writer, scalar.val.string.val, scalar.val.string.len);
				break;
			case jbvNumeric:
				json_add_numeric(writer, scalar.val.numeric);
				break;
			case jbvBool:
				json_add_bool(writer, scalar.val.boolean);
				break;
			default:
				elog(ERROR, "unexpected type of a jsonb scalar: %d", scalar.type);
		}
}

/*
 * json_add_row adds columns of a row, whose values are given by attribute number.
 */
void
json_add_row(DcJsonWriter *writer, DcJsonRow *row, const Datum *values,
			 const bool *isnull)
{
	DcJsonWriter inner;

	if (row->array)
		reserve(&inner, writer->buf, JB_FARRAY | row->ncolumns, row->ncolumns);
	else
		json_begin_object(&inner, writer->buf, &row->keys);
	for (int i = 0; i < row->ncolumns; i++)
	{
		DcJsonColumn *column = &row->columns[i];

		if (isnull[column->attnum - 1] || column->kind == JSON_NOTHING)
			json_add_null(&inner);
		else
			add_column(&inner, column, values[column->attnum - 1]);
	}
	add_entry(writer, JENTRY_ISCONTAINER, writer->buf->len - inner.begin);
}

static void
add_column(DcJsonWriter *writer, DcJsonColumn *column, Datum value)
{
	char time[MAXDATELEN + 1];
	char *string;

	switch (column->kind)
	{
		case JSON_BOOL:
			add_entry(writer, DatumGetBool(value) ? JENTRY_ISBOOL_TRUE : JENTRY_ISBOOL_FALSE, 0);
			break;
		case JSON_INT2:
			json_add_numeric(writer, int64_to_numeric(DatumGetInt16(value)));
			break;
		case JSON_INT4:
			json_add_numeric(writer, int64_to_numeric(DatumGetInt32(value)));
			break;
		case JSON_INT8:
			json_add_numeric(writer, int64_to_numeric(DatumGetInt64(value)));
			break;
		case JSON_FLOAT:
			string = OutputFunctionCall(&column->function, value);
			value = DirectFunctionCall3(numeric_in, CStringGetDatum(string),
										ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
			/* FALLTHROUGH */
		case JSON_NUMERIC:
			json_add_numeric(writer, DatumGetNumeric(value));
			break;
		case JSON_TEXT:
			json_add_text(writer, DatumGetTextPP(value));
			break;
		case JSON_DATETIME:
			JsonEncodeDateTime(time, value, column->type, NULL);
			json_add_string(writer, time, strlen(time));
			break;
		case JSON_JSONB:
			json_add_jsonb(writer, DatumGetJsonbP(value));
			break;
		case JSON_OUTPUT:
			string = OutputFunctionCall(&column->function, value);
			check_length(strlen(string));
			json_add_string(writer, string, strlen(string));
			break;
		default:
			Assert(column->kind == JSON_TO_JSONB);
			json_add_jsonb(writer, DatumGetJsonbP(FunctionCall1(&column->function, value)));
			break;
	}
}

/*
 * json_add_numeric adds a number; infinity and NaN, which JSON does not have, are
 * strings.
 */
void
json_add_numeric(DcJsonWriter *writer, Numeric value)
{
	int begin = writer->buf->len;

	if (unlikely(numeric_is_nan(value) || numeric_is_inf(value)))
	{
		char *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value)));

		json_add_string(writer, text, strlen(text));
		return;
	}
	pad(writer->buf);
	appendBinaryStringInfo(writer->buf, (char *) value, VARSIZE_ANY(value));
	add_entry(writer, JENTRY_ISNUMERIC, writer->buf->len - begin);
}

/*
 * json_row_make prepares the conversion of columns of a table, in the current memory
 * context.
 */
void
json_row_make(DcJsonRow *row, TupleDesc desc, const AttrNumber *attnums, int n,
			  bool array)
{
	int *order = palloc(sizeof(int) * Max(n, 1));
	const char **names = palloc(sizeof(char *) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		names[i] = NameStr(TupleDescAttr(desc, attnums[i] - 1)->attname);
		order[i] = i;
	}
	row->array = array;
	if (!array)
		json_keys_make(&row->keys, names, n, order);
	row->ncolumns = n;
	row->columns = palloc(sizeof(DcJsonColumn) * Max(n, 1));
	for (int i = 0; i < n; i++)
		column_make(&row->columns[i], desc, attnums[order[i]]);
	pfree(names);
	pfree(order);
}

/*
 * column_make decides how to convert a column, as json_categorize_type() does in
 * the server.
 */
static void
column_make(DcJsonColumn *column, TupleDesc desc, AttrNumber attnum)
{
	Form_pg_attribute att = TupleDescAttr(desc, attnum - 1);
	Oid type = getBaseType(att->atttypid);
	Oid output;
	bool varlena;

	column->attnum = attnum;
	column->type = type;
	if (compat_is_virtual(att))
	{
		column->kind = JSON_NOTHING; /* it is not in the tuple */
		return;
	}
	for (int i = 0; i < lengthof(kinds); i++)
	{
		if (type == kinds[i].type)
		{
			column->kind = kinds[i].kind;
			return;
		}
	}
	if (type >= FirstNormalObjectId || type == JSONOID ||
		OidIsValid(get_element_type(type)) || type_is_rowtype(type))
	{
		column->kind = JSON_TO_JSONB;
		to_jsonb_make(&column->function, att->atttypid, att->atttypmod, att->attcollation);
		return;
	}
	column->kind = type == FLOAT4OID || type == FLOAT8OID ? JSON_FLOAT : JSON_OUTPUT;
	getTypeOutputInfo(type, &output, &varlena);
	fmgr_info_cxt(output, &column->function, CurrentMemoryContext);
}

/*
 * to_jsonb_make prepares calls of to_jsonb(), which takes its argument's type from
 * the expression that calls it.
 */
static void
to_jsonb_make(FmgrInfo *function, Oid type, int32 typmod, Oid collation)
{
	Node *arg = (Node *) makeVar(1, 1, type, typmod, collation, 0);

	fmgr_info_cxt(F_TO_JSONB, function, CurrentMemoryContext);
	fmgr_info_set_expr((Node *) makeFuncExpr(F_TO_JSONB, JSONBOID, list_make1(arg),
											 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL),
					   function);
}

/*
 * json_row_text returns columns of a row as the text of a JSON array.
 */
char *
json_row_text(DcJsonRow *row, const Datum *values, const bool *isnull)
{
	StringInfoData buf;
	DcJsonWriter all;
	JsonbContainer *array;

	/* an array of the array, of which the inner one is taken */
	json_begin(&buf);
	reserve(&all, &buf, JB_FARRAY | 1, 1);
	json_add_row(&all, row, values, isnull);
	array = (JsonbContainer *) (buf.data + INTALIGN(all.entries + sizeof(JEntry)));
	return JsonbToCString(NULL, array, buf.len);
}
