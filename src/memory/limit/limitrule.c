/*
 * limitrule.c
 *		Rules of limits: the catalog dcounter.limit_rule, and the functions that create, change and drop them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Rights, and what sessions remember, are as with all rules (base/rule.c, base/ruleddl.c). Some
 * users may also give back what was used (refund it), which opens the limit. A rule's numbers are
 * also in its slot, in shared memory, with the version of the row: a session that does not know of
 * a change yet finds the newer one there (limitarea.c). A transaction cannot use a rule that it has
 * created or altered, so that no version gets there that may be rolled back.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/args.h"
#include "base/lockclass.h"
#include "base/rule.h"
#include "memory/limit/limiter.h"

PG_FUNCTION_INFO_V1(dc_limit_create);
PG_FUNCTION_INFO_V1(dc_limit_alter);
PG_FUNCTION_INFO_V1(dc_limit_drop);
PG_FUNCTION_INFO_V1(dc_limit_grant);
PG_FUNCTION_INFO_V1(dc_limit_revoke);

static const char *const algorithms[] = {"gcra", "fixed", "log", "sliding", "concurrent"};
static const char *const on_full_choices[] = {"deny", "allow"};
static const char *const after_crash_choices[] = {"open", "full"};

static void limit_columns(DcCatRow *io, void *data);
static void limit_fill(DcRuleKnown *entry, const DcRuleRow *data);
static void limit_settle(const DcRuleChange *changes);
static void take_numbers(FunctionCallInfo fcinfo, DcLimitRow *row, int rate, int per, int burst);
static void take_choices(FunctionCallInfo fcinfo, DcLimitRow *row, int on_full, int after_crash, int max_keys);

DcRuleKind limit_rules = {
	.what = "limit",
	.name_arg = "limit name",
	.view = "dc_stat_limits",
	.uncommits = "Limits are not transactional: what one counts would remain after a rollback.",
	.by_name = "limit_rule_name_key",
	.ids = "limit_id",
	.trusted_args = "..., refund => true",
	.lockclass = LIMIT_LOCK_CLASS,
	.catalog = {.table = "limit_rule", .pkey = "limit_rule_pkey", .nkeys = 1, .size = sizeof(DcLimitRow), .columns = limit_columns, .keeps_lock = true},
	.cache = {.name = "dcounter limits", .size = sizeof(DcLimitKnown)},
	.fill = limit_fill,
	.settle = limit_settle,
};

/*
 * Read or write the columns of dcounter.limit_rule, in their order.
 */
static void
limit_columns(DcCatRow *io, void *data)
{
	DcLimitRow *row = data;

	rule_columns_begin(io, &row->rule);
	cat_roles(io, &row->rule.trusted);
	row->algorithm = cat_choice(io, row->algorithm, algorithms, lengthof(algorithms));
	cat_int8(io, &row->rate);
	cat_duration(io, &row->per, true);
	cat_int8(io, &row->burst);
	cat_int8(io, &row->max_keys);
	row->on_full = cat_choice(io, row->on_full, on_full_choices, lengthof(on_full_choices));
	row->after_crash = cat_choice(io, row->after_crash, after_crash_choices, lengthof(after_crash_choices));
	rule_columns_end(io, &row->rule);
}

/*
 * limit_rule_of returns the part of a row that counting uses.
 */
DcLimitRule
limit_rule_of(const DcLimitRow *row)
{
	return (DcLimitRule){
		.id = row->rule.id,
		.version = row->rule.version,
		.numbers = {.kind = (DcLimitKind) row->algorithm, .rate = row->rate, .per = row->per, .burst = row->burst},
		.max_keys = row->max_keys,
		.allow_if_full = row->on_full == 1,
		.full_if_lost = row->after_crash == 1,
	};
}

/*
 * limit_row_owner returns the owner by which a rule's slot is found.
 */
DcLimitOwner
limit_row_owner(int32 id)
{
	return (DcLimitOwner){.catalog = catalog_relation(limit_rules.catalog.table), .id = id};
}

/*
 * limit_known returns a rule that the current user may use, or may also refund units of. Errors:
 * 42704, 42501, 55006 if this transaction has changed it, 55000 without shared memory.
 */
DcLimitKnown *
limit_known(const char *name, bool refund)
{
	limit_check_memory();
	return rule_known(&limit_rules, name, refund);
}

/*
 * Fill what the session remembers of a rule from its row, and find the slot.
 */
static void
limit_fill(DcRuleKnown *entry, const DcRuleRow *data)
{
	DcLimitUse *use = &((DcLimitKnown *) entry)->use;

	*use = (DcLimitUse){.owner = {.catalog = entry->catalog, .id = data->id}, .holder = superuser_arg(data->owner) ? InvalidOid : data->owner, .rule = limit_rule_of((const DcLimitRow *) data)};
	limit_use_slot(use);
}

/*
 * limit_settle removes from memory the keys of rules that were dropped, and notes the new rules.
 */
static void
limit_settle(const DcRuleChange *changes)
{
	DcLimitGone gone = {0};

	for (const DcRuleChange *change = changes; change != NULL; change = change->next)
	{
		if (!change->is_new)
			limit_gone_add(&gone, MyDatabaseId, &(DcLimitOwner){.catalog = change->catalog, .id = change->id});
	}
	limit_forget(&gone);
	for (const DcRuleChange *change = changes; change != NULL; change = change->next)
	{
		if (change->is_new)
			limit_note_young(MyDatabaseId, &(DcLimitOwner){.catalog = change->catalog, .id = change->id});
	}
}

/*
 * dc_limit_create(name text, algorithm text, rate bigint, per interval, burst bigint, on_full text,
 * after_crash text, max_keys bigint, if_not_exists boolean).
 *
 * Errors: 42710 if there is one of that name, 22004, 22023.
 */
Datum
dc_limit_create(PG_FUNCTION_ARGS)
{
	DcLimitRow row = {0};

	for (int i = 1; i <= 3; i++)
		arg_not_null(fcinfo, i, i == 1 ? "algorithm" : i == 2 ? "rate"
															  : "per");
	arg_not_null(fcinfo, 5, "on_full");
	arg_not_null(fcinfo, 6, "after_crash");
	if (!rule_create_begin(&limit_rules, fcinfo, 8, &row.rule))
		PG_RETURN_VOID();
	row.algorithm = choice_from_text("algorithm", text_to_cstring(PG_GETARG_TEXT_PP(1)), algorithms, lengthof(algorithms));
	take_numbers(fcinfo, &row, 2, 3, 4);
	take_choices(fcinfo, &row, 5, 6, 7);
	rule_create(&limit_rules, &row.rule);
	PG_RETURN_VOID();
}

/*
 * take_numbers sets the numbers that a function was given in these arguments.
 */
static void
take_numbers(FunctionCallInfo fcinfo, DcLimitRow *row, int rate, int per, int burst)
{
	DcLimitNumbers numbers;
	const char *wrong;
	bool has_burst = row->algorithm == LIMIT_GCRA;

	if (!PG_ARGISNULL(burst) && !has_burst)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("burst is for algorithm \"gcra\" only")));
	if (!PG_ARGISNULL(rate))
		row->rate = PG_GETARG_INT64(rate);
	if (!PG_ARGISNULL(per))
		row->per = interval_to_duration(PG_GETARG_INTERVAL_P(per), "per");
	if (!PG_ARGISNULL(burst))
		row->burst = PG_GETARG_INT64(burst);
	else if (has_burst && row->rule.id == 0)
		row->burst = row->rate; /* of a new one */
	numbers = limit_rule_of(row).numbers;
	wrong = limit_numbers_wrong(&numbers);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg_internal("%s", wrong)));
}

/*
 * Put the arguments on_full, after_crash and max_keys into the row. A NULL leaves the row's value.
 * An error for an unknown choice, and for max_keys below 1; only dc_limit_alter() takes 0, which
 * removes the limit.
 */
static void
take_choices(FunctionCallInfo fcinfo, DcLimitRow *row, int on_full, int after_crash, int max_keys)
{
	if (!PG_ARGISNULL(on_full))
		row->on_full = choice_from_text("on_full", text_to_cstring(PG_GETARG_TEXT_PP(on_full)), on_full_choices, 2);
	if (!PG_ARGISNULL(after_crash))
		row->after_crash = choice_from_text("after_crash", text_to_cstring(PG_GETARG_TEXT_PP(after_crash)), after_crash_choices, 2);
	if (!PG_ARGISNULL(max_keys))
	{
		row->max_keys = PG_GETARG_INT64(max_keys);
		if (row->max_keys < 0 || (row->max_keys == 0 && row->rule.id == 0))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("max_keys must be greater than zero")));
	}
}

/*
 * dc_limit_alter(name text, rate bigint, per interval, burst bigint, on_full text, after_crash
 * text, max_keys bigint). NULL keeps a setting; max_keys 0 removes it.
 */
Datum
dc_limit_alter(PG_FUNCTION_ARGS)
{
	DcLimitRow *row = rule_open(&limit_rules, fcinfo, "alter");

	take_numbers(fcinfo, row, 1, 2, 3);
	take_choices(fcinfo, row, 4, 5, 6);
	rule_alter(&limit_rules, &row->rule);
	PG_RETURN_VOID();
}

/*
 * dc_limit_drop(name text).
 */
Datum
dc_limit_drop(PG_FUNCTION_ARGS)
{
	return rule_drop(&limit_rules, fcinfo);
}

/*
 * dc_limit_grant(name text, role regrole, refund boolean).
 */
Datum
dc_limit_grant(PG_FUNCTION_ARGS)
{
	return rule_grant(&limit_rules, fcinfo, bool_arg(fcinfo, 2, "refund"));
}

/*
 * dc_limit_revoke(name text, role regrole); from a dropped role, too.
 */
Datum
dc_limit_revoke(PG_FUNCTION_ARGS)
{
	return rule_revoke(&limit_rules, fcinfo);
}
