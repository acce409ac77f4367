/*
 * key.c
 *		Reading counter keys from SQL arguments.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * SQL declares a key as anycompatible, and several as anycompatiblearray. So each function
 * exists once, a literal or parameter without a type is a text, and a value that cannot be a
 * key raises an error that says so. Types that the server would cast to text, bigint or uuid by
 * itself are read as if it had. Casts that users have created are not used: they would run
 * users' code here.
 * A date is written as in ISO 8601, whatever DateStyle is, and jsonb by its text: both as in
 * the keys of bound counters.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "base/siphash.h"

/*
 * The bytes of a jsonb are at most a few times its text: an element takes four and what the value
 * needs, and at least three in the text.
 */
#define MAX_JSONB_BYTES (8 * DC_MAX_KEY_BYTES)

static Oid arg_type(FunctionCallInfo fcinfo, int argno);
static Datum *to_texts(Datum *values, int count, Oid element);
static void key_from_jsonb(Datum value, DcKey *key);
static void key_from_bpchar(Datum value, DcKey *key);
static void key_check_length(const DcKey *key);

/*
 * key_arg reads the key argument of an SQL function. Errors: 22004 for NULL, 42804 for
 * a type that keys cannot have, 54000 for a key that is too long.
 */
const DcKey *
key_arg(FunctionCallInfo fcinfo, int argno, DcKey *key)
{
	arg_not_null(fcinfo, argno, "counter key");
	key_from_value(PG_GETARG_DATUM(argno), arg_type(fcinfo, argno), key);
	return key;
}

/*
 * key_text_arg returns an argument as text that functions take as text or, under the same name, as
 * any type that keys can have. It is not compressed or stored elsewhere. Errors: 22004 for NULL,
 * 42804.
 */
Datum
key_text_arg(FunctionCallInfo fcinfo, int argno, const char *name)
{
	Oid type = get_fn_expr_argtype(fcinfo->flinfo, argno);
	DcKey key;

	arg_not_null(fcinfo, argno, name);
	if (!OidIsValid(type)) /* called by C code: the declared type */
	{
		Oid *types;
		int count;

		(void) get_func_signature(fcinfo->flinfo->fn_oid, &types, &count);
		type = types[argno];
	}
	if (type == TEXTOID)
		return PointerGetDatum(PG_GETARG_TEXT_PP(argno));
	key_from_value(PG_GETARG_DATUM(argno), key_type(type), &key);
	return key_text_datum(&key);
}

/*
 * arg_type returns how a key argument is read. All those of one call have the same type,
 * which fn_extra remembers: the OID itself, not a pointer.
 */
static Oid
arg_type(FunctionCallInfo fcinfo, int argno)
{
	FmgrInfo *function = fcinfo->flinfo;

	if (function->fn_extra == NULL)
	{
		Oid type = get_fn_expr_argtype(function, argno);

		if (!OidIsValid(type))
			elog(ERROR, "could not determine the type of a key");
		function->fn_extra = (void *) (uintptr_t) key_type(type);
	}
	return (Oid) (uintptr_t) function->fn_extra;
}

/*
 * key_type returns the type, of those that key_from_value() knows, as which the values of a
 * type are read.
 */
Oid
key_type(Oid type)
{
	Oid base;

	switch (type)
	{
		case TEXTOID:
		case BPCHAROID:
		case NAMEOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case UUIDOID:
		case DATEOID:
		case JSONBOID:
			return type;
	}
	base = getBaseType(type);
	if (base != type)
		return key_type(base);
	if (IsBinaryCoercible(type, TEXTOID)) /* varchar, citext */
		return TEXTOID;
	if (IsBinaryCoercible(type, OIDOID)) /* regclass */
		return OIDOID;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("a key cannot be of type %s", format_type_be(type)),
			 errhint("Cast it to text, bigint, uuid, date or jsonb.")));
}

/*
 * key_from_value creates a key from a value of one of the types that key_type() returns. It lives
 * as long as both, and as the current memory context.
 */
void
key_from_value(Datum value, Oid type, DcKey *key)
{
	key->data = key->buf;
	switch (type)
	{
		case INT2OID:
			key->len = pg_itoa(DatumGetInt16(value), key->buf);
			break;
		case INT4OID:
			key->len = pg_ltoa(DatumGetInt32(value), key->buf);
			break;
		case INT8OID:
			key->len = pg_lltoa(DatumGetInt64(value), key->buf);
			break;
		case OIDOID:
			key->len = pg_lltoa(DatumGetObjectId(value), key->buf);
			break;
		case UUIDOID:
			key->len = uuid_to_text(DatumGetUUIDP(value), key->buf);
			break;
		case DATEOID:
			(void) JsonEncodeDateTime(key->buf, value, DATEOID, NULL);
			key->len = strlen(key->buf);
			break;
		case JSONBOID:
			key_from_jsonb(value, key);
			break;
		case BPCHAROID:
			key_from_bpchar(value, key);
			break;
		case NAMEOID:
			key_from_text(DirectFunctionCall1(name_text, value), key);
			break;
		case CHAROID:
			key_from_text(DirectFunctionCall1(char_text, value), key);
			break;
		default:
			key_from_text(value, key);
	}
}

/*
 * key_from_jsonb creates a key from the text of a jsonb, in the current memory context.
 */
static void
key_from_jsonb(Datum value, DcKey *key)
{
	StringInfoData text;
	Jsonb *jsonb;

	check_length("counter key", toast_raw_datum_size(value) - VARHDRSZ, 0, MAX_JSONB_BYTES);
	jsonb = DatumGetJsonbP(value);
	initStringInfo(&text);
	(void) JsonbToCString(&text, &jsonb->root, VARSIZE(jsonb));
	key->data = text.data;
	key->len = text.len;
	key_check_length(key);
}

/*
 * key_from_bpchar creates a key from a char(n), which has no spaces at its end. It is read in place, as
 * rtrim() takes nine times its bytes, and no char(n) of the largest n is refused for its length.
 */
static void
key_from_bpchar(Datum value, DcKey *key)
{
	text *chars;

	check_length("counter key", toast_raw_datum_size(value) - VARHDRSZ, 0, MaxAttrSize);
	chars = DatumGetTextPP(value);
	key->data = VARDATA_ANY(chars);
	key->len = VARSIZE_ANY_EXHDR(chars);
	while (key->len > 0 && key->data[key->len - 1] == ' ')
		key->len--;
	key_check_length(key);
}

/*
 * uuid_to_text writes the 36 characters of a uuid, and returns their number.
 */
uint32
uuid_to_text(const pg_uuid_t *uuid, char *text)
{
	static const char hex[] = "0123456789abcdef";
	char *p = text;

	for (int i = 0; i < UUID_LEN; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = hex[uuid->data[i] >> 4];
		*p++ = hex[uuid->data[i] & 0x0F];
	}
	return p - text;
}

/*
 * Raise an error if a text is too long for a key, without having it detoasted.
 */
void
key_check_text(Datum value)
{
	check_length("counter key", toast_raw_datum_size(value) - VARHDRSZ, 0, DC_MAX_KEY_BYTES);
}

/*
 * key_from_text points a key at a text datum's bytes (detoasting a copy when
 * it is compressed or out of line).
 */
void
key_from_text(Datum value, DcKey *key)
{
	text *t;

	key_check_text(value); /* before it takes memory */
	t = DatumGetTextPP(value);
	key->data = VARDATA_ANY(t);
	key->len = VARSIZE_ANY_EXHDR(t);
	key_check_length(key);
}

/*
 * key_array_arg returns the keys in an array argument, as text. *members, unless that is
 * NULL, is set to them as they were passed. Errors as of key_arg().
 */
Datum *
key_array_arg(FunctionCallInfo fcinfo, int argno, int *count, Datum **members)
{
	Datum *values = array_arg(fcinfo, argno, "keys", "counter key", count);

	if (members != NULL)
		*members = values;
	return to_texts(values, *count, ARR_ELEMTYPE(PG_GETARG_ARRAYTYPE_P(argno)));
}

/*
 * key_texts_arg does the same for an argument that is like keys; error messages call it `name`,
 * and a member `member`.
 */
Datum *
key_texts_arg(FunctionCallInfo fcinfo, int argno, const char *name, const char *member, int *count)
{
	Datum *values = array_arg(fcinfo, argno, name, member, count);

	return to_texts(values, *count, ARR_ELEMTYPE(PG_GETARG_ARRAYTYPE_P(argno)));
}

/*
 * Return keys as text datums; those that are texts already are returned as they are. Raises
 * 54000 for a key that is too long.
 */
static Datum *
to_texts(Datum *values, int count, Oid element)
{
	Oid type = key_type(element);
	Datum *texts;

	if (type == TEXTOID)
		return values;
	texts = palloc_extended(Max(count, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
	{
		DcKey key;

		CHECK_FOR_INTERRUPTS();
		key_from_value(values[i], type, &key);
		texts[i] = key_text_datum(&key);
	}
	return texts;
}

/*
 * key_text_datum creates a text datum from a key, in the current memory context.
 */
Datum
key_text_datum(const DcKey *key)
{
	return PointerGetDatum(cstring_to_text_with_len(key->data, key->len));
}

/*
 * key_secret_hash returns the hash of a key's bytes in this process. It has a secret: nobody can
 * choose keys that meet in a table.
 */
uint32
key_secret_hash(const char *data, uint32 len)
{
	static uint64 secret[2];
	static bool has_secret = false;

	if (unlikely(!has_secret))
	{
		if (!pg_strong_random(secret, sizeof(secret)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random values")));
		has_secret = true;
	}
	return (uint32) siphash_hash(secret, data, len);
}

/*
 * key_compare orders keys as the "C" collation does.
 */
int
key_compare(const DcKey *a, const DcKey *b)
{
	return bytes_compare(a->data, a->len, b->data, b->len);
}

/*
 * bytes_compare does the same for the bytes of keys.
 */
int
bytes_compare(const char *a, uint32 a_len, const char *b, uint32 b_len)
{
	int cmp = memcmp(a, b, Min(a_len, b_len));

	if (cmp == 0 && a_len != b_len)
		cmp = a_len < b_len ? -1 : 1;
	return cmp;
}

/*
 * Compare two texts in this way. They may be of any length, as rows may be written directly.
 */
int
texts_compare(Datum a, Datum b)
{
	text *left = DatumGetTextPP(a);
	text *right = DatumGetTextPP(b);
	int order = bytes_compare(VARDATA_ANY(left), VARSIZE_ANY_EXHDR(left), VARDATA_ANY(right), VARSIZE_ANY_EXHDR(right));

	free_detoasted(left, a);
	free_detoasted(right, b);
	return order;
}

/*
 * Raise 54000 if a key is too long.
 */
static void
key_check_length(const DcKey *key)
{
	check_length("counter key", key->len, 0, DC_MAX_KEY_BYTES);
}
