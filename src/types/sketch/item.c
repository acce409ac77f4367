/*
 * item.c
 *		Items of any type, as the sketches see them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A sketch counts an item's canonical text. So equal items are one item whatever
 * their type, machine or server version, and the same item that a client of Redis adds
 * as a string:
 *
 *	text, varchar, name	their bytes (char(n): without trailing blanks)
 *	bytea				its bytes; in a list of items, in hexadecimal
 *	smallint to bigint	in decimal: 42, of any of the three, is '42'
 *	numeric				in decimal without trailing zeros: 1.00 is 1.0 is '1'
 *	real, double		the shortest decimal that reads back; -0 is '0'
 *	boolean				'true', 'false'
 *	uuid				its 36 characters in lower case
 *	dates and times		ISO 8601, with time zone in UTC
 *	enums				their label
 *
 * None of these depends on a setting. A value of any other type is known by its
 * type's own hash function (as for hash partitioning), so that items are equal
 * when the type's = says so; where items are shown, by its output function.
 */
#include "postgres.h"

#include "types/sketch/item.h"


#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/typcache.h"
#include "utils/uuid.h"

#include "base/compat.h"
#include "base/key.h"
#include "types/sketch/hash.h"

static ItemKind kind_of(Oid type);
static void other_bytes(ItemType *type, Datum value, ItemBytes *item);
static void float_bytes(double value, ItemBytes *item);
static void string_bytes(char *string, ItemBytes *item);
static uint64 other_hash(ItemType *type, Datum value);
static uint64 foreign_hash(ItemType *type, Datum value);

/*
 * item_type_of_arg is the item type of a function's argument, remembered for
 * the call site.
 */
ItemType *
item_type_of_arg(FunctionCallInfo fcinfo, int argno)
{
	ItemType *type = fcinfo->flinfo->fn_extra;

	if (unlikely(type == NULL))
	{
		Oid typid = get_fn_expr_argtype(fcinfo->flinfo, argno);

		if (!OidIsValid(typid))
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_DATATYPE),
					 errmsg("could not determine the type of the item")));
		type = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(ItemType));
		item_type_init(type, typid, PG_GET_COLLATION(), fcinfo->flinfo->fn_mcxt);
		fcinfo->flinfo->fn_extra = type;
	}
	return type;
}

/*
 * item_type_init prepares for items of a type. Functions that are looked up later are
 * kept in mcxt, which lives as long as *type.
 */
void
item_type_init(ItemType *type, Oid typid, Oid collation, MemoryContext mcxt)
{
	type->type = getBaseType(typid);
	type->collation = collation;
	type->kind = kind_of(type->type);
	type->hash.fn_oid = InvalidOid;
	type->out.fn_oid = InvalidOid;
	type->mcxt = mcxt;
}

/*
 * Return how the items of a type, which is not a domain, become bytes.
 */
static ItemKind
kind_of(Oid type)
{
	static const struct
	{
		Oid type;
		ItemKind kind;
	} kinds[] = {
		{TEXTOID, ITEM_TEXT},
		{VARCHAROID, ITEM_TEXT},
		{BYTEAOID, ITEM_TEXT},
		{BPCHAROID, ITEM_BPCHAR},
		{NAMEOID, ITEM_NAME},
		{INT2OID, ITEM_INT2},
		{INT4OID, ITEM_INT4},
		{INT8OID, ITEM_INT8},
		{BOOLOID, ITEM_BOOL},
		{UUIDOID, ITEM_UUID},
		{FLOAT4OID, ITEM_FLOAT4},
		{FLOAT8OID, ITEM_FLOAT8},
		{NUMERICOID, ITEM_NUMERIC},
		{DATEOID, ITEM_DATETIME},
		{TIMEOID, ITEM_DATETIME},
		{TIMETZOID, ITEM_DATETIME},
		{TIMESTAMPOID, ITEM_DATETIME},
		{TIMESTAMPTZOID, ITEM_DATETIME}};

	for (int i = 0; i < lengthof(kinds); i++)
	{
		if (kinds[i].type == type)
			return kinds[i].kind;
	}
	return type_is_enum(type) ? ITEM_ENUM : ITEM_OTHER;
}

/*
 * item_bytes makes the bytes that stand for a value.
 */
static void
item_bytes(ItemType *type, Datum value, ItemBytes *item)
{
	item->data = item->buf;
	switch (type->kind)
	{
		case ITEM_TEXT:
		case ITEM_BPCHAR:
			{
				struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);

				item->data = VARDATA_ANY(bytes);
				item->len = VARSIZE_ANY_EXHDR(bytes);
				while (type->kind == ITEM_BPCHAR && item->len > 0 && item->data[item->len - 1] == ' ')
					item->len--;
				return;
			}
		case ITEM_NAME:
			item->data = NameStr(*DatumGetName(value));
			item->len = strnlen(item->data, NAMEDATALEN);
			return;
		case ITEM_INT2:
			item->len = pg_itoa(DatumGetInt16(value), item->buf);
			return;
		case ITEM_INT4:
			item->len = pg_ltoa(DatumGetInt32(value), item->buf);
			return;
		case ITEM_INT8:
			item->len = pg_lltoa(DatumGetInt64(value), item->buf);
			return;
		case ITEM_BOOL:
			item->data = DatumGetBool(value) ? "true" : "false";
			item->len = strlen(item->data);
			return;
		case ITEM_UUID:
			item->len = uuid_to_text(DatumGetUUIDP(value), item->buf);
			return;
		case ITEM_FLOAT4:
			float_bytes(DatumGetFloat4(value), item);
			return;
		case ITEM_FLOAT8:
			float_bytes(DatumGetFloat8(value), item);
			return;
		case ITEM_NUMERIC:
			string_bytes(numeric_normalize(DatumGetNumeric(value)), item);
			return;
		case ITEM_DATETIME:
			{
				const int utc = 0;

				JsonEncodeDateTime(item->buf, value, type->type,
								   type->type == TIMESTAMPTZOID ? &utc : NULL);
				item->len = strlen(item->buf);
				return;
			}
		case ITEM_ENUM:
			string_bytes(DatumGetCString(DirectFunctionCall1(enum_out, value)), item);
			return;
		case ITEM_OTHER:
			other_bytes(type, value, item);
			return;
	}
}

/*
 * other_bytes makes the bytes of a value from the hash function of its own type.
 */
static void
other_bytes(ItemType *type, Datum value, ItemBytes *item)
{
	uint64 hash;

	if (!OidIsValid(type->hash.fn_oid))
	{
		TypeCacheEntry *entry = lookup_type_cache(type->type, TYPECACHE_HASH_EXTENDED_PROC);

		if (!OidIsValid(entry->hash_extended_proc))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("items of type %s cannot be counted",
							format_type_be(type->type)),
					 errdetail("The type has no extended hash function."),
					 errhint("Cast the item to text.")));
		fmgr_info_cxt(entry->hash_extended_proc, &type->hash, type->mcxt);
	}
	hash = DatumGetUInt64(FunctionCall2Coll(&type->hash, type->collation, value,
											UInt64GetDatum(0)));
	for (int i = 0; i < 8; i++)
		item->buf[i] = (char) (hash >> (8 * i));
	item->len = 8;
}

/*
 * item_text makes the text that a value is shown as: its bytes, where they are
 * text.
 */
void
item_text(ItemType *type, Datum value, ItemBytes *item)
{
	if (type->type == BYTEAOID)
	{
		bytea *bytes = DatumGetByteaPP(value);
		size_t len = VARSIZE_ANY_EXHDR(bytes);
		char *hex = palloc(2 * len + 2);

		hex[0] = '\\';
		hex[1] = 'x';
		hex_encode(VARDATA_ANY(bytes), len, hex + 2);
		item->data = hex;
		item->len = 2 * len + 2;
	}
	else if (type->kind == ITEM_OTHER)
	{
		if (!OidIsValid(type->out.fn_oid))
		{
			Oid function;
			bool is_varlena;

			getTypeOutputInfo(type->type, &function, &is_varlena);
			fmgr_info_cxt(function, &type->out, type->mcxt);
		}
		string_bytes(OutputFunctionCall(&type->out, value), item);
	}
	else
		item_bytes(type, value, item);
}

/*
 * item_hash is the hash of a value. Sketches that came from postgresql-hll use
 * its hash function on the bytes that it hashes.
 */
uint64
item_hash(ItemType *type, Datum value, int hash_id)
{
	if (unlikely(hash_id != SKETCH_HASH_REDIS))
		return foreign_hash(type, value);
	switch (type->kind)
	{
		case ITEM_INT4:
			return hash_redis_decimal(DatumGetInt32(value));
		case ITEM_INT8:
			return hash_redis_decimal(DatumGetInt64(value));
		case ITEM_TEXT:
			{
				struct varlena *bytes = (struct varlena *) DatumGetPointer(value);

				if (VARATT_IS_EXTERNAL(bytes) || VARATT_IS_COMPRESSED(bytes))
					return other_hash(type, value);
				return hash_redis(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
			}
		default:
			return other_hash(type, value);
	}
}

/* item_hash by way of the item's bytes. */
static pg_noinline uint64
other_hash(ItemType *type, Datum value)
{
	ItemBytes item;

	item_bytes(type, value, &item);
	return hash_redis(item.data, item.len);
}

/*
 * foreign_hash is the result of hll_hash_text, hll_hash_bytea, hll_hash_boolean,
 * hll_hash_smallint, _integer or _bigint. Numbers of different widths differ.
 */
static uint64
foreign_hash(ItemType *type, Datum value)
{
	uint64 word = 0;
	int width = 0;
	char bytes[8];

	switch (type->kind)
	{
		case ITEM_TEXT:
			{
				ItemBytes item;

				item_bytes(type, value, &item);
				return hash_murmur3(item.data, item.len);
			}
		case ITEM_BOOL:
			word = DatumGetBool(value);
			width = 1;
			break;
		case ITEM_INT2:
			word = (uint64) DatumGetInt16(value);
			width = 2;
			break;
		case ITEM_INT4:
			word = (uint64) DatumGetInt32(value);
			width = 4;
			break;
		case ITEM_INT8:
			word = (uint64) DatumGetInt64(value);
			width = 8;
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("items of type %s cannot be added to a sketch of postgresql-hll",
							format_type_be(type->type)),
					 errdetail("It accepts text, bytea, boolean, smallint, integer and bigint, hashed as postgresql-hll hashes them.")));
	}
	for (int i = 0; i < width; i++)
		bytes[i] = (char) (word >> (8 * i));
	return hash_murmur3(bytes, width);
}

/*
 * Make the shortest decimal that reads back as this number; that of 0 for -0.
 */
static void
float_bytes(double value, ItemBytes *item)
{
	if (value == 0)
		value = 0; /* there is a negative zero */
	item->len = double_to_shortest_decimal_buf(value, item->buf);
}

/*
 * Make a string's bytes those of an item. They are not copied.
 */
static void
string_bytes(char *string, ItemBytes *item)
{
	item->data = string;
	item->len = strlen(string);
}
