/*
 * mergerow.h
 *		dcounter.merge_row(): what its files share (see mergerow.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_MERGEROW_H
#define DC_MERGEROW_H

#include "commands/trigger.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "utils/relcache.h"

#include "types/crdt/crdt.h"

/* The result for a column when two rows merge. */
typedef enum MergeRole
{
	MERGE_IGNORED,	/* dropped, or generated: it follows from the others */
	MERGE_KEY,		/* of the key */
	MERGE_STATE,	/* its states merge */
	MERGE_STAMP,	/* the stamp of the group; the later one wins */
	MERGE_ORDINARY, /* of the group, which the stamp decides as a whole */
} MergeRole;

/* A column of a table. */
typedef struct MergeColumn
{
	MergeRole role;
	Oid type;
	int16 len;
	bool by_value;
	bool is_domain;		   /* whose constraints a merged state has to obey */
	bool identity_always;  /* of no UPDATE's list */
	const CrdtType *state; /* of MERGE_STATE and MERGE_STAMP; NULL: a sketch */
	int64 (*total)(Datum); /* of a sketch that adds up; NULL: dc_hll */
	FmgrInfo bytes;		   /* of MERGE_ORDINARY: its send function, or that for output */
	bool bytes_are_text;
} MergeColumn;

/*
 * A table with the trigger. It is not changed, and is valid until the transaction ends;
 * the plan is only valid as long as merge_table_current() says so.
 */
typedef struct MergeTable
{
	MemoryContext cxt;
	int natts;
	MergeColumn *columns; /* by attribute number - 1 */
	AttrNumber stamp;	  /* 0: none */
	int ngroup;			  /* the columns of the group, in the order of their names */
	AttrNumber *group;
	Oid index; /* of the key */
	int nkeys;
	AttrNumber *keys;
	SPIPlanPtr plan; /* NULL: not made yet */
} MergeTable;

/* Two rows merged: what differs from the row that came. */
typedef struct MergedRow
{
	bool changes; /* the row that is there */
	int n;
	int *columns;
	Datum *values;
	bool *nulls;
} MergedRow;

/* mergerowcache.c */
extern const MergeTable *merge_table_find(TriggerData *data);
extern SPIPlanPtr merge_table_plan(TriggerData *data, const MergeTable **table);

/* mergetypes.c */
extern bool merge_set_type(MergeColumn *column);
extern bool merge_sketch_is_later(const MergeColumn *column, Datum a, Datum b);
extern bool merge_has_send(Oid type);

/* mergecolumns.c */
extern void merge_rows(const MergeTable *table, TupleTableSlot *old, TupleTableSlot *new,
					   MergedRow *merged);
extern void merge_states(const MergeTable *table, TupleTableSlot *old, TupleTableSlot *new,
						 MergedRow *merged);
extern void merge_observe(const MergeTable *table, TupleTableSlot *row);
extern void merge_replace(MergedRow *merged, AttrNumber att, Datum value, bool isnull);
extern bool merge_same(const MergeColumn *column, Datum a, bool a_null, Datum b, bool b_null);
extern Datum merge_value(const MergeTable *table, TupleTableSlot *row, AttrNumber att,
						 bool *isnull);

#endif /* DC_MERGEROW_H */
