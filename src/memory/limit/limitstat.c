/*
 * limitstat.c
 *		The view dc_stat_limits: rules, their keys in memory, and how often they have allowed and denied.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Numbers are since the start of the server, or since the rule was used first after that. They are
 * read without locks: each is right, but not all are of one moment.
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
#include "memory/limit/limiter.h"

PG_FUNCTION_INFO_V1(stat_limits);

enum
{
	STAT_RULE,
	STAT_OWNER,
	STAT_KEYS,
	STAT_MEMORY,
	STAT_ALLOWED,
	STAT_DENIED,
	STAT_FULL_ALLOWED,
	STAT_FULL_DENIED,
	STAT_COLS
};

static const DcLimitSlot *limitstat_slot_of(const DcLimitOwner *owner);
static void limitstat_put_row(ReturnSetInfo *result, const char *name, Oid owner, const DcLimitSlot *slot);

/*
 * dcounter.stat_limits() -> a row for each rule that the caller may use, and, with no name, for the
 * ad hoc limits of each role whose privileges the caller has.
 */
Datum
stat_limits(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool sees_all = has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
	List *rows;
	ListCell *lc;

	InitMaterializedSRF(fcinfo, 0);
	rows = rule_read_all(&limit_rules);
	foreach(lc, rows)
	{
		const DcRuleRow *row = lfirst(lc);
		DcLimitOwner owner = limit_row_owner(row->id);

		CHECK_FOR_INTERRUPTS();
		if (sees_all || rule_may_use(row))
			limitstat_put_row(result, row->name, row->owner, limitstat_slot_of(&owner));
	}
	for (int i = 0; limit_area != NULL && i < limit_area->nslots; i++)
	{
		const DcLimitSlot *slot = &limit_area->slots[i];

		CHECK_FOR_INTERRUPTS();
		if (slot->database == MyDatabaseId && slot->owner.id == 0 &&
			(sees_all || has_privs_of_role(GetUserId(), slot->owner.role)))
			limitstat_put_row(result, NULL, slot->owner.role, slot);
	}
	return (Datum) 0;
}

/*
 * Return the slot of an owner in this database, or NULL if none is in use. Reads without a lock, as
 * the view does.
 */
static const DcLimitSlot *
limitstat_slot_of(const DcLimitOwner *owner)
{
	for (int i = 0; limit_area != NULL && i < limit_area->nslots; i++)
	{
		const DcLimitSlot *slot = &limit_area->slots[i];

		if (slot->database == MyDatabaseId && limit_owner_is(&slot->owner, owner))
			return slot;
	}
	return NULL;
}

/*
 * Return a shared number as a Datum of bigint.
 */
static Datum
limitstat_number(const pg_atomic_uint64 *value)
{
	return Int64GetDatum((int64) pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, value)));
}

/*
 * Add a row to the result. Without a slot, the rule was not used since the start, and all numbers
 * are 0.
 */
static void
limitstat_put_row(ReturnSetInfo *result, const char *name, Oid owner, const DcLimitSlot *slot)
{
	Datum values[STAT_COLS];
	bool nulls[STAT_COLS] = {false};
	int64 allowed = 0;
	int64 denied = 0;

	values[STAT_RULE] = name != NULL ? CStringGetTextDatum(name) : (Datum) 0;
	nulls[STAT_RULE] = name == NULL;
	values[STAT_OWNER] = ObjectIdGetDatum(owner);
	for (int i = 0; slot != NULL && i < LIMIT_STRIPES; i++)
	{
		allowed += DatumGetInt64(limitstat_number(&slot->stripes[i].allowed));
		denied += DatumGetInt64(limitstat_number(&slot->stripes[i].denied));
	}
	values[STAT_ALLOWED] = Int64GetDatum(allowed);
	values[STAT_DENIED] = Int64GetDatum(denied);
	for (int i = STAT_KEYS; slot == NULL && i < STAT_COLS; i++)
		values[i] = Int64GetDatum(0);
	if (slot != NULL)
	{
		values[STAT_KEYS] = limitstat_number(&slot->keys);
		values[STAT_MEMORY] = Int64GetDatum(DatumGetInt64(limitstat_number(&slot->cells)) * map_cell_size(limit_map));
		values[STAT_FULL_ALLOWED] = limitstat_number(&slot->full_allowed);
		values[STAT_FULL_DENIED] = limitstat_number(&slot->full_denied);
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}
