/*
 * payload.h
 *		Rows as jsonb, quickly.
 */
#ifndef DC_PAYLOAD_H
#define DC_PAYLOAD_H

#include "access/tupdesc.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

/* The sorted keys of an object, as they are stored. */
typedef struct DcJsonKeys
{
	int n;
	JEntry *entries;
	char *names;
	uint32 length;
} DcJsonKeys;

/* An object or array that is being appended to a buffer. */
typedef struct DcJsonWriter
{
	StringInfo buf;
	int begin;	 /* where it begins, before padding */
	int entries; /* where its entries are */
	int n;		 /* entries that have been written */
	uint32 total;
} DcJsonWriter;

/* How a column's value becomes jsonb. */
typedef enum DcJsonKind
{
	JSON_NOTHING, /* null whatever it is */
	JSON_BOOL,
	JSON_INT2,
	JSON_INT4,
	JSON_INT8,
	JSON_FLOAT, /* by its text */
	JSON_NUMERIC,
	JSON_TEXT, /* as the bytes of a varlena */
	JSON_DATETIME,
	JSON_JSONB,
	JSON_OUTPUT,  /* by its output function */
	JSON_TO_JSONB /* by to_jsonb() */
} DcJsonKind;

typedef struct DcJsonColumn
{
	AttrNumber attnum;
	DcJsonKind kind;
	Oid type; /* a domain's base type */
	FmgrInfo function;
} DcJsonColumn;

/* How a row, or some columns of it, becomes an object or an array. */
typedef struct DcJsonRow
{
	bool array;
	DcJsonKeys keys; /* of an object */
	int ncolumns;
	DcJsonColumn *columns; /* in the order of the object's keys, or as given */
} DcJsonRow;

extern void json_keys_make(DcJsonKeys *keys, const char **names, int n, int *order);
extern void json_keys_keep(DcJsonKeys *keys, const char *const *names, int n);
extern void json_begin(StringInfo buf);
extern Jsonb *json_end(StringInfo buf);
extern void json_begin_object(DcJsonWriter *writer, StringInfo buf, const DcJsonKeys *keys);
extern void json_add_null(DcJsonWriter *writer);
extern void json_add_bool(DcJsonWriter *writer, bool value);
extern void json_add_string(DcJsonWriter *writer, const char *data, uint32 len);
extern void json_add_text(DcJsonWriter *writer, const text *value);
extern void json_add_numeric(DcJsonWriter *writer, Numeric value);
extern void json_add_time(DcJsonWriter *writer, TimestampTz time);
extern void json_add_jsonb(DcJsonWriter *writer, Jsonb *value);
extern void json_add_row(DcJsonWriter *writer, DcJsonRow *row, const Datum *values, const bool *isnull);
extern void json_row_make(DcJsonRow *row, TupleDesc desc, const AttrNumber *attnums, int n, bool array);
extern char *json_row_text(DcJsonRow *row, const Datum *values, const bool *isnull);

#endif /* DC_PAYLOAD_H */
