/*
 * survey.c
 *		Looking at all rows of a key at one moment.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A transaction that finds no row to take from must know its answer. That
 * depends on all rows of the key, committed or not. A transaction in
 * progress is one that takes if the newest versions of its rows have fewer units
 * than those that it has replaced, and one that adds if they have more. Then
 *
 *	sure		is the stock if all that take commit and all that add abort,
 *	possible	is the stock if all that take abort and all that add commit.
 *
 * No MVCC snapshot shows that, and reading row after row shows no moment at
 * all: units that move from a row not yet read to one already read would not be
 * counted, and a take be refused although there was enough all the time. So the
 * rows are read twice, and again until both readings are the same: the same
 * versions, with the same transactions at work on them. A version, once
 * replaced, does not come back, nor does a transaction, once ended. So in between
 * the two, all of it was true at once.
 *
 * To find that free rows have enough units, one reading is sufficient: the attempt to take
 * decides.
 *
 * A compaction moves units between rows in one transaction, and neither takes nor
 * adds any. In the middle of its work it looks as if it did. So a take that finds one at
 * work waits for its end before it decides (take.c).
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "common/int.h"
#include "miscadmin.h"

#include "core/rows/locks.h"
#include "transactional/stock/survey.h"

/* Readings after which the caller should check whether the answer still matters. */
#define MAX_READINGS 10

/* By how much a transaction in progress changes the key. */
typedef struct DcChange
{
	TransactionId xid; /* of the top level */
	int64 units;
} DcChange;

static bool surveys_equal(const DcSurvey *a, const DcSurvey *b);
static void survey_add_up(DcSurvey *survey, TransactionId compactor);
static void find_holder(DcSurvey *survey, const DcChange *changes,
						int nchanges);
static void survey_add_change(DcChange *changes, int *count, TransactionId xid,
							  int64 units);
static int64 add_units(int64 a, int64 b);

/*
 * survey_quickly returns one reading of a key, in the current memory context.
 */
DcSurvey *
survey_quickly(DcDirectRel *rel, const DcDeltaKey *key)
{
	DcSurvey *survey = palloc0(sizeof(DcSurvey));

	survey_read(rel, key, survey);
	survey_add_up(survey, InvalidTransactionId);
	return survey;
}

/*
 * survey_exactly returns a survey of one moment, or one with `enough` units in
 * free rows; NULL if things change too fast for either.
 */
DcSurvey *
survey_exactly(DcDirectRel *rel, const DcDeltaKey *key, int64 enough)
{
	DcSurvey *last = survey_quickly(rel, key);
	DcSurvey *survey = palloc0(sizeof(DcSurvey));

	for (int i = 0; i < MAX_READINGS; i++)
	{
		DcSurvey *other = survey;
		TransactionId compactor;

		if (last->free - last->unseen >= enough)
			return last;
		CHECK_FOR_INTERRUPTS();
		compactor = compaction_xid(rel->counter);
		survey_read(rel, key, survey);
		survey_add_up(survey, compactor);
		if (surveys_equal(last, survey))
			return survey;
		survey = last;
		last = other;
	}
	return NULL;
}

/*
 * survey_once returns a survey of one moment, or NULL if things have changed
 * in the meantime.
 */
DcSurvey *
survey_once(DcDirectRel *rel, const DcDeltaKey *key)
{
	DcSurvey *first = survey_quickly(rel, key);
	DcSurvey *second = survey_quickly(rel, key);

	return surveys_equal(first, second) ? second : NULL;
}

/*
 * Return true if two surveys have read the same versions of the same rows, in the same states.
 */
static bool
surveys_equal(const DcSurvey *a, const DcSurvey *b)
{
	return a->nrows == b->nrows &&
		(a->nrows == 0 ||
		 memcmp(a->rows, b->rows, a->nrows * sizeof(DcSurveyRow)) == 0);
}

/*
 * survey_add_up computes the sums of the rows.
 */
static void
survey_add_up(DcSurvey *survey, TransactionId compactor)
{
	DcChange *changes = palloc(2 * Max(survey->nrows, 1) * sizeof(DcChange));
	int nchanges = 0;

	survey->committed = survey->free = survey->unseen = 0;
	survey->compactor = InvalidTransactionId;
	survey->settled = true;
	for (int i = 0; i < survey->nrows; i++)
	{
		DcSurveyRow *row = &survey->rows[i];
		TransactionId xid = InvalidTransactionId;

		CHECK_FOR_INTERRUPTS(); /* the rows may be of very many savepoints */
		if (TransactionIdIsValid(row->inserter))
		{
			xid = row->inserter;
			survey_add_change(changes, &nchanges, xid, row->units);
		}
		else
		{
			survey->committed = add_units(survey->committed, row->units);
			if (TransactionIdIsValid(row->changer))
			{
				xid = row->changer;
				if (!row->locked_only)
					survey_add_change(changes, &nchanges, xid, -row->units);
			}
			else
			{
				survey->free = add_units(survey->free, row->units);
				if (row->unseen)
					survey->unseen = add_units(survey->unseen, row->units);
			}
		}
		if (TransactionIdIsValid(xid) &&
			TransactionIdEquals(SubTransGetTopmostTransaction(xid), compactor))
			survey->compactor = compactor;
		survey->settled &= !TransactionIdIsValid(xid) && !row->own;
	}
	survey->sure = survey->possible = survey->committed;
	for (int i = 0; i < nchanges; i++)
	{
		if (changes[i].units < 0)
			survey->sure += changes[i].units;
		else
			survey->possible = add_units(survey->possible, changes[i].units);
	}
	find_holder(survey, changes, nchanges);
	pfree(changes);
}

/*
 * find_holder chooses the transaction to wait for: the one that has the row with the
 * most units which are certainly there once it has ended.
 */
static void
find_holder(DcSurvey *survey, const DcChange *changes, int nchanges)
{
	int64 most = -1;

	survey->holder = InvalidTransactionId;
	for (int i = 0; i < survey->nrows; i++)
	{
		DcSurveyRow *row = &survey->rows[i];
		int64 left = row->units;
		TransactionId top;

		CHECK_FOR_INTERRUPTS();
		if (TransactionIdIsValid(row->inserter))
		{
			if (!TransactionIdIsValid(survey->holder))
				survey->holder = row->inserter;
			continue;
		}
		if (!TransactionIdIsValid(row->changer))
			continue;
		top = row->locked_only ? InvalidTransactionId : SubTransGetTopmostTransaction(row->changer);
		for (int c = 0; c < nchanges && !row->locked_only; c++)
		{
			if (changes[c].xid == top)
				left = Max(left + Min(changes[c].units, 0), 0);
		}
		if (left > most)
		{
			most = left;
			survey->holder = row->changer;
		}
	}
}

/*
 * survey_add_change adds units to the change of a transaction.
 */
static void
survey_add_change(DcChange *changes, int *count, TransactionId xid, int64 units)
{
	TransactionId top = SubTransGetTopmostTransaction(xid);

	for (int i = 0; i < *count; i++)
	{
		if (changes[i].xid == top)
		{
			changes[i].units = add_units(changes[i].units, units);
			return;
		}
	}
	changes[*count].xid = top;
	changes[*count].units = units;
	(*count)++;
}

/*
 * add_units adds up, at most to the end of bigint.
 */
static int64
add_units(int64 a, int64 b)
{
	int64 sum;

	if (pg_add_s64_overflow(a, b, &sum))
		return b > 0 ? PG_INT64_MAX : PG_INT64_MIN;
	return sum;
}
