/*
 * sequence.c
 *		Blocks of numbers from a sequence.
 *
 * nextval() would do but for two things. It changes the answer of lastval() in the
 * user's session, on which applications rely after an INSERT. And it gives one number
 * at a time. So this file draws from the same sequence by itself, by the rules of the
 * server's commands/sequence.c: the page is changed under its lock, and the logged value
 * is ahead of the numbers given out. So most draws write no WAL, and a crash may skip
 * numbers but never gives one twice.
 *
 * Dump, restore, setval(), pg_upgrade and replication treat it as any sequence.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/sequence.h"
#include "commands/sequence.h"
#include "common/int.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* How many numbers are logged ahead. */
#define LOG_AHEAD 64

static Relation open_sequence(Oid sequence, LOCKMODE mode);
static Form_pg_sequence_data lock_sequence(Relation rel, int mode,
										   Buffer *buffer, HeapTuple tuple);
static void log_sequence(Relation rel, Buffer buffer, HeapTuple tuple);

/*
 * sequence_draw gives out n numbers in a row, and returns the first.
 */
int64
sequence_draw(Oid sequence, int64 n)
{
	Relation rel = open_sequence(sequence, RowExclusiveLock);
	Form_pg_sequence_data seq;
	HeapTupleData tuple;
	Buffer buffer;
	int64 first;
	int64 last;
	int64 ahead;
	int64 left;
	bool logit;

	(void) GetTopTransactionId(); /* so that commit flushes the record that is logged here */
	seq = lock_sequence(rel, BUFFER_LOCK_EXCLUSIVE, &buffer, &tuple);
	first = seq->is_called ? seq->last_value + 1 : seq->last_value;
	if (pg_add_s64_overflow(first, n - 1, &last) ||
		pg_add_s64_overflow(last, LOG_AHEAD, &ahead))
		ereport(ERROR,
				(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				 errmsg("sequence \"%s\" is used up", RelationGetRelationName(rel))));
	left = seq->is_called ? seq->log_cnt - n : -1;
	logit = left < 0 || PageGetLSN(BufferGetPage(buffer)) <= GetRedoRecPtr();

	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	seq->is_called = true;
	if (logit)
	{
		/* the logged state is that after the numbers ahead are used, too */
		seq->last_value = ahead;
		seq->log_cnt = 0;
		if (RelationNeedsWAL(rel))
			log_sequence(rel, buffer, &tuple);
		left = LOG_AHEAD;
	}
	seq->last_value = last;
	seq->log_cnt = left;
	END_CRIT_SECTION();

	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	return first;
}

/*
 * sequence_last returns the last number that was given out, 0 if none was.
 */
int64
sequence_last(Oid sequence)
{
	Relation rel = open_sequence(sequence, AccessShareLock);
	Form_pg_sequence_data seq;
	HeapTupleData tuple;
	Buffer buffer;
	int64 last;

	seq = lock_sequence(rel, BUFFER_LOCK_SHARE, &buffer, &tuple);
	last = seq->is_called ? seq->last_value : seq->last_value - 1;
	UnlockReleaseBuffer(buffer);
	relation_close(rel, AccessShareLock);
	return last;
}

/*
 * open_sequence opens a sequence; 42P01 if it has gone.
 */
static Relation
open_sequence(Oid sequence, LOCKMODE mode)
{
	Relation rel = try_relation_open(sequence, mode);

	if (rel == NULL)
		relation_missing_error(sequence);
	return rel;
}

/*
 * lock_sequence pins and locks the only page, and finds the only tuple. tuple
 * gets its data and length.
 */
static Form_pg_sequence_data
lock_sequence(Relation rel, int mode, Buffer *buffer, HeapTuple tuple)
{
	Page page;
	ItemId item;

	if (rel->rd_rel->relkind != RELKIND_SEQUENCE)
		elog(ERROR, "\"%s\" is not a sequence", RelationGetRelationName(rel));
	*buffer = ReadBuffer(rel, 0);
	LockBuffer(*buffer, mode);
	page = BufferGetPage(*buffer);
	item = PageGetItemId(page, FirstOffsetNumber);
	if (!ItemIdIsNormal(item))
		elog(ERROR, "sequence \"%s\" is damaged", RelationGetRelationName(rel));
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	return (Form_pg_sequence_data) GETSTRUCT(tuple);
}

static void
log_sequence(Relation rel, Buffer buffer, HeapTuple tuple)
{
	xl_seq_rec record;
	XLogRecPtr end;

	compat_set_sequence_file(&record, rel);
	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT);
	XLogRegisterData((char *) &record, sizeof(record));
	XLogRegisterData((char *) tuple->t_data, tuple->t_len);
	end = XLogInsert(RM_SEQ_ID, XLOG_SEQ_LOG);
	PageSetLSN(BufferGetPage(buffer), end);
}
