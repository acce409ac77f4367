/*
 * ledgersql.c
 *		The SQL statements of ledgers.
 *
 * They run as the owner of the ledger, like those of counter tables (sqlpath.c), and
 * pass the guard of its tables.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "ledger/ledgersql.h"
#include "once/opslot.h"
#include "utils/lsyscache.h"

/* All amounts of a key that are kept: entries, and what was carried forward. In all rows
 * of that, `before` is when the entries begin that are kept. */
#define POSTED \
	"SELECT e.key, e.amount FROM @entries AS e UNION ALL SELECT o.key, o.amount FROM @openings AS o"

#define PENDING_EXPIRE(condition, limit) \
	"UPDATE @pendings AS p SET state = 'expired', ended_at = $1" \
	" WHERE p.transfer_id IN (SELECT e.transfer_id FROM @pendings AS e" \
	" WHERE e.state = 'open' AND e.expires_at <= $1" condition \
	" ORDER BY e.expires_at LIMIT " limit " FOR NO KEY UPDATE SKIP LOCKED)" \
	" RETURNING p.from_key, p.to_key, p.amount"

#define PENDING_LIST(condition) \
	"SELECT p.transfer_id, p.from_key, p.to_key, p.amount, p.op_id, p.memo, p.expires_at, $1 - p.created_at" \
	" FROM @pendings AS p WHERE p.state = 'open'" condition " ORDER BY p.transfer_id"
#define PENDING_LIST_COLUMNS \
	{ \
		DC_BIGINT("transfer_id"), DC_TEXT("from_key"), DC_TEXT("to_key"), DC_BIGINT("amount"), DC_TEXT("op_id"), DC_NULLABLE("memo", JSONBOID), DC_NULLABLE("expires_at", TIMESTAMPTZOID), DC_COLUMN("created_at", INTERVALOID) \
	}

static const DcStatementText texts[DC_SQL_LEDGER_END - DC_NUM_STATEMENTS] = {
#define TEXT(statement) [statement - DC_NUM_STATEMENTS]
	/* key, min, max, now */
	TEXT(DC_SQL_ACCOUNT_INSERT) = {"INSERT INTO @accounts (key, min_balance, max_balance, opened_at)"
								   " VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO NOTHING",
								   {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID}},
	/* key, min, max */
	TEXT(DC_SQL_ACCOUNT_UPDATE) = {"UPDATE @accounts AS a SET min_balance = $2, max_balance = $3 WHERE a.key = $1",
								   {TEXTOID, INT8OID, INT8OID}},
	/* key */
	TEXT(DC_SQL_ACCOUNT_FIND) = {"SELECT a.min_balance, a.max_balance FROM @accounts AS a WHERE a.key = $1", {TEXTOID}, .columns = {DC_NULLABLE("min_balance", INT8OID), DC_NULLABLE("max_balance", INT8OID)}, .of = DC_OF_ACCOUNTS},
	/* the columns of an entry */
	TEXT(DC_SQL_ENTRY_INSERT) = {"INSERT INTO @entries (entry_id, transfer_id, key, amount, op_id, at, memo)"
								 " VALUES ($1, $2, $3, $4, $5, $6, $7)",
								 {INT8OID, INT8OID, TEXTOID, INT8OID, TEXTOID, TIMESTAMPTZOID, JSONBOID}},
	/* key: what is pending out of it and into it, its lower bound */
	TEXT(DC_SQL_BALANCE) = {"SELECT coalesce((SELECT sum(p.amount) FROM @pendings AS p WHERE p.state = 'open' AND p.from_key = $1), 0)::int8,"
							" coalesce((SELECT sum(p.amount) FROM @pendings AS p WHERE p.state = 'open' AND p.to_key = $1), 0)::int8,"
							" (SELECT a.min_balance FROM @accounts AS a WHERE a.key = $1),"
							" EXISTS (SELECT FROM @accounts AS a WHERE a.key = $1)",
							{TEXTOID},
							.columns = {DC_BIGINT("amount"), DC_BIGINT("amount"), DC_NULLABLE("min_balance", INT8OID), DC_COLUMN("key", BOOLOID)},
							.of = DC_OF_PENDINGS},
	/* key, at: its entries up to a time; when the kept ones begin */
	TEXT(DC_SQL_BALANCE_AT) = {"SELECT (coalesce((SELECT sum(e.amount) FROM @entries AS e WHERE e.key = $1 AND e.at <= $2), 0)"
							   " + coalesce((SELECT o.amount FROM @openings AS o WHERE o.key = $1), 0))::int8,"
							   " (SELECT o.before FROM @openings AS o LIMIT 1)",
							   {TEXTOID, TIMESTAMPTZOID},
							   .columns = {DC_BIGINT("amount"), DC_NULLABLE("before", TIMESTAMPTZOID)},
							   .of = DC_OF_ENTRIES},
	/* key, from, to */
	TEXT(DC_SQL_STATEMENT) = {"SELECT e.at, e.entry_id, e.transfer_id, e.amount,"
							  " (coalesce((SELECT sum(b.amount) FROM @entries AS b WHERE b.key = $1 AND b.at < $2), 0)"
							  " + coalesce((SELECT o.amount FROM @openings AS o WHERE o.key = $1), 0)"
							  " + sum(e.amount) OVER (ORDER BY e.at, e.entry_id))::int8, e.op_id, e.memo"
							  " FROM @entries AS e WHERE e.key = $1 AND e.at >= $2 AND e.at < $3"
							  " ORDER BY e.at, e.entry_id",
							  {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
							  .columns = {DC_TIME("at"), DC_BIGINT("entry_id"), DC_BIGINT("transfer_id"), DC_BIGINT("amount"), DC_BIGINT("amount"), DC_TEXT("op_id"), DC_NULLABLE("memo", JSONBOID)},
							  .of = DC_OF_ENTRIES},
	/* transfer, from, to, amount, op, memo, now, expiry */
	TEXT(DC_SQL_PENDING_INSERT) = {"INSERT INTO @pendings (transfer_id, from_key, to_key, amount, op_id, memo,"
								   " created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
								   {INT8OID, TEXTOID, TEXTOID, INT8OID, TEXTOID, JSONBOID, TIMESTAMPTZOID, TIMESTAMPTZOID}},
	/* transfer */
	TEXT(DC_SQL_PENDING_LOCK) = {"SELECT p.from_key, p.to_key, p.amount, p.state, p.expires_at, p.op_id, p.memo"
								 " FROM @pendings AS p WHERE p.transfer_id = $1 FOR NO KEY UPDATE",
								 {INT8OID},
								 .columns = {DC_TEXT("from_key"), DC_TEXT("to_key"), DC_BIGINT("amount"), DC_TEXT("state"), DC_NULLABLE("expires_at", TIMESTAMPTZOID), DC_TEXT("op_id"), DC_NULLABLE("memo", JSONBOID)},
								 .of = DC_OF_PENDINGS},
	/* transfer */
	TEXT(DC_SQL_PENDING_FIND) = {"SELECT FROM @pendings AS p WHERE p.transfer_id = $1", {INT8OID}},
	/* transfer, state, posted amount, now */
	TEXT(DC_SQL_PENDING_END) = {"UPDATE @pendings AS p SET state = $2, posted = $3, ended_at = $4"
								" WHERE p.transfer_id = $1 AND p.state = 'open'",
								{INT8OID, TEXTOID, INT8OID, TIMESTAMPTZOID}},
	/* now, how many */
	TEXT(DC_SQL_PENDING_EXPIRE) = {PENDING_EXPIRE("", "$2"), {TIMESTAMPTZOID, INT4OID}, .columns = {DC_TEXT("from_key"), DC_TEXT("to_key"), DC_BIGINT("amount")}, .of = DC_OF_PENDINGS},
	/* now, how many, key */
	TEXT(DC_SQL_PENDING_EXPIRE_KEY) = {PENDING_EXPIRE(" AND (e.from_key = $3 OR e.to_key = $3)", "$2"),
									   {TIMESTAMPTZOID, INT4OID, TEXTOID},
									   .columns = {DC_TEXT("from_key"), DC_TEXT("to_key"), DC_BIGINT("amount")},
									   .of = DC_OF_PENDINGS},
	/* now, key */
	TEXT(DC_SQL_PENDING_LIST) = {PENDING_LIST(" AND (p.from_key = $2 OR p.to_key = $2)"), {TIMESTAMPTZOID, TEXTOID}, .columns = PENDING_LIST_COLUMNS, .of = DC_OF_PENDINGS},
	/* now */
	TEXT(DC_SQL_PENDING_LIST_ALL) = {PENDING_LIST(""), {TIMESTAMPTZOID}, .columns = PENDING_LIST_COLUMNS, .of = DC_OF_PENDINGS},
	/* before: adds up the entries before a time */
	TEXT(DC_SQL_OPENING_ADD) = {"INSERT INTO @openings AS o (key, amount, before)"
								" SELECT e.key, sum(e.amount)::int8, $1 FROM @entries AS e WHERE e.at < $1 GROUP BY e.key"
								" ON CONFLICT (key) DO UPDATE SET amount = o.amount + excluded.amount, before = excluded.before",
								{TIMESTAMPTZOID},
								true},
	/* before: all rows have the same */
	TEXT(DC_SQL_OPENING_MOVE) = {"UPDATE @openings AS o SET before = $1 WHERE o.before <> $1", {TIMESTAMPTZOID}, true},
	/* a table that is not guarded; what is wrong: key, balance, sum of the entries, problem */
	TEXT(DC_SQL_LEDGER_CHECK) = {
		"WITH balance AS MATERIALIZED (SELECT b.key, sum(b.inc) - sum(b.dec) AS amount FROM"
		" (SELECT t.key, t.inc, t.dec FROM @totals AS t UNION ALL"
		" SELECT s.key, s.inc, s.dec FROM @shards AS s) AS b GROUP BY b.key),"
		" posted AS MATERIALIZED (SELECT p.key, sum(p.amount) AS amount FROM (" POSTED ") AS p GROUP BY p.key),"
		" pending AS MATERIALIZED (SELECT u.key, sum(u.outgoing) AS outgoing, sum(u.incoming) AS incoming FROM"
		" (SELECT p.from_key AS key, p.amount AS outgoing, 0 AS incoming FROM @pendings AS p WHERE p.state = 'open' UNION ALL"
		" SELECT p.to_key, 0, p.amount FROM @pendings AS p WHERE p.state = 'open') AS u GROUP BY u.key),"
		" units AS MATERIALIZED (SELECT s.key, sum(s.units) AS amount FROM @limitshards AS s GROUP BY s.key),"
		" amounts AS MATERIALIZED (SELECT b.key, sum(b.inc) - sum(b.dec) AS amount FROM"
		" (SELECT t.key, t.inc, t.dec FROM @limits AS t UNION ALL"
		" SELECT s.key, s.inc, s.dec FROM @limitshards AS s) AS b GROUP BY b.key),"
		" account AS MATERIALIZED (SELECT coalesce(a.key, b.key, e.key, p.key) AS key, a.key IS NOT NULL AS opened,"
		" a.min_balance, a.max_balance, coalesce(b.amount, 0) AS balance, coalesce(e.amount, 0) AS posted,"
		" coalesce(p.outgoing, 0) AS outgoing, coalesce(p.incoming, 0) AS incoming,"
		" coalesce(l.amount, 0) AS lower, coalesce(u.amount, 0) AS upper,"
		" coalesce(lv.amount, 0) AS lower_value, coalesce(uv.amount, 0) AS upper_value"
		" FROM @accounts AS a FULL JOIN balance AS b ON b.key = a.key"
		" FULL JOIN posted AS e ON e.key = coalesce(a.key, b.key)"
		" FULL JOIN pending AS p ON p.key = coalesce(a.key, b.key, e.key)"
		" LEFT JOIN units AS l ON l.key = '-' || coalesce(a.key, b.key, e.key, p.key)"
		" LEFT JOIN units AS u ON u.key = '+' || coalesce(a.key, b.key, e.key, p.key)"
		" LEFT JOIN amounts AS lv ON lv.key = '-' || coalesce(a.key, b.key, e.key, p.key)"
		" LEFT JOIN amounts AS uv ON uv.key = '+' || coalesce(a.key, b.key, e.key, p.key)),"
		" transfer AS MATERIALIZED (SELECT e.transfer_id, sum(e.amount) AS net, sum(e.amount) FILTER (WHERE e.amount > 0) AS amount"
		" FROM @entries AS e GROUP BY e.transfer_id)"
		" SELECT a.key, a.balance, a.posted, w.problem FROM account AS a, LATERAL (VALUES"
		" (NOT a.opened, 'the account is not open'),"
		" (a.balance <> a.posted, 'the balance is not the sum of the entries'),"
		" (a.balance < a.min_balance, 'the balance is below its bound'),"
		" (a.balance > a.max_balance, 'the balance is above its bound'),"
		" (a.lower <> coalesce(a.balance - a.outgoing - a.min_balance, 0), 'what may go out is not what is left of the balance'),"
		" (a.upper <> coalesce(a.max_balance - a.balance - a.incoming, 0), 'what may come in is not what is left of the bound'),"
		" (a.lower <> a.lower_value OR a.upper <> a.upper_value, 'the units of the limits are not their value'))"
		" AS w(wrong, problem) WHERE w.wrong"
		" UNION ALL SELECT NULL, NULL, NULL, 'transfer ' || t.transfer_id || ' does not sum to zero'"
		" FROM transfer AS t WHERE t.net <> 0"
		" UNION ALL SELECT NULL, NULL, NULL, 'pending transfer ' || p.transfer_id || ' is ' || p.state || ', but its entries amount to '"
		" || coalesce(t.amount, 0) FROM @pendings AS p LEFT JOIN transfer AS t ON t.transfer_id = p.transfer_id"
		" WHERE coalesce(t.amount, 0) <> CASE p.state WHEN 'posted' THEN p.posted ELSE 0 END"
		" AND (p.ended_at IS NULL OR p.ended_at >= coalesce((SELECT o.before FROM @openings AS o LIMIT 1), '-infinity'))"
		" UNION ALL SELECT NULL, NULL, NULL, 'transfer ' || x.transfer_id || ' has no op'"
		" FROM (SELECT e.transfer_id, e.op_id FROM @entries AS e UNION"
		" SELECT p.transfer_id, p.op_id FROM @pendings AS p) AS x WHERE @noop"
		" UNION ALL SELECT NULL, NULL, NULL, c.relname || ' is not protected against changes'"
		" FROM pg_catalog.pg_class AS c WHERE c.oid = $1"
		" ORDER BY 1, 4",
		{OIDOID},
		true,
		.columns = {DC_NULLABLE("key", TEXTOID), DC_NULLABLE("inc", NUMERICOID), DC_NULLABLE("amount", NUMERICOID), DC_TEXT("problem")}},
};

static const char *ledger_word(DcCounter *counter, const char *word);
static const char *no_op(DcCounter *counter);

/*
 * ledger_sql_init is called once.
 */
void
ledger_sql_init(void)
{
	sql_extend(texts, lengthof(texts), ledger_word);
}

/*
 * ledger_word returns what the words in the texts stand for. As long as nothing
 * was detached, there are no openings.
 */
static const char *
ledger_word(DcCounter *counter, const char *word)
{
	DcLedgerRow row;

	if (!ledger_read(counter->relid, &row))
		elog(ERROR, "ledger \"%s\" is not registered", get_rel_name(counter->relid));
	if (strcmp(word, "entries") == 0)
		return relation_sql_name(row.entries);
	if (strcmp(word, "accounts") == 0)
		return relation_sql_name(row.accounts);
	if (strcmp(word, "pendings") == 0)
		return relation_sql_name(row.pendings);
	if (strcmp(word, "limits") == 0)
		return relation_sql_name(row.limits);
	if (strcmp(word, "limitshards") == 0)
		return relation_sql_name(counter_lookup(row.limits)->row.shards);
	if (strcmp(word, "noop") == 0)
		return no_op(counter);
	if (strcmp(word, "openings") == 0)
		return OidIsValid(row.openings)
			? relation_sql_name(row.openings)
			: "(SELECT NULL::text AS key, NULL::int8 AS amount, NULL::timestamptz AS before WHERE false)";
	elog(ERROR, "unrecognized word: %s", word);
}

/*
 * no_op returns the condition that there is no op of x. Only where ops are
 * kept for good does that say anything.
 */
static const char *
no_op(DcCounter *counter)
{
	DcOpSlot slots[DC_OP_SLOTS];

	if (counter->row.op_retention != 0 ||
		opslots_read(counter->relid, slots) == 0)
		return "false";
	return psprintf("NOT EXISTS (SELECT FROM %s AS v WHERE v.op_id = x.op_id AND v.transfer_id = x.transfer_id)",
					relation_sql_name(slots[0].ops));
}

/*
 * ledger_sql_begin connects to SPI and becomes the owner of the ledger, all of whose
 * tables have their shape then.
 */
void
ledger_sql_begin(DcSqlSession *session, DcLedger *ledger)
{
	ledger_lock_rest(ledger);
	sql_begin(session, ledger->counter);
	sql_keep_open(session, DC_OF_ACCOUNTS, ledger->row.accounts);
	sql_keep_open(session, DC_OF_ENTRIES, ledger->row.entries);
	sql_keep_open(session, DC_OF_PENDINGS, ledger->row.pendings);
	sql_keep_open(session, DC_OF_OPENINGS, ledger->row.openings);
	sql_keep_open(session, DC_OF_LIMITS, ledger->row.limits);
	sql_keep_open(session, DC_OF_LIMIT_SHARDS, ledger->limits->row.shards);
}

/*
 * ledger_sql_write executes a statement that may write, and returns the number of
 * rows processed. `nulls` has an 'n' for each parameter that is null, or is NULL.
 */
uint64
ledger_sql_write(DcSqlSession *session, DcLedgerStatement statement,
				 Datum *values, const char *nulls)
{
	return sql_run_nulls(session, (DcStatement) statement, values, nulls);
}

/*
 * ledger_sql_read executes a query in the caller's snapshot, and returns the number
 * of rows.
 */
uint64
ledger_sql_read(DcSqlSession *session, DcLedgerStatement statement,
				Datum *values)
{
	return sql_read(session, (DcStatement) statement, values);
}
