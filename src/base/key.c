/*
 * key.c
 *		Reading counter keys from SQL arguments.
 */
#include "postgres.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "common/int.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

static void key_check_length(const DcKey *key);

/*
 * key_from_text points a key at a text datum's bytes (detoasting a copy when
 * it is compressed or out of line).
 */
void
key_from_text(Datum value, DcKey *key)
{
	text *t = DatumGetTextPP(value);

	key->data = VARDATA_ANY(t);
	key->len = VARSIZE_ANY_EXHDR(t);
	key_check_length(key);
}

/*
 * key_from_arg reads the key argument of an SQL function. Errors: 22004 for
 * NULL, 54000 for a key that is too long.
 */
void
key_from_arg(FunctionCallInfo fcinfo, int argno, DcKeyType type, DcKey *key)
{
	arg_not_null(fcinfo, argno, "counter key");

	switch (type)
	{
		case DC_KEY_TEXT:
			key_from_text(PG_GETARG_DATUM(argno), key);
			break;
		case DC_KEY_INT8:
			key->len = pg_lltoa(PG_GETARG_INT64(argno), key->buf);
			key->data = key->buf;
			break;
		case DC_KEY_UUID:
			{
				static const char hex[] = "0123456789abcdef";
				pg_uuid_t *uuid = PG_GETARG_UUID_P(argno);
				char *p = key->buf;

				for (int i = 0; i < UUID_LEN; i++)
				{
					if (i == 4 || i == 6 || i == 8 || i == 10)
						*p++ = '-';
					*p++ = hex[uuid->data[i] >> 4];
					*p++ = hex[uuid->data[i] & 0x0F];
				}
				key->len = p - key->buf;
				key->data = key->buf;
				break;
			}
	}
}

/*
 * key_text_datum makes a text datum of a key, in the current memory context.
 */
Datum
key_text_datum(const DcKey *key)
{
	return PointerGetDatum(cstring_to_text_with_len(key->data, key->len));
}

/*
 * key_compare orders keys as the "C" collation does.
 */
int
key_compare(const DcKey *a, const DcKey *b)
{
	int cmp = memcmp(a->data, b->data, Min(a->len, b->len));

	if (cmp == 0 && a->len != b->len)
		cmp = a->len < b->len ? -1 : 1;
	return cmp;
}

static void
key_check_length(const DcKey *key)
{
	if (key->len > DC_MAX_KEY_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("counter key is too long"),
				 errdetail("The key has %u bytes; the limit is %d.",
						   key->len, DC_MAX_KEY_BYTES)));
}
