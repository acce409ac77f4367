/*
 * crcfile.c
 *		Files that keep the contents of memory over a clean restart.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The postmaster writes them when it exits, and reads them at the next start. They are in the
 * byte order and with the alignment of the machine, and end with a checksum of all before it.
 * They only leave the data directory with a copy of it. A file takes its name when it is
 * complete.
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "storage/fd.h"

#include "base/crcfile.h"

static char *crcfile_temporary(const DcCrcFile *file);
static char *name_to_keep(const char *path, uint32 format);

/*
 * crcfile_create begins to write a file.
 */
void
crcfile_create(DcCrcFile *file, const char *path)
{
	memset(file, 0, sizeof(*file));
	file->path = path;
	file->file = AllocateFile(crcfile_temporary(file), PG_BINARY_W);
	INIT_CRC32C(file->crc);
}

/*
 * Return the name that a file has while it is written.
 */
static char *
crcfile_temporary(const DcCrcFile *file)
{
	return psprintf("%s.tmp", file->path);
}

/*
 * Write bytes; a failure is reported by crcfile_close().
 */
void
crcfile_put(DcCrcFile *file, const void *data, Size size)
{
	COMP_CRC32C(file->crc, data, size);
	if (file->file != NULL && size > 0 && fwrite(data, size, 1, file->file) != 1)
		file->failed = true;
}

/*
 * crcfile_close completes a file. If that, or anything before, has failed, this is logged, with
 * `lost`, which says what is lost, as DETAIL unless it is NULL.
 */
void
crcfile_close(DcCrcFile *file, const char *lost)
{
	char *path = crcfile_temporary(file);
	pg_crc32c crc = file->crc;

	FIN_CRC32C(crc);
	crcfile_put(file, &crc, sizeof(crc));
	if (file->file != NULL && FreeFile(file->file) == 0 && !file->failed)
	{
		(void) durable_rename(path, file->path, LOG);
		return;
	}
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", path),
			 lost != NULL ? errdetail_internal("%s", lost) : 0));
	unlink(path);
}

/*
 * crcfile_read reads a file, to be freed by the caller; false if there is none. A failure to
 * read it is logged, and also returns false.
 */
bool
crcfile_read(DcCrcFile *file, const char *path, int elevel)
{
	struct stat st;

	memset(file, 0, sizeof(*file));
	file->path = path;
	file->file = AllocateFile(path, PG_BINARY_R);
	if (file->file == NULL && errno == ENOENT)
		return false;
	if (file->file != NULL && fstat(fileno(file->file), &st) == 0)
	{
		file->left = st.st_size;
		file->data = file->next = malloc(Max(file->left, 1));
		if (file->data != NULL && fread(file->data, 1, file->left, file->file) == file->left)
		{
			FreeFile(file->file);
			return true;
		}
	}
	ereport(elevel,
			(errcode_for_file_access(),
			 errmsg("could not read file \"%s\": %m", path)));
	if (file->file != NULL)
		FreeFile(file->file);
	free(file->data);
	return false;
}

/*
 * crcfile_keep_other renames a file that was read and that another version of the library has
 * written, so that nothing is lost if the server goes back to that version; `lost` says what is
 * missing until then. Returns true if the file was such a file. A failure to rename it is reported
 * at `elevel`. A file of any format begins with two words: which file it is, and the format.
 */
bool
crcfile_keep_other(const DcCrcFile *file, uint32 magic, uint32 format, const char *lost, int elevel)
{
	uint32 words[2];
	char *kept;

	if (file->left < sizeof(words))
		return false;
	memcpy(words, file->data, sizeof(words));
	if (words[0] != magic || words[1] == format)
		return false;
	kept = name_to_keep(file->path, words[1]);
	if (durable_rename(file->path, kept, elevel) != 0)
		return true;
	ereport(LOG,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("file \"%s\" has format %u, but dcounter %s reads format %u", file->path, words[1], DCOUNTER_VERSION, format),
			 errdetail("%s The file is kept as \"%s\".", lost, kept),
			 errhint("To use it, give the file its old name and start the server with the version of dcounter that wrote it.")));
	pfree(kept);
	return true;
}

/*
 * name_to_keep returns a name that no file has yet, since a server that has switched between
 * versions before may have kept such a file already.
 */
static char *
name_to_keep(const char *path, uint32 format)
{
	char *name = psprintf("%s.format-%u", path, format);

	for (int n = 2; access(name, F_OK) == 0; n++)
	{
		pfree(name);
		name = psprintf("%s.format-%u.%d", path, format, n);
	}
	return name;
}

/*
 * Return true if the bytes that were read have their checksum.
 */
bool
crcfile_is_valid(const DcCrcFile *file)
{
	pg_crc32c crc;
	pg_crc32c saved;

	if (file->left < sizeof(crc))
		return false;
	memcpy(&saved, file->data + file->left - sizeof(crc), sizeof(crc));
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, file->data, file->left - sizeof(crc));
	FIN_CRC32C(crc);
	return EQ_CRC32C(crc, saved);
}

/*
 * crcfile_get takes the next of the bytes that were read; false if there are fewer before the
 * checksum.
 */
bool
crcfile_get(DcCrcFile *file, void *data, Size size)
{
	if (file->left < sizeof(pg_crc32c) || size > file->left - sizeof(pg_crc32c))
		return false;
	memcpy(data, file->next, size);
	file->next += size;
	file->left -= size;
	return true;
}

/*
 * Return true if the server was shut down cleanly the last time, and
 * where the WAL was then, which is further on each time.
 */
bool
server_was_shut_down(uint64 *lsn)
{
	bool crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool clean = crc_ok && (control->state == DB_SHUTDOWNED || control->state == DB_SHUTDOWNED_IN_RECOVERY);

	*lsn = control->checkPoint;
	pfree(control);
	return clean;
}
