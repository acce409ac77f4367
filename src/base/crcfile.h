/*
 * crcfile.h
 *		Files that keep the contents of memory over a restart (see crcfile.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CRCFILE_H
#define DC_CRCFILE_H

#include <stdio.h>

#include "port/pg_crc32c.h"

/* A file while it is written, or the contents of one that was read. */
typedef struct DcCrcFile
{
	const char *path;
	FILE *file;
	bool failed; /* to be written */
	char *data;	 /* from malloc() */
	char *next;	 /* of the data */
	Size left;	 /* bytes left from there on */
	pg_crc32c crc;
} DcCrcFile;

extern void crcfile_create(DcCrcFile *file, const char *path);
extern void crcfile_put(DcCrcFile *file, const void *data, Size size);
extern void crcfile_close(DcCrcFile *file, const char *lost);

extern bool crcfile_read(DcCrcFile *file, const char *path, int elevel);
extern bool crcfile_keep_other(const DcCrcFile *file, uint32 magic, uint32 format, const char *lost, int elevel);
extern bool crcfile_is_valid(const DcCrcFile *file);
extern bool crcfile_get(DcCrcFile *file, void *data, Size size);

extern bool server_was_shut_down(uint64 *lsn);

#endif /* DC_CRCFILE_H */
