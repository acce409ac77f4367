/*
 * surveyread.c
 *		Reading all versions of a key's rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each reading must find every row that was there when it began, although rows move
 * from page to page. A row's versions are linked, the older to the newer. From any
 * one that was live when our snapshot was taken, the links lead to the newest, as
 * the versions between may not be removed. So a reading goes from the places that this
 * backend remembers (hints.c), and from the index entries of all other numbers, to
 * the end of the links. Once the live version of a number is found, the index
 * is not asked for that number again: with an old snapshot there are many entries.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "core/rows/rowversions.h"
#include "core/rows/scan.h"
#include "transactional/stock/survey.h"

/* A reading, while it goes on. */
typedef struct DcReading
{
	DcDirectRel *rel;
	const DcDeltaKey *key;
	DcSurvey *survey;
	DcKnownShards known; /* numbers that are done */

	/* of the walk that goes on */
	bool found;
	DcHint first; /* where the first version was found */
} DcReading;

static void surveyread_read_hints(DcReading *reading);
static void surveyread_read_index(DcReading *reading);
static void drop_doubles(DcSurvey *survey);
static bool read_versions(DcReading *reading, DcHint *place, OffsetNumber from);
static DcVersionStep surveyread_visit(DcVersion *version, void *arg);
static void add_version(DcReading *reading, HeapTuple tuple, Buffer buffer,
						const SnapshotData *dirty);
static int row_compare(const void *a, const void *b);
static bool is_replaced(HeapTupleHeader tuple);
static void note_locker(DcSurveyRow *row, HeapTupleHeader tuple);

/*
 * survey_read reads all versions of the key's rows that are live or may become
 * so.
 */
void
survey_read(DcDirectRel *rel, const DcDeltaKey *key, DcSurvey *survey)
{
	DcReading reading = {.rel = rel, .key = key, .survey = survey};

	survey->nrows = 0;
	surveyread_read_hints(&reading);
	surveyread_read_index(&reading);
	drop_doubles(survey);
	pfree(reading.known.numbers);
}

/*
 * surveyread_read_hints reads the rows that this backend knows.
 */
static void
surveyread_read_hints(DcReading *reading)
{
	DcHintList *list = hints_get(reading->key);
	DcKnownShards *known = &reading->known;

	known->numbers = palloc(Max(list->nhints, 1) * sizeof(int32));
	for (int i = 0; i < list->nhints;)
	{
		DcHint *hint = &list->hints[i];
		int nrows = reading->survey->nrows;
		bool found = false;

		/*
		 * the newest version that was seen is sufficient if the one that it replaced does not
		 * matter
		 */
		if (hint->newest != InvalidOffsetNumber)
			found = read_versions(reading, hint, hint->newest) &&
				!TransactionIdIsValid(reading->survey->rows[nrows].inserter);
		if (!found)
		{
			reading->survey->nrows = nrows;
			found = read_versions(reading, hint, ItemPointerGetOffsetNumber(&hint->root));
		}
		if (!found)
			hints_remove(list, i);
		else
		{
			/* a version in the making may replace one elsewhere */
			if (!TransactionIdIsValid(reading->survey->rows[nrows].inserter))
				known->numbers[known->count++] = hint->shard;
			i++;
		}
	}
}

/*
 * surveyread_read_index reads the rows of all other numbers, and remembers them.
 */
static void
surveyread_read_index(DcReading *reading)
{
	DcDirectRel *rel = reading->rel;
	DcHintList *list = hints_get(reading->key);
	text *key = cstring_to_text_with_len(reading->key->data, reading->key->len);
	DcShardScan scan;
	ItemPointerData root;
	int32 number;

	/*
	 * any non-MVCC snapshot: the scan then keeps its pin on the index page, which holds off
	 * vacuum
	 */
	shard_scan_begin(&scan, rel->heap, directrel_index(rel), PointerGetDatum(key),
					 SnapshotAny, reading->known);
	while (shard_scan_next_entry(&scan, &root, &number))
	{
		int nrows = reading->survey->nrows;
		DcHint place = {.shard = number};

		hint_set(&place, &root, InvalidOffsetNumber, InvalidBuffer);
		if (!read_versions(reading, &place, ItemPointerGetOffsetNumber(&root)) ||
			TransactionIdIsValid(reading->survey->rows[nrows].inserter))
			continue;
		scan.done = true;
		if (list->nhints < DC_MAX_SHARDS_LIMIT)
			hints_add(list, &place.root, number);
	}
	shard_scan_end(&scan);
	pfree(key);
}

/*
 * drop_doubles sorts the rows, as those that come from hints are first, and drops
 * versions that more than one way has led to.
 */
static void
drop_doubles(DcSurvey *survey)
{
	int kept = 0;

	if (survey->nrows > 1)
		qsort(survey->rows, survey->nrows, sizeof(DcSurveyRow), row_compare);
	for (int i = 0; i < survey->nrows; i++)
	{
		if (kept == 0 || row_compare(&survey->rows[kept - 1], &survey->rows[i]) != 0)
			survey->rows[kept++] = survey->rows[i];
	}
	survey->nrows = kept;
}

/*
 * read_versions follows the versions of a row from line `from` of a place on, and adds
 * those that are live or may become so. Returns whether there was one; then *place is
 * where.
 */
static bool
read_versions(DcReading *reading, DcHint *place, OffsetNumber from)
{
	DcVersion version;

	reading->first.shard = place->shard;
	reading->found = false;
	(void) versions_walk(reading->rel, place, from, surveyread_visit, reading, &version);
	/* that of the first: a version that follows may be rolled back */
	if (reading->found)
		*place = reading->first;
	return reading->found;
}

/*
 * Add a version to the reading, unless it is dead. Ends the walk at a version of another row.
 */
static DcVersionStep
surveyread_visit(DcVersion *version, void *arg)
{
	DcReading *reading = arg;
	HeapTuple tuple = &version->tuple;
	SnapshotData dirty;

	InitDirtySnapshot(dirty);
	if (!HeapTupleSatisfiesVisibility(tuple, &dirty, version->buffer) ||
		(TransactionIdIsValid(dirty.xmin) && is_replaced(tuple->t_data)))
		return VERSION_NEXT;
	/* a place that is remembered may have been given to another row */
	if (!directrel_deform(reading->rel, tuple, reading->key, reading->first.shard))
		return VERSION_STOP;
	add_version(reading, tuple, version->buffer, &dirty);
	if (!reading->found)
		hint_set(&reading->first, &version->root,
				 ItemPointerGetOffsetNumber(&tuple->t_self), version->buffer);
	reading->found = true;
	return VERSION_NEXT;
}

/*
 * add_version adds a version whose columns are in rel->values.
 */
static void
add_version(DcReading *reading, HeapTuple tuple, Buffer buffer,
			const SnapshotData *dirty)
{
	const AttrNumber *atts = reading->rel->layout->atts;
	const Datum *values = reading->rel->values;
	DcSurvey *survey = reading->survey;
	DcSurveyRow *row;

	if (survey->nrows == survey->capacity)
	{
		Size size;

		survey->capacity = Max(64, 2 * survey->capacity);
		size = survey->capacity * sizeof(DcSurveyRow);
		survey->rows = survey->rows == NULL ? palloc(size) : repalloc(survey->rows, size);
	}
	row = &survey->rows[survey->nrows++];
	memset(row, 0, sizeof(*row)); /* they are compared byte by byte */
	row->shard = DatumGetInt32(values[atts[DC_COL_SHARD] - 1]);
	row->units = DatumGetInt64(values[atts[DC_COL_UNITS] - 1]);
	row->tid = tuple->t_self;
	row->inserter = dirty->xmin;
	row->changer = dirty->xmax;
	row->own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	if (!TransactionIdIsValid(row->inserter) && !row->own)
	{
		if (!TransactionIdIsValid(row->changer))
			note_locker(row, tuple->t_data);
		row->unseen = IsolationUsesXactSnapshot() &&
			!HeapTupleSatisfiesVisibility(tuple, GetTransactionSnapshot(), buffer);
	}
}

/*
 * Compare two versions by the number of their row and by their place, for qsort().
 */
static int
row_compare(const void *a, const void *b)
{
	const DcSurveyRow *left = a;
	const DcSurveyRow *right = b;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	if (left->shard != right->shard)
		return left->shard < right->shard ? -1 : 1;
	return ItemPointerCompare((ItemPointer) &left->tid, (ItemPointer) &right->tid);
}

/*
 * Return true if a version that is being inserted has been updated
 * by its own transaction, and that update has not been rolled back.
 */
static bool
is_replaced(HeapTupleHeader tuple)
{
	if ((tuple->t_infomask & HEAP_XMAX_INVALID) ||
		HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_infomask))
		return false;
	return !TransactionIdDidAbort(HeapTupleHeaderGetUpdateXid(tuple));
}

/*
 * note_locker notes a transaction that has locked a live row, but does not change it.
 */
static void
note_locker(DcSurveyRow *row, HeapTupleHeader tuple)
{
	TransactionId xmax = HeapTupleHeaderGetRawXmax(tuple);
	uint16 infomask = tuple->t_infomask;
	MultiXactMember single = {xmax, MultiXactStatusForUpdate};
	MultiXactMember *members = &single;
	int count = 1;

	if ((infomask & HEAP_XMAX_INVALID) || HEAP_LOCKED_UPGRADED(infomask))
		return;
	/* of several, one may have updated the row, and rolled that back */
	if (infomask & HEAP_XMAX_IS_MULTI)
		count = GetMultiXactIdMembers(xmax, &members, false,
									  HEAP_XMAX_IS_LOCKED_ONLY(infomask));
	else if (!HEAP_XMAX_IS_LOCKED_ONLY(infomask) ||
			 HEAP_XMAX_IS_KEYSHR_LOCKED(infomask))
		return;
	for (int i = 0; i < count; i++)
	{
		TransactionId xid = members[i].xid;

		/* FOR KEY SHARE does not keep other sessions from taking */
		if (members[i].status != MultiXactStatusForKeyShare &&
			!TransactionIdIsCurrentTransactionId(xid) &&
			TransactionIdIsInProgress(xid))
		{
			row->changer = xid;
			row->locked_only = true;
		}
	}
}
