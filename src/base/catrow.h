/*
 * catrow.h
 *		Rows of the extension's own tables, its catalogs (see catrow.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CATROW_H
#define DC_CATROW_H

#include "access/genam.h"
#include "access/skey.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

#define DC_SCHEMA "dcounter"

#define CAT_MAX_COLUMNS 24
#define CAT_MAX_KEYS 4

/* A row on its way from a tuple to a struct, or back (catcolumn.c). */
typedef struct DcCatRow
{
	bool reading; /* otherwise writing */
	TupleDesc desc;
	int column;			 /* the next one, from 0 */
	ItemPointerData tid; /* the place of the row that was read */
	TransactionId xmin;	 /* the transaction that has written it */
	Datum values[CAT_MAX_COLUMNS];
	bool nulls[CAT_MAX_COLUMNS];
} DcCatRow;

/* A catalog, and the struct that its rows are read into. */
typedef struct DcCatalog
{
	const char *table; /* in DC_SCHEMA, as all names */
	const char *pkey;  /* the index of its primary key, */
	int nkeys;		   /* number of key columns, which come first, if rows are changed by key */
	Size size;		   /* of the struct */
	/* takes each column, in order, from or to the struct (catcolumn.c) */
	void (*columns)(DcCatRow *io, void *row);
	bool tells;		 /* each change invalidates the relation in the first column */
	bool keeps_lock; /* a table that is changed stays locked until the transaction ends */
} DcCatalog;

/* A scan of a catalog. */
typedef struct DcCatScan
{
	const DcCatalog *cat;
	Relation rel;
	Relation index; /* of an ordered scan */
	LOCKMODE mode;
	SysScanDesc scan;
	HeapTuple tuple;
	ScanKeyData keys[CAT_MAX_KEYS];
} DcCatScan;

/* catrow.c */
extern Oid catalog_relation(const char *name);
extern Oid catalog_relation_if_any(const char *name);
extern Oid extension_function(const char *name);
extern void relation_invalidate(Oid relid);
extern Oid relation_owner(Oid relid);

extern void cat_scan_begin(DcCatScan *scan, const DcCatalog *cat, const char *index,
						   LOCKMODE mode, const ScanKeyData *keys, int nkeys);
extern void cat_scan_begin_ordered(DcCatScan *scan, const DcCatalog *cat, const char *index,
								   Snapshot snapshot, const ScanKeyData *keys, int nkeys);
extern bool cat_scan_next(DcCatScan *scan, ScanDirection direction, void *row);
extern void cat_scan_delete(DcCatScan *scan);
extern void cat_scan_end(DcCatScan *scan);

extern bool cat_read(const DcCatalog *cat, void *row, Datum key);
extern bool cat_read_by(const DcCatalog *cat, void *row, const char *index, AttrNumber column,
						Datum value);
extern List *cat_read_all(const DcCatalog *cat, Snapshot snapshot);
extern void cat_insert(const DcCatalog *cat, const void *row);
extern bool cat_update(const DcCatalog *cat, const void *row);
extern int cat_delete(const DcCatalog *cat, Datum key);
extern void cat_store_at(const DcCatalog *cat, ItemPointer tid, const void *row);
extern void cat_delete_at(const DcCatalog *cat, ItemPointer tid);
extern Datum cat_on_change(FunctionCallInfo fcinfo, const DcCatalog *cat, const char *function);

/* catcolumn.c */
extern bool cat_deform(const DcCatalog *cat, TupleDesc desc, HeapTuple tuple, void *row);
extern HeapTuple cat_form(const DcCatalog *cat, TupleDesc desc, const void *row, DcCatRow *io);
extern void cat_key(ScanKey key, TupleDesc desc, AttrNumber column, Datum value);
extern bool cat_has_more(const DcCatRow *io);
extern void cat_skip(DcCatRow *io, int columns);
extern void cat_bool(DcCatRow *io, bool *field);
extern void cat_int2(DcCatRow *io, int *field);
extern void cat_int4(DcCatRow *io, int32 *field);
extern void cat_int8(DcCatRow *io, int64 *field);
extern void cat_oid(DcCatRow *io, Oid *field);
extern void cat_time(DcCatRow *io, TimestampTz *field);
extern void cat_duration(DcCatRow *io, int64 *field, bool days);
extern void cat_string(DcCatRow *io, char **field);
extern int cat_choice(DcCatRow *io, int field, const char *const *names, int n);
extern void cat_datum(DcCatRow *io, Oid type, Datum *field);
extern void cat_roles(DcCatRow *io, List **roles);
extern void cat_not_null(const DcCatRow *io);
extern void cat_int8s(DcCatRow *io, int64 *items, int *count, int max);
extern int choice_from_text(const char *what, const char *value, const char *const *names, int n);

#endif /* DC_CATROW_H */
