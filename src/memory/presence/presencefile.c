/*
 * presencefile.c
 *		The file that preserves members across a clean restart.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The postmaster writes it when it exits after a clean shutdown, with no other process left, and
 * reads it at the next start, into the empty map. It stays until the next shutdown, as the start
 * may still fail. It has the WAL position of the shutdown. A file of another shutdown (one that was
 * copied, or was left by a server that then ran without it) lacks later changes: it is ignored, as
 * is one that cannot be read. Then a new epoch begins, with empty rooms (presencearea.c).
 *
 * Times in it are those of the monotonic clock, with the moment of the shutdown, which is also
 * given by the wall clock. The wall clock says how long the server was down. Members whose time was
 * up in the meantime leave when the wheel is turned, as they would have. If the clock was set back,
 * that counts as no time: they leave later.
 *
 * Format: a header, slots, rooms, members with their connections and meta, and a checksum
 * (crcfile.c). Members name their room by its place in the file.
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"

#include "base/crcfile.h"
#include "memory/presence/presence.h"

#define PRESENCE_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/dcounter.presence"

#define PRESENCE_MAGIC 0x65727064 /* "dpre" */
#define PRESENCE_FORMAT 2

typedef struct FileHeader
{
	uint32 magic;
	uint32 format;
	uint64 lsn;
	TimestampTz saved_at; /* wall time, and */
	int64 moment;		  /* the same by the other clock */
	uint64 epoch;
	uint64 version;
	uint64 salt;
	uint32 cells; /* of the map, that were in use */
	uint32 is_standby;
	uint32 nslots;
	uint32 unused;
	uint64 nrooms;
	uint64 nmembers;
} FileHeader;

typedef struct FileSlot
{
	Oid database;
	DcPresenceOwner owner;
	int32 version;
	int64 events;
	uint64 told;
} FileSlot;

/* Followed by the name, and by the ring of an approximate one. */
typedef struct FileRoom
{
	Oid database;
	Oid counter;
	uint32 slot;
	uint32 joined;
	uint32 left;
	uint32 is_dirty;
	uint64 version;
	uint32 len;
	uint32 is_approx;
} FileRoom;

/* Followed by the name, the meta, and the connections. */
typedef struct FileMember
{
	uint32 room;
	uint32 len;
	uint32 meta_len;
	uint32 nconns;
	int64 expires_at;
	int64 unnamed;
} FileMember;

/* Followed by the name. */
typedef struct FileConn
{
	int64 expires_at;
	uint32 len;
	uint32 unused;
} FileConn;

/* The file that is being written or read. */
typedef struct Work
{
	DcCrcFile file;
	uint8 kind; /* of the entries that it is about: members, or rooms of either kind */
	bool writes;
	uint64 count;
	uint32 *rooms; /* entries of those that were read, from malloc() */
	int64 shift;   /* from times in the file to this server's clock */
	bool full;	   /* it could not be read, as the map is full */
} Work;

static bool presencefile_save_entry(DcMapEntry *entry, void *arg);
static void save_room(Work *work, DcMapEntry *entry, uint32 index);
static void save_member(Work *work, DcMapEntry *entry);
static uint64 presencefile_walk(Work *work, uint8 kind, bool writes);
static bool presencefile_load_rooms(Work *work, const FileHeader *header);
static bool load_slot(Work *work, uint32 number);
static bool load_room(Work *work, uint64 number);
static bool load_member(Work *work, uint64 nrooms);
static bool load_meta(Work *work, DcMapEntry *entry, DcPresenceSlot *slot, uint32 len);
static bool load_conn(Work *work, DcPresenceMember *member, DcPresenceSlot *slot);

/*
 * presencefile_memory returns the size of a map for what is in the file, 0 if there is none. The
 * header is not checked yet: but no cell has less than a twelfth of its size in the file.
 */
Size
presencefile_memory(void)
{
	FILE *file = fopen(PRESENCE_FILE, PG_BINARY_R);
	FileHeader header;
	struct stat st;
	Size size = 0;

	if (file == NULL)
		return 0;
	if (fread(&header, sizeof(header), 1, file) == 1 && fstat(fileno(file), &st) == 0)
		size = Min(map_size_of(header.cells, PRESENCE_PAYLOAD), 12 * (Size) st.st_size);
	fclose(file);
	return size;
}

/*
 * presencefile_save writes the file when the postmaster exits. It is written even if there are no
 * members, as it has the epoch.
 */
void
presencefile_save(int code, Datum arg)
{
	Work work = {0};
	FileHeader header = {.magic = PRESENCE_MAGIC, .format = PRESENCE_FORMAT};

	if (code != 0 || IsUnderPostmaster || presence_area == NULL || !server_was_shut_down(&header.lsn))
		return;
	if (presence_area->nslots == 0)
	{
		unlink(PRESENCE_FILE); /* not in use */
		return;
	}
	header.saved_at = GetCurrentTimestamp();
	header.moment = moment_now().us;
	header.epoch = pg_atomic_read_u64(&presence_area->epoch);
	header.version = pg_atomic_read_u64(&presence_area->version);
	header.salt = presence_area->salt;
	header.cells = map_used(presence_map);
	header.is_standby = pg_atomic_read_u32(&presence_area->is_standby);
	header.nslots = presence_area->nslots;
	header.nrooms = presencefile_walk(&work, PRESENCE_ROOM, false);
	header.nmembers = presencefile_walk(&work, PRESENCE_MEMBER, false);
	crcfile_create(&work.file, PRESENCE_FILE);
	crcfile_put(&work.file, &header, sizeof(header));
	for (int i = 0; i < presence_area->nslots; i++)
	{
		DcPresenceSlot *slot = &presence_area->slots[i];
		FileSlot saved;

		memset(&saved, 0, sizeof(saved));
		saved.database = slot->database;
		saved.owner = slot->owner;
		saved.version = slot->version;
		saved.events = (int64) pg_atomic_read_u64(&slot->events);
		saved.told = pg_atomic_read_u64(&slot->told);
		crcfile_put(&work.file, &saved, sizeof(saved));
	}
	(void) presencefile_walk(&work, PRESENCE_ROOM, true);
	(void) presencefile_walk(&work, PRESENCE_MEMBER, true);
	crcfile_close(&work.file, "The members of all presences are lost.");
}

/*
 * presencefile_walk goes over all entries of a kind, and counts them.
 */
static uint64
presencefile_walk(Work *work, uint8 kind, bool writes)
{
	work->kind = kind;
	work->writes = writes;
	work->count = 0;
	map_sweep(presence_map, presencefile_save_entry, work);
	return work->count;
}

/*
 * Count, and write to the file if work->writes is set, one entry of the kind asked for. Members
 * that have left are left out. Always return false, as the entry stays.
 */
static bool
presencefile_save_entry(DcMapEntry *entry, void *arg)
{
	Work *work = arg;
	DcPresenceItem *item = map_payload(entry);

	if ((item->kind == PRESENCE_MEMBER) != (work->kind == PRESENCE_MEMBER) || (item->kind == PRESENCE_MEMBER && !item->is_here))
		return false;
	if (work->writes && item->kind != PRESENCE_MEMBER)
		save_room(work, entry, (uint32) work->count);
	else if (work->writes)
		save_member(work, entry);
	work->count++;
	return false;
}

/*
 * Write a room to the file, and note its place there, by which its members name it. room->rounds is
 * free for that: no other process is left.
 */
static void
save_room(Work *work, DcMapEntry *entry, uint32 index)
{
	DcPresenceRoom *room = map_payload(entry);
	char name[DC_MAP_KEY_BYTES];
	FileRoom saved;

	room->rounds = index;
	memset(&saved, 0, sizeof(saved));
	saved.database = entry->database;
	saved.counter = entry->counter;
	saved.slot = room->slot;
	saved.joined = room->joined;
	saved.left = room->left;
	saved.is_dirty = room->item.is_dirty;
	saved.version = pg_atomic_read_u64(&room->version);
	saved.is_approx = room->item.kind == PRESENCE_APPROX;
	presence_room_name(entry, name, &saved.len);
	crcfile_put(&work->file, &saved, sizeof(saved));
	crcfile_put(&work->file, name, saved.len);
	if (saved.is_approx)
		presence_approx_save(&work->file, entry);
}

/*
 * Write a member to the file, with its meta and its connections.
 */
static void
save_member(Work *work, DcMapEntry *entry)
{
	DcPresenceMember *member = map_payload(entry);
	uint32 part = map_cell_size(presence_map) - offsetof(DcPresenceMeta, data);
	uint32 done = 0;
	char name[DC_MAP_KEY_BYTES];
	FileMember saved;

	memset(&saved, 0, sizeof(saved));
	saved.room = ((DcPresenceRoom *) map_payload(map_entry(presence_map, member->room)))->rounds;
	saved.expires_at = (int64) pg_atomic_read_u64(&member->expires_at);
	saved.unnamed = (int64) pg_atomic_read_u64(&member->unnamed);
	if (member->meta != DC_MAP_NONE)
		saved.meta_len = ((DcPresenceMeta *) map_cell(presence_map, member->meta))->len;
	for (uint32 cell = member->conns; cell != DC_MAP_NONE; cell = ((DcPresenceConn *) map_cell(presence_map, cell))->next)
		saved.nconns++;
	presence_room_name(entry, name, &saved.len);
	crcfile_put(&work->file, &saved, sizeof(saved));
	crcfile_put(&work->file, name, saved.len);
	for (uint32 cell = member->meta; cell != DC_MAP_NONE; cell = *(uint32 *) map_cell(presence_map, cell))
	{
		uint32 some = Min(saved.meta_len - done, part);

		crcfile_put(&work->file, ((DcPresenceMeta *) map_cell(presence_map, cell))->data, some);
		done += some;
	}
	for (uint32 cell = member->conns; cell != DC_MAP_NONE; cell = ((DcPresenceConn *) map_cell(presence_map, cell))->next)
	{
		DcPresenceConn *conn = map_cell(presence_map, cell);
		FileConn saved_conn = {.expires_at = (int64) pg_atomic_read_u64(&conn->expires_at), .len = conn->len};

		crcfile_put(&work->file, &saved_conn, sizeof(saved_conn));
		crcfile_put(&work->file, conn->name, conn->len);
	}
}

/*
 * presencefile_load loads the file, in the postmaster. `lsn` is where the WAL was when the server
 * was shut down, 0 after a crash.
 */
void
presencefile_load(uint64 lsn)
{
	Work work = {0};
	FileHeader header;
	const char *why = NULL;

	if (!crcfile_read(&work.file, PRESENCE_FILE, LOG))
		return;
	if (crcfile_keep_other(&work.file, PRESENCE_MAGIC, PRESENCE_FORMAT, "All rooms are empty.", LOG))
		why = "it has another format";
	else if (!crcfile_is_valid(&work.file))
		why = "its contents are invalid";
	else if (!crcfile_get(&work.file, &header, sizeof(header)) ||
			 header.magic != PRESENCE_MAGIC || header.format != PRESENCE_FORMAT || header.nslots > PRESENCE_SLOTS ||
			 header.nrooms > work.file.left / sizeof(FileRoom))
		why = "it is malformed";
	else if (lsn == 0 || header.lsn != lsn)
		why = "it is not from the last shutdown";
	else
	{
		int64 down = GetCurrentTimestamp() - header.saved_at; /* wall time; see above */

		work.shift = moment_now().us - Min(Max(down, 0), 2 * PRESENCE_MAX_TTL_US) - header.moment;
		work.rooms = malloc(Max(header.nrooms, 1) * sizeof(uint32));
		work.full = work.rooms == NULL;
		if (work.full || !presencefile_load_rooms(&work, &header))
		{
			presence_start_empty();
			why = work.full ? "there is not enough memory for it" : "it is malformed";
		}
	}
	free(work.rooms);
	free(work.file.data);
	if (why != NULL)
		ereport(LOG,
				(errmsg("the members of all presences are lost"),
				 errdetail("File \"%s\" is ignored: %s.", PRESENCE_FILE, why)));
}

/*
 * presencefile_load_rooms loads slots, rooms and members; false if that fails.
 */
static bool
presencefile_load_rooms(Work *work, const FileHeader *header)
{
	pg_atomic_write_u64(&presence_area->epoch, header->epoch);
	pg_atomic_write_u64(&presence_area->version, header->version);
	presence_area->salt = header->salt;
	if (header->is_standby)
		pg_atomic_write_u32(&presence_area->is_standby, 1);
	for (uint32 i = 0; i < header->nslots; i++)
	{
		if (!load_slot(work, i))
			return false;
	}
	for (uint64 i = 0; i < header->nrooms; i++)
	{
		if (!load_room(work, i))
			return false;
	}
	for (uint64 i = 0; i < header->nmembers; i++)
	{
		if (!load_member(work, header->nrooms))
			return false;
	}
	return true;
}

/*
 * Read a slot from the file. Return false if the file is too short.
 */
static bool
load_slot(Work *work, uint32 number)
{
	DcPresenceSlot *slot = &presence_area->slots[number];
	FileSlot saved;

	if (!crcfile_get(&work->file, &saved, sizeof(saved)))
		return false;
	slot->database = saved.database;
	slot->owner = saved.owner;
	slot->version = saved.version;
	pg_atomic_write_u64(&slot->events, (uint64) saved.events);
	pg_atomic_write_u64(&slot->told, saved.told);
	presence_area->nslots = number + 1;
	return true;
}

/*
 * Read a room from the file and make it. Return false if the file is damaged or the map is full,
 * which sets work->full.
 */
static bool
load_room(Work *work, uint64 number)
{
	FileRoom saved;
	DcKey name;
	char bytes[DC_MAX_KEY_BYTES];
	DcPresenceUse use = {0};
	DcMapEntry *entry;
	DcPresenceRoom *room;
	const char *full;

	if (!crcfile_get(&work->file, &saved, sizeof(saved)) || saved.len > sizeof(bytes) ||
		saved.slot >= presence_area->nslots || !crcfile_get(&work->file, bytes, saved.len))
		return false;
	name.data = bytes;
	name.len = saved.len;
	use.slot = &presence_area->slots[saved.slot];
	use.owner = use.slot->owner;
	use.rule.max_members = PG_INT64_MAX;
	use.rule.approx = saved.is_approx != 0;
	use.generation = pg_atomic_read_u32(&use.slot->generation);
	entry = presence_room_load(&use, saved.database, &name, &full);
	work->full |= entry == NULL;
	if (entry == NULL)
		return false;
	room = map_payload(entry);
	pg_atomic_write_u64(&room->version, saved.version);
	if (saved.is_approx && !presence_approx_load(&work->file, entry, work->shift, &work->full))
		return false;
	if (saved.is_dirty)
		presence_note_change(entry, saved.joined, saved.left);
	map_unpin(entry);
	work->rooms[number] = entry->number;
	return true;
}

/*
 * Read a member from the file and let it enter its room, with its deadlines moved to this server's
 * clock. Return false if the file is damaged or the map is full, which sets work->full.
 */
static bool
load_member(Work *work, uint64 nrooms)
{
	FileMember saved;
	char name[DC_MAX_KEY_BYTES];
	DcMapEntry *room;
	DcMapEntry *entry;
	DcPresenceMember *member;
	DcPresenceSlot *slot;

	if (!crcfile_get(&work->file, &saved, sizeof(saved)) || saved.len > sizeof(name) || saved.room >= nrooms ||
		saved.meta_len > PRESENCE_MAX_META_BYTES || !crcfile_get(&work->file, name, saved.len))
		return false;
	room = map_entry(presence_map, work->rooms[saved.room]);
	if (((DcPresenceItem *) map_payload(room))->kind != PRESENCE_ROOM)
		return false;
	slot = &presence_area->slots[((DcPresenceRoom *) map_payload(room))->slot];
	entry = presence_member_load(room, name, saved.len, saved.expires_at + work->shift);
	work->full |= entry == NULL;
	if (entry == NULL)
		return false;
	member = map_payload(entry);
	if (saved.unnamed != 0)
		pg_atomic_write_u64(&member->unnamed, (uint64) (saved.unnamed + work->shift));
	if (!load_meta(work, entry, slot, saved.meta_len))
		return false;
	for (uint32 i = 0; i < saved.nconns; i++)
	{
		if (!load_conn(work, member, slot))
			return false;
	}
	return true;
}

/*
 * Read a member's meta of `len` bytes into cells. Return false if the file is too short or the map
 * is full.
 */
static bool
load_meta(Work *work, DcMapEntry *entry, DcPresenceSlot *slot, uint32 len)
{
	uint32 part = map_cell_size(presence_map) - offsetof(DcPresenceMeta, data);
	uint32 count = (len + part - 1) / part;
	uint32 first = DC_MAP_NONE;
	uint32 done = 0;

	if (count == 0)
		return true;
	first = map_cells_take(presence_map, count);
	work->full |= first == DC_MAP_NONE;
	if (first == DC_MAP_NONE)
		return false;
	pg_atomic_fetch_add_u64(&slot->cells, count);
	for (uint32 cell = first; cell != DC_MAP_NONE; cell = *(uint32 *) map_cell(presence_map, cell))
	{
		DcPresenceMeta *meta = map_cell(presence_map, cell);

		meta->len = len;
		if (!crcfile_get(&work->file, meta->data, Min(len - done, part)))
			return false;
		done += Min(len - done, part);
	}
	((DcPresenceMember *) map_payload(entry))->meta = first;
	return true;
}

/*
 * Read a connection from the file and add it to the member. Return false if the file is damaged or
 * the map is full.
 */
static bool
load_conn(Work *work, DcPresenceMember *member, DcPresenceSlot *slot)
{
	FileConn saved;
	uint32 cell = map_cells_take(presence_map, 1);
	DcPresenceConn *conn;

	work->full |= cell == DC_MAP_NONE;
	if (cell == DC_MAP_NONE || !crcfile_get(&work->file, &saved, sizeof(saved)) || saved.len > PRESENCE_MAX_CONN_BYTES)
		return false;
	conn = map_cell(presence_map, cell);
	if (!crcfile_get(&work->file, conn->name, saved.len))
		return false;
	conn->len = saved.len;
	pg_atomic_init_u64(&conn->expires_at, (uint64) (saved.expires_at + work->shift));
	conn->next = member->conns;
	member->conns = cell;
	pg_atomic_fetch_add_u64(&slot->cells, 1);
	pg_atomic_fetch_add_u64(&slot->conns, 1);
	return true;
}
