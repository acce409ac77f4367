/*
 * spoolfile.h
 *		A temporary file that is written once, from its beginning to its end, and then read.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SPOOLFILE_H
#define DC_SPOOLFILE_H

#include "storage/fd.h"

typedef struct DcSpoolFile
{
	File file;
	off_t at; /* in the file: of the next block */
	int len;  /* bytes in the block */
	int read; /* of these, bytes that have been read */
	char block[BLCKSZ];
} DcSpoolFile;

extern DcSpoolFile *spoolfile_create(void);
extern void spoolfile_write(DcSpoolFile *spool, const void *data, size_t len);
extern void spoolfile_rewind(DcSpoolFile *spool);
extern void spoolfile_read(DcSpoolFile *spool, void *data, size_t len);
extern void spoolfile_close(DcSpoolFile *spool);

#endif /* DC_SPOOLFILE_H */
