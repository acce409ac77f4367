/*
 * survey.h
 *		The units of a key, and those that others may take or add (see survey.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SURVEY_H
#define DC_SURVEY_H

#include "core/rows/directrel.h"

/* A version of a row of the key. */
typedef struct DcSurveyRow
{
	int32 shard;
	ItemPointerData tid;
	int64 units;
	TransactionId inserter; /* another one in progress, or invalid */
	TransactionId changer;	/* the same: updates, deletes or locks the row */
	bool locked_only;
	bool own;	 /* written by this transaction */
	bool unseen; /* committed, but too new for this transaction's snapshot */
} DcSurveyRow;

typedef struct DcSurvey
{
	int nrows;
	int capacity;
	DcSurveyRow *rows; /* in the order of numbers and places */

	int64 committed; /* units, with the changes of this transaction */
	int64 free;		 /* of these, in rows that no other transaction changes */
	int64 sure;		 /* if all that take commit and all that add abort */
	int64 possible;	 /* if all that take abort and all that add commit */
	int64 unseen;	 /* units in free rows that are too new */
	bool settled;	 /* no transaction is changing a row, not even ours */

	TransactionId compactor; /* a compaction that is changing it */
	TransactionId holder;	 /* a transaction that is changing it, and leaves the most certain units */
} DcSurvey;

/* surveyread.c */
extern void survey_read(DcDirectRel *rel, const DcDeltaKey *key,
						DcSurvey *survey);

/* survey.c */
extern DcSurvey *survey_quickly(DcDirectRel *rel, const DcDeltaKey *key);
extern DcSurvey *survey_exactly(DcDirectRel *rel, const DcDeltaKey *key,
								int64 enough);
extern DcSurvey *survey_once(DcDirectRel *rel, const DcDeltaKey *key);

#endif /* DC_SURVEY_H */
