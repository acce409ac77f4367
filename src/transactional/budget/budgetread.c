/*
 * budgetread.c
 *		dc_budget(), dc_budget_check(): what there is of a budget, and whether its books balance.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * All reads of a call are in one snapshot. The check is the equation of budget.c, of all keys.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/snapmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "core/counter/apply.h"
#include "core/table/access.h"
#include "transactional/budget/budget.h"

PG_FUNCTION_INFO_V1(dc_budget);
PG_FUNCTION_INFO_V1(dc_budget_check);

/* key */
static const DcStatement sql_reserved = {
	.text = "SELECT least(coalesce(sum(u.reserved), 0), 9223372036854775807)::int8"
			" FROM @reservations AS r, unnest(r.keys, r.reserved) AS u (key, reserved)"
			" WHERE r.state = 'open' AND u.key = $1",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("reserved")},
	.of = DC_OF_MORE + 1};

static const DcStatement sql_budget_check = {
	.text = "WITH pool AS (SELECT u.key, sum(u.units) AS units FROM"
			" (SELECT t.key, t.inc::numeric - t.dec AS units FROM @totals AS t UNION ALL"
			" SELECT s.key, s.inc::numeric - s.dec FROM @shards AS s) AS u GROUP BY u.key),"
			" granted AS (SELECT g.key, sum(g.amount) AS granted, sum(g.lapsed) AS lapsed, sum(coalesce(p.units, 0)) AS units"
			" FROM @grants AS g LEFT JOIN pool AS p ON p.key = g.grant_id::text COLLATE \"C\" GROUP BY g.key),"
			" used AS (SELECT u.key, coalesce(sum(u.reserved) FILTER (WHERE r.state = 'open'), 0) AS reserved,"
			" coalesce(sum(u.settled) FILTER (WHERE r.state = 'settled'), 0) AS settled"
			" FROM @reservations AS r, unnest(r.keys, r.reserved, r.settled) AS u (key, reserved, settled) GROUP BY u.key),"
			" debt AS (SELECT substr(p.key, 2) AS key, p.units FROM pool AS p WHERE starts_with(p.key, '-')),"
			" spent AS (SELECT substr(p.key, 2) AS key, p.units FROM pool AS p WHERE starts_with(p.key, '+')),"
			" books AS (SELECT k.key, coalesce(g.granted, 0) AS granted, coalesce(g.lapsed, 0) AS lapsed, coalesce(g.units, 0) AS units,"
			" coalesce(u.reserved, 0) AS reserved, coalesce(u.settled, 0) + coalesce(s.units, 0) AS settled, coalesce(d.units, 0) AS owed"
			" FROM (SELECT g.key FROM granted AS g UNION SELECT u.key FROM used AS u UNION SELECT d.key FROM debt AS d"
			" UNION SELECT s.key FROM spent AS s) AS k LEFT JOIN granted AS g USING (key) LEFT JOIN used AS u USING (key)"
			" LEFT JOIN debt AS d USING (key) LEFT JOIN spent AS s USING (key))"
			" SELECT b.key, b.granted, b.lapsed, b.units, b.reserved, b.settled, b.owed FROM books AS b"
			" WHERE b.granted - b.lapsed <> b.units + b.reserved + b.settled - b.owed ORDER BY b.key COLLATE \"C\"",
	.argtypes = {0},
	.reads_all = true,
	.columns = {DC_TEXT("key"), DC_COLUMN("granted", NUMERICOID), DC_COLUMN("lapsed", NUMERICOID), DC_COLUMN("available", NUMERICOID),
				DC_COLUMN("reserved", NUMERICOID), DC_COLUMN("settled", NUMERICOID), DC_COLUMN("owed", NUMERICOID)}};

/*
 * dc_budget(budget regclass, key text|bigint|uuid) -> (available bigint, reserved bigint, owed
 * bigint, expires_at timestamptz)
 *
 * What the grants of the key have that can be used now, without what is owed taken off; what open
 * reservations have; and when the first grant that has units expires, NULL without one. Needs
 * SELECT.
 */
Datum
dc_budget(PG_FUNCTION_ARGS)
{
	Datum key = budget_key_arg(fcinfo, 1);
	Datum values[4];
	bool nulls[4] = {false, false, false, true};
	TimestampTz expires_at = DT_NOEND;
	DcSqlSession session;
	DcBudget budget;
	DcUsable *grants;
	int count;

	budget_open(fcinfo, "dc_budget()", AccessShareLock, ACL_SELECT, &budget);
	read_snapshot_push();
	count = usable_grants(&budget, key, &grants);
	values[0] = Int64GetDatum(usable_sum(grants, count));
	values[2] = Int64GetDatum(owed_units(&budget, key));
	budget_sql_begin(&session, &budget);
	sql_read(&session, &sql_reserved, &key);
	values[1] = Int64GetDatum(rows_bigint(&session.rows, 0, 1));
	sql_end(&session);
	PopActiveSnapshot();
	for (int i = 0; i < count; i++)
		expires_at = Min(expires_at, grants[i].expires_at);
	nulls[3] = count == 0;
	values[3] = TimestampTzGetDatum(expires_at);
	PG_RETURN_DATUM(record_result(fcinfo, values, nulls));
}

/*
 * dc_budget_check(budget regclass) -> setof (key text, granted numeric, lapsed numeric, available
 * numeric, reserved numeric, settled numeric, owed numeric)
 *
 * The keys whose books do not balance: none, unless the tables were changed by hand. Needs SELECT.
 */
Datum
dc_budget_check(PG_FUNCTION_ARGS)
{
	DcSqlSession session;
	DcBudget budget;

	budget_open(fcinfo, "dc_budget_check()", AccessShareLock, ACL_SELECT, &budget);
	if (!XactReadOnly)
		apply_early(); /* rows have what this transaction has done, too */
	InitMaterializedSRF(fcinfo, 0);
	budget_sql_begin(&session, &budget);
	sql_read(&session, &sql_budget_check, NULL);
	rows_return(fcinfo, &session.rows);
	sql_end(&session);
	return (Datum) 0;
}
