/*
 * payload.h
 *		Making jsonb: objects with given members, and rows.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_PAYLOAD_H
#define DC_PAYLOAD_H

#include "access/tupdesc.h"
#include "fmgr.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "base/compat.h"

/* An object that is being made. */
typedef struct DcJsonWriter
{
	CompatJsonb jsonb;
	Size row_bytes; /* of the rows that were added, about */
} DcJsonWriter;

/* How a column's value becomes jsonb. */
typedef enum DcJsonKind
{
	JSON_NOTHING, /* always null */
	JSON_BOOL,
	JSON_INT2,
	JSON_INT4,
	JSON_INT8,
	JSON_NUMERIC,
	JSON_TEXT, /* as the bytes of a varlena */
	JSON_DATETIME,
	JSON_JSONB,
	JSON_TO_JSONB /* by to_jsonb() */
} DcJsonKind;

typedef struct DcJsonColumn
{
	AttrNumber attnum;
	char *name;
	int len;
	DcJsonKind kind;
	bool varlena;
	bool is_array;
	bool may_hold_json; /* it is json, or may have some inside */
	Oid type;			/* a domain's base type */
	FmgrInfo function;
} DcJsonColumn;

/* How a row, or some columns of it, becomes an object or an array. */
typedef struct DcJsonRow
{
	bool array;
	int ncolumns;
	DcJsonColumn *columns;
} DcJsonRow;

extern void json_begin(DcJsonWriter *writer);
extern Jsonb *json_end(DcJsonWriter *writer);
extern void json_add_null(DcJsonWriter *writer, const char *name);
extern void json_add_bool(DcJsonWriter *writer, const char *name, bool value);
extern void json_add_int(DcJsonWriter *writer, const char *name, int64 value);
extern void json_add_numeric(DcJsonWriter *writer, const char *name, Numeric value);
extern void json_add_string(DcJsonWriter *writer, const char *name, const char *data, int len);
extern void json_add_text(DcJsonWriter *writer, const char *name, const text *value);
extern void json_add_time(DcJsonWriter *writer, const char *name, TimestampTz time);
extern void json_add_jsonb(DcJsonWriter *writer, const char *name, Jsonb *value);
extern void json_add_row(DcJsonWriter *writer, const char *name, DcJsonRow *row, const Datum *values, const bool *isnull);
extern void json_row_make(DcJsonRow *row, TupleDesc desc, const AttrNumber *attnums, int n, bool array);
extern char *json_row_text(DcJsonRow *row, const Datum *values, const bool *isnull);

#endif /* DC_PAYLOAD_H */
