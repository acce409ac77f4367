/*
 * presencecalls.c
 *		The SQL functions by which members enter and leave, and that list them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are not transactional, run on a standby (which has members of its own), and in transactions
 * that only read. Those that change something do not run within a security-restricted operation:
 * there a table owner's expression would make those who read the table enter a room.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "base/args.h"
#include "base/compat.h"
#include "memory/presence/presence.h"

PG_FUNCTION_INFO_V1(dc_enter);
PG_FUNCTION_INFO_V1(dc_beat);
PG_FUNCTION_INFO_V1(dc_beat_many);
PG_FUNCTION_INFO_V1(dc_exit);
PG_FUNCTION_INFO_V1(dc_present);
PG_FUNCTION_INFO_V1(dc_presence_list);

/* Members that are listed in a call, and bytes that are copied under the room's lock at a time. */
#define LIST_MAX 10000
#define LIST_BYTES (64 * 1024)

static void presencecalls_check_context(const char *function);
static DcPresenceUse *use_arg(FunctionCallInfo fcinfo);
static void text_to_bytes(Datum value, DcKey *key, const char *what, uint32 max);
static void presencecalls_call_begin(FunctionCallInfo fcinfo, DcPresenceCall *call);
static void conn_arg(DcPresenceCall *call, Datum value);
pg_noreturn static void approx_error(const char *what);
static int list_some(DcMapEntry *room, DcKey *after, char *buffer, int most);
static void put_rows(ReturnSetInfo *result, const char *buffer, int n);

/*
 * dc_enter(name text, room text, member text, conn text, meta jsonb) -> how many members are there.
 *
 * Errors: 42704 if there is no such presence, 42501, 22004, 53200, 54000 something that is too
 * long, or too many connections, 55000 without preload, 55006, 0A000 a meta where the presence is
 * approximate.
 */
Datum
dc_enter(PG_FUNCTION_ARGS)
{
	DcPresenceCall call;

	presencecalls_check_context("dc_enter()");
	presencecalls_call_begin(fcinfo, &call);
	arg_not_null(fcinfo, 3, "connection");
	conn_arg(&call, PG_GETARG_DATUM(3));
	if (!PG_ARGISNULL(4))
	{
		Jsonb *meta = PG_GETARG_JSONB_P(4);

		if (call.use->rule.approx)
			approx_error("does not store meta of members");
		call.has_meta = true;
		call.meta = VARDATA(meta);
		call.meta_len = VARSIZE(meta) - VARHDRSZ;
		check_length("meta of a member", call.meta_len, 0, PRESENCE_MAX_META_BYTES);
	}
	PG_RETURN_INT64(presence_enter(&call));
}

/*
 * dc_beat(name text, room text, member text, conn text) -> whether it was known; if not, it has
 * entered.
 */
Datum
dc_beat(PG_FUNCTION_ARGS)
{
	DcPresenceCall call;

	presencecalls_check_context("dc_beat()");
	presencecalls_call_begin(fcinfo, &call);
	arg_not_null(fcinfo, 3, "connection");
	conn_arg(&call, PG_GETARG_DATUM(3));
	PG_RETURN_BOOL(presence_beat(&call));
}

/*
 * dc_beat_many(name text, rooms anycompatiblearray, members anycompatiblearray, conns text[]) ->
 * how many were not known, and have entered.
 */
Datum
dc_beat_many(PG_FUNCTION_ARGS)
{
	DcPresenceUse *use;
	int count;
	int nmembers;
	int nconns;
	Datum *rooms;
	Datum *members;
	Datum *conns;
	int64 entered = 0;

	presencecalls_check_context("dc_beat_many()");
	use = use_arg(fcinfo);
	rooms = key_texts_arg(fcinfo, 1, "rooms", "room", &count);
	members = key_texts_arg(fcinfo, 2, "members", "member", &nmembers);
	conns = PG_ARGISNULL(3) ? NULL : array_arg(fcinfo, 3, "connections", "connection", &nconns);
	if (nmembers != count || (conns != NULL && nconns != count))
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("rooms, members and connections must have the same length")));
	for (int i = 0; i < count; i++)
	{
		DcPresenceCall call = {.use = use};

		CHECK_FOR_INTERRUPTS();
		text_to_bytes(rooms[i], &call.room, "name of a room", DC_MAX_KEY_BYTES);
		text_to_bytes(members[i], &call.member, "name of a member", DC_MAX_KEY_BYTES);
		if (conns != NULL)
			conn_arg(&call, conns[i]);
		if (!presence_beat(&call))
			entered++;
	}
	PG_RETURN_INT64(entered);
}

/*
 * dc_exit(name text, room text, member text, conn text) -> how many members are there then. A conn
 * that is NULL stands for all of the member.
 */
Datum
dc_exit(PG_FUNCTION_ARGS)
{
	DcPresenceCall call;

	presencecalls_check_context("dc_exit()");
	presencecalls_call_begin(fcinfo, &call);
	call.all_conns = PG_ARGISNULL(3);
	if (!call.all_conns)
		conn_arg(&call, PG_GETARG_DATUM(3));
	PG_RETURN_INT64(presence_exit(&call));
}

/*
 * dc_present(name text, room text) -> how many members are there.
 */
Datum
dc_present(PG_FUNCTION_ARGS)
{
	DcKey room;
	DcPresenceUse *use;

	presence_check_memory();
	use = use_arg(fcinfo);
	text_to_bytes(key_text_arg(fcinfo, 1, "room"), &room, "name of a room", DC_MAX_KEY_BYTES);
	presence_turn_if_late();
	PG_RETURN_INT64(presence_members(use, &room));
}

/*
 * Check that presences are in shared memory, and that the function may have effects that last here:
 * not in a security-restricted operation.
 */
static void
presencecalls_check_context(const char *function)
{
	presence_check_memory();
	prevent_lasting(function);
}

/*
 * use_arg takes the presence of the first argument.
 */
static DcPresenceUse *
use_arg(FunctionCallInfo fcinfo)
{
	char name[RULE_NAME_MAX + 1];

	arg_not_null(fcinfo, 0, "presence name");
	rule_name_copy(&presence_rules, PG_GETARG_DATUM(0), name);
	return &presence_known(name)->use;
}

/*
 * text_to_bytes points to the bytes of a name (54000 if it is too long).
 */
static void
text_to_bytes(Datum value, DcKey *key, const char *what, uint32 max)
{
	text *t = DatumGetTextPP(value);

	key->data = VARDATA_ANY(t);
	key->len = VARSIZE_ANY_EXHDR(t);
	check_length(what, key->len, 0, max);
}

/*
 * Raise the error that an approximate presence cannot do what was asked for (0A000).
 */
static void
approx_error(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("an approximate presence %s", what),
			 errdetail("It only estimates how many members are present.")));
}

/*
 * Set the call's connection from an argument. An error if its name is too long.
 */
static void
conn_arg(DcPresenceCall *call, Datum value)
{
	DcKey conn;

	text_to_bytes(value, &conn, "name of a connection", PRESENCE_MAX_CONN_BYTES);
	call->conn = conn.data;
	call->conn_len = conn.len;
}

/*
 * presencecalls_call_begin takes the presence, the room and the member that a function was called
 * with.
 */
static void
presencecalls_call_begin(FunctionCallInfo fcinfo, DcPresenceCall *call)
{
	*call = (DcPresenceCall){.use = use_arg(fcinfo)};
	text_to_bytes(key_text_arg(fcinfo, 1, "room"), &call->room, "name of a room", DC_MAX_KEY_BYTES);
	text_to_bytes(key_text_arg(fcinfo, 2, "member"), &call->member, "name of a member", DC_MAX_KEY_BYTES);
}

/* A member as it is copied; its name and its meta follow. */
typedef struct Listed
{
	uint32 name_len;
	uint32 meta_len; /* 0: none */
} Listed;

/*
 * dc_presence_list(name text, room text, after text, n int) -> (member, meta), in the order of
 * their bytes. A member that is there while all pages are read is in one of them. Error 0A000: it
 * is approximate.
 */
Datum
dc_presence_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	DcPresenceUse *use;
	DcKey room_name;
	DcKey after = {.data = NULL};
	char last[DC_MAX_KEY_BYTES];
	int32 most;
	DcMapEntry *room;
	char *buffer;

	presence_check_memory();
	use = use_arg(fcinfo);
	arg_not_null(fcinfo, 1, "room");
	arg_not_null(fcinfo, 3, "number of members");
	text_to_bytes(key_text_arg(fcinfo, 1, "room"), &room_name, "name of a room", DC_MAX_KEY_BYTES);
	most = PG_GETARG_INT32(3);
	if (most <= 0 || most > LIST_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of members must be between 1 and %d", LIST_MAX)));
	if (!PG_ARGISNULL(2))
	{
		text_to_bytes(PG_GETARG_DATUM(2), &after, "name of a member", DC_MAX_KEY_BYTES);
		memcpy(last, after.data, after.len);
		after.data = last;
	}
	if (use->rule.approx)
		approx_error("cannot list members");
	presence_turn_if_late();
	InitMaterializedSRF(fcinfo, 0);
	buffer = palloc(LIST_BYTES);
	while (most > 0)
	{
		int n;

		CHECK_FOR_INTERRUPTS();
		/* nothing fails while it is pinned */
		room = presence_room_find(use, &room_name);
		if (room == NULL)
			break;
		n = list_some(room, &after, buffer, most);
		map_unpin(room);
		if (n == 0)
			break;
		memcpy(last, after.data, after.len);
		after.data = last;
		put_rows(result, buffer, n);
		most -= n;
	}
	return (Datum) 0;
}

/*
 * list_some copies the members that follow a name, or the first ones: as many as fit and are asked
 * for. `after` then points to the name of the last one in the buffer.
 */
static int
list_some(DcMapEntry *room_entry, DcKey *after, char *buffer, int most)
{
	DcPresenceRoom *room = map_payload(room_entry);
	LWLock *lock = presence_room_lock(room_entry->number);
	uint32 part = map_cell_size(presence_map) - offsetof(DcPresenceMeta, data);
	Size used = 0;
	int n = 0;
	uint32 item;

	LWLockAcquire(lock, LW_SHARED);
	item = after->data == NULL ? sorted_first(room->root, &presence_sorted)
							   : sorted_after(room->root, &presence_sorted, after);
	while (item != SORTED_NONE && n < most)
	{
		DcMapEntry *entry = map_entry(presence_map, item);
		const DcPresenceMember *member = map_payload(entry);
		Listed listed = {0};
		uint32 done = 0;
		char *to = buffer + used;

		if (LIST_BYTES - used < MAXALIGN(sizeof(Listed) + DC_MAP_KEY_BYTES + PRESENCE_MAX_META_BYTES))
			break;
		presence_room_name(entry, to + sizeof(Listed), &listed.name_len);
		after->data = to + sizeof(Listed);
		after->len = listed.name_len;
		to += sizeof(Listed) + listed.name_len;
		for (uint32 cell = member->meta; cell != DC_MAP_NONE; cell = *(uint32 *) map_cell(presence_map, cell))
		{
			const DcPresenceMeta *meta = map_cell(presence_map, cell);

			listed.meta_len = meta->len;
			memcpy(to + done, meta->data, Min(meta->len - done, part));
			done += Min(meta->len - done, part);
		}
		memcpy(buffer + used, &listed, sizeof(Listed));
		used = MAXALIGN(used + sizeof(Listed) + listed.name_len + listed.meta_len);
		n++;
		item = sorted_next(&presence_sorted, item);
	}
	LWLockRelease(lock);
	return n;
}

/*
 * Add members that were copied out of shared memory to the result. No lock is held here, so this
 * may take its time.
 */
static void
put_rows(ReturnSetInfo *result, const char *buffer, int n)
{
	for (int i = 0; i < n; i++)
	{
		const Listed *listed = (const Listed *) buffer;
		const char *name = buffer + sizeof(Listed);
		Datum values[2];
		bool nulls[2] = {false, listed->meta_len == 0};
		struct varlena *meta = palloc(VARHDRSZ + listed->meta_len);

		SET_VARSIZE(meta, VARHDRSZ + listed->meta_len);
		memcpy(VARDATA(meta), name + listed->name_len, listed->meta_len);
		values[0] = PointerGetDatum(cstring_to_text_with_len(name, listed->name_len));
		values[1] = PointerGetDatum(meta);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		pfree(meta);
		pfree(DatumGetPointer(values[0]));
		buffer += MAXALIGN(sizeof(Listed) + listed->name_len + listed->meta_len);
	}
}
