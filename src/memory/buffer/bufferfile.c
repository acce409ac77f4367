/*
 * bufferfile.c
 *		The file that keeps amounts in memory over a clean restart.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The worker flushes when it leaves, and from then on increments go to rows. But
 * transactions that were committing at that moment may have added to the memory
 * after that. So the postmaster saves the amounts that are left when it exits after a
 * clean shutdown, and loads them at the next start. They must count exactly once, even if the
 * server crashes before or after they are flushed:
 *
 *	- The file has a generation for each table, the LSN of the shutdown. The first
 *	  flush of the table after the start writes it to dcounter.buffer_restored, in the
 *	  same transaction. The file is removed only when no table needs it any longer.
 *	- The first process that uses a table that was loaded looks there. If the table has
 *	  the generation of the file, a flush has written the amounts before a crash, and they
 *	  are discarded. Otherwise they count. Until that is decided nothing is added to
 *	  them. So at a shutdown an undecided table is saved as it was loaded, with its
 *	  generation.
 *	- A copy of the server may have kept a file while the original went on and wrote
 *	  later ones, with the same amounts or after they had been flushed. The copy learns
 *	  that from the WAL. So a later generation in the table means the same.
 *
 * After a crash there is nothing to save: a transaction that was flushing may have
 * committed or not.
 *
 * Format: a header, the tables, each followed by its entries, and a checksum (crcfile.c).
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"

#include "base/catrow.h"
#include "base/crcfile.h"
#include "memory/buffer/buffer.h"

#define BUFFER_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/dcounter.buffer"
#define BUFFER_BAD_FILE BUFFER_FILE ".bad"

#define BUFFER_MAGIC 0x66756264 /* "dbuf" */
#define BUFFER_FORMAT 1

/* A row of dcounter.buffer_restored: which file was applied to a table last */
typedef struct Restored
{
	Oid counter;
	int64 generation;
} Restored;

typedef struct DcFileHeader
{
	uint32 magic;
	uint32 format;
	uint32 ntables;
	uint32 unused;
} DcFileHeader;

typedef struct DcFileTable
{
	Oid database;
	Oid counter;
	uint64 generation;
	uint32 nentries;
	uint32 unused;
} DcFileTable;

/* Followed by the key. */
typedef struct DcFileEntry
{
	uint64 inc;
	uint64 dec;
	uint64 calls;
	TimestampTz at;
	uint32 len;
	uint32 unused;
} DcFileEntry;

static void bufferfile_save_all(DcCrcFile *file, uint64 generation);
static void save_table(DcCrcFile *file, DcBufferTable *table, uint64 generation);
static bool load_table(DcCrcFile *file);
static void not_needed(DcBufferTable *table);
static void bufferfile_columns(DcCatRow *io, void *data);

static const DcCatalog restored = {
	.table = "buffer_restored",
	.pkey = "buffer_restored_pkey",
	.nkeys = 1,
	.size = sizeof(Restored),
	.columns = bufferfile_columns,
};

/*
 * bufferfile_size returns the size of the file, 0 if there is none.
 */
Size
bufferfile_size(void)
{
	struct stat st;

	return stat(BUFFER_FILE, &st) == 0 ? (Size) st.st_size : 0;
}

/*
 * bufferfile_save writes the file when the postmaster exits. No other process is left.
 */
void
bufferfile_save(int code, Datum arg)
{
	DcCrcFile file;
	uint64 generation;
	bool any = false;

	if (code != 0 || IsUnderPostmaster || buffer_area == NULL || !server_was_shut_down(&generation))
		return;
	for (int i = 0; i < buffer_area->ntables; i++)
		any |= buffer_area->tables[i].nentries > 0;
	if (!any)
	{
		unlink(BUFFER_FILE);
		return;
	}
	crcfile_create(&file, BUFFER_FILE);
	bufferfile_save_all(&file, generation);
	crcfile_close(&file, "Increments of buffered counters are lost.");
}

/*
 * Write the header and all tables to the file. A table whose restored amounts are still undecided
 * keeps the generation with which it was loaded; the others get the given one.
 */
static void
bufferfile_save_all(DcCrcFile *file, uint64 generation)
{
	DcFileHeader header = {BUFFER_MAGIC, BUFFER_FORMAT, 0, 0};

	for (int i = 0; i < buffer_area->ntables; i++)
		header.ntables += OidIsValid(buffer_area->tables[i].database);
	crcfile_put(file, &header, sizeof(header));
	for (int i = 0; i < buffer_area->ntables; i++)
	{
		DcBufferTable *table = &buffer_area->tables[i];

		if (!OidIsValid(table->database))
			continue;
		save_table(file, table,
				   pg_atomic_read_u32(&table->restored) == DC_UNRESOLVED
					   ? table->file_generation
					   : generation);
	}
}

/*
 * Write a table and its entries to the file, with a generation. No other process is left, so no
 * lock is needed.
 */
static void
save_table(DcCrcFile *file, DcBufferTable *table, uint64 generation)
{
	DcFileTable saved = {table->database, table->counter, generation,
						 table->nentries, 0};

	crcfile_put(file, &saved, sizeof(saved));
	for (uint32 number = table->first; number != DC_MAP_NONE;)
	{
		DcMapEntry *entry = map_entry(buffer_map, number);
		DcBuffer *buffer = buffer_of(entry);
		char data[DC_MAX_KEY_BYTES];
		DcFileEntry saved_entry = {0};

		saved_entry.inc = pg_atomic_read_u64(&buffer->inc);
		saved_entry.dec = pg_atomic_read_u64(&buffer->dec);
		saved_entry.calls = pg_atomic_read_u64(&buffer->calls);
		saved_entry.at = (TimestampTz) pg_atomic_read_u64(&buffer->at);
		saved_entry.len = entry->len;
		map_key(buffer_map, entry, data);
		crcfile_put(file, &saved_entry, sizeof(saved_entry));
		crcfile_put(file, data, entry->len);
		number = buffer->next;
	}
}

/*
 * bufferfile_load loads the file, in the postmaster, into the empty map.
 */
void
bufferfile_load(void)
{
	DcCrcFile file;
	DcFileHeader header;

	if (!crcfile_read(&file, BUFFER_FILE, FATAL))
		return;
	if (crcfile_keep_other(&file, BUFFER_MAGIC, BUFFER_FORMAT, "Its increments of buffered counters are not counted.", FATAL))
	{
		free(file.data);
		return;
	}
	if (!crcfile_is_valid(&file) || !crcfile_get(&file, &header, sizeof(header)) ||
		header.magic != BUFFER_MAGIC || header.format != BUFFER_FORMAT)
	{
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring invalid data in file \"%s\"", BUFFER_FILE),
				 errdetail("Increments of buffered counters may be lost. The file is kept as \"%s\".", BUFFER_BAD_FILE)));
		free(file.data);
		(void) rename(BUFFER_FILE, BUFFER_BAD_FILE);
		return;
	}
	for (uint32 i = 0; i < header.ntables; i++)
	{
		if (!load_table(&file))
			ereport(FATAL,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("could not load file \"%s\"", BUFFER_FILE),
					 errhint("Increase dcounter.buffer_size.")));
	}
	free(file.data);
	if (pg_atomic_read_u32(&buffer_area->restored) == 0)
		unlink(BUFFER_FILE);
}

/*
 * load_table loads a table and its entries; false if that is not possible.
 */
static bool
load_table(DcCrcFile *file)
{
	DcFileTable saved;
	DcBufferTable *table;

	if (!crcfile_get(file, &saved, sizeof(saved)))
		return false;
	if (saved.nentries == 0)
		return true;
	table = table_slot_make(saved.database, saved.counter, InvalidOid);
	if (table == NULL)
		return false;
	table->file_generation = saved.generation;
	for (uint32 i = 0; i < saved.nentries; i++)
	{
		DcFileEntry saved_entry;
		char data[DC_MAX_KEY_BYTES];
		DcMapKey key;
		DcMapEntry *entry;
		DcBuffer *buffer;

		if (!crcfile_get(file, &saved_entry, sizeof(saved_entry)) ||
			saved_entry.len > DC_MAX_KEY_BYTES || !crcfile_get(file, data, saved_entry.len))
			return false;
		map_key_init(buffer_map, &key, saved.database, saved.counter, data, saved_entry.len);
		entry = buffer_entry(table, &key);
		if (entry == NULL)
			return false;
		buffer = buffer_of(entry);
		pg_atomic_write_u64(&buffer->inc, saved_entry.inc);
		pg_atomic_write_u64(&buffer->dec, saved_entry.dec);
		pg_atomic_write_u64(&buffer->calls, saved_entry.calls);
		pg_atomic_write_u64(&buffer->at, (uint64) saved_entry.at);
		map_unpin(entry);
	}
	pg_atomic_write_u32(&table->restored, DC_UNRESOLVED);
	pg_atomic_fetch_add_u32(&buffer_area->restored, 1);
	/* due at once: the interval is not known before the first writer, nor is the age */
	moment_write(&table->since, moment_now());
	pg_atomic_write_u32(&table->dirty, 1);
	return true;
}

/*
 * bufferfile_resolve decides whether the amounts that were loaded for a table count.
 */
void
bufferfile_resolve(DcBufferTable *table)
{
	Restored row;
	bool applied = cat_read(&restored, &row, ObjectIdGetDatum(table->counter)) &&
		(uint64) row.generation >= table->file_generation;

	/* another process may have been first: it has come to the same answer */
	LWLockAcquire(&buffer_area->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&table->restored) == DC_UNRESOLVED)
	{
		if (applied)
		{
			buffer_forget_amounts(table);
			not_needed(table);
		}
		else
			pg_atomic_write_u32(&table->restored, DC_RESTORED);
	}
	LWLockRelease(&buffer_area->lock);
}

/*
 * Read or write the columns of dcounter.buffer_restored, in their order.
 */
static void
bufferfile_columns(DcCatRow *io, void *data)
{
	Restored *row = data;

	cat_oid(io, &row->counter);
	cat_int8(io, &row->generation);
}

/*
 * bufferfile_note_flush notes, in the transaction that flushes a table, that rows have
 * the amounts that were loaded for it.
 */
void
bufferfile_note_flush(DcBufferTable *table)
{
	Restored row = {table->counter, (int64) table->file_generation};

	if (pg_atomic_read_u32(&table->restored) == DC_NOT_RESTORED)
		return;
	if (!cat_update(&restored, &row))
		cat_insert(&restored, &row);
}

/*
 * bufferfile_flushed notes that a flush of the table has committed. Must not throw.
 */
void
bufferfile_flushed(DcBufferTable *table)
{
	if (pg_atomic_read_u32(&table->restored) == DC_RESTORED)
		not_needed(table);
}

/*
 * bufferfile_discarded notes that the amounts in memory of a table are gone.
 */
void
bufferfile_discarded(DcBufferTable *table)
{
	if (pg_atomic_read_u32(&table->restored) != DC_NOT_RESTORED)
		not_needed(table);
}

/*
 * not_needed removes the file when no table needs it any longer. If the file comes back after a
 * crash, that does no harm, as it has been applied.
 */
static void
not_needed(DcBufferTable *table)
{
	pg_atomic_write_u32(&table->restored, DC_NOT_RESTORED);
	if (pg_atomic_sub_fetch_u32(&buffer_area->restored, 1) == 0)
		unlink(BUFFER_FILE);
}
