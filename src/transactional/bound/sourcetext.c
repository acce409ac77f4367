/*
 * sourcetext.c
 *		Texts and numbers that are built from a row of a source.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The key of one expression is its text, as a cast to text shows it. That of several is the text of
 * a JSON array of them, byte for byte what jsonb_build_array(...)::text makes. A date is written as
 * in ISO 8601 in both, as jsonb does it whatever DateStyle is.
 *
 * Integers, texts, uuids, booleans and dates are written here, and read from the row without the
 * executor if they are plain columns. All other types are left to the server's functions.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"

#include "base/args.h"
#include "base/rowread.h"
#include "transactional/bound/sourcetext.h"

static Node *sourcetext_array(Node *expr);
static Node *sourcetext_uncast(Node *expr);
static Node *sourcetext_unlabel(Node *expr);
static Oid relabelled_type(Node *expr);
static void sourcetext_prepare(DcTextOf *text, Node *expr);
static Datum sourcetext_datum(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, bool *isnull);
static bool sourcetext_is_varlena(const DcTextOf *text);
static int64 sourcetext_integer(const DcTextOf *text, Datum value);
static void sourcetext_check_length(Datum value);
static void append_string(StringInfo array, Datum value);

/*
 * sourcetext_cast casts an expression to text; a date stays what it is. 42804 if there is no such
 * cast.
 */
Node *
sourcetext_cast(Node *expr, const char *what)
{
	Node *text;

	if (getBaseType(exprType(expr)) == DATEOID)
		return copyObject(expr);
	text = coerce_to_target_type(NULL, copyObject(expr), exprType(expr), TEXTOID, -1,
								 COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
	if (text == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("%s cannot be of type %s", what, format_type_be(exprType(expr)))));
	return text;
}

/*
 * sourcetext_make prepares an expression that sourcetext_cast() has returned, or one of type
 * bigint. A cast of a plain column is read from the row, if the text of its type is known here.
 */
void
sourcetext_make(DcTextOf *text, Node *expr)
{
	Node *inner = sourcetext_uncast(expr);

	switch (getBaseType(exprType(inner)))
	{
		case DATEOID:
			sourcetext_prepare(text, inner);
			return;
		case INT2OID:
		case INT4OID:
		case INT8OID:
			if (IsA(inner, Var))
			{
				sourcetext_prepare(text, inner);
				return;
			}
			break;
		case TEXTOID:
		case VARCHAROID:
		case UUIDOID:
			if (IsA(inner, Var) && exprType(expr) == TEXTOID)
			{
				sourcetext_prepare(text, inner);
				return;
			}
			break;
	}
	text->state = ExecInitExpr(expression_planner((Expr *) expr), NULL);
}

/*
 * sourcetext_make_element prepares an expression as an element of a JSON array.
 */
void
sourcetext_make_element(DcTextOf *text, Node *expr)
{
	Node *inner = sourcetext_unlabel(expr);

	switch (getBaseType(exprType(inner)))
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case TEXTOID:
		case VARCHAROID:
		case UUIDOID:
		case BOOLOID:
		case DATEOID:
			sourcetext_prepare(text, inner);
			return;
	}
	text->state = ExecInitExpr(expression_planner((Expr *) sourcetext_array(expr)), NULL);
}

/*
 * sourcetext_array makes the expression of a JSON array of one element, as text; NULL for a null,
 * whose array would be "[null]".
 */
static Node *
sourcetext_array(Node *expr)
{
	NullTest *test = makeNode(NullTest);
	CaseWhen *when = makeNode(CaseWhen);
	CaseExpr *array = makeNode(CaseExpr);

	test->arg = copyObject((Expr *) expr);
	test->nulltesttype = IS_NULL;
	test->location = -1;
	when->expr = (Expr *) test;
	when->result = (Expr *) makeNullConst(TEXTOID, -1, DEFAULT_COLLATION_OID);
	array->casetype = TEXTOID;
	array->casecollid = DEFAULT_COLLATION_OID;
	array->args = list_make1(when);
	array->defresult = (Expr *) sourcetext_cast((Node *) makeFuncExpr(F_JSONB_BUILD_ARRAY_ANY, JSONBOID, list_make1(copyObject(expr)), InvalidOid, InvalidOid,
																	  COERCE_EXPLICIT_CALL),
												"key");
	return (Node *) array;
}

/*
 * sourcetext_prepare prepares an expression of a type whose text is written here.
 */
static void
sourcetext_prepare(DcTextOf *text, Node *expr)
{
	text->type = exprType(expr);
	text->base = getBaseType(text->type);
	if (IsA(expr, Var))
		text->column = ((Var *) expr)->varattno;
	else
		text->state = ExecInitExpr(expression_planner((Expr *) expr), NULL);
}

/*
 * sourcetext_uncast returns what an expression casts, by one cast at most, to bigint or to text.
 */
static Node *
sourcetext_uncast(Node *expr)
{
	if (IsA(expr, CoerceViaIO) && exprType(expr) == TEXTOID)
		expr = (Node *) ((CoerceViaIO *) expr)->arg;
	else if (IsA(expr, FuncExpr) &&
			 (((FuncExpr *) expr)->funcid == F_INT8_INT2 || ((FuncExpr *) expr)->funcid == F_INT8_INT4))
		expr = linitial(((FuncExpr *) expr)->args);
	return sourcetext_unlabel(expr);
}

/*
 * Return what an expression relabels, as long as that has the same text.
 */
static Node *
sourcetext_unlabel(Node *expr)
{
	while (IsA(expr, RelabelType))
	{
		Node *arg = (Node *) ((RelabelType *) expr)->arg;

		/* others change the meaning: the text of an oid is not that of an integer */
		if (relabelled_type(expr) != relabelled_type(arg))
			break;
		expr = arg;
	}
	return expr;
}

/*
 * Return the base type of an expression, with varchar taken for text: a cast between the two
 * changes nothing.
 */
static Oid
relabelled_type(Node *expr)
{
	Oid type = getBaseType(exprType(expr));

	return type == VARCHAROID ? TEXTOID : type;
}

/*
 * sourcetext_key creates the key of a row; returns false if it is null. A key that is too long is
 * an error (54000).
 */
bool
sourcetext_key(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, DcKey *key)
{
	bool isnull;
	Datum value = sourcetext_datum(text, context, slot, &isnull);

	if (isnull)
		return false;
	switch (text->base)
	{
		case InvalidOid:
		case TEXTOID:
		case VARCHAROID:
			sourcetext_check_length(value);
			key_from_text(value, key);
			break;
		default:
			key_from_value(value, text->base, key);
	}
	return true;
}

/*
 * sourcetext_number reads a number of a row; false if it is null.
 */
bool
sourcetext_number(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, int64 *value)
{
	bool isnull;
	Datum datum = sourcetext_datum(text, context, slot, &isnull);

	*value = isnull ? 0 : sourcetext_integer(text, datum);
	return !isnull;
}

/*
 * sourcetext_element appends an element of a row to the text of a JSON array; false if it is null.
 */
bool
sourcetext_element(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, StringInfo array)
{
	Datum value;

	if (!sourcetext_value(text, context, slot, &value))
		return false;
	sourcetext_append(text, value, array);
	return true;
}

/*
 * sourcetext_value reads an element of a row, for sourcetext_append() and sourcetext_pack(); false
 * if it is null. Raises 54000 for a text that is longer than a key. Others are detoasted, in the
 * current memory context.
 */
bool
sourcetext_value(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, Datum *value)
{
	bool isnull;

	*value = sourcetext_datum(text, context, slot, &isnull);
	if (!isnull && sourcetext_is_varlena(text))
	{
		sourcetext_check_length(*value);
		*value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(*value));
	}
	return !isnull;
}

/*
 * Return true if the values of an element are texts.
 */
static bool
sourcetext_is_varlena(const DcTextOf *text)
{
	return text->base == InvalidOid || text->base == TEXTOID || text->base == VARCHAROID;
}

/*
 * sourcetext_is_json_null returns true if an element is the null of JSON.
 */
bool
sourcetext_is_json_null(const DcTextOf *text, Datum value)
{
	DcKey key;

	if (text->base != InvalidOid)
		return false;
	key_from_text(value, &key);
	return key.len == strlen("[null]") && memcmp(key.data, "[null]", key.len) == 0;
}

/*
 * sourcetext_append appends an element that is not null to the text of a JSON array.
 */
void
sourcetext_append(const DcTextOf *text, Datum value, StringInfo array)
{
	DcKey key;

	switch (text->base)
	{
		case InvalidOid: /* an array of this element */
			key_from_text(value, &key);
			appendBinaryStringInfo(array, key.data + 1, key.len - 2);
			break;
		case BOOLOID:
			appendStringInfoString(array, DatumGetBool(value) ? "true" : "false");
			break;
		case TEXTOID:
		case VARCHAROID:
			append_string(array, value);
			break;
		case UUIDOID:
		case DATEOID:
			key_from_value(value, text->base, &key);
			appendStringInfoChar(array, '"');
			appendBinaryStringInfo(array, key.data, key.len);
			appendStringInfoChar(array, '"');
			break;
		default:
			key_from_value(value, text->base, &key);
			appendBinaryStringInfo(array, key.data, key.len);
	}
}

/*
 * sourcetext_pack appends the bytes of an element that is not null: the same for values with the
 * same text, and others for others. Their number is a multiple of MAXIMUM_ALIGNOF.
 */
void
sourcetext_pack(const DcTextOf *text, Datum value, StringInfo packed)
{
	DcKey key;

	if (text->base == UUIDOID)
		appendBinaryStringInfo(packed, (const char *) DatumGetUUIDP(value), UUID_LEN);
	else if (sourcetext_is_varlena(text))
	{
		Size len;
		char *at;

		key_from_text(value, &key);
		len = MAXALIGN(VARHDRSZ + key.len);
		enlargeStringInfo(packed, len);
		at = packed->data + packed->len;
		memset(at, 0, len);
		SET_VARSIZE(at, VARHDRSZ + key.len);
		memcpy(VARDATA(at), key.data, key.len);
		packed->len += len;
	}
	else
	{
		int64 number = sourcetext_integer(text, value);

		appendBinaryStringInfo(packed, (const char *) &number, sizeof(number));
	}
}

/*
 * sourcetext_unpack sets *value to an element whose bytes are at an aligned address, and returns
 * where they end. The value points into them.
 */
const char *
sourcetext_unpack(const DcTextOf *text, const char *packed, Datum *value)
{
	int64 number;

	if (text->base == UUIDOID)
	{
		*value = PointerGetDatum(packed);
		return packed + UUID_LEN;
	}
	if (sourcetext_is_varlena(text))
	{
		*value = PointerGetDatum(packed);
		return packed + MAXALIGN(VARSIZE(packed));
	}
	number = *(const int64 *) packed;
	*value = text->base == INT8OID ? Int64GetDatum(number)
		: text->base == BOOLOID	   ? BoolGetDatum(number != 0)
		: text->base == INT2OID	   ? Int16GetDatum((int16) number)
								   : Int32GetDatum((int32) number); /* dates as well */
	return packed + sizeof(number);
}

/*
 * Return a value of a type that is passed by value as a number.
 */
static int64
sourcetext_integer(const DcTextOf *text, Datum value)
{
	switch (text->base)
	{
		case BOOLOID:
			return DatumGetBool(value);
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/*
 * Return the value of an expression, or of the column that it is, for a row.
 */
static Datum
sourcetext_datum(const DcTextOf *text, ExprContext *context, TupleTableSlot *slot, bool *isnull)
{
	if (text->column == 0)
		return ExecEvalExpr(text->state, context, isnull);
	return slot_nullable(slot, text->column, text->type, isnull);
}

/*
 * sourcetext_check_length raises 54000 for a text that is too long, without looking at it.
 */
static void
sourcetext_check_length(Datum value)
{
	check_length("counter key", toast_raw_datum_size(value) - VARHDRSZ, 0, DC_MAX_KEY_BYTES);
}

/*
 * append_string appends a text as a JSON string.
 */
static void
append_string(StringInfo array, Datum value)
{
	DcKey key;
	uint32 plain = 0;

	key_from_text(value, &key);
	while (plain < key.len && (unsigned char) key.data[plain] >= ' ' && key.data[plain] != '"' && key.data[plain] != '\\')
		plain++;
	if (plain < key.len)
	{
		escape_json(array, pnstrdup(key.data, key.len));
		return;
	}
	appendStringInfoChar(array, '"');
	appendBinaryStringInfo(array, key.data, key.len);
	appendStringInfoChar(array, '"');
}
