/*
 * sourcesql.h
 *		The SQL that reads a source (see sourcesql.c).
 */
#ifndef DC_SOURCESQL_H
#define DC_SOURCESQL_H

#include "base/clock.h"
#include "bound/sourceread.h"
#include "lib/stringinfo.h"
#include "nodes/params.h"
#include "utils/tuplestore.h"

/* What a step of reading may cost, and has cost (sourcestep.c). */
typedef struct DcSourceStep
{
	const DcSourceRead *read;
	DcMoment late;	/* when it is to end, but for what it has slept; DC_LONG_AGO: never */
	bool paced;		/* it takes a part of a processor's time: the worker's scan */
	bool by_index;	/* no table is scanned as a whole */
	bool stops;		/* it ends by leaving out what is left, else by an error */
	int64 max_rows; /* no other key is begun when so many are read; 0: any number */
	int64 rows;		/* set, if there is a limit of time: rows that were read, */
	int64 looked;	/* those of other tables among them, */
	bool was_late;	/* whether it is late, */
	bool cut;		/* and whether rows of a key are left out */
	DcMoment since; /* it has worked without a pause */
	int64 slept;	/* us */
} DcSourceStep;

/* How many parameters a statement may have. */
#define SOURCE_MAX_PARAMS 8

extern char *source_groups_sql(const DcSourceRead *read, bool items);
extern char *source_from_sql(const DcSourceRead *read);
extern bool source_worker_may_read(const DcSourceRead *read, const char **reason);
extern Tuplestorestate *source_sql_run(DcSourceRead *read, const char *sql, const List *tables, ParamListInfo params,
									   DcSourceStep *step);
extern TupleTableSlot *source_sql_slot(int ncolumns, const Oid *types);

/* sourcestep.c */
extern DcSourceStep *source_step_set(DcSourceStep *step);

#endif /* DC_SOURCESQL_H */
