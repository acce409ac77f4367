/*
 * presencerule.c
 *		Rules of presences: the catalog dcounter.presence_rule, and the functions that create, change and drop them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Rights, and what sessions remember, are as with all rules (base/rule.c, base/ruleddl.c). Users
 * may let members enter and leave, and list them. A rule cannot be used by the transaction that has
 * created or altered it: members would stay if it is rolled back. The members of a rule that is
 * dropped leave when that is committed, or, if it was prepared, when their time is up.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/args.h"
#include "base/lockclass.h"
#include "base/rule.h"
#include "memory/presence/presence.h"

PG_FUNCTION_INFO_V1(dc_presence_create);
PG_FUNCTION_INFO_V1(dc_presence_alter);
PG_FUNCTION_INFO_V1(dc_presence_drop);
PG_FUNCTION_INFO_V1(dc_presence_grant);
PG_FUNCTION_INFO_V1(dc_presence_revoke);

static void presence_columns(DcCatRow *io, void *data);
static void presence_fill(DcRuleKnown *entry, const DcRuleRow *data);
static void presence_settle(const DcRuleChange *changes);
/* Presences that a role can own. */
#define PRESENCES_OF_ROLE 2000

static void prevent_very_many(void);
static void take_settings(FunctionCallInfo fcinfo, DcPresenceRow *row, int first);

DcRuleKind presence_rules = {
	.what = "presence",
	.name_arg = "presence name",
	.view = "dc_stat_presence",
	.uncommits = "Presences are not transactional: members would remain after a rollback.",
	.by_name = "presence_rule_name_key",
	.ids = "presence_id",
	.lockclass = PRESENCE_LOCK_CLASS,
	.catalog = {.table = "presence_rule", .pkey = "presence_rule_pkey", .nkeys = 1, .size = sizeof(DcPresenceRow), .columns = presence_columns, .keeps_lock = true},
	.cache = {.name = "dcounter presences", .size = sizeof(DcPresenceKnown)},
	.fill = presence_fill,
	.settle = presence_settle,
};

/*
 * Read or write the columns of dcounter.presence_rule, in their order.
 */
static void
presence_columns(DcCatRow *io, void *data)
{
	DcPresenceRow *row = data;
	Datum channel = io->reading || row->channel == NULL ? (Datum) 0 : CStringGetTextDatum(row->channel);
	int64 events = row->events < 0 ? 0 : row->events;

	rule_columns_begin(io, &row->rule);
	cat_duration(io, &row->ttl, false);
	cat_duration(io, &events, false);
	cat_datum(io, TEXTOID, &channel);
	cat_int8(io, &row->max_members);
	cat_bool(io, &row->approx);
	rule_columns_end(io, &row->rule);
	cat_int8(io, &row->epoch);
	if (!io->reading)
		return;
	row->events = events == 0 ? -1 : events;
	row->channel = channel != (Datum) 0 ? TextDatumGetCString(channel) : NULL;
}

/*
 * presence_any_rule returns true if this database has rules.
 */
bool
presence_any_rule(void)
{
	return rule_any(&presence_rules);
}

/*
 * presence_rule_of returns the part of a row that sessions use.
 */
DcPresenceRule
presence_rule_of(const DcPresenceRow *row)
{
	return (DcPresenceRule){
		.id = row->rule.id,
		.version = row->rule.version,
		.ttl = row->ttl,
		.events = row->events,
		.max_members = row->max_members,
		.approx = row->approx,
	};
}

/*
 * presence_row_owner returns the owner by which a rule's slot is found.
 */
DcPresenceOwner
presence_row_owner(int32 id)
{
	return (DcPresenceOwner){.catalog = catalog_relation(presence_rules.catalog.table), .id = id};
}

/*
 * presence_row_holder returns the role of whose share a rule's slot is; InvalidOid if it is of
 * nobody's, as superusers have no bound.
 */
Oid
presence_row_holder(const DcPresenceRow *row)
{
	return superuser_arg(row->rule.owner) ? InvalidOid : row->rule.owner;
}

/*
 * presence_known returns a rule that the current user may use. Errors:
 * 42704, 42501, 55006 if this transaction has changed it, 55000 without shared memory.
 */
DcPresenceKnown *
presence_known(const char *name)
{
	presence_check_memory();
	return rule_known(&presence_rules, name, false);
}

/*
 * Fill what the session remembers of a rule from its row, and find the slot.
 */
static void
presence_fill(DcRuleKnown *entry, const DcRuleRow *data)
{
	DcPresenceUse *use = &((DcPresenceKnown *) entry)->use;
	const DcPresenceRow *row = (const DcPresenceRow *) data;

	*use = (DcPresenceUse){.owner = {.catalog = entry->catalog, .id = data->id}, .holder = presence_row_holder(row), .rule = presence_rule_of(row)};
	presence_use_slot(use);
}

/*
 * Let all members leave the rules that the transaction has dropped, now that it has committed.
 */
static void
presence_settle(const DcRuleChange *changes)
{
	DcPresenceGone gone = {0};

	for (const DcRuleChange *change = changes; change != NULL; change = change->next)
	{
		if (!change->is_new)
			presence_gone_add(&gone, MyDatabaseId, &(DcPresenceOwner){.catalog = change->catalog, .id = change->id});
	}
	presence_forget(&gone);
}

/*
 * dc_presence_create(name text, ttl interval, events interval, notify text, max_members bigint,
 * approx boolean, if_not_exists boolean).
 *
 * Errors: 42710 if there is one of that name, 54000 if the role has very many, 22004, 22023.
 */
Datum
dc_presence_create(PG_FUNCTION_ARGS)
{
	DcPresenceRow row = {.events = -1, .approx = bool_arg(fcinfo, 5, "approx")};

	arg_not_null(fcinfo, 1, "ttl");
	if (!rule_create_begin(&presence_rules, fcinfo, 6, &row.rule))
		PG_RETURN_VOID();
	prevent_very_many();
	take_settings(fcinfo, &row, 1);
	rule_create(&presence_rules, &row.rule);
	PG_RETURN_VOID();
}

/*
 * Raise 54000 if the user has very many presences: the worker goes over all of them, for all
 * owners.
 */
static void
prevent_very_many(void)
{
	int n = 0;
	ListCell *lc;

	if (superuser())
		return;
	foreach(lc, cat_read_all(&presence_rules.catalog, SnapshotSelf)) /* those of this statement, too */
	{
		CHECK_FOR_INTERRUPTS();
		n += ((const DcRuleRow *) lfirst(lc))->owner == GetUserId();
	}
	if (n >= PRESENCES_OF_ROLE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a role cannot have more than %d presences", PRESENCES_OF_ROLE),
				 errhint("One presence has any number of rooms.")));
}

/*
 * take_settings sets the settings that a function was given, from this argument on: ttl, events,
 * notify, max_members.
 */
static void
take_settings(FunctionCallInfo fcinfo, DcPresenceRow *row, int first)
{
	bool is_new = row->rule.id == 0;

	if (!PG_ARGISNULL(first))
	{
		row->ttl = interval_to_duration(PG_GETARG_INTERVAL_P(first), "ttl");
		if (row->ttl < PRESENCE_MIN_TTL_US || row->ttl > PRESENCE_MAX_TTL_US)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("ttl must be between 1 second and 7 days")));
	}
	if (!PG_ARGISNULL(first + 1))
	{
		row->events = interval_to_duration(PG_GETARG_INTERVAL_P(first + 1), "events");
		if (row->events < 0 || row->events > PRESENCE_MAX_TTL_US || (is_new && row->events == 0))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("events must be greater than zero and at most 7 days")));
		if (row->events == 0)
			row->events = -1;
	}
	if (!PG_ARGISNULL(first + 2))
	{
		row->channel = text_to_cstring(PG_GETARG_TEXT_PP(first + 2));
		check_length("notify", strlen(row->channel), is_new ? 1 : 0, NAMEDATALEN - 1);
		if (row->channel[0] == '\0')
			row->channel = NULL;
	}
	if (row->channel != NULL && row->events < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("notify requires events")));
	if (!PG_ARGISNULL(first + 3))
	{
		row->max_members = PG_GETARG_INT64(first + 3);
		if (row->max_members < 0 || (is_new && row->max_members == 0))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("max_members must be greater than zero")));
	}
}

/*
 * dc_presence_alter(name text, ttl interval, events interval, notify text, max_members bigint).
 * NULL keeps a setting; events and max_members 0 and an empty notify remove it.
 */
Datum
dc_presence_alter(PG_FUNCTION_ARGS)
{
	DcPresenceRow *row = rule_open(&presence_rules, fcinfo, "alter");
	bool had_events = row->events >= 0;

	take_settings(fcinfo, row, 1);
	if (!had_events)
		row->epoch = 0; /* listeners are notified of a reset */
	rule_alter(&presence_rules, &row->rule);
	PG_RETURN_VOID();
}

/*
 * dc_presence_drop(name text).
 */
Datum
dc_presence_drop(PG_FUNCTION_ARGS)
{
	return rule_drop(&presence_rules, fcinfo);
}

/*
 * dc_presence_grant(name text, role regrole), dc_presence_revoke(name text, role regrole); a grant
 * can also be revoked from a dropped role.
 */
Datum
dc_presence_grant(PG_FUNCTION_ARGS)
{
	return rule_grant(&presence_rules, fcinfo, false);
}

Datum
dc_presence_revoke(PG_FUNCTION_ARGS)
{
	return rule_revoke(&presence_rules, fcinfo);
}
