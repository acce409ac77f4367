/*
 * limitsql.c
 *		The SQL functions that check limits, and refund units.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * They are not transactional, run on a standby, and in transactions that only read. They do not run
 * within a security-restricted operation: there a table owner's expression would use up the limits
 * of roles that read the table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "memory/limit/limiter.h"

PG_FUNCTION_INFO_V1(dc_limit);
PG_FUNCTION_INFO_V1(dc_allow);
PG_FUNCTION_INFO_V1(dc_allow_up_to);
PG_FUNCTION_INFO_V1(dc_limit_peek);
PG_FUNCTION_INFO_V1(dc_limit_all);
PG_FUNCTION_INFO_V1(dc_limit_refund);
PG_FUNCTION_INFO_V1(dc_limit_release);
PG_FUNCTION_INFO_V1(dc_limit_renew);
PG_FUNCTION_INFO_V1(dc_limit_reset);
PG_FUNCTION_INFO_V1(dc_throttle);
PG_FUNCTION_INFO_V1(dc_throttle_reset);

enum
{
	COL_ALLOWED,
	COL_REMAINING,
	COL_RETRY_AFTER,
	COL_RESET_AT,
	COL_RULE,
	COL_LEASE,
	NUM_COLS
};

/* The slot of this role's ad hoc limits. */
static DcLimitUse ad_hoc;

static void limitsql_check_context(const char *function);
static void copy_name_arg(FunctionCallInfo fcinfo, char *name);
static void limitsql_call_begin(FunctionCallInfo fcinfo, DcLimitCall *call, char *name, bool refund);
static inline void allow_begin(FunctionCallInfo fcinfo, DcLimitCall *call, char *name);
static void key_begin(DcLimitCall *call, DcLimitKnown *known, Datum key);
static int64 units_arg(FunctionCallInfo fcinfo, int argno, const char *what);
static Datum limitsql_result(FunctionCallInfo fcinfo, const DcLimitCall *call, bool allowed, Datum leases);
static int begin_all(FunctionCallInfo fcinfo, DcLimitCall *calls, int *which, int *count);
static const DcLimitCall *limitsql_deciding(const DcLimitCall *calls, int n, bool allowed);

/*
 * dc_limit(name text, key text, cost bigint) -> (allowed, remaining, retry_after, reset_at, rule,
 * lease).
 *
 * Errors: 42704 if there is no such limit, 42501, 22004, 22023 cost, 54000 a key that is too long,
 * 55000 without preload, 55006.
 */
Datum
dc_limit(PG_FUNCTION_ARGS)
{
	char name[RULE_NAME_MAX + 1];
	DcLimitCall call;
	bool allowed;

	limitsql_check_context("dc_limit()");
	limitsql_call_begin(fcinfo, &call, name, false);
	call.cost = units_arg(fcinfo, 2, "cost");
	allowed = limit_take(&call, 1, true);
	return limitsql_result(fcinfo, &call, allowed, allowed && call.lease != 0 ? Int64GetDatum(call.lease) : (Datum) 0);
}

/*
 * dc_allow(name text, key text, cost bigint) -> the column allowed of dc_limit(), without the rest
 * of the row, which takes longer to make and to read than the limit takes to decide.
 *
 * Errors: as of dc_limit(), and 42809 for a limit with leases, as the caller would not know which
 * lease to give back.
 */
Datum
dc_allow(PG_FUNCTION_ARGS)
{
	char name[RULE_NAME_MAX + 1];
	DcLimitCall call;

	limitsql_check_context("dc_allow()");
	allow_begin(fcinfo, &call, name);
	PG_RETURN_BOOL(limit_take(&call, 1, true));
}

/*
 * dc_allow_up_to(name text, key text, cost bigint) -> how many units of the cost were allowed, and
 * counted: 0 to all.
 *
 * Errors: as of dc_allow().
 */
Datum
dc_allow_up_to(PG_FUNCTION_ARGS)
{
	char name[RULE_NAME_MAX + 1];
	DcLimitCall call;

	limitsql_check_context("dc_allow_up_to()");
	allow_begin(fcinfo, &call, name);
	PG_RETURN_INT64(limit_take_up_to(&call));
}

/*
 * allow_begin takes the limit, the key and the cost of a call that does not return a lease.
 */
static inline void
allow_begin(FunctionCallInfo fcinfo, DcLimitCall *call, char *name)
{
	limitsql_call_begin(fcinfo, call, name, false);
	if (call->use->rule.numbers.kind == LIMIT_CONCURRENT)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("limit \"%s\" gives leases", name),
				 errhint("Use dc_limit(), which returns the lease.")));
	call->cost = units_arg(fcinfo, 2, "cost");
}

/*
 * dc_limit_peek(name text, key text, cost bigint) -> what dc_limit() would say, without a lease.
 */
Datum
dc_limit_peek(PG_FUNCTION_ARGS)
{
	char name[RULE_NAME_MAX + 1];
	DcLimitCall call;
	bool allowed;

	limitsql_check_context("dc_limit_peek()");
	limitsql_call_begin(fcinfo, &call, name, false);
	call.cost = units_arg(fcinfo, 2, "cost");
	allowed = limit_take(&call, 1, false);
	if (allowed && !call.full)
		call.answer.remaining += call.cost;
	return limitsql_result(fcinfo, &call, allowed, (Datum) 0);
}

/*
 * limitsql_check_context raises an error where limits must not be used.
 */
static void
limitsql_check_context(const char *function)
{
	limit_check_memory();
	prevent_lasting(function);
}

/*
 * Copy the first argument, a limit's name, to `name`; an error if it is NULL.
 */
static void
copy_name_arg(FunctionCallInfo fcinfo, char *name)
{
	arg_not_null(fcinfo, 0, "limit name");
	rule_name_copy(&limit_rules, PG_GETARG_DATUM(0), name);
}

/*
 * limitsql_call_begin takes the limit and the key that a function was called with.
 */
static void
limitsql_call_begin(FunctionCallInfo fcinfo, DcLimitCall *call, char *name, bool refund)
{
	DcLimitKnown *known;

	copy_name_arg(fcinfo, name);
	arg_not_null(fcinfo, 1, "key");
	known = limit_known(name, refund);
	call->name = known->rule.name;
	key_begin(call, known, key_text_arg(fcinfo, 1, "key"));
}

/*
 * text_to_key points to the bytes of a key (54000 if it is too long).
 */
static void
text_to_key(Datum value, DcKey *key)
{
	text *t = DatumGetTextPP(value);

	key->data = VARDATA_ANY(t);
	key->len = VARSIZE_ANY_EXHDR(t);
	check_length("key of a limit", key->len, 0, DC_MAX_KEY_BYTES);
}

/*
 * Begin a call about a key of a limit. An error if the key is longer than keys may be.
 */
static void
key_begin(DcLimitCall *call, DcLimitKnown *known, Datum key_value)
{
	DcKey key;

	text_to_key(key_value, &key);
	*call = (DcLimitCall){.use = &known->use, .name = known->rule.name};
	map_key_init(limit_map, &call->key, MyDatabaseId, (Oid) known->use.owner.id, key.data, key.len);
}

/*
 * units_arg returns a number of units (22004, 22023).
 */
static int64
units_arg(FunctionCallInfo fcinfo, int argno, const char *what)
{
	int64 units = amount_arg(fcinfo, argno, what);

	if (units <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be greater than zero", what)));
	return units;
}

/*
 * result_desc returns the description of a function's result. It is kept for the session, in
 * TopMemoryContext, as finding it takes longer than asking a limit.
 */
static TupleDesc
result_desc(FunctionCallInfo fcinfo)
{
	static struct
	{
		Oid function;
		TupleDesc desc;
	} known[8];
	Oid function = fcinfo->flinfo->fn_oid;
	MemoryContext old;
	TupleDesc desc;
	int i = 0;

	while (i < lengthof(known) - 1 && OidIsValid(known[i].function) && known[i].function != function)
		i++;
	if (known[i].function == function)
		return known[i].desc;
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE || desc->natts != NUM_COLS)
		elog(ERROR, "return type must be a row type with %d columns", NUM_COLS);
	old = MemoryContextSwitchTo(TopMemoryContext);
	desc = CreateTupleDescCopy(desc);
	MemoryContextSwitchTo(old);
	known[i].desc = BlessTupleDesc(desc);
	known[i].function = function;
	return desc;
}

/*
 * limitsql_result makes the result of a call. reset_at is shown by the wall clock; nothing depends
 * on it.
 */
static Datum
limitsql_result(FunctionCallInfo fcinfo, const DcLimitCall *call, bool allowed, Datum leases)
{
	TupleDesc desc = result_desc(fcinfo);
	Datum values[NUM_COLS];
	bool nulls[NUM_COLS] = {false};
	Interval retry = {.time = call->answer.retry_after};
	int64 lasts = call->idle_at - call->now;

	values[COL_ALLOWED] = BoolGetDatum(allowed);
	values[COL_REMAINING] = Int64GetDatum(call->answer.remaining);
	if (allowed)
		retry.time = 0;
	nulls[COL_RETRY_AFTER] = retry.time == LIMIT_NEVER;
	values[COL_RETRY_AFTER] = IntervalPGetDatum(&retry);
	values[COL_RESET_AT] = TimestampTzGetDatum(GetCurrentTimestamp() + Max(lasts, 0));
	values[COL_RULE] = call->name != NULL ? CStringGetTextDatum(call->name) : (Datum) 0;
	nulls[COL_RULE] = call->name == NULL;
	values[COL_LEASE] = leases;
	nulls[COL_LEASE] = leases == (Datum) 0;
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

/*
 * dc_limit_all(names text[], keys anycompatiblearray, costs bigint[]) -> (allowed, remaining,
 * retry_after, reset_at, rule, leases): all of them, or none. The column rule has the one that
 * refuses longest, or has least left.
 */
Datum
dc_limit_all(PG_FUNCTION_ARGS)
{
	DcLimitCall calls[LIMIT_MAX_CALLS];
	int which[LIMIT_MAX_CALLS]; /* call of each of the limits */
	Datum leases[LIMIT_MAX_CALLS];
	bool no_lease[LIMIT_MAX_CALLS];
	bool any = false;
	int count;
	int n;
	bool allowed;
	Datum array = (Datum) 0;

	limitsql_check_context("dc_limit_all()");
	n = begin_all(fcinfo, calls, which, &count);
	allowed = limit_take(calls, n, true);
	for (int i = 0; i < count && allowed; i++)
	{
		leases[i] = Int64GetDatum(calls[which[i]].lease);
		no_lease[i] = calls[which[i]].lease == 0;
		any |= !no_lease[i];
	}
	if (any)
	{
		int lower = 1;

		array = PointerGetDatum(construct_md_array(leases, no_lease, 1, &count, &lower, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	}
	return limitsql_result(fcinfo, limitsql_deciding(calls, n, allowed), allowed, array);
}

/*
 * begin_all takes limits, keys and costs, and adds up the costs of duplicates. Returns how many
 * calls there are.
 */
static int
begin_all(FunctionCallInfo fcinfo, DcLimitCall *calls, int *which, int *count)
{
	int nkeys;
	int ncosts;
	int n = 0;
	Datum *names = array_arg(fcinfo, 0, "limit names", "limit name", count);
	Datum *keys = key_texts_arg(fcinfo, 1, "keys", "key", &nkeys);
	Datum *costs = PG_ARGISNULL(2) ? NULL : array_arg(fcinfo, 2, "costs", "cost", &ncosts);

	if (nkeys != *count || (costs != NULL && ncosts != *count))
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("limits, keys and costs must have the same length")));
	if (*count == 0 || *count > LIMIT_MAX_CALLS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of limits must be between 1 and %d", LIMIT_MAX_CALLS)));
	for (int i = 0; i < *count; i++)
	{
		char name[RULE_NAME_MAX + 1];
		int64 cost = costs != NULL ? DatumGetInt64(costs[i]) : 1;
		DcLimitCall *call = &calls[n];

		if (cost <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("cost must be greater than zero")));
		rule_name_copy(&limit_rules, names[i], name);
		key_begin(call, limit_known(name, false), keys[i]);
		for (which[i] = 0; which[i] < n; which[i]++)
		{
			const DcMapKey *other = &calls[which[i]].key;

			if (other->hash == call->key.hash && other->counter == call->key.counter &&
				bytes_compare(other->data, other->len, call->key.data, call->key.len) == 0)
				break;
		}
		if (pg_add_s64_overflow(calls[which[i]].cost, cost, &calls[which[i]].cost))
			calls[which[i]].cost = PG_INT64_MAX; /* more than any limit */
		n = Max(n, which[i] + 1);
	}
	return n;
}

/*
 * limitsql_deciding returns the call whose answer is shown: the one that refuses longest, or, if
 * all allow, has least left.
 */
static const DcLimitCall *
limitsql_deciding(const DcLimitCall *calls, int n, bool allowed)
{
	const DcLimitCall *best = NULL;

	for (int i = 0; i < n; i++)
	{
		const DcLimitAnswer *answer = &calls[i].answer;

		if (!allowed && answer->allowed)
			continue;
		if (best == NULL || (allowed ? answer->remaining < best->answer.remaining : answer->retry_after > best->answer.retry_after))
			best = &calls[i];
	}
	return best;
}

/*
 * dc_limit_refund(name text, key text, units bigint) -> how many units there are now.
 *
 * Errors: as of dc_limit(), and 42809 for a limit with leases.
 */
Datum
dc_limit_refund(PG_FUNCTION_ARGS)
{
	char name[RULE_NAME_MAX + 1];
	DcLimitCall call;

	limitsql_check_context("dc_limit_refund()");
	limitsql_call_begin(fcinfo, &call, name, true);
	if (call.use->rule.numbers.kind == LIMIT_CONCURRENT)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("limit \"%s\" gives leases", name),
				 errhint("Use dc_limit_release().")));
	PG_RETURN_INT64(limit_give_back(&call, units_arg(fcinfo, 2, "units")));
}

/*
 * dc_limit_release(name text, key text, lease bigint) -> whether it was still held.
 */
Datum
dc_limit_release(PG_FUNCTION_ARGS)
{
	char name[RULE_NAME_MAX + 1];
	DcLimitCall call;

	limitsql_check_context("dc_limit_release()");
	limitsql_call_begin(fcinfo, &call, name, false);
	PG_RETURN_BOOL(limit_lease(&call, amount_arg(fcinfo, 2, "lease"), false));
}

/*
 * dc_limit_renew(name text, key text, lease bigint) -> whether it was still held; then it is
 * renewed.
 */
Datum
dc_limit_renew(PG_FUNCTION_ARGS)
{
	char name[RULE_NAME_MAX + 1];
	DcLimitCall call;

	limitsql_check_context("dc_limit_renew()");
	limitsql_call_begin(fcinfo, &call, name, false);
	PG_RETURN_BOOL(limit_lease(&call, amount_arg(fcinfo, 2, "lease"), true));
}

/*
 * dc_limit_reset(name text, key text) -> whether the key had an entry; now it is as good as new.
 */
Datum
dc_limit_reset(PG_FUNCTION_ARGS)
{
	char name[RULE_NAME_MAX + 1];
	DcLimitCall call;

	limitsql_check_context("dc_limit_reset()");
	limitsql_call_begin(fcinfo, &call, name, true);
	PG_RETURN_BOOL(limit_clear(&call));
}

/*
 * dc_throttle(key text, burst bigint, rate bigint, per interval, cost bigint) -> as dc_limit(): a
 * token bucket without a rule. It is the caller's own: another role, or other numbers, make another
 * bucket.
 */
Datum
dc_throttle(PG_FUNCTION_ARGS)
{
	DcLimitAdHoc bytes;
	DcKey key;
	DcLimitCall call = {.use = &ad_hoc};
	DcLimitNumbers *numbers = &ad_hoc.rule.numbers;
	const char *wrong;
	bool allowed;

	limitsql_check_context("dc_throttle()");
	arg_not_null(fcinfo, 0, "key");
	arg_not_null(fcinfo, 3, "per");
	text_to_key(key_text_arg(fcinfo, 0, "key"), &key);
	bytes.burst = amount_arg(fcinfo, 1, "burst");
	bytes.rate = amount_arg(fcinfo, 2, "rate");
	bytes.per = interval_to_duration(PG_GETARG_INTERVAL_P(3), "per");
	bytes.role = GetUserId();
	memcpy(bytes.key, key.data, key.len);
	call.cost = units_arg(fcinfo, 4, "cost");
	if (ad_hoc.slot == NULL || ad_hoc.owner.role != bytes.role)
	{
		ad_hoc = (DcLimitUse){.owner = {.role = bytes.role}};
		limit_use_slot(&ad_hoc);
	}
	*numbers = (DcLimitNumbers){LIMIT_GCRA, bytes.rate, bytes.per, bytes.burst};
	wrong = limit_numbers_wrong(numbers);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg_internal("%s", wrong)));
	map_key_init(limit_map, &call.key, MyDatabaseId, InvalidOid, (const char *) &bytes, offsetof(DcLimitAdHoc, key) + key.len);
	allowed = limit_take(&call, 1, true);
	return limitsql_result(fcinfo, &call, allowed, (Datum) 0);
}

/*
 * dc_throttle_reset(key text, role regrole) -> how many ad hoc limits of a role there were: those
 * of a key, or all for NULL. Now they are as good as new. NULL as role is the caller.
 *
 * Errors: 42501 if the caller lacks the privileges of the role, 54000, 55000.
 */
Datum
dc_throttle_reset(PG_FUNCTION_ARGS)
{
	Oid role = PG_ARGISNULL(1) ? GetUserId() : PG_GETARG_OID(1);
	DcKey key;

	limitsql_check_context("dc_throttle_reset()");
	if (!has_privs_of_role(GetUserId(), role))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to reset ad hoc limits of another role")));
	if (!PG_ARGISNULL(0))
		text_to_key(key_text_arg(fcinfo, 0, "key"), &key);
	PG_RETURN_INT64(limit_forget_ad_hoc(role, PG_ARGISNULL(0) ? NULL : &key));
}
