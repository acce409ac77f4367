/*
 * survey.c
 *		Looking at all rows of a key at one moment.
 *
 * A transaction that finds no row to take from must know what it may say. That
 * depends on all rows of the key, committed or not: let a transaction in
 * progress be one that takes if the newest versions of its rows have fewer units
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
 * To be told that there is enough in rows that are free, one reading will do: the
 * attempt to take decides.
 *
 * A compaction moves units between rows in one transaction, and neither takes nor
 * adds any. In the middle of its work it looks as if it did. Who finds one at
 * work therefore waits for its end before he decides (take.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/subtrans.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "base/compat.h"
#include "catalog/pg_collation.h"
#include "common/int.h"
#include "counter/locks.h"
#include "miscadmin.h"
#include "stock/survey.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

/* What a transaction in progress does to the key. */
typedef struct DcChange
{
	TransactionId xid; /* of the top level */
	int64 units;
} DcChange;

static void survey_read(DcShardRel *rel, Datum key, DcSurvey *survey);
static void add_version(DcShardRel *rel, DcSurvey *survey,
						TupleTableSlot *slot, const SnapshotData *dirty);
static bool is_replaced(HeapTupleHeader tuple);
static void note_locker(DcSurveyRow *row, HeapTupleHeader tuple);
static bool is_unseen(TupleTableSlot *slot);
static bool surveys_equal(const DcSurvey *a, const DcSurvey *b);
static void survey_add_up(DcSurvey *survey, TransactionId compactor);
static void add_change(DcChange *changes, int *count, TransactionId xid,
					   int64 units);
static int64 add_units(int64 a, int64 b);

/*
 * survey_key returns a survey of a key, in the current memory context: one of a
 * moment, or one with `enough` units in free rows.
 */
DcSurvey *
survey_key(DcShardRel *rel, const DcDeltaKey *key, int64 enough)
{
	TransactionId compactor = InvalidTransactionId;
	Datum text = PointerGetDatum(cstring_to_text_with_len(key->data, key->len));
	DcSurvey *last = palloc0(sizeof(DcSurvey));
	DcSurvey *survey = palloc0(sizeof(DcSurvey));

	survey_read(rel, text, last);
	for (;;)
	{
		DcSurvey *other = survey;

		survey_add_up(last, compactor);
		if (last->free - last->unseen >= enough)
			return last;
		CHECK_FOR_INTERRUPTS();
		compactor = compaction_xid(rel->counter);
		survey_read(rel, text, survey);
		if (surveys_equal(last, survey))
		{
			survey_add_up(last, compactor);
			return last;
		}
		survey = last;
		last = other;
	}
}

/*
 * survey_read reads all versions of the key's rows that are live or may become
 * so.
 */
static void
survey_read(DcShardRel *rel, Datum key, DcSurvey *survey)
{
	TupleTableSlot *slot = table_slot_create(rel->heap, NULL);
	SnapshotData dirty;
	IndexScanDesc scan;
	ScanKeyData keys[1];

	survey->nrows = 0;
	InitDirtySnapshot(dirty);
	ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, key);
	scan = compat_index_beginscan(rel->heap, shardrel_index(rel), &dirty, 1);
	index_rescan(scan, keys, 1, NULL, 0);
	/* with such a snapshot it goes on in the chain of versions it is in */
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		add_version(rel, survey, slot, &dirty);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * add_version adds what the scan has found.
 */
static void
add_version(DcShardRel *rel, DcSurvey *survey, TupleTableSlot *slot,
			const SnapshotData *dirty)
{
	const AttrNumber *atts = rel->counter->shards.atts;
	HeapTupleHeader tuple = ExecFetchSlotHeapTuple(slot, false, NULL)->t_data;
	DcSurveyRow *row;
	bool isnull;

	if (TransactionIdIsValid(dirty->xmin) && is_replaced(tuple))
		return; /* by the transaction that has inserted it */
	if (survey->nrows == survey->capacity)
	{
		survey->capacity = Max(64, 2 * survey->capacity);
		if (survey->rows == NULL)
			survey->rows = palloc(survey->capacity * sizeof(DcSurveyRow));
		else
			survey->rows = repalloc(survey->rows,
									survey->capacity * sizeof(DcSurveyRow));
	}
	row = &survey->rows[survey->nrows++];
	memset(row, 0, sizeof(*row)); /* they are compared byte by byte */
	row->shard = DatumGetInt32(slot_getattr(slot, atts[DC_COL_SHARD], &isnull));
	row->units = DatumGetInt64(slot_getattr(slot, atts[DC_COL_UNITS], &isnull));
	row->tid = slot->tts_tid;
	row->inserter = dirty->xmin;
	row->changer = dirty->xmax;
	row->own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple));
	if (!TransactionIdIsValid(row->inserter) && !row->own)
	{
		if (!TransactionIdIsValid(row->changer))
			note_locker(row, tuple);
		row->unseen = is_unseen(slot);
	}
}

/*
 * is_replaced tells whether a version that is being inserted has been updated
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
 * note_locker notes who has locked a live row, but does not change it.
 */
static void
note_locker(DcSurveyRow *row, HeapTupleHeader tuple)
{
	TransactionId xmax = HeapTupleHeaderGetRawXmax(tuple);
	uint16 infomask = tuple->t_infomask;
	MultiXactMember single = {xmax, MultiXactStatusForUpdate};
	MultiXactMember *members = &single;
	int count = 1;

	if ((infomask & HEAP_XMAX_INVALID) || !HEAP_XMAX_IS_LOCKED_ONLY(infomask) ||
		HEAP_LOCKED_UPGRADED(infomask))
		return;
	if (infomask & HEAP_XMAX_IS_MULTI)
		count = GetMultiXactIdMembers(xmax, &members, false, true);
	else if (HEAP_XMAX_IS_KEYSHR_LOCKED(infomask))
		return;
	for (int i = 0; i < count; i++)
	{
		TransactionId xid = members[i].xid;

		/* FOR KEY SHARE keeps nobody from taking */
		if (members[i].status != MultiXactStatusForKeyShare &&
			!TransactionIdIsCurrentTransactionId(xid) &&
			TransactionIdIsInProgress(xid))
		{
			row->changer = xid;
			row->locked_only = true;
		}
	}
}

/*
 * is_unseen tells whether a committed version is too new for the snapshot of a
 * transaction that has one.
 */
static bool
is_unseen(TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *heap = (BufferHeapTupleTableSlot *) slot;
	bool seen;

	if (!IsolationUsesXactSnapshot())
		return false;
	LockBuffer(heap->buffer, BUFFER_LOCK_SHARE);
	seen = HeapTupleSatisfiesVisibility(heap->base.tuple, GetTransactionSnapshot(),
										heap->buffer);
	LockBuffer(heap->buffer, BUFFER_LOCK_UNLOCK);
	return !seen;
}

static bool
surveys_equal(const DcSurvey *a, const DcSurvey *b)
{
	return a->nrows == b->nrows &&
		(a->nrows == 0 ||
		 memcmp(a->rows, b->rows, a->nrows * sizeof(DcSurveyRow)) == 0);
}

/*
 * survey_add_up computes what follows from the rows.
 */
static void
survey_add_up(DcSurvey *survey, TransactionId compactor)
{
	DcChange *changes = palloc(2 * Max(survey->nrows, 1) * sizeof(DcChange));
	int nchanges = 0;
	int64 most = -2;

	survey->committed = survey->free = survey->unseen = 0;
	survey->compactor = InvalidTransactionId;
	survey->settled = true;
	survey->holder = InvalidTransactionId;
	for (int i = 0; i < survey->nrows; i++)
	{
		DcSurveyRow *row = &survey->rows[i];
		TransactionId xid = InvalidTransactionId;

		if (TransactionIdIsValid(row->inserter))
		{
			xid = row->inserter;
			add_change(changes, &nchanges, xid, row->units);
		}
		else
		{
			survey->committed = add_units(survey->committed, row->units);
			if (TransactionIdIsValid(row->changer))
			{
				xid = row->changer;
				if (!row->locked_only)
					add_change(changes, &nchanges, xid, -row->units);
			}
			else
			{
				survey->free = add_units(survey->free, row->units);
				if (row->unseen)
					survey->unseen = add_units(survey->unseen, row->units);
			}
		}
		if (TransactionIdIsValid(xid))
		{
			/* what is being added may not be needed */
			int64 rank = TransactionIdIsValid(row->inserter) ? -1 : row->units;

			if (rank > most)
			{
				most = rank;
				survey->holder = xid;
			}
			if (TransactionIdEquals(SubTransGetTopmostTransaction(xid), compactor))
				survey->compactor = compactor;
		}
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
	pfree(changes);
}

/*
 * add_change adds to what a transaction does to the key.
 */
static void
add_change(DcChange *changes, int *count, TransactionId xid, int64 units)
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
