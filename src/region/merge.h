/*
 * merge.h
 *		The triggers for rows that come from other regions (see mergetrigger.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_MERGE_H
#define DC_MERGE_H

#include "commands/trigger.h"

#include "region/region.h"

/* A row that is being merged. */
typedef struct DcMerge
{
	DcCounter *counter;
	Relation rel; /* the table that it comes to */
	const DcTableLayout *layout;
	HeapTuple tuple;			   /* the row that comes */
	Datum come[SHAPE_MAX_COLUMNS]; /* its columns, by number */
	bool update;				   /* the caller has locked the row that is there; */
	Datum have[SHAPE_MAX_COLUMNS]; /* its columns */
} DcMerge;

/* The differences between the tables. */
typedef struct DcMergeKind
{
	const char *function; /* for errors */
	DcRegionTable table;
	const char *(*problem)(DcMerge *merge); /* returns what else is wrong with a row that comes, as a sentence, or NULL */
	const char *other;						/* the problem of an update that changes the key */

	/* either: merge a row to insert, and return the row that an update must write, or NULL */
	void (*insert)(DcMerge *merge);
	HeapTuple (*update)(DcMerge *merge);

	/*
	 * or: of two rows, the one with the greater number in this column is kept. It has grown by that
	 * much
	 */
	int number;
	void (*raised)(DcMerge *merge, int64 more);
} DcMergeKind;

extern TriggerData *merge_trigger_data(FunctionCallInfo fcinfo, const char *function);
extern Datum merge_trigger(FunctionCallInfo fcinfo, const DcMergeKind *kind, DcCounter **last);
extern DcCounter *merge_lock(const DcMerge *merge);
extern HeapTuple merge_form(const DcMerge *merge, const Datum *columns, int n);

#endif /* DC_MERGE_H */
