/*
 * shape.h
 *		The shape that a user's table must have to be read and written (see shape.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SHAPE_H
#define DC_SHAPE_H

#include "access/attnum.h"
#include "utils/rel.h"

#include "base/compat.h"

#define SHAPE_MAX_COLUMNS 15
#define SHAPE_MAX_KEYS 5

/* Flags of a column. */
#define SHAPE_NULLABLE 0x01	 /* may be NULL */
#define SHAPE_GENERATED 0x02 /* is generated, and stored */
#define SHAPE_OPTIONAL 0x04	 /* may be missing */

/* A column, as it was created. */
typedef struct DcShapeColumn
{
	const char *name; /* NULL: this number is not in use */
	Oid type;
	Oid collation; /* of a text */
	int flags;
} DcShapeColumn;

/* A table, as it was created. */
typedef struct DcShape
{
	const char *relkinds; /* that it may be of */
	bool logged;		  /* must not be lost in a crash */
	bool part;			  /* may be a partition: writers check which rows that accepts */
	int ncolumns;
	int nkeys; /* columns of the unique index that it needs; 0: it needs none */
	int keys[SHAPE_MAX_KEYS];
	DcShapeColumn columns[SHAPE_MAX_COLUMNS];
} DcShape;

/* Where things are in a table that has its shape. */
typedef struct DcTableLayout
{
	Oid index;			 /* the unique one, if it can be scanned without SQL, else 0 */
	bool index_is_young; /* not fit for old snapshots */
	bool only_index;	 /* there is no other one */
	bool heap;			 /* it is a plain table, with the server's own storage */
	bool alone;			 /* no further columns, and NULL is allowed where it was */
	bool in_order;		 /* columns have the numbers of the shape's */
	bool exact;			 /* both, and no column was ever dropped */
	AttrNumber atts[SHAPE_MAX_COLUMNS];
} DcTableLayout;

/* A problem of a table. */
typedef struct DcShapeProblem
{
	const char *detail; /* a sentence */
	const char *hint;	/* or NULL */
} DcShapeProblem;

extern bool shape_fits(Relation rel, const DcShape *shape, DcTableLayout *layout,
					   DcShapeProblem *problem);
extern void shape_check(Relation rel, const DcShape *shape, DcTableLayout *layout);
pg_noreturn extern void shape_error(const char *table, const DcShapeProblem *problem);
extern bool shape_is_key(Relation index, const DcShape *shape, const AttrNumber *atts);
extern bool shape_is_plain_key(Relation index, const DcShape *shape);

#endif /* DC_SHAPE_H */
