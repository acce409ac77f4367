/*
 * survey.h
 *		What there is of a key, and what others may take or add (see survey.c).
 */
#ifndef DC_SURVEY_H
#define DC_SURVEY_H

#include "rows/shardrel.h"

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

	int64 committed; /* units, with what this transaction has done */
	int64 free;		 /* of these, in rows that nobody else changes */
	int64 sure;		 /* when all who took commit and all who add fail */
	int64 possible;	 /* when all who took fail and all who add commit */
	int64 unseen;	 /* units in free rows that are too new */
	bool settled;	 /* nobody is changing anything, not even we */

	TransactionId compactor; /* a compaction that is changing it */
	TransactionId holder;	 /* somebody who is, and leaves the most */
} DcSurvey;

/* surveyread.c */
extern void survey_read(DcShardRel *rel, const DcDeltaKey *key,
						DcSurvey *survey);

/* survey.c */
extern DcSurvey *survey_quickly(DcShardRel *rel, const DcDeltaKey *key);
extern DcSurvey *survey_exactly(DcShardRel *rel, const DcDeltaKey *key,
								int64 enough);
extern DcSurvey *survey_once(DcShardRel *rel, const DcDeltaKey *key);

#endif /* DC_SURVEY_H */
