/*
 * payload.c
 *		Making jsonb: objects with given members, and rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A row becomes what to_jsonb() makes of it. to_jsonb() looks up each column's type and output
 * function for each row; here that is done once for a table. Values of the common types become
 * parts of the object at once, and all others go through to_jsonb() one by one, so these are
 * treated as it treats them.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/primnodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "events/outbox/outbox.h"
#include "events/outbox/payload.h"

/* Types whose values are not made into jsonb by to_jsonb(). */
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

/* What an element of json takes as jsonb besides the bytes of its text, as the number 1 does. */
#define JSON_ELEMENT_BYTES 12

/* The commas of a longer value are counted; a shorter one counts as if each second byte were one. */
#define JSON_SHORT 4096

static void begin_member(DcJsonWriter *writer, const char *name);
static void add_value(DcJsonWriter *writer, const char *name, JsonbValue *value);
static void set_numeric(JsonbValue *json, Numeric value);
static void set_text(JsonbValue *json, const text *value);
static void set_time(JsonbValue *json, Datum value, Oid type);
static void check_row_size(const DcJsonRow *row, const Datum *values, const bool *isnull, const char *what, Size *bytes, Size max);
static Size array_bytes(Datum array);
static Size json_bytes(const DcJsonColumn *column, Datum value);
static void push_row(CompatJsonb *jsonb, DcJsonRow *row, const Datum *values, const bool *isnull);
static void set_column(JsonbValue *json, DcJsonColumn *column, Datum value);
static void set_jsonb(JsonbValue *json, Jsonb *value);
static void column_make(DcJsonColumn *column, TupleDesc desc, AttrNumber attnum);
static int compare_names(const void *a, const void *b);
static bool may_hold_json(Oid type);
static void to_jsonb_make(FmgrInfo *function, Form_pg_attribute att);

/*
 * json_begin begins an object. Its members may come in any order.
 */
void
json_begin(DcJsonWriter *writer)
{
	memset(writer, 0, sizeof(*writer));
	compat_jsonb_push(&writer->jsonb, WJB_BEGIN_OBJECT, NULL);
}

/*
 * End the object and return it.
 */
Jsonb *
json_end(DcJsonWriter *writer)
{
	compat_jsonb_push(&writer->jsonb, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(writer->jsonb.result);
}

/*
 * Begin a member of the object; its value follows. The name is not copied.
 */
static void
begin_member(DcJsonWriter *writer, const char *name)
{
	JsonbValue key = {.type = jbvString};

	key.val.string.val = (char *) name;
	key.val.string.len = strlen(name);
	compat_jsonb_push(&writer->jsonb, WJB_KEY, &key);
}

/*
 * Add a member with a scalar or binary value.
 */
static void
add_value(DcJsonWriter *writer, const char *name, JsonbValue *value)
{
	begin_member(writer, name);
	compat_jsonb_push(&writer->jsonb, WJB_VALUE, value);
}

/*
 * Add a member that is null.
 */
void
json_add_null(DcJsonWriter *writer, const char *name)
{
	add_value(writer, name, &(JsonbValue){.type = jbvNull});
}

/*
 * Add a member that is true or false.
 */
void
json_add_bool(DcJsonWriter *writer, const char *name, bool value)
{
	JsonbValue json = {.type = jbvBool};

	json.val.boolean = value;
	add_value(writer, name, &json);
}

/*
 * Add a member that is a whole number.
 */
void
json_add_int(DcJsonWriter *writer, const char *name, int64 value)
{
	json_add_numeric(writer, name, int64_to_numeric(value));
}

/*
 * Add a member that is a numeric; NaN and infinity become strings, as with to_jsonb().
 */
void
json_add_numeric(DcJsonWriter *writer, const char *name, Numeric value)
{
	JsonbValue json;

	set_numeric(&json, value);
	add_value(writer, name, &json);
}

/*
 * set_numeric creates a JSON number; infinity and NaN, which JSON does not have, are strings.
 */
static void
set_numeric(JsonbValue *json, Numeric value)
{
	if (likely(!numeric_is_nan(value) && !numeric_is_inf(value)))
	{
		json->type = jbvNumeric;
		json->val.numeric = value;
		return;
	}
	json->type = jbvString;
	json->val.string.val = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value)));
	json->val.string.len = strlen(json->val.string.val);
}

/*
 * Add a member that is a string of `len` bytes. They are not copied, and must stay until
 * json_end().
 */
void
json_add_string(DcJsonWriter *writer, const char *name, const char *data, int len)
{
	JsonbValue json = {.type = jbvString};

	json.val.string.val = (char *) data;
	json.val.string.len = len;
	add_value(writer, name, &json);
}

/*
 * json_add_text adds a text, or null for NULL.
 */
void
json_add_text(DcJsonWriter *writer, const char *name, const text *value)
{
	JsonbValue json = {.type = jbvNull};

	if (value != NULL)
		set_text(&json, value);
	add_value(writer, name, &json);
}

/*
 * Make a string of a text, without copying its bytes.
 */
static void
set_text(JsonbValue *json, const text *value)
{
	json->type = jbvString;
	json->val.string.val = VARDATA_ANY(value);
	json->val.string.len = VARSIZE_ANY_EXHDR(value);
}

/*
 * Add a member that is a time, in ISO 8601.
 */
void
json_add_time(DcJsonWriter *writer, const char *name, TimestampTz time)
{
	JsonbValue json;

	set_time(&json, TimestampTzGetDatum(time), TIMESTAMPTZOID);
	add_value(writer, name, &json);
}

/*
 * Make a string of a date or time of a type, as to_jsonb() writes it.
 */
static void
set_time(JsonbValue *json, Datum value, Oid type)
{
	json->type = jbvString;
	json->val.string.val = JsonEncodeDateTime(NULL, value, type, NULL);
	json->val.string.len = strlen(json->val.string.val);
}

/*
 * json_add_jsonb adds any jsonb, or null for NULL.
 */
void
json_add_jsonb(DcJsonWriter *writer, const char *name, Jsonb *value)
{
	JsonbValue json = {.type = jbvNull};

	if (value != NULL)
		set_jsonb(&json, value);
	add_value(writer, name, &json);
}

/*
 * Make a value of a jsonb, to be a part of another one. Its bytes are not copied.
 */
static void
set_jsonb(JsonbValue *json, Jsonb *value)
{
	if (JB_ROOT_IS_SCALAR(value))
	{
		if (!JsonbExtractScalar(&value->root, json))
			elog(ERROR, "jsonb scalar expected");
		return;
	}
	json->type = jbvBinary;
	json->val.binary.data = &value->root;
	json->val.binary.len = VARSIZE(value) - VARHDRSZ;
}

/*
 * json_add_row adds columns of a row, whose values are given by attribute number.
 */
void
json_add_row(DcJsonWriter *writer, const char *name, DcJsonRow *row, const Datum *values, const bool *isnull)
{
	check_row_size(row, values, isnull, "payload", &writer->row_bytes, EVENT_MAX_JSON_BYTES);
	begin_member(writer, name);
	push_row(&writer->jsonb, row, values, isnull);
}

/*
 * Raise 54000 if the columns of a row are larger than an event may be, before any becomes jsonb, which
 * may take a hundred times the memory, and before all but json is decompressed: the table may be one
 * that the worker writes to. *bytes: what the event has so far.
 */
static void
check_row_size(const DcJsonRow *row, const Datum *values, const bool *isnull, const char *what, Size *bytes, Size max)
{
	for (int i = 0; i < row->ncolumns; i++)
	{
		const DcJsonColumn *column = &row->columns[i];

		if (isnull[column->attnum - 1] || column->kind == JSON_NOTHING || !column->varlena)
			continue;
		*bytes += toast_raw_datum_size(values[column->attnum - 1]) - VARHDRSZ;
		if (column->is_array)
			*bytes += array_bytes(values[column->attnum - 1]);
		check_length(what, *bytes, 0, max);
		if (column->may_hold_json)
			*bytes += json_bytes(column, values[column->attnum - 1]);
		check_length(what, *bytes, 0, max);
	}
}

/*
 * Return the bytes that the elements of an array take as jsonb at least, if they are nulls, of which
 * each takes a bit in the array.
 */
static Size
array_bytes(Datum array)
{
	ArrayType *head = (ArrayType *) PG_DETOAST_DATUM_SLICE(array, 0, ARR_OVERHEAD_NONULLS(MAXDIM) - VARHDRSZ);
	Size bytes = sizeof(JEntry) * (Size) ArrayGetNItems(ARR_NDIM(head), ARR_DIMS(head)) * Max(ARR_NDIM(head), 1);

	pfree(head);
	return bytes;
}

/*
 * Return about what a value that is json, or has some inside, takes as jsonb besides its bytes. Strings
 * are told apart in json itself only; elsewhere, bytes that are no text come between.
 */
static Size
json_bytes(const DcJsonColumn *column, Datum value)
{
	bool is_json = column->type == JSONOID;
	bool in_string = false;
	Size commas = 0;
	struct varlena *json;
	const char *end;

	if (toast_raw_datum_size(value) <= JSON_SHORT)
		return toast_raw_datum_size(value) / 2 * JSON_ELEMENT_BYTES;
	json = PG_DETOAST_DATUM_PACKED(value);
	end = VARDATA_ANY(json) + VARSIZE_ANY_EXHDR(json);
	for (const char *byte = VARDATA_ANY(json); byte < end; byte++)
	{
		if (*byte == ',' && !in_string)
			commas++;
		else if (is_json && *byte == '"')
			in_string = !in_string;
		else if (is_json && *byte == '\\')
			byte++; /* in a string, as the value is valid */
	}
	if ((Pointer) json != DatumGetPointer(value))
		pfree(json);
	return commas * JSON_ELEMENT_BYTES;
}

/*
 * Append a row to what is being built, as an object or as an array.
 */
static void
push_row(CompatJsonb *jsonb, DcJsonRow *row, const Datum *values, const bool *isnull)
{
	compat_jsonb_push(jsonb, row->array ? WJB_BEGIN_ARRAY : WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < row->ncolumns; i++)
	{
		DcJsonColumn *column = &row->columns[i];
		JsonbValue json = {.type = jbvString};

		CHECK_FOR_INTERRUPTS();
		if (!row->array)
		{
			json.val.string.val = column->name;
			json.val.string.len = column->len;
			compat_jsonb_push(jsonb, WJB_KEY, &json);
		}
		json.type = jbvNull;
		if (!isnull[column->attnum - 1] && column->kind != JSON_NOTHING)
			set_column(&json, column, values[column->attnum - 1]);
		compat_jsonb_push(jsonb, row->array ? WJB_ELEM : WJB_VALUE, &json);
	}
	compat_jsonb_push(jsonb, row->array ? WJB_END_ARRAY : WJB_END_OBJECT, NULL);
}

/*
 * Make a value of a column's datum, which is not NULL.
 */
static void
set_column(JsonbValue *json, DcJsonColumn *column, Datum value)
{
	switch (column->kind)
	{
		case JSON_BOOL:
			json->type = jbvBool;
			json->val.boolean = DatumGetBool(value);
			break;
		case JSON_INT2:
			set_numeric(json, int64_to_numeric(DatumGetInt16(value)));
			break;
		case JSON_INT4:
			set_numeric(json, int64_to_numeric(DatumGetInt32(value)));
			break;
		case JSON_INT8:
			set_numeric(json, int64_to_numeric(DatumGetInt64(value)));
			break;
		case JSON_NUMERIC:
			set_numeric(json, DatumGetNumeric(value));
			break;
		case JSON_TEXT:
			set_text(json, DatumGetTextPP(value));
			break;
		case JSON_DATETIME:
			set_time(json, value, column->type);
			break;
		case JSON_JSONB:
			set_jsonb(json, DatumGetJsonbP(value));
			break;
		default:
			Assert(column->kind == JSON_TO_JSONB);
			set_jsonb(json, DatumGetJsonbP(FunctionCall1(&column->function, value)));
			break;
	}
}

/*
 * json_row_make prepares the conversion of columns of a table, in the current memory
 * context.
 */
void
json_row_make(DcJsonRow *row, TupleDesc desc, const AttrNumber *attnums, int n,
			  bool array)
{
	row->array = array;
	row->ncolumns = n;
	row->columns = palloc(sizeof(DcJsonColumn) * Max(n, 1));
	for (int i = 0; i < n; i++)
		column_make(&row->columns[i], desc, attnums[i]);
	if (!array)
		/* few: columns */
		qsort(row->columns, n, sizeof(DcJsonColumn), compare_names);
}

/*
 * compare_names compares names in the order of the keys of a jsonb: the server is faster if keys
 * come in it.
 */
static int
compare_names(const void *a, const void *b)
{
	const DcJsonColumn *left = a;
	const DcJsonColumn *right = b;

	if (left->len != right->len)
		return left->len < right->len ? -1 : 1;
	return memcmp(left->name, right->name, left->len);
}

/*
 * Prepare a column: its name, and how its values become jsonb. A virtual generated column has none
 * in the tuple, and is null.
 */
static void
column_make(DcJsonColumn *column, TupleDesc desc, AttrNumber attnum)
{
	Form_pg_attribute att = TupleDescAttr(desc, attnum - 1);
	Oid type = getBaseType(att->atttypid);

	column->attnum = attnum;
	column->name = pstrdup(NameStr(att->attname));
	column->len = strlen(column->name);
	column->type = type;
	column->varlena = att->attlen == -1;
	column->is_array = OidIsValid(get_element_type(type));
	column->may_hold_json = may_hold_json(type);
	column->kind = compat_is_virtual(att) ? JSON_NOTHING /* it is not in the tuple */
										  : JSON_TO_JSONB;
	for (int i = 0; i < lengthof(kinds) && column->kind == JSON_TO_JSONB; i++)
	{
		if (type == kinds[i].type)
			column->kind = kinds[i].kind;
	}
	if (column->kind == JSON_TO_JSONB)
		to_jsonb_make(&column->function, att);
}

/*
 * Return true for json, for rows, which may have columns of it, and for arrays of them.
 */
static bool
may_hold_json(Oid type)
{
	Oid base = getBaseType(type);
	Oid element = get_element_type(base);

	if (OidIsValid(element))
		return may_hold_json(element);
	return base == JSONOID || get_typtype(base) == TYPTYPE_COMPOSITE;
}

/*
 * to_jsonb_make prepares calls of to_jsonb(), which takes its argument's type from
 * the expression that calls it.
 */
static void
to_jsonb_make(FmgrInfo *function, Form_pg_attribute att)
{
	Node *arg = (Node *) makeVar(1, 1, att->atttypid, att->atttypmod, att->attcollation, 0);

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
	CompatJsonb jsonb = {0};
	Jsonb *array;
	Size bytes = 0;

	check_row_size(row, values, isnull, "key of an event", &bytes, EVENT_MAX_KEY_VALUE);
	push_row(&jsonb, row, values, isnull);
	array = JsonbValueToJsonb(jsonb.result);
	return JsonbToCString(NULL, &array->root, VARSIZE(array));
}
