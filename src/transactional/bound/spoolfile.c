/*
 * spoolfile.c
 *		A temporary file that is written once, from its beginning to its end, and then read.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It outlasts the transaction that writes it, until it is closed. Closing writes nothing, so it can
 * be closed where nothing may fail: in a callback of a memory context, after an error of writing
 * (the disk is full, temp_file_limit is reached). A BufFile writes what it still has when it is
 * closed, and fails again.
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "utils/wait_event.h"

#include "transactional/bound/spoolfile.h"

static void write_block(DcSpoolFile *spool);

/*
 * spoolfile_create creates an empty file, in the current memory context.
 */
DcSpoolFile *
spoolfile_create(void)
{
	DcSpoolFile *spool = palloc(sizeof(DcSpoolFile));

	PrepareTempTablespaces();
	spool->at = 0;
	spool->len = spool->read = 0;
	spool->file = OpenTemporaryFile(true);
	return spool;
}

/*
 * spoolfile_write appends to a file that has not been rewound.
 */
void
spoolfile_write(DcSpoolFile *spool, const void *data, size_t len)
{
	while (len > 0)
	{
		int part = Min(len, (size_t) (BLCKSZ - spool->len));

		memcpy(spool->block + spool->len, data, part);
		spool->len += part;
		data = (const char *) data + part;
		len -= part;
		if (spool->len == BLCKSZ)
			write_block(spool);
	}
}

/*
 * Append the block to the file; raises the file system's error.
 */
static void
write_block(DcSpoolFile *spool)
{
	int done = 0;

	while (done < spool->len)
	{
		int written;

		errno = 0;
		written = FileWrite(spool->file, spool->block + done, spool->len - done, spool->at + done, WAIT_EVENT_BUFFILE_WRITE);
		if (written <= 0)
		{
			if (errno == 0)
				errno = ENOSPC;
			ereport(ERROR, (errcode_for_file_access(), errmsg("could not write to a temporary file: %m")));
		}
		done += written;
	}
	spool->at += done;
	spool->len = 0;
}

/*
 * spoolfile_rewind ends writing; the next read starts at the beginning.
 */
void
spoolfile_rewind(DcSpoolFile *spool)
{
	write_block(spool);
	spool->at = 0;
	spool->read = 0;
}

/*
 * spoolfile_read reads what comes next, of a file that has been rewound. Raises an error if it has
 * less.
 */
void
spoolfile_read(DcSpoolFile *spool, void *data, size_t len)
{
	while (len > 0)
	{
		int part = Min(len, (size_t) (spool->len - spool->read));

		memcpy(data, spool->block + spool->read, part);
		spool->read += part;
		data = (char *) data + part;
		len -= part;
		if (len == 0)
			break;
		spool->len = FileRead(spool->file, spool->block, BLCKSZ, spool->at, WAIT_EVENT_BUFFILE_READ);
		if (spool->len <= 0)
		{
			spool->len = spool->read = 0;
			ereport(ERROR, (errcode_for_file_access(), errmsg("could not read from a temporary file")));
		}
		spool->at += spool->len;
		spool->read = 0;
	}
}

/*
 * spoolfile_close closes and removes the file, and frees its memory. Does not throw. log_temp_files
 * may log a message for it, even after the commit; that message has no context, as the client's
 * encoding may lack characters of users' names.
 */
void
spoolfile_close(DcSpoolFile *spool)
{
	ErrorContextCallback *context = error_context_stack;

	error_context_stack = NULL;
	FileClose(spool->file);
	error_context_stack = context;
	pfree(spool);
}
