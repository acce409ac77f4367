/*
 * presencestat.c
 *		The view dc_stat_presence: presences, their members, and the memory that these take.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Numbers of joins and leaves are since the start of the server, or since the presence was used
 * first after that. They are read without locks: each is right, but not all are of one moment.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "base/compat.h"
#include "memory/presence/presence.h"

PG_FUNCTION_INFO_V1(stat_presence);

enum
{
	STAT_NAME,
	STAT_OWNER,
	STAT_APPROX,
	STAT_ROOMS,
	STAT_MEMBERS,
	STAT_CONNECTIONS,
	STAT_MEMORY,
	STAT_JOINED,
	STAT_LEFT,
	STAT_EXPIRED,
	STAT_REFUSED,
	STAT_UNTOLD,
	STAT_EPOCH,
	STAT_COLS
};

static void presencestat_put_row(ReturnSetInfo *result, const DcPresenceRow *row, DcPresenceSlot *slot);

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
	rows = rule_read_all(&presence_rules);
	foreach(lc, rows)
	{
		const DcPresenceRow *row = lfirst(lc);
		DcPresenceOwner owner = presence_row_owner(row->rule.id);

		CHECK_FOR_INTERRUPTS();
		if (sees_all || rule_may_use(&row->rule))
			presencestat_put_row(result, row, presence_slot_of(&owner));
	}
	return (Datum) 0;
}

/*
 * Return a shared number, as a bigint.
 */
static int64
presencestat_number(pg_atomic_uint64 *value)
{
	return (int64) pg_atomic_read_u64(value);
}

/*
 * Add a presence's row to the result. Without a slot it has not been used since the start, and its
 * numbers are 0.
 */
static void
presencestat_put_row(ReturnSetInfo *result, const DcPresenceRow *row, DcPresenceSlot *slot)
{
	int64 numbers[STAT_COLS] = {0};
	Datum values[STAT_COLS];
	bool nulls[STAT_COLS] = {false};

	if (slot != NULL)
	{
		numbers[STAT_ROOMS] = presencestat_number(&slot->rooms);
		numbers[STAT_MEMBERS] = presencestat_number(&slot->members);
		numbers[STAT_CONNECTIONS] = presencestat_number(&slot->conns);
		numbers[STAT_MEMORY] = presencestat_number(&slot->cells) * map_cell_size(presence_map);
		numbers[STAT_JOINED] = presencestat_number(&slot->joined);
		numbers[STAT_LEFT] = presencestat_number(&slot->left);
		numbers[STAT_EXPIRED] = presencestat_number(&slot->expired);
		numbers[STAT_REFUSED] = presencestat_number(&slot->refused);
		numbers[STAT_UNTOLD] = (int64) slot->ndirty;
	}
	if (presence_area != NULL)
		numbers[STAT_EPOCH] = presencestat_number(&presence_area->epoch);
	for (int i = 0; i < STAT_COLS; i++)
		values[i] = Int64GetDatum(numbers[i]);
	values[STAT_NAME] = CStringGetTextDatum(row->rule.name);
	values[STAT_OWNER] = ObjectIdGetDatum(row->rule.owner);
	values[STAT_APPROX] = BoolGetDatum(row->approx);
	/* a sketch does not know single members or connections */
	nulls[STAT_CONNECTIONS] = nulls[STAT_JOINED] = nulls[STAT_LEFT] = nulls[STAT_EXPIRED] = row->approx;
	nulls[STAT_EPOCH] = presence_area == NULL;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}
