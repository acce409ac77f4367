/*
 * tablejob.h
 *		Jobs that go over the counter tables of a database (see tablejob.c).
 */
#ifndef DC_TABLEJOB_H
#define DC_TABLEJOB_H

#include "base/job.h"
#include "table/catalog.h"
#include "table/tabledue.h"

/* The result of a step. */
typedef enum DcTableStep
{
	TABLE_GOES_ON, /* there is more to do with the table */
	TABLE_DONE,	   /* there may be more in the next round */
	TABLE_IDLE,	   /* there was nothing to do, and will not be until somebody changes it */
	TABLE_LATER	   /* done, but of no use to come back soon */
} DcTableStep;

/* A table that the worker has put back: it is unfinished, or has failed. */
typedef struct DcTableTurn
{
	Oid table;
	MemoryContext cxt; /* of what the job remembers of it; NULL: it has not begun */
	void *state;	   /* the job's, in cxt */
	int64 pause;	   /* us; 0: it has not failed */
	DcMoment until;	   /* and is left alone so long */
	bool listed;	   /* in this round */
} DcTableTurn;

typedef struct DcTableJob
{
	/* which tables, NULL for all */
	bool (*wants)(const DcCounterRow *row);
	/* instead: their OIDs, found without waiting for locks */
	List *(*list)(void);
	/* before the first step on a table, with memory for it; may be NULL */
	void (*start)(MemoryContext cxt);
	/* what the job remembers of the table from one step to the next; may be NULL */
	void *state;
	Size state_size;
	/* one transaction's work */
	DcTableStep (*step)(Oid table, bool all_owners);
	/* instead, if a subscription feeds the table; NULL: nothing */
	DcTableStep (*step_fed)(Oid table, bool all_owners);

	/* set by a step that returns TABLE_IDLE: when there will be something to do */
	DcMoment until;

	/* private to tablejob.c */
	DcDue due;
	MemoryContext cxt; /* NULL: not under way */
	Oid *tables;
	int ntables;
	int current;	   /* the next one */
	DcTableTurn *turn; /* the table at hand, or NULL */
	List *back;		   /* DcTableTurn: those that come after all others */
	bool back_served;  /* one of them has had a step in this round */
	bool all_owners;
	bool left;		  /* the last step has left its table to the owner */
	DcTableStep last; /* the result of the last step */
	bool known;		  /* it is in the list of jobs, */
	bool is_first;	  /* and has not listed tables yet */
	struct DcTableJob *next;
} DcTableJob;

extern bool table_job_run(DcTableJob *job, DcJobRun *run);
extern DcMoment table_jobs_next(void);
extern Oid table_jobs_current(void);
extern void table_jobs_begin_after(Oid table);

#endif /* DC_TABLEJOB_H */
