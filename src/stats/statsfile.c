/*
 * statsfile.c
 *		The file that keeps statistics over a clean restart.
 *
 * It is written by the postmaster when it exits, and read and removed when the
 * next one starts. An immediate shutdown ends the postmaster in the same way as a
 * clean one, so the reader asks the control file how the server was shut down:
 * after a crash, numbers of increments that recovery may not know are not used.
 *
 * Format: a header, the members, and a checksum of both, all in the byte order
 * and with the alignment of the machine. The file never leaves it. A file that is
 * not as expected is ignored; statistics are never worth a failed start.
 */
#include "postgres.h"

#include <unistd.h>

#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "stats/stats.h"
#include "storage/fd.h"

#define STATS_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/dcounter.stat"
#define STATS_TMP_FILE STATS_FILE ".tmp"

#define STATS_MAGIC 0x74636E64 /* "dcnt" */
#define STATS_FORMAT 3		   /* changes with what the counts mean */

typedef struct DcStatsFileHeader
{
	uint32 magic;
	uint32 format;
	uint32 member_size;
	uint32 members;
} DcStatsFileHeader;

static bool write_all(FILE *file, const DcTableStats *stats, int count);
static int read_all(FILE *file, DcTableStats *stats, int max);
static bool was_shut_down(void);

/*
 * statsfile_save writes the file.
 */
void
statsfile_save(const DcTableStats *stats, int count)
{
	FILE *file = AllocateFile(STATS_TMP_FILE, PG_BINARY_W);
	bool written;

	written = (file != NULL && write_all(file, stats, count));
	if (file != NULL && FreeFile(file) != 0)
		written = false;
	if (!written)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", STATS_TMP_FILE)));
		unlink(STATS_TMP_FILE);
		return;
	}
	(void) durable_rename(STATS_TMP_FILE, STATS_FILE, LOG);
}

static bool
write_all(FILE *file, const DcTableStats *stats, int count)
{
	DcStatsFileHeader header = {STATS_MAGIC, STATS_FORMAT, sizeof(DcTableStats),
								(uint32) count};
	pg_crc32c crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &header, sizeof(header));
	COMP_CRC32C(crc, stats, count * sizeof(DcTableStats));
	FIN_CRC32C(crc);
	return fwrite(&header, sizeof(header), 1, file) == 1 &&
		fwrite(stats, sizeof(DcTableStats), count, file) == count &&
		fwrite(&crc, sizeof(crc), 1, file) == 1;
}

/*
 * statsfile_load reads the file, removes it, and returns the number of members:
 * 0 if there is no file that can be used.
 */
int
statsfile_load(DcTableStats *stats, int max)
{
	FILE *file = AllocateFile(STATS_FILE, PG_BINARY_R);
	int count;

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not read file \"%s\": %m", STATS_FILE)));
		return 0;
	}
	count = read_all(file, stats, max);
	FreeFile(file);
	unlink(STATS_FILE);
	if (count < 0)
	{
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring invalid data in file \"%s\"", STATS_FILE)));
		return 0;
	}
	return was_shut_down() ? count : 0;
}

/*
 * read_all returns the number of members, or -1 if the file is not as expected.
 */
static int
read_all(FILE *file, DcTableStats *stats, int max)
{
	DcStatsFileHeader header;
	pg_crc32c crc;
	pg_crc32c saved_crc;

	if (fread(&header, sizeof(header), 1, file) != 1 ||
		header.magic != STATS_MAGIC || header.format != STATS_FORMAT ||
		header.member_size != sizeof(DcTableStats) || header.members > max ||
		fread(stats, sizeof(DcTableStats), header.members, file) != header.members ||
		fread(&saved_crc, sizeof(saved_crc), 1, file) != 1 || fgetc(file) != EOF)
		return -1;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &header, sizeof(header));
	COMP_CRC32C(crc, stats, header.members * sizeof(DcTableStats));
	FIN_CRC32C(crc);
	return EQ_CRC32C(crc, saved_crc) ? (int) header.members : -1;
}

/*
 * was_shut_down tells whether the server was shut down cleanly the last time.
 */
static bool
was_shut_down(void)
{
	bool crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool clean = crc_ok && (control->state == DB_SHUTDOWNED || control->state == DB_SHUTDOWNED_IN_RECOVERY);

	pfree(control);
	return clean;
}
