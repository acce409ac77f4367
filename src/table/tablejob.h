/*
 * tablejob.h
 *		Jobs that go over the counter tables of a database (see tablejob.c).
 */
#ifndef DC_TABLEJOB_H
#define DC_TABLEJOB_H

#include "base/job.h"
#include "table/catalog.h"

/* The result of a step. */
typedef enum DcTableStep
{
	TABLE_GOES_ON, /* there is more to do with the table */
	TABLE_DONE,
	TABLE_LATER /* done, but of no use to come back soon */
} DcTableStep;

typedef struct DcTableJob
{
	/* which tables, NULL for all */
	bool (*wants)(const DcCounterRow *row);
	/* instead: their OIDs, found without waiting for locks */
	List *(*list)(void);
	/* before the first step on a table, with memory for it; may be NULL */
	void (*start)(MemoryContext cxt);
	/* one transaction's work */
	DcTableStep (*step)(Oid table, bool all_owners);
	/* instead, if a subscription feeds the table; NULL: nothing */
	DcTableStep (*step_fed)(Oid table, bool all_owners);

	/* private to tablejob.c */
	MemoryContext cxt; /* NULL: not under way */
	Oid *tables;
	int ntables;
	int current;
	bool all_owners;
	bool started;	  /* with the current table */
	bool left;		  /* the last step has left its table to the owner */
	DcTableStep last; /* the result of the last step */
	List *failing;
} DcTableJob;

extern bool table_job_run(DcTableJob *job, DcJobRun *run);

#endif /* DC_TABLEJOB_H */
