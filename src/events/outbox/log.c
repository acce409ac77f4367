/*
 * log.c
 *		The events of the current transaction, in order, until it commits.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A log of records: the last part is in memory; when that exceeds work_mem it is
 * appended to a temporary file. A savepoint's mark is the length of the log when
 * its first event came; rolling back cuts the log to the lowest mark that it
 * covers, as all that follows was added later. A record never straddles file and
 * memory.
 *
 * Writing to the file may fail (no space, temp_file_limit), and the transaction continue from a
 * savepoint. So the file's part of the log is the one up to file_len, and all of it has been
 * written: there is no buffer in between whose content would be in doubt, and bytes that a failed
 * write has left behind are overwritten.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/tablespace.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#include "base/xactrooms.h"
#include "events/outbox/log.h"

/* A record begins with its length. */
#define HEADER MAXALIGN(sizeof(uint32))

/* How much is written to the file, or read from it, at a time. */
#define WRITE_MAX (16 * 1024 * 1024)
#define READ_AHEAD (64 * 1024)

/* Where a subtransaction's events begin. */
typedef struct LogMark
{
	int level; /* of nesting */
	int64 length;
	int64 count;
	struct LogMark *outer;
} LogMark;

/*
 * Of all that follows, in memory of the top transaction; NULL: no events, and the rest
 * means nothing. Cleared by log_close(), and by log_forget() at each end of a transaction.
 */
static MemoryContext cxt = NULL;
static char *tail; /* the part in memory */
static Size tail_len;
static Size tail_size;
static File file; /* the part before, or -1 */
static int64 file_len;
static int64 count; /* records */
static LogMark *log_marks;

/* reading */
static bool reading_file;
static int64 read_at; /* in the file, or in memory */
static char *window;  /* a part of the file */
static Size window_size;
static Size window_len;
static int64 window_at;

static void start_log(void);
static void log_mark_level(void);
static void log_make_room(Size needed);
static void log_spill(void);
static void log_cut(const LogMark *mark);
static char *next_in_file(uint32 *len);
static char *log_read_file(Size len);

/*
 * log_add appends a record: its length and itself, each padded with zeros, since all
 * of it may get into a file.
 */
void
log_add(const char *data, uint32 len)
{
	Size needed = HEADER + MAXALIGN(len);
	char *at;

	if (cxt == NULL)
		start_log();
	log_mark_level();
	log_make_room(needed);
	at = tail + tail_len;
	memset(at, 0, HEADER);
	memcpy(at, &len, sizeof(uint32));
	memcpy(at + HEADER, data, len);
	memset(at + HEADER + len, 0, MAXALIGN(len) - len);
	tail_len += needed;
	count++;
}

/*
 * log_count returns how many records there are.
 */
int64
log_count(void)
{
	return cxt == NULL ? 0 : count;
}

/*
 * start_log creates an empty log. The context is set last, as it says that there is a log: by then
 * no pointer of an earlier log is left.
 */
static void
start_log(void)
{
	MemoryContext fresh = AllocSetContextCreate(TopTransactionContext, "dcounter events",
												ALLOCSET_DEFAULT_SIZES);

	tail_size = 1024;
	tail = MemoryContextAlloc(fresh, tail_size);
	tail_len = 0;
	file = -1;
	file_len = 0;
	count = 0;
	log_marks = NULL;
	xact_mark(DC_XACT_OUTBOX);
	cxt = fresh;
}

/*
 * log_mark_level notes where the current subtransaction's records begin.
 */
static void
log_mark_level(void)
{
	int level = GetCurrentTransactionNestLevel();
	LogMark *mark;

	if (level == 1 || (log_marks != NULL && log_marks->level == level))
		return;
	mark = MemoryContextAlloc(cxt, sizeof(LogMark));
	mark->level = level;
	mark->length = file_len + tail_len;
	mark->count = count;
	mark->outer = log_marks;
	log_marks = mark;
}

/*
 * log_make_room makes the part in memory large enough, or empties it into the file.
 */
static void
log_make_room(Size needed)
{
	Size limit = work_mem * (Size) 1024;

	if (tail_len + needed > limit && tail_len > 0)
		log_spill();
	if (tail_len + needed > tail_size)
	{
		Size size = Max(tail_size * 2, tail_len + needed);

		tail = repalloc_huge(tail, size);
		tail_size = size;
	}
}

/*
 * log_spill appends the part in memory to the file. If it fails, nothing has changed.
 */
static void
log_spill(void)
{
	Size written = 0;

	if (file < 0)
	{
		ResourceOwner owner = CurrentResourceOwner;

		/* the file must outlive the subtransaction */
		PrepareTempTablespaces();
		CurrentResourceOwner = TopTransactionResourceOwner;
		file = OpenTemporaryFile(false);
		CurrentResourceOwner = owner;
	}
	while (written < tail_len)
	{
		int done = FileWrite(file, tail + written, Min(tail_len - written, WRITE_MAX),
							 file_len + written, WAIT_EVENT_BUFFILE_WRITE);

		if (done <= 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write to the temporary file of events: %m")));
		written += done;
	}
	file_len += tail_len;
	tail_len = 0;
}

/*
 * log_end_subxact gives a subtransaction's records to the one around it, or
 * removes them.
 */
void
log_end_subxact(int level, bool commit)
{
	while (cxt != NULL && log_marks != NULL && log_marks->level >= level)
	{
		LogMark *mark = log_marks;

		if (!commit)
			log_cut(mark);
		else if (level > 2 && (mark->outer == NULL || mark->outer->level < level - 1))
		{
			mark->level = level - 1;
			return;
		}
		log_marks = mark->outer;
		pfree(mark);
	}
}

/*
 * Cut the log to a mark, in the file if the mark is there.
 */
static void
log_cut(const LogMark *mark)
{
	if (mark->length >= file_len)
		tail_len = mark->length - file_len;
	else
	{
		file_len = mark->length;
		tail_len = 0;
	}
	count = mark->count;
}

/*
 * log_rewind starts reading from the beginning; nothing may be added after that.
 */
void
log_rewind(void)
{
	reading_file = file_len > 0;
	read_at = 0;
	window = NULL;
	window_size = window_len = 0;
	window_at = 0;
}

/*
 * log_next returns the next record, or NULL. It may be changed, and is valid until
 * the next one is read.
 */
char *
log_next(uint32 *len)
{
	char *data;

	if (reading_file)
	{
		if (read_at < file_len)
			return next_in_file(len);
		reading_file = false;
		read_at = 0;
	}
	if (read_at >= tail_len)
		return NULL;
	memcpy(len, tail + read_at, sizeof(uint32));
	data = tail + read_at + HEADER;
	read_at += HEADER + MAXALIGN(*len);
	return data;
}

/*
 * Return the next record from the file, and its length. It is valid until the next one is read.
 */
static char *
next_in_file(uint32 *len)
{
	char *data;

	memcpy(len, log_read_file(HEADER), sizeof(uint32));
	data = log_read_file(HEADER + MAXALIGN(*len)) + HEADER;
	read_at += HEADER + MAXALIGN(*len);
	return data;
}

/*
 * log_read_file returns the next `len` bytes of the file. If these are few, it reads ahead.
 */
static char *
log_read_file(Size len)
{
	if (window == NULL || read_at + len > window_at + window_len)
	{
		if (len > window_size)
		{
			if (window != NULL)
				pfree(window);
			window = NULL;
			window_size = 0;
			window = MemoryContextAllocHuge(cxt, Max(len, READ_AHEAD));
			window_size = Max(len, READ_AHEAD);
		}
		window_at = read_at;
		window_len = 0;
		while (window_len < len)
		{
			int done = FileRead(file, window + window_len,
								Min(Min(window_size, file_len - window_at) - window_len, WRITE_MAX),
								window_at + window_len, WAIT_EVENT_BUFFILE_READ);

			if (done < 0)
				ereport(ERROR,
						(errcode_for_file_access(),
						 errmsg("could not read the temporary file of events: %m")));
			if (done == 0)
				ereport(ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED),
						 errmsg("the temporary file of events is too short")));
			window_len += done;
		}
	}
	return window + (read_at - window_at);
}

/*
 * log_close frees all records, when they have been written or rolled back.
 */
void
log_close(void)
{
	if (cxt == NULL)
		return;
	if (file >= 0)
		FileClose(file);
	MemoryContextDelete(cxt);
	cxt = NULL;
}

/*
 * Return true if the transaction has no log of events.
 */
bool
log_is_closed(void)
{
	return cxt == NULL;
}

/*
 * log_forget forgets all records at the end of a transaction, which frees memory and file.
 */
void
log_forget(void)
{
	cxt = NULL;
}
