/*
 * budgetsettle.c
 *		dc_settle(), dc_release(): ending reservations; those whose time is up.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each of them locks the row of the reservation first, and reads its state then: so a reservation
 * ends exactly once, and what it has cost is counted once. Units that were set aside and are not
 * needed go back to the grants that they came from, the last one's first.
 *
 * What a reservation costs may be more than was set aside. The difference is drawn from grants as
 * by a reservation; what they do not have is owed (or, without overdraft, an error, and the
 * reservation stays as it is). A reservation that has expired can still be settled, since the cost
 * was incurred all the same: its units have gone back, so all of the cost is drawn.
 *
 * One whose time is up is open until it is ended: by the worker (budgetjob.c), by a reservation
 * that would otherwise be refused (budgetreserve.c), or by these calls.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "core/table/access.h"
#include "transactional/budget/budget.h"

PG_FUNCTION_INFO_V1(dc_settle);
PG_FUNCTION_INFO_V1(dc_release);

/*
 * What one key of a reservation can cost, and what it can owe when another cost is added: sums of
 * these, also of sessions that add at the same time, fit a bigint.
 */
#define MAX_COST INT64CONST(1000000000000000)
#define MAX_OWED (PG_INT64_MAX / 2)

/* Units of grants, or keys, of the reservations that one statement ends or removes; and one more. */
#define BATCH_LINES 2000
#define BATCH_LINES_TEXT CppAsString2(BATCH_LINES)

/* A reservation whose row is locked. */
typedef struct DcReservation
{
	Datum id;
	const char *state; /* "unknown" if there is none */
	Datum *keys;
	int nkeys;
	DcDrawn drawn;	/* what was set aside */
	int64 *settled; /* of each key; NULL: it is not settled */
} DcReservation;

/* reservation */
static const DcStatement sql_reservation_known = {
	.text = "SELECT r.state FROM @reservations AS r WHERE r.reservation_id = $1", .argtypes = {UUIDOID}, .columns = {DC_TEXT("state")}, .of = DC_OF_MORE + 1};

/* reservation */
static const DcStatement sql_reservation_lock = {
	.text = "SELECT r.state, r.keys, r.grants, r.taken, r.owners, r.settled FROM @reservations AS r"
			" WHERE r.reservation_id = $1 FOR NO KEY UPDATE",
	.argtypes = {UUIDOID},
	.columns = {DC_TEXT("state"), DC_COLUMN("keys", TEXTARRAYOID), DC_COLUMN("grants", INT8ARRAYOID),
				DC_COLUMN("taken", INT8ARRAYOID), DC_COLUMN("owners", INT8ARRAYOID), DC_NULLABLE("settled", INT8ARRAYOID)},
	.of = DC_OF_MORE + 1};

/* reservation, state, costs, now */
static const DcStatement sql_reservation_end = {
	.text = "UPDATE @reservations AS r SET state = $2, settled = $3, ended_at = $4 WHERE r.reservation_id = $1",
	.argtypes = {UUIDOID, TEXTOID, INT8ARRAYOID, TIMESTAMPTZOID}};

#define EXPIRE(condition) \
	"UPDATE @reservations AS r SET state = 'expired', ended_at = $1 WHERE r.reservation_id IN" \
	" (SELECT b.reservation_id FROM (SELECT e.reservation_id, sum(cardinality(e.grants)) OVER (ORDER BY e.expires_at, e.reservation_id)" \
	" - cardinality(e.grants) AS lines FROM (SELECT e.* FROM @reservations AS e WHERE e.state = 'open' AND e.expires_at <= $1" condition \
	" ORDER BY e.expires_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) AS e) AS b WHERE b.lines < " BATCH_LINES_TEXT ") RETURNING r.grants, r.taken"

/* now, how many */
static const DcStatement sql_reservations_expire = {
	.text = EXPIRE(""),
	.argtypes = {TIMESTAMPTZOID, INT4OID},
	.columns = {DC_COLUMN("grants", INT8ARRAYOID), DC_COLUMN("taken", INT8ARRAYOID)},
	.of = DC_OF_MORE + 1};

/* now, how many, keys */
static const DcStatement sql_reservations_expire_of = {
	.text = EXPIRE(" AND e.keys && $3"),
	.argtypes = {TIMESTAMPTZOID, INT4OID, TEXTARRAYOID},
	.columns = {DC_COLUMN("grants", INT8ARRAYOID), DC_COLUMN("taken", INT8ARRAYOID)},
	.of = DC_OF_MORE + 1};

/* ended before, how many */
static const DcStatement sql_reservations_purge = {
	.text = "WITH gone AS (DELETE FROM @reservations AS r WHERE r.reservation_id IN (SELECT b.reservation_id FROM"
			" (SELECT e.reservation_id, sum(cardinality(e.keys)) OVER (ORDER BY e.ended_at, e.reservation_id) - cardinality(e.keys) AS lines FROM"
			" (SELECT e.* FROM @reservations AS e WHERE e.state <> 'open' AND e.ended_at < $1"
			" ORDER BY e.ended_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS e) AS b WHERE b.lines < " BATCH_LINES_TEXT ")"
			" RETURNING r.keys, coalesce(r.settled, '{}') AS settled)"
			" SELECT u.key, least(coalesce(sum(u.settled), 0), 9223372036854775807)::int8, (SELECT count(*) FROM gone),"
			" (SELECT coalesce(sum(cardinality(gone.keys)), 0) FROM gone) >= " BATCH_LINES_TEXT
			" FROM (SELECT) AS one LEFT JOIN (gone CROSS JOIN LATERAL unnest(gone.keys, gone.settled) AS u (key, settled))"
			" ON octet_length(u.key) < " CppAsString2(DC_MAX_KEY_BYTES) " GROUP BY u.key",
	.argtypes = {TIMESTAMPTZOID, INT4OID},
	.columns = {DC_NULLABLE("key", TEXTOID), DC_BIGINT("settled"), DC_BIGINT("removed"), DC_COLUMN("many lines", BOOLOID)},
	.of = DC_OF_MORE + 1};

static void costs_arg(FunctionCallInfo fcinfo, int argno, int64 **costs, int *count);
static void reservation_lock(const DcBudget *budget, Datum id, DcReservation *reservation);
static void reservation_read(const DcSqlSession *session, DcReservation *reservation);
static void reservation_end(const DcBudget *budget, const DcReservation *reservation, const char *state, const int64 *costs);
static void check_same_costs(const DcReservation *reservation, const int64 *costs);
static void reservation_settle(const DcBudget *budget, DcReservation *reservation, const int64 *costs, bool overdraft);
static void key_settle(const DcBudget *budget, const DcReservation *reservation, int place, int64 cost, bool overdraft);
static void lines_give_back(const DcBudget *budget, const DcDrawn *drawn);
static int key_place_compare(const void *a, const void *b, void *keys);
pg_noreturn static void reservation_error(const DcReservation *reservation);

/*
 * dc_settle(budget regclass, reservation_id uuid, cost bigint, overdraft boolean) and
 * dc_settle(budget regclass, reservation_id uuid, costs bigint[], overdraft boolean) -> text: ends
 * a reservation with what it has cost, in the order of its keys. The answer is "settled" if this
 * call did it, "settled already" if another one did, "settled late" if it had expired.
 *
 * Errors: 42704 for a reservation that is unknown; 22023 for another number of costs than of keys,
 * a negative one, or other costs than those that it was settled with; 55000 if it was released, or
 * there is not enough, and overdraft is false.
 */
Datum
dc_settle(PG_FUNCTION_ARGS)
{
	bool overdraft;
	DcReservation reservation;
	DcBudget budget;
	int64 *costs;
	bool late;
	int count;

	arg_not_null(fcinfo, 1, "reservation_id");
	costs_arg(fcinfo, 2, &costs, &count);
	overdraft = bool_arg(fcinfo, 3, "overdraft");
	budget_open(fcinfo, "dc_settle()", RowExclusiveLock, ACL_UPDATE, &budget);
	reservation_lock(&budget, PG_GETARG_DATUM(1), &reservation);
	if (strcmp(reservation.state, "unknown") == 0 || strcmp(reservation.state, "released") == 0)
		reservation_error(&reservation);
	if (count != reservation.nkeys)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("reservation %s has another number of keys",
						DatumGetCString(DirectFunctionCall1(uuid_out, reservation.id))),
				 errdetail("It has %d keys, and there are %d costs.", reservation.nkeys, count)));
	if (strcmp(reservation.state, "settled") == 0)
	{
		check_same_costs(&reservation, costs);
		PG_RETURN_TEXT_P(cstring_to_text("settled already"));
	}
	late = strcmp(reservation.state, "expired") == 0;
	reservation_settle(&budget, &reservation, costs, overdraft);
	PG_RETURN_TEXT_P(cstring_to_text(late ? "settled late" : "settled"));
}

/*
 * Read a cost, or an array of them (22004, 22023).
 */
static void
costs_arg(FunctionCallInfo fcinfo, int argno, int64 **costs, int *count)
{
	if (get_fn_expr_argtype(fcinfo->flinfo, argno) != INT8ARRAYOID)
	{
		*count = 1;
		*costs = palloc(sizeof(int64));
		(*costs)[0] = amount_arg(fcinfo, argno, "cost");
	}
	else
	{
		Datum *values = array_arg(fcinfo, argno, "costs", "cost", count);

		*costs = palloc(Max(*count, 1) * sizeof(int64));
		for (int i = 0; i < *count; i++)
			(*costs)[i] = DatumGetInt64(values[i]);
	}
	for (int i = 0; i < *count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if ((*costs)[i] < 0 || (*costs)[i] > MAX_COST)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("cost must not be negative, or greater than %lld", (long long) MAX_COST)));
	}
}

/*
 * dc_release(budget regclass, reservation_id uuid) -> text: ends a reservation that has cost
 * nothing. The answer is "released" if this call did it, "released already" or "expired" if its
 * units were given back before.
 *
 * Errors: 42704 for a reservation that is unknown, 55000 for one that is settled.
 */
Datum
dc_release(PG_FUNCTION_ARGS)
{
	DcReservation reservation;
	DcBudget budget;

	arg_not_null(fcinfo, 1, "reservation_id");
	budget_open(fcinfo, "dc_release()", RowExclusiveLock, ACL_UPDATE, &budget);
	reservation_lock(&budget, PG_GETARG_DATUM(1), &reservation);
	if (strcmp(reservation.state, "released") == 0)
		PG_RETURN_TEXT_P(cstring_to_text("released already"));
	if (strcmp(reservation.state, "expired") == 0)
		PG_RETURN_TEXT_P(cstring_to_text("expired"));
	if (strcmp(reservation.state, "open") != 0)
		reservation_error(&reservation);
	reservation_end(&budget, &reservation, "released", NULL);
	lines_give_back(&budget, &reservation.drawn);
	PG_RETURN_TEXT_P(cstring_to_text("released"));
}

/*
 * reservation_error fails, since a reservation cannot be ended as it was to be.
 */
static void
reservation_error(const DcReservation *reservation)
{
	char *id = DatumGetCString(DirectFunctionCall1(uuid_out, reservation->id));

	if (strcmp(reservation->state, "unknown") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("reservation %s does not exist", id),
				 errdetail("There were not enough units for it, or it has been removed since it ended.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("reservation %s was %s", id, reservation->state)));
}

/*
 * reservation_broken raises 42809: the row of a reservation was changed by hand.
 */
void
reservation_broken(Datum id)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("reservation %s is not as dcounter created it",
					DatumGetCString(DirectFunctionCall1(uuid_out, id))),
			 errdetail("Its arrays do not match.")));
}

/*
 * reservation_lock locks a reservation and reads it.
 */
static void
reservation_lock(const DcBudget *budget, Datum id, DcReservation *reservation)
{
	MemoryContext caller = CurrentMemoryContext;
	DcSqlSession session;

	*reservation = (DcReservation){.id = id, .state = "unknown", .drawn.cxt = caller};
	budget_sql_begin(&session, budget);
	if (sql_run(&session, &sql_reservation_lock, &id) > 0)
	{
		MemoryContext old = MemoryContextSwitchTo(caller);

		reservation_read(&session, reservation);
		MemoryContextSwitchTo(old);
	}
	else
		sql_check_newer(&session, &sql_reservation_known, &id);
	sql_end(&session);
}

/*
 * Read the reservation in the last result.
 */
static void
reservation_read(const DcSqlSession *session, DcReservation *reservation)
{
	DcDrawn *drawn = &reservation->drawn;
	Datum settled;
	bool *nulls;
	bool isnull;
	int ntaken;
	int nowners;
	int nsettled;

	reservation->state = TextDatumGetCString(rows_datum(&session->rows, 0, 1));
	deconstruct_array(DatumGetArrayTypePCopy(rows_datum(&session->rows, 0, 2)), TEXTOID, -1, false, TYPALIGN_INT,
					  &reservation->keys, &nulls, &reservation->nkeys);
	drawn->grants = int8_array(rows_datum(&session->rows, 0, 3), &drawn->count);
	drawn->taken = int8_array(rows_datum(&session->rows, 0, 4), &ntaken);
	drawn->owners = int8_array(rows_datum(&session->rows, 0, 5), &nowners);
	if (ntaken != drawn->count || nowners != drawn->count)
		reservation_broken(reservation->id);
	for (int i = 0; i < reservation->nkeys; i++)
	{
		if (nulls[i])
			reservation_broken(reservation->id);
		budget_key_check(reservation->keys[i]);
	}
	settled = rows_nullable(&session->rows, 0, 6, &isnull);
	if (isnull)
		return;
	reservation->settled = int8_array(settled, &nsettled);
	if (nsettled != reservation->nkeys)
		reservation_broken(reservation->id);
}

/*
 * reservation_end notes the end of a reservation whose row is locked; `costs` may be NULL.
 */
static void
reservation_end(const DcBudget *budget, const DcReservation *reservation, const char *state, const int64 *costs)
{
	Datum values[] = {reservation->id, CStringGetTextDatum(state),
					  costs == NULL ? (Datum) 0 : int8_array_datum(costs, reservation->nkeys),
					  TimestampTzGetDatum(GetCurrentTimestamp())};
	DcSqlSession session;

	budget_sql_begin(&session, budget);
	if (sql_run_nulls(&session, &sql_reservation_end, values, costs == NULL ? "  n " : "    ") != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("reservation %s could not be ended",
						DatumGetCString(DirectFunctionCall1(uuid_out, reservation->id)))));
	sql_end(&session);
}

/*
 * Raise 22023 if a reservation was settled with other costs.
 */
static void
check_same_costs(const DcReservation *reservation, const int64 *costs)
{
	for (int i = 0; i < reservation->nkeys; i++)
	{
		if (reservation->settled == NULL || reservation->settled[i] != costs[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("reservation %s was already settled with a different cost",
							DatumGetCString(DirectFunctionCall1(uuid_out, reservation->id)))));
	}
}

/*
 * reservation_settle ends a reservation that is open or has expired, in the order of keys.
 */
static void
reservation_settle(const DcBudget *budget, DcReservation *reservation, const int64 *costs, bool overdraft)
{
	int *places = palloc(Max(reservation->nkeys, 1) * sizeof(int));

	if (strcmp(reservation->state, "expired") == 0)
		reservation->drawn.count = 0; /* they have gone back */
	reservation_end(budget, reservation, "settled", costs);
	for (int i = 0; i < reservation->nkeys; i++)
		places[i] = i;
	qsort_arg(places, reservation->nkeys, sizeof(int), key_place_compare, reservation->keys);
	for (int i = 0; i < reservation->nkeys; i++)
		key_settle(budget, reservation, places[i], costs[places[i]], overdraft);
}

/*
 * Compare the places of two keys by the keys, for qsort_arg().
 */
static int
key_place_compare(const void *a, const void *b, void *keys)
{
	CHECK_FOR_INTERRUPTS();
	return texts_compare(((Datum *) keys)[*(const int *) a], ((Datum *) keys)[*(const int *) b]);
}

/*
 * key_settle keeps as many of the units of a key as it has cost, in the order of grants, and gives
 * the others back; or takes more, and owes the rest.
 */
static void
key_settle(const DcBudget *budget, const DcReservation *reservation, int place, int64 cost, bool overdraft)
{
	const DcDrawn *drawn = &reservation->drawn;
	DcUsable *grants;
	int ngrants;
	int64 owed;

	for (int i = 0; i < drawn->count; i++)
	{
		int64 kept;

		CHECK_FOR_INTERRUPTS();
		if (drawn->owners[i] != place)
			continue;
		kept = Min(cost, drawn->taken[i]);
		if (kept < drawn->taken[i])
			grant_give_back(budget, drawn->grants[i], drawn->taken[i] - kept);
		cost -= kept;
	}
	if (cost == 0)
		return;
	ngrants = usable_grants_latest(budget, reservation->keys[place], &grants);
	cost -= grants_draw(budget, grants, ngrants, cost, NULL, 0);
	if (cost == 0)
		return;
	if (!overdraft)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there are not enough units of \"%s\" to settle reservation %s",
						TextDatumGetCString(reservation->keys[place]), DatumGetCString(DirectFunctionCall1(uuid_out, reservation->id))),
				 errdetail("%lld are missing.", (long long) cost),
				 errhint("With overdraft => true they are owed.")));
	latest_snapshot_push();
	owed = owed_units(budget, reservation->keys[place]);
	PopActiveSnapshot();
	if (owed > MAX_OWED - cost)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("\"%s\" cannot owe more than %lld units", TextDatumGetCString(reservation->keys[place]), (long long) MAX_OWED)));
	debt_add(budget, reservation->keys[place], cost);
}

/*
 * lines_give_back gives all units of a reservation back, when the transaction commits.
 */
static void
lines_give_back(const DcBudget *budget, const DcDrawn *drawn)
{
	for (int i = 0; i < drawn->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		grant_give_back(budget, drawn->grants[i], drawn->taken[i]);
	}
}

/*
 * reservations_expire ends reservations whose time is up, and gives their units back when the
 * transaction commits: some of those with one of some keys (text[]), or of any for 0. Passes over
 * those that are being ended. Returns how many; *more: there may be more.
 */
uint64
reservations_expire(const DcBudget *budget, Datum keys, int limit, bool *more)
{
	Datum values[] = {TimestampTzGetDatum(GetCurrentTimestamp()), Int32GetDatum(limit), keys};
	DcSqlSession session;
	uint64 count;
	MemoryContext row_cxt;
	int64 lines = 0;

	budget_sql_begin(&session, budget);
	count = sql_run(&session, keys == (Datum) 0 ? &sql_reservations_expire : &sql_reservations_expire_of, values);
	row_cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter reservation", ALLOCSET_DEFAULT_SIZES);
	for (uint64 i = 0; i < count; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(row_cxt);
		DcDrawn drawn = {0};
		int ntaken;

		CHECK_FOR_INTERRUPTS();

		drawn.grants = int8_array(rows_datum(&session.rows, i, 1), &drawn.count);
		drawn.taken = int8_array(rows_datum(&session.rows, i, 2), &ntaken);
		drawn.count = Min(drawn.count, ntaken);
		MemoryContextSwitchTo(old);
		lines_give_back(budget, &drawn);
		lines += drawn.count;
		MemoryContextReset(row_cxt);
	}
	sql_end(&session);
	*more = count == (uint64) limit || lines >= BATCH_LINES;
	return count;
}

/*
 * reservations_purge removes some reservations that ended before a time; what they had settled is
 * kept as a sum of each key. Returns true if there may be more. (Keys that are too long are of rows
 * that were written by hand, and nothing is kept of them.)
 */
bool
reservations_purge(const DcBudget *budget, TimestampTz before, int limit)
{
	Datum values[] = {TimestampTzGetDatum(before), Int32GetDatum(limit)};
	DcSqlSession session;
	uint64 count;
	bool more;

	budget_sql_begin(&session, budget);
	count = sql_run(&session, &sql_reservations_purge, values); /* one row at least */
	for (uint64 i = 0; i < count; i++)
	{
		bool no_key;
		Datum key = rows_nullable(&session.rows, i, 1, &no_key);
		int64 settled = rows_bigint(&session.rows, i, 2);

		CHECK_FOR_INTERRUPTS();
		if (!no_key && settled > 0)
			spent_add(budget, key, settled);
	}
	more = rows_bigint(&session.rows, 0, 3) == limit || DatumGetBool(rows_datum(&session.rows, 0, 4));
	sql_end(&session);
	return more;
}
