/*
 * log.c
 *		The events of the current transaction, in order, until it commits.
 *
 * A log of records: the last part is in memory; when that exceeds work_mem it is
 * appended to a temporary file. A savepoint's mark is the length of the log when
 * its first event came; rolling back cuts the log to the lowest mark that it
 * covers, as all that follows was added later. A record never straddles file and
 * memory.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/tablespace.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "outbox/log.h"
#include "storage/buffile.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

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
static BufFile *file; /* the part before, or NULL */
static int64 file_len;
static int64 count; /* records */
static LogMark *marks;

/* reading */
static bool reading_file;
static int64 read_at; /* in the file, or in memory */
static char *record;  /* read from the file */
static Size record_size;

static void start(void);
static void mark_level(void);
static void make_room(Size needed);
static void spill(void);
static void cut(const LogMark *mark);
static char *next_in_file(uint32 *len);
static void read_file(void *data, Size len);

/*
 * log_add appends a record: its length and itself, each padded with zeros, since all
 * of it may get into a file.
 */
void
log_add(const char *data, uint32 len)
{
	const Size header = MAXALIGN(sizeof(uint32));
	Size needed = header + MAXALIGN(len);
	char *at;

	if (cxt == NULL)
		start();
	mark_level();
	make_room(needed);
	at = tail + tail_len;
	memset(at, 0, header);
	memcpy(at, &len, sizeof(uint32));
	memcpy(at + header, data, len);
	memset(at + header + len, 0, MAXALIGN(len) - len);
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
 * start makes an empty log. There is one only when nothing is left of an earlier one's
 * pointers, so the context comes last.
 */
static void
start(void)
{
	MemoryContext fresh = AllocSetContextCreate(TopTransactionContext, "dcounter events",
												ALLOCSET_DEFAULT_SIZES);

	tail_size = 1024;
	tail = MemoryContextAlloc(fresh, tail_size);
	tail_len = 0;
	file = NULL;
	file_len = 0;
	count = 0;
	marks = NULL;
	cxt = fresh;
}

/*
 * mark_level notes where the current subtransaction's records begin.
 */
static void
mark_level(void)
{
	int level = GetCurrentTransactionNestLevel();
	LogMark *mark;

	if (level == 1 || (marks != NULL && marks->level == level))
		return;
	mark = MemoryContextAlloc(cxt, sizeof(LogMark));
	mark->level = level;
	mark->length = file_len + tail_len;
	mark->count = count;
	mark->outer = marks;
	marks = mark;
}

/*
 * make_room makes the part in memory large enough, or empties it into the file.
 */
static void
make_room(Size needed)
{
	Size limit = work_mem * (Size) 1024;

	if (tail_len + needed > limit && tail_len > 0)
		spill();
	if (tail_len + needed > tail_size)
	{
		Size size = Max(tail_size * 2, tail_len + needed);

		tail = repalloc_huge(tail, size);
		tail_size = size;
	}
}

static void
spill(void)
{
	if (file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);
		ResourceOwner owner = CurrentResourceOwner;

		/* the file must outlive the subtransaction */
		PrepareTempTablespaces();
		CurrentResourceOwner = TopTransactionResourceOwner;
		file = BufFileCreateTemp(false);
		CurrentResourceOwner = owner;
		MemoryContextSwitchTo(old);
	}
	if (BufFileSeek(file, 0, file_len, SEEK_SET) != 0)
		elog(ERROR, "could not seek in the temporary file of events");
	BufFileWrite(file, tail, tail_len);
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
	while (cxt != NULL && marks != NULL && marks->level >= level)
	{
		LogMark *mark = marks;

		if (!commit)
			cut(mark);
		else if (level > 2 && (mark->outer == NULL || mark->outer->level < level - 1))
		{
			mark->level = level - 1;
			return;
		}
		marks = mark->outer;
		pfree(mark);
	}
}

static void
cut(const LogMark *mark)
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
	record = NULL;
	record_size = 0;
	if (reading_file && BufFileSeek(file, 0, 0, SEEK_SET) != 0)
		elog(ERROR, "could not seek in the temporary file of events");
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
	data = tail + read_at + MAXALIGN(sizeof(uint32));
	read_at += MAXALIGN(sizeof(uint32)) + MAXALIGN(*len);
	return data;
}

static char *
next_in_file(uint32 *len)
{
	char header[MAXALIGN(sizeof(uint32))];

	read_file(header, sizeof(header));
	memcpy(len, header, sizeof(uint32));
	if (record == NULL || MAXALIGN(*len) > record_size)
	{
		if (record != NULL)
			pfree(record);
		record_size = Max(MAXALIGN(*len), 1024);
		record = MemoryContextAllocHuge(cxt, record_size);
	}
	read_file(record, MAXALIGN(*len));
	read_at += sizeof(header) + MAXALIGN(*len);
	return record;
}

static void
read_file(void *data, Size len)
{
	if (BufFileRead(file, data, len) != len)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read the temporary file of events: %m")));
}

/*
 * log_close frees all records, when they have been written, and what is left of those
 * that have been rolled back.
 */
void
log_close(void)
{
	if (cxt == NULL)
		return;
	if (file != NULL)
		BufFileClose(file);
	MemoryContextDelete(cxt);
	cxt = NULL;
}

/*
 * log_forget forgets all records at the end of a transaction, with which memory
 * and file are freed.
 */
void
log_forget(void)
{
	cxt = NULL;
}
