/*
 * key.h
 *		Counter keys as the SQL functions receive them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A key is stored as text. SQL callers may also pass a number, a uuid, a date or a jsonb, which
 * stand for their canonical text (key.c). DcKey is a view on the argument's bytes: it
 * lives as long as the argument, or as the DcKey itself for numbers, uuids and dates.
 */
#ifndef DC_KEY_H
#define DC_KEY_H

#include "fmgr.h"
#include "utils/uuid.h"

/* Longest key in bytes: with the shard number it must fit a btree entry. */
#define DC_MAX_KEY_BYTES 1024

typedef struct DcKey
{
	const char *data; /* not zero-terminated */
	uint32 len;		  /* in bytes, at most DC_MAX_KEY_BYTES */
	char buf[40];	  /* holds the text of a number, uuid or date */
} DcKey;

extern const DcKey *key_arg(FunctionCallInfo fcinfo, int argno, DcKey *key);
extern Datum key_text_arg(FunctionCallInfo fcinfo, int argno, const char *name);
extern Oid key_type(Oid type);
extern Datum *key_array_arg(FunctionCallInfo fcinfo, int argno, int *count,
							Datum **members);
extern Datum *key_texts_arg(FunctionCallInfo fcinfo, int argno, const char *name, const char *member, int *count);
extern void key_from_value(Datum value, Oid type, DcKey *key);
extern void key_from_text(Datum value, DcKey *key);
extern Datum key_text_datum(const DcKey *key);
extern uint32 key_secret_hash(const char *data, uint32 len);
extern int key_compare(const DcKey *a, const DcKey *b);
extern int bytes_compare(const char *a, uint32 a_len, const char *b, uint32 b_len);
extern void key_check_text(Datum value);
extern int texts_compare(Datum a, Datum b);

/*
 * Free the result of DatumGetTextPP() if that is a copy.
 */
static inline void
free_detoasted(text *copy, Datum of)
{
	if ((Pointer) copy != DatumGetPointer(of))
		pfree(copy);
}
extern uint32 uuid_to_text(const pg_uuid_t *uuid, char *text);

#endif /* DC_KEY_H */
