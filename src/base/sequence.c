/*
 * sequence.c
 *		Numbers from a sequence: blocks in a row, or one that is at least a given number.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * nextval() would be sufficient, except for three things. It changes the answer of lastval() in
 * the user's session, on which applications rely after an INSERT. It gives one number at a
 * time. And it gives the next number, where a clock needs one that is no less than the time. So
 * this file draws from the same sequence by itself, by the rules of the server's
 * commands/sequence.c: the page is changed under its lock, and the logged value is ahead of the
 * numbers given out. So most draws write no WAL, and a crash may skip numbers but never gives
 * one twice. log_cnt is how far the logged value is ahead.
 *
 * Numbers of sequence_draw() are those of a transaction that commits: its commit flushes the
 * record that covers them, whichever session has logged it. Those of sequence_raise() may go to
 * a client that writes nothing. So there the record is flushed before any other session sees
 * the page.
 *
 * A page may be the image of another one: CREATE DATABASE copies the pages of a template,
 * SET TABLESPACE those of the sequence. Its log_cnt tells of a record of that other one
 * then, which is not replayed here after a crash. So a session logs the first number that
 * it draws from a file.
 *
 * Dump, restore, setval(), pg_upgrade and replication treat it as any sequence.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "commands/sequence.h"
#include "common/int.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/errors.h"
#include "base/sequence.h"

/* How many numbers are logged ahead. */
#define LOG_AHEAD 64

/*
 * The last files that this session has logged a number of. Forgetting one does no harm.
 */
static Oid known_files[16];
static int next_known = 0;

static Relation open_sequence(Oid sequence, LOCKMODE mode);
static Form_pg_sequence_data lock_sequence(Relation rel, int mode,
										   Buffer *buffer, HeapTuple tuple);
static bool move_sequence(Relation rel, Buffer buffer, HeapTuple tuple, int64 last, int64 ahead);
static bool file_is_known(Oid file);
static void know_file(Oid file);
static void log_sequence(Relation rel, Buffer buffer, HeapTuple tuple);
pg_noreturn static void used_up(Relation rel);

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

	(void) GetTopTransactionId(); /* so that commit flushes the record that is logged here */
	seq = lock_sequence(rel, BUFFER_LOCK_EXCLUSIVE, &buffer, &tuple);
	first = seq->is_called ? seq->last_value + 1 : seq->last_value;
	if (pg_add_s64_overflow(first, n - 1, &last))
		used_up(rel);
	(void) move_sequence(rel, buffer, &tuple, last, LOG_AHEAD);
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	return first;
}

/*
 * sequence_raise gives out one number: the next, or `least` if that is greater. `ahead` is
 * how much is logged ahead. A crash after it has returned does not give it out again,
 * whether its transaction commits or not.
 */
int64
sequence_raise(Oid sequence, int64 least, int64 ahead)
{
	Relation rel = open_sequence(sequence, RowExclusiveLock);
	Form_pg_sequence_data seq;
	HeapTupleData tuple;
	Buffer buffer;
	int64 value;

	seq = lock_sequence(rel, BUFFER_LOCK_EXCLUSIVE, &buffer, &tuple);
	value = seq->last_value;
	if (seq->is_called && pg_add_s64_overflow(value, 1, &value))
		used_up(rel);
	value = Max(value, least);
	if (move_sequence(rel, buffer, &tuple, value, ahead))
		XLogFlush(PageGetLSN(BufferGetPage(buffer)));
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	return value;
}

/*
 * move_sequence sets the last number given out, and returns whether it has logged that. It does so
 * if this session never has, if the logged number is not enough, or if a crash would replay from a
 * later point.
 *
 * The page is marked before it is compared with the redo pointer. So a checkpoint that
 * sets the pointer after that finds it dirty, waits for its lock, and writes this number.
 *
 * A file that is new in this transaction needs no WAL with wal_level = minimal: the commit
 * may log the page instead. Then nothing is ahead of it.
 */
static bool
move_sequence(Relation rel, Buffer buffer, HeapTuple tuple, int64 last, int64 ahead)
{
	Form_pg_sequence_data seq = (Form_pg_sequence_data) GETSTRUCT(tuple);
	bool needs_wal = RelationNeedsWAL(rel);
	int64 left = seq->log_cnt - (last - seq->last_value);
	int64 logged;
	bool log;

	if (pg_add_s64_overflow(last, ahead, &logged))
		used_up(rel);
	MarkBufferDirty(buffer);
	log = needs_wal && (!seq->is_called || left < 0 || PageGetLSN(BufferGetPage(buffer)) <= GetRedoRecPtr() || !file_is_known(rel->rd_rel->relfilenode));
	if (log)
		(void) GetTopTransactionId(); /* so that commit waits for synchronous standbys */

	START_CRIT_SECTION();
	seq->is_called = true;
	if (log)
	{
		/* the logged state is that after the numbers ahead are used, too */
		seq->last_value = logged;
		seq->log_cnt = 0;
		log_sequence(rel, buffer, tuple);
		left = ahead;
	}
	seq->last_value = last;
	seq->log_cnt = needs_wal ? left : 0;
	END_CRIT_SECTION();
	if (log)
		know_file(rel->rd_rel->relfilenode);
	return log;
}

/*
 * Return true if this session has logged a number of a file.
 */
static bool
file_is_known(Oid file)
{
	for (int i = 0; i < lengthof(known_files); i++)
	{
		if (known_files[i] == file)
			return true;
	}
	return false;
}

/*
 * Remember that this session has logged a number of a file, in place of the oldest one known.
 */
static void
know_file(Oid file)
{
	if (file_is_known(file))
		return;
	known_files[next_known] = file;
	next_known = (next_known + 1) % lengthof(known_files);
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

/*
 * Raise 2200H: a sequence has no number left.
 */
static void
used_up(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
			 errmsg("sequence \"%s\" is exhausted", RelationGetRelationName(rel))));
}

/*
 * Write the tuple of a sequence to WAL, as nextval() does. Called in a critical section, with
 * the page locked.
 */
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
