/*
 * statsfile.c
 *		The file that keeps statistics over a clean restart.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It is written by the postmaster when it exits, and read when the next one starts. It stays
 * after that, as the start may still fail, and holds the WAL position of the shutdown: a file
 * of an earlier shutdown is not used. An immediate shutdown ends the postmaster in the same way
 * as a clean one, so the reader asks the control file how the server was shut down: after a
 * crash, numbers of increments that recovery may not know are not used.
 *
 * Format: a header, the members, and a checksum (crcfile.c). A file that is
 * not as expected is ignored; statistics are never worth a failed start.
 */
#include "postgres.h"

#include "pgstat.h"

#include "base/crcfile.h"
#include "core/stats/stats.h"

#define STATS_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/dcounter.stat"

#define STATS_MAGIC 0x74636E64 /* "dcnt" */
#define STATS_FORMAT_0_1 5	   /* the format of 0.1 */
#define STATS_FORMAT 6		   /* changes with what the counts mean */

typedef struct DcStatsFileHeader
{
	uint32 magic;
	uint32 format;
	uint32 member_size;
	uint32 members;
	uint64 lsn; /* not in files of 0.1, */
} DcStatsFileHeader;

static bool is_of_0_1(const DcCrcFile *file);
static int statsfile_get_all(DcCrcFile *file, DcTableStats **stats, uint64 *lsn);

/*
 * statsfile_save writes the file.
 */
void
statsfile_save(const DcTableStats *stats, int count)
{
	DcStatsFileHeader header = {STATS_MAGIC, STATS_FORMAT, sizeof(DcTableStats),
								(uint32) count, 0};
	DcCrcFile file;

	(void) server_was_shut_down(&header.lsn);
	crcfile_create(&file, STATS_FILE);
	crcfile_put(&file, &header, sizeof(header));
	crcfile_put(&file, stats, count * sizeof(DcTableStats));
	crcfile_close(&file, NULL);
}

/*
 * statsfile_load reads the file, and returns the number of members, which the
 * caller frees: 0 if there is no file that can be used.
 */
int
statsfile_load(DcTableStats **stats)
{
	DcCrcFile file;
	uint64 saved_lsn;
	uint64 lsn;
	int count;

	*stats = NULL;
	if (!crcfile_read(&file, STATS_FILE, LOG))
		return 0;
	if (!is_of_0_1(&file) && crcfile_keep_other(&file, STATS_MAGIC, STATS_FORMAT, "Statistics of counter tables begin anew.", LOG))
	{
		free(file.data);
		return 0;
	}
	count = statsfile_get_all(&file, stats, &saved_lsn);
	free(file.data);
	if (count < 0)
	{
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring invalid data in file \"%s\"", STATS_FILE)));
		return 0;
	}
	return server_was_shut_down(&lsn) && (lsn == saved_lsn || saved_lsn == 0) ? count : 0;
}

/*
 * Return true if a file has the format of version 0.1, whose header is shorter.
 */
static bool
is_of_0_1(const DcCrcFile *file)
{
	uint32 words[2];

	if (file->left < sizeof(words))
		return false;
	memcpy(words, file->data, sizeof(words));
	return words[0] == STATS_MAGIC && words[1] == STATS_FORMAT_0_1;
}

/*
 * statsfile_get_all returns the number of members, or -1 if the file is not as expected. How many
 * there are follows from its length, too. *lsn is 0 for a file of 0.1.
 */
static int
statsfile_get_all(DcCrcFile *file, DcTableStats **stats, uint64 *lsn)
{
	DcStatsFileHeader header = {0};
	Size size = is_of_0_1(file) ? offsetof(DcStatsFileHeader, lsn) : sizeof(header);

	if (!crcfile_is_valid(file) || !crcfile_get(file, &header, size) ||
		header.magic != STATS_MAGIC || (header.format != STATS_FORMAT && header.format != STATS_FORMAT_0_1) ||
		header.member_size != sizeof(DcTableStats) || header.members > PG_INT32_MAX)
		return -1;
	*lsn = header.lsn;
	size = header.members * sizeof(DcTableStats);
	if (file->left - sizeof(pg_crc32c) != size)
		return -1;
	*stats = malloc(Max(size, 1));
	if (*stats == NULL || !crcfile_get(file, *stats, size))
		return -1;
	return (int) header.members;
}
