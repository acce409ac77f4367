/*
 * tablejob.h
 *		Jobs that go over the counter tables of a database (see tablejob.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_TABLEJOB_H
#define DC_TABLEJOB_H

#include "utils/hsearch.h"

#include "base/job.h"
#include "core/table/catalog.h"
#include "core/table/tabledue.h"

/* The result of a step. */
typedef enum DcTableStep
{
	TABLE_GOES_ON, /* there is more to do with the table */
	TABLE_DONE,	   /* there may be more in the next round */
	TABLE_IDLE,	   /* there was nothing to do, and will not be until it is changed */
	TABLE_LATER	   /* done; no use in coming back soon */
} DcTableStep;

/* A job's state of a table. */
typedef struct DcTableTurn
{
	Oid table;		   /* hash key */
	Oid owner;		   /* as last known, in the worker */
	MemoryContext cxt; /* of what the job remembers of it; NULL: it has not begun, or is done */
	void *state;	   /* the job's, in cxt */
	int64 pause;	   /* us; 0: it has not failed */
	DcMoment until;	   /* it is left alone until then */
	bool listed;	   /* it has not had its turn in this round yet */
	bool trusted;	   /* its owner may delay others, as last known */
	int place;		   /* in the last list */
	uint64 served;	   /* the number of its last step, in the worker */
	/* in the queue */
	int rank;			 /* among the tables of its owner */
	uint64 owner_served; /* the last step on one of these */
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
	DcMoment began;	   /* the round */
	int unlisted;	   /* rounds for which no list was made in time */
	HTAB *turns;	   /* DcTableTurn: of all tables it has met; NULL: it has not run yet */
	DcTableTurn **queue;
	int nqueue;
	int current;	   /* the next one */
	DcTableTurn *turn; /* the table at hand, or NULL */
	uint64 served;	   /* steps of this process */
	Oid cut_after;	   /* the last table of a round that was ended before its end, or InvalidOid */
	bool all_owners;
	bool left;		  /* the last step has left its table to the owner */
	DcTableStep last; /* the result of the last step */
	struct DcTableJob *next;
} DcTableJob;

/*
 * ms that a step may take, and a tick of jobrun.c longer; longer after a failure only if the owner
 * of the table is trusted
 */
#define DC_STEP_MS 2500

/*
 * A step that takes longer (us) is followed by a pause of this many times its length: of the
 * table, and of all tables of its owner. The latter is for many tables and jobs, each of which
 * has a step.
 */
#define DC_STEP_LONG (INT64CONST(1000) * 1000)
#define DC_STEP_LONG_OWNER (INT64CONST(250) * 1000)
#define DC_STEP_PAUSE 4

/* A job's state of its steps for all owners at once: a static variable of its room. */
typedef struct DcSharedStep
{
	int longer;		/* how often DC_STEP_MS is doubled for the next step */
	DcMoment rests; /* until then */
} DcSharedStep;

extern bool shared_step_run(DcSharedStep *shared, DcJobRun *run, DcJobStep step, void *arg);
extern bool table_job_run(DcTableJob *job, DcJobRun *run);
extern bool table_job_goes_on(DcTableJob *job);
extern DcMoment table_jobs_next(void);
extern Oid table_jobs_current(void);
extern void table_jobs_begin_after(Oid table);
extern bool table_is_trusted(Oid table);
extern void table_jobs_know_owner(Oid owner);

#endif /* DC_TABLEJOB_H */
