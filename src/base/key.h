/*
 * key.h
 *		Counter keys as the SQL functions receive them.
 *
 * A key is stored as text. SQL callers may also pass a bigint or a uuid, which
 * stand for their canonical text. DcKey is a view on the argument's bytes: it
 * lives as long as the argument, or as the DcKey itself for bigint and uuid.
 */
#ifndef DC_KEY_H
#define DC_KEY_H

#include "fmgr.h"

/* Longest key in bytes: with the shard number it must fit a btree entry. */
#define DC_MAX_KEY_BYTES 1024

typedef enum DcKeyType
{
	DC_KEY_TEXT,
	DC_KEY_INT8,
	DC_KEY_UUID
} DcKeyType;

typedef struct DcKey
{
	const char *data; /* not zero-terminated */
	uint32 len;		  /* in bytes, at most DC_MAX_KEY_BYTES */
	char buf[40];	  /* holds the text of a bigint or uuid */
} DcKey;

extern void key_from_arg(FunctionCallInfo fcinfo, int argno, DcKeyType type,
						 DcKey *key);
extern void key_from_text(Datum value, DcKey *key);
extern Datum key_text_datum(const DcKey *key);
extern int key_compare(const DcKey *a, const DcKey *b);

/*
 * Define the SQL-callable functions NAME (text), NAME_int8 and NAME_uuid over
 * one implementation NAME_impl(fcinfo, key); the key is argument 1.
 */
#define DC_KEYED_FUNCTION(name) \
	static Datum name##_impl(FunctionCallInfo fcinfo, const DcKey *key); \
	DC_KEYED_VARIANT(name, name, DC_KEY_TEXT) \
	DC_KEYED_VARIANT(name, name##_int8, DC_KEY_INT8) \
	DC_KEYED_VARIANT(name, name##_uuid, DC_KEY_UUID) \
	extern int dc_keyed_function_end

#define DC_KEYED_VARIANT(name, symbol, type) \
	PG_FUNCTION_INFO_V1(symbol); \
	Datum symbol(PG_FUNCTION_ARGS) \
	{ \
		DcKey key; \
		key_from_arg(fcinfo, 1, type, &key); \
		return name##_impl(fcinfo, &key); \
	}

#endif /* DC_KEY_H */
