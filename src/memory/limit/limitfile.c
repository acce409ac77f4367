/*
 * limitfile.c
 *		The file that preserves the counts of limits across a clean restart.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The postmaster writes it when it exits after a clean shutdown, with no other process left, and
 * reads it at the next start, into the empty map. It stays until the next shutdown, as the start
 * may still fail. It has the WAL position of the shutdown. A file of another shutdown (one that was
 * copied, or was left by a server that then ran without it, or could not write its own) lacks later
 * counts: that is a loss (limitarea.c), as is a file that cannot be read. A missing file means that
 * limits were not in use, and nothing was counted. To keep that true when the first file cannot be
 * written, a start without a file writes an empty one.
 *
 * Times in it are those of the monotonic clock, with the moment of the shutdown, which is also
 * given by the wall clock. The wall clock says how long the server was down. If it was set back
 * in the meantime, that counts as no time: so keys wait longer, not shorter. If it was set forward,
 * they are refilled early.
 *
 * Format: a header, slots, entries, each with its key and the items of its list, and a checksum
 * (crcfile.c).
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"

#include "base/crcfile.h"
#include "memory/limit/limiter.h"

#define LIMIT_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/dcounter.limits"

#define LIMIT_MAGIC 0x6D696C64 /* "dlim" */
#define LIMIT_FORMAT 1

typedef struct FileHeader
{
	uint32 magic;
	uint32 format;
	uint64 lsn;
	TimestampTz saved_at; /* wall time, and */
	int64 moment;		  /* the same by the other clock */
	int64 lost_at;
	uint64 next_lease;
	uint32 losses;
	uint32 is_standby;
	uint32 nslots;
	uint32 layout; /* FILE_LAYOUT of what has written it */
	uint64 nentries;
} FileHeader;

typedef struct FileSlot
{
	Oid database;
	DcLimitOwner owner; /* the role is the slot's holder, if it is that of a rule */
	struct
	{
		int32 id;
		int32 version;
		DcLimitNumbers numbers;
		int64 max_keys;
		bool allow_if_full;
		bool full_if_lost;
		bool is_young; /* 0.1 has none */
	} rule;
} FileSlot;

/* Followed by the key, and the items. */
typedef struct FileEntry
{
	Oid database;
	Oid counter;
	DcLimitKey key;
	uint32 len;
} FileEntry;

#define FILE_LAYOUT (sizeof(FileSlot) << 16 | sizeof(FileEntry))

/* The file that is being written or read. */
typedef struct Work
{
	DcCrcFile file;
	uint64 count;
	bool writes;
	int64 shift; /* from times in the file to this server's clock */
	int64 now;
} Work;

static bool limitfile_save_entry(DcMapEntry *entry, void *arg);
static void put_lease(int64 *item, void *file);
static void put_unit(int64 *item, void *file);
static void limitfile_lost(const char *why);
static void save_nothing(uint64 lsn);
static bool limitfile_load_entries(Work *work, const FileHeader *header);
static bool limitfile_load_entry(Work *work);
static bool load_list(Work *work, DcLimitSlot *slot, DcLimitKey *key, int64 units);

/*
 * limitfile_size returns the size of the file, 0 if there is none.
 */
Size
limitfile_size(void)
{
	struct stat st;

	return stat(LIMIT_FILE, &st) == 0 ? (Size) st.st_size : 0;
}

/*
 * limitfile_save writes the file when the postmaster exits.
 */
void
limitfile_save(int code, Datum arg)
{
	Work work = {0};
	FileHeader header = {.magic = LIMIT_MAGIC, .format = LIMIT_FORMAT, .layout = FILE_LAYOUT};

	if (code != 0 || IsUnderPostmaster || limit_area == NULL || !server_was_shut_down(&header.lsn))
		return;
	if (limit_area->nslots == 0 && pg_atomic_read_u64(&limit_area->lost_at) == 0)
	{
		unlink(LIMIT_FILE);
		return;
	}
	header.saved_at = GetCurrentTimestamp();
	header.moment = work.now = moment_now().us;
	header.lost_at = (int64) pg_atomic_read_u64(&limit_area->lost_at);
	header.next_lease = pg_atomic_read_u64(&limit_area->next_lease);
	header.losses = pg_atomic_read_u32(&limit_area->losses);
	header.is_standby = pg_atomic_read_u32(&limit_area->is_standby);
	header.nslots = limit_area->nslots;
	map_sweep(limit_map, limitfile_save_entry, &work); /* counts */
	header.nentries = work.count;
	work.writes = true;
	crcfile_create(&work.file, LIMIT_FILE);
	crcfile_put(&work.file, &header, sizeof(header));
	for (int i = 0; i < limit_area->nslots; i++)
	{
		const DcLimitSlot *slot = &limit_area->slots[i];
		FileSlot saved;

		memset(&saved, 0, sizeof(saved));
		saved.database = slot->database;
		saved.owner = slot->owner;
		if (slot->owner.id != 0)
			saved.owner.role = slot->holder;
		saved.rule.id = slot->rule.id;
		saved.rule.version = slot->rule.version;
		saved.rule.numbers = slot->rule.numbers;
		saved.rule.max_keys = slot->rule.max_keys;
		saved.rule.allow_if_full = slot->rule.allow_if_full;
		saved.rule.full_if_lost = slot->rule.full_if_lost;
		saved.rule.is_young = slot->rule.is_young;
		crcfile_put(&work.file, &saved, sizeof(saved));
	}
	map_sweep(limit_map, limitfile_save_entry, &work);
	crcfile_close(&work.file, "The counts of limits are lost.");
}

/*
 * limitfile_save_entry saves an entry unless it is idle, converted to its rule as it is now.
 */
static bool
limitfile_save_entry(DcMapEntry *entry, void *arg)
{
	Work *work = arg;
	DcLimitKey *key = map_payload(entry);
	DcLimitSlot *slot = &limit_area->slots[key->slot];
	DcLimitStore store = limit_store(slot);
	FileEntry saved;
	char data[DC_MAP_KEY_BYTES];
	bool has_list = slot->owner.id != 0 && limit_has_list(&slot->rule.numbers);

	if (!work->writes && slot->owner.id != 0)
	{
		DcLimitUse use = {.slot = slot, .rule = slot->rule, .previous = slot->previous};

		limit_bring_up(key, &use, work->now);
	}
	if (key->idle_at <= work->now)
		return false;
	if (!work->writes)
	{
		work->count++;
		return false;
	}
	memset(&saved, 0, sizeof(saved));
	saved.database = entry->database;
	saved.counter = entry->counter;
	saved.key = *key;
	saved.len = entry->len;
	map_key(limit_map, entry, data);
	crcfile_put(&work->file, &saved, sizeof(saved));
	crcfile_put(&work->file, data, entry->len);
	if (has_list)
		limitlist_walk(&slot->rule.numbers, &key->state, &store,
					   slot->rule.numbers.kind == LIMIT_CONCURRENT ? put_lease : put_unit, &work->file);
	return false;
}

/*
 * Write an item of a list of leases to the file: the time at which it ends, and the lease.
 */
static void
put_lease(int64 *item, void *file)
{
	crcfile_put(file, item, 2 * sizeof(int64));
}

/*
 * Write an item of a list of units to the file: the time at which it ends.
 */
static void
put_unit(int64 *item, void *file)
{
	crcfile_put(file, item, sizeof(int64));
}

/*
 * limitfile_load loads the file, in the postmaster. `lsn` is where the WAL was when the server
 * was shut down, 0 after a crash.
 */
void
limitfile_load(uint64 lsn)
{
	Work work = {0};
	FileHeader header;
	const char *why = NULL;

	if (!crcfile_read(&work.file, LIMIT_FILE, LOG))
	{
		if (limitfile_size() > 0)
			limitfile_lost("it could not be read");
		else
			save_nothing(lsn);
		return;
	}
	if (crcfile_keep_other(&work.file, LIMIT_MAGIC, LIMIT_FORMAT, "Keys of limits start with their full budget.", LOG))
		why = "it has another format";
	else if (!crcfile_is_valid(&work.file) || !crcfile_get(&work.file, &header, sizeof(header)) ||
			 header.magic != LIMIT_MAGIC || header.format != LIMIT_FORMAT || header.layout != FILE_LAYOUT || header.nslots > LIMIT_SLOTS)
		why = "its contents are invalid";
	else if (lsn == 0 || header.lsn != lsn)
		why = "it is not from the last shutdown";
	else
	{
		int64 down = GetCurrentTimestamp() - header.saved_at; /* wall time; see above */

		work.now = moment_now().us;
		work.shift = work.now - Min(Max(down, 0), LIMIT_MAX_US) - header.moment;
		if (!limitfile_load_entries(&work, &header))
			why = "there is not enough memory for it";
	}
	free(work.file.data);
	if (why != NULL)
		limitfile_lost(why);
}

/*
 * save_nothing writes an empty file for this start, on a server that has not used limits yet.
 */
static void
save_nothing(uint64 lsn)
{
	FileHeader header = {.magic = LIMIT_MAGIC, .format = LIMIT_FORMAT, .layout = FILE_LAYOUT, .lsn = lsn};
	DcCrcFile file;

	header.saved_at = GetCurrentTimestamp(); /* wall time */
	header.moment = moment_now().us;
	header.next_lease = 1;
	crcfile_create(&file, LIMIT_FILE);
	crcfile_put(&file, &header, sizeof(header));
	crcfile_close(&file, NULL);
}

/*
 * Log that the file is ignored and why, and note the loss.
 */
static void
limitfile_lost(const char *why)
{
	ereport(LOG,
			(errmsg("the counts of limits are lost"),
			 errdetail("File \"%s\" is ignored: %s.", LIMIT_FILE, why)));
	limit_note_loss();
}

/*
 * limitfile_shift converts a time in the file to this server's clock. 0 means none.
 */
static void
limitfile_shift(int64_t *us, const Work *work)
{
	if (*us != 0)
		*us = Max(*us + work->shift, 1);
}

/*
 * limitfile_load_entries loads slots and entries; false if that is not possible.
 */
static bool
limitfile_load_entries(Work *work, const FileHeader *header)
{
	int64 lost_at = header->lost_at;

	limitfile_shift(&lost_at, work);
	pg_atomic_write_u64(&limit_area->lost_at, (uint64) lost_at);
	pg_atomic_write_u64(&limit_area->next_lease, header->next_lease);
	pg_atomic_write_u32(&limit_area->losses, header->losses);
	if (header->is_standby)
		pg_atomic_write_u32(&limit_area->is_standby, 1);
	for (uint32 i = 0; i < header->nslots; i++)
	{
		DcLimitSlot *slot = &limit_area->slots[i];
		FileSlot saved;

		if (!crcfile_get(&work->file, &saved, sizeof(saved)))
			return false;
		slot->database = saved.database;
		slot->owner = saved.owner;
		if (slot->owner.id != 0)
			slot->owner.role = InvalidOid;
		slot->holder = slot->owner.id != 0 ? saved.owner.role : InvalidOid;
		slot->rule = (DcLimitRule){.id = saved.rule.id, .version = saved.rule.version, .counted = saved.rule.version, .numbers = saved.rule.numbers, .max_keys = saved.rule.max_keys, .allow_if_full = saved.rule.allow_if_full, .full_if_lost = saved.rule.full_if_lost, .is_young = saved.rule.is_young};
		limit_area->nslots = i + 1;
	}
	for (uint64 i = 0; i < header->nentries; i++)
	{
		if (!limitfile_load_entry(work))
			return false;
	}
	return true;
}

/*
 * Initialize a new entry of the map with what the file has.
 */
static void
file_entry_init(DcMapEntry *entry, void *arg)
{
	*(DcLimitKey *) map_payload(entry) = *(const DcLimitKey *) arg;
}

/*
 * Read a key's entry from the file and add it to the map, with its times moved to this server's
 * clock. Return false if the file is damaged or the map has no room.
 */
static bool
limitfile_load_entry(Work *work)
{
	FileEntry saved;
	char data[DC_MAP_KEY_BYTES];
	DcMapKey map_key;
	DcLimitSlot *slot;
	DcMapEntry *entry;
	DcLimitState *state;
	int64 units;

	if (!crcfile_get(&work->file, &saved, sizeof(saved)) || saved.len > sizeof(data) ||
		saved.key.slot >= limit_area->nslots || !crcfile_get(&work->file, data, saved.len))
		return false;
	slot = &limit_area->slots[saved.key.slot];
	state = &saved.key.state;
	saved.key.counted = slot->rule.counted; /* all were converted to it when they were saved */
	limitfile_shift(&saved.key.idle_at, work);
	limitfile_shift(&state->idle_at, work);
	limitfile_shift(&state->at, work);
	units = state->used;
	state->first = state->last = LIMIT_NO_CHUNK;
	state->skipped = state->occupied = 0;
	if (slot->owner.id != 0 && limit_has_list(&slot->rule.numbers))
		state->used = 0;
	map_key_init(limit_map, &map_key, saved.database, saved.counter, data, saved.len);
	entry = map_add(limit_map, &map_key, file_entry_init, &saved.key);
	if (entry == NULL)
		return false;
	pg_atomic_fetch_add_u64(&slot->keys, 1);
	limit_entry_made(entry);
	limit_note_idle(slot, saved.key.idle_at);
	if (slot->owner.id == 0 || !limit_has_list(&slot->rule.numbers))
		return true;
	return load_list(work, slot, map_payload(entry), units);
}

/*
 * Read the items of an entry's list and add them to it. Return false if the file is too short or
 * the map has no room.
 */
static bool
load_list(Work *work, DcLimitSlot *slot, DcLimitKey *key, int64 units)
{
	const DcLimitNumbers *numbers = &slot->rule.numbers;
	DcLimitStore store = limit_store(slot);

	for (int64 i = 0; i < units; i++)
	{
		int64 words[2] = {0};
		uint32 fresh = DC_MAP_NONE;
		uint32 wanted = limitlist_chunks_wanted(numbers, &key->state, 1, &store);

		if (!crcfile_get(&work->file, words, sizeof(int64) * (numbers->kind == LIMIT_CONCURRENT ? 2 : 1)))
			return false;
		if (wanted > 0)
		{
			fresh = map_cells_take(limit_map, wanted);
			if (fresh == DC_MAP_NONE)
				return false;
			pg_atomic_fetch_add_u64(&slot->cells, wanted);
		}
		limitfile_shift(&words[0], work);
		limitlist_add(numbers, &key->state, words[0] - numbers->per, 1, words[1], fresh, &store);
	}
	return true;
}
