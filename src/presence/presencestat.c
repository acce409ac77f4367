/*
 * presencestat.c
 *		The view dc_stat_presence: presences, who is there, and what memory that takes.
 *
 * Numbers of joins and leaves are since the start of the server, or since the presence was used first after
 * that. They are read without locks: each is right, but not all are of one moment.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "presence/presence.h"
#include "utils/acl.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(stat_presence);

enum
{
	COL_NAME,
	COL_OWNER,
	COL_APPROX,
	COL_ROOMS,
	COL_MEMBERS,
	COL_CONNECTIONS,
	COL_MEMORY,
	COL_JOINED,
	COL_LEFT,
	COL_EXPIRED,
	COL_REFUSED,
	COL_UNTOLD,
	COL_EPOCH,
	NUM_COLS
};

static void put_row(ReturnSetInfo *result, const DcPresenceRow *row, DcPresenceSlot *slot);

/*
 * dcounter.stat_presence() -> a row for each presence that the caller may use.
 */
Datum
stat_presence(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool sees_all = has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
	List *rows;
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	rows = presence_row_read_all();
	foreach(lc, rows)
	{
		const DcPresenceRow *row = lfirst(lc);
		DcPresenceOwner owner = presence_row_owner(row->id);

		if (sees_all || presence_may_use(row))
			put_row(result, row, presence_slot_of(&owner));
	}
	return (Datum) 0;
}

static int64
number(pg_atomic_uint64 *value)
{
	return (int64) pg_atomic_read_u64(value);
}

static void
put_row(ReturnSetInfo *result, const DcPresenceRow *row, DcPresenceSlot *slot)
{
	int64 numbers[NUM_COLS] = {0};
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};

	if (slot != NULL)
	{
		numbers[COL_ROOMS] = number(&slot->rooms);
		numbers[COL_MEMBERS] = number(&slot->members);
		numbers[COL_CONNECTIONS] = number(&slot->conns);
		numbers[COL_MEMORY] = number(&slot->cells) * map_cell_size(presence_map);
		numbers[COL_JOINED] = number(&slot->joined);
		numbers[COL_LEFT] = number(&slot->left);
		numbers[COL_EXPIRED] = number(&slot->expired);
		numbers[COL_REFUSED] = number(&slot->refused);
		numbers[COL_UNTOLD] = (int64) slot->ndirty;
	}
	if (presence_area != NULL)
		numbers[COL_EPOCH] = number(&presence_area->epoch);
	for (int i = 0; i < NUM_COLS; i++)
		values[i] = Int64GetDatum(numbers[i]);
	values[COL_NAME] = CStringGetTextDatum(row->name);
	values[COL_OWNER] = ObjectIdGetDatum(row->owner);
	values[COL_APPROX] = BoolGetDatum(row->approx);
	/* a sketch does not know who comes and goes, nor by which connection */
	nulls[COL_CONNECTIONS] = nulls[COL_JOINED] = nulls[COL_LEFT] = nulls[COL_EXPIRED] = row->approx;
	nulls[COL_EPOCH] = presence_area == NULL;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}
