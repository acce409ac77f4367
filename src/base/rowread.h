/*
 * rowread.h
 *		Reading the values of rows that are in users' tables (see rowread.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ROWREAD_H
#define DC_ROWREAD_H

#include "access/htup.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "utils/relcache.h"

#include "base/compat.h"

/* A column of a result, as a statement declares it. */
typedef struct DcResultColumn
{
	const char *name; /* for errors */
	Oid type;
	bool nullable;
} DcResultColumn;

#define ROWS_MAX_COLUMNS 8

/* The columns of a result end with the first that has no type. */
#define DC_TEXT(name) DC_COLUMN(name, TEXTOID)
#define DC_BIGINT(name) DC_COLUMN(name, INT8OID)
#define DC_TIME(name) DC_COLUMN(name, TIMESTAMPTZOID)
#define DC_COLUMN(name, type) \
	{ \
		(name), (type), false \
	}
#define DC_NULLABLE(name, type) \
	{ \
		(name), (type), true \
	}

/* A result of SPI whose columns are as declared. */
typedef struct DcRows
{
	Oid table; /* that errors name */
	const DcResultColumn *columns;
	int ncolumns;
	SPITupleTable *result; /* freed by SPI_finish() */
	uint64 count;
} DcRows;

extern void rows_take(DcRows *rows, const DcResultColumn *columns, Oid table);
extern Datum rows_datum(const DcRows *rows, uint64 row, int column);
extern Datum rows_nullable(const DcRows *rows, uint64 row, int column, bool *isnull);
extern int64 rows_bigint(const DcRows *rows, uint64 row, int column);
extern void rows_return(FunctionCallInfo fcinfo, const DcRows *rows);

extern Datum tuple_datum(Relation rel, HeapTuple tuple, AttrNumber att, Oid type);
extern Datum tuple_nullable(Relation rel, HeapTuple tuple, AttrNumber att, Oid type,
							bool *isnull);
extern Datum slot_datum(TupleTableSlot *slot, AttrNumber att, Oid type);
extern Datum slot_nullable(TupleTableSlot *slot, AttrNumber att, Oid type, bool *isnull);

#endif /* DC_ROWREAD_H */
