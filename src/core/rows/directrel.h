/*
 * directrel.h
 *		A table of a counter that is open for direct access.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DIRECTREL_H
#define DC_DIRECTREL_H

#include "executor/tuptable.h"
#include "utils/rel.h"

#include "base/hooks.h"
#include "core/rows/hints.h"
#include "core/table/layout.h"

/* Open for one commit or one read; freed by directrel_close(). */
typedef struct DcDirectRel
{
	DcCounter *counter;
	DcCounterTable table;
	const DcTableLayout *layout; /* of the table, as the counter's entry has it */
	Relation heap;
	Relation index;		  /* NULL until needed */
	TupleTableSlot *slot; /* for the new version of a row */
	BlockNumber nblocks;  /* of heap; never too large, see rowversions.c */
	Datum *values;		  /* of the row that was found */
	bool *nulls;
	DcApplyStats stats; /* of a commit */
} DcDirectRel;

/* Both tables of a counter, each opened to write when it is first needed. */
typedef struct DcDirectTables
{
	DcCounter *counter;
	MemoryContext cxt; /* of what is open */
	DcDirectRel totals;
	DcDirectRel shards;
} DcDirectTables;

extern void directrel_open(DcDirectRel *rel, DcCounter *counter,
						   DcCounterTable table, bool write);
extern void directrel_close(DcDirectRel *rel);
extern Relation directrel_index(DcDirectRel *rel);
extern void direct_tables_init(DcDirectTables *tables, DcCounter *counter);
extern DcDirectRel *direct_tables_open(DcDirectTables *tables, DcCounterTable table);
extern void direct_tables_close(DcDirectTables *tables);
extern bool directrel_deform(DcDirectRel *rel, HeapTuple tuple,
							 const DcDeltaKey *key, int32 shard);

#endif /* DC_DIRECTREL_H */
