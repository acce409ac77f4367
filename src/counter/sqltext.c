/*
 * sqltext.c
 *		The SQL statements on counter tables and stocks.
 *
 * Why they are written as they are:
 *
 *	- The shard row is chosen once, in an uncorrelated sub-select, which is
 *	  evaluated once for the statement. A choice inside the WHERE clause, as in
 *	  "WHERE shard = floor(random() * 16)", would be evaluated for each row, and
 *	  so match no row or several: lost or doubled counts.
 *	- Rows are tried in the order of a hash of shard number and seed (rendezvous
 *	  hashing): each seed sees its own random permutation, and keeps its first
 *	  choice while rows come and go.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "counter/sqltext.h"

#define SHARD_UPSERT \
	" ON CONFLICT (key, shard) DO UPDATE" \
	" SET inc = s.inc + excluded.inc, dec = s.dec + excluded.dec," \
	" updated_at = excluded.updated_at"

#define CHOSEN_SHARD \
	"(SELECT f.shard FROM @shards AS f WHERE f.key = $1" \
	" ORDER BY hashint4extended(f.shard, $5) LIMIT 1 FOR NO KEY UPDATE"

#define ROW_IS_USED "s.inc <> 0 OR s.dec <> 0"

const DcStatementText sql_texts[DC_NUM_STATEMENTS] = {
	/* key, inc, dec, at, seed: adds to a row that nobody has locked */
	[DC_SQL_UPDATE_FREE] = {
		"UPDATE @shards AS s SET inc = s.inc + $2, dec = s.dec + $3,"
		" updated_at = $4 WHERE s.key = $1 AND s.shard = " CHOSEN_SHARD " SKIP LOCKED)",
		{TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID}},
	/* the same, waiting for the first choice */
	[DC_SQL_UPDATE_WAIT] = {"UPDATE @shards AS s SET inc = s.inc + $2, dec = s.dec + $3,"
							" updated_at = $4 WHERE s.key = $1 AND s.shard = " CHOSEN_SHARD ")",
							{TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID}},
	/* key, inc, dec, at, own shard, max shards */
	[DC_SQL_INSERT_IF_ROOM] = {"INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)"
							   " SELECT $1, $5, $2, $3, $4 WHERE $6 >"
							   " (SELECT count(*) FROM @shards AS c WHERE c.key = $1)" SHARD_UPSERT,
							   {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID, INT4OID}},
	/* keys, incs, decs, at, own shard: the own row of each key */
	[DC_SQL_INSERT_BATCH] = {"INSERT INTO @shards AS s (key, shard, inc, dec, updated_at)"
							 " SELECT d.key, $5, d.inc, d.dec, $4"
							 " FROM unnest($1, $2, $3) AS d(key, inc, dec)" SHARD_UPSERT,
							 {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID, INT4OID}},
	/* key, inc, dec, at, own shard */
	[DC_SQL_UPDATE_OWN] = {"UPDATE @shards AS s SET inc = s.inc + $2, dec = s.dec + $3,"
						   " updated_at = $4 WHERE s.key = $1 AND s.shard = $5",
						   {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID}},
	/* key, inc, dec, at, own shard */
	[DC_SQL_INSERT_OWN] = {"INSERT INTO @shards (key, shard, inc, dec, updated_at)"
						   " VALUES ($1, $5, $2, $3, $4)",
						   {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT4OID}},
	/* key, own shard */
	[DC_SQL_DELETE_OWN] = {"DELETE FROM @shards AS s WHERE s.key = $1 AND s.shard = $2", {TEXTOID, INT4OID}},
	/* key: all rows of it, with whether it is a shard row */
	[DC_SQL_READ_KEY] = {"SELECT t.inc, t.dec, t.updated_at, false FROM @totals AS t"
						 " WHERE t.key = $1 UNION ALL"
						 " SELECT s.inc, s.dec, s.updated_at, true FROM @shards AS s"
						 " WHERE s.key = $1",
						 {TEXTOID},
						 .columns = {DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TIME("updated_at"), DC_COLUMN("is shard", BOOLOID)}},
	/* keys */
	[DC_SQL_READ_KEYS] = {"SELECT t.key, t.inc, t.dec FROM @totals AS t"
						  " WHERE t.key = ANY ($1) UNION ALL"
						  " SELECT s.key, s.inc, s.dec FROM @shards AS s"
						  " WHERE s.key = ANY ($1)",
						  {TEXTARRAYOID},
						  .columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}},
	[DC_SQL_READ_ALL] = {"SELECT coalesce(sum(u.inc), 0) - coalesce(sum(u.dec), 0)"
						 " FROM (SELECT t.inc, t.dec FROM @totals AS t UNION ALL"
						 " SELECT s.inc, s.dec FROM @shards AS s) AS u",
						 {0},
						 true,
						 .columns = {DC_COLUMN("inc", NUMERICOID)}},
	/* keys: their exact values, and when they changed */
	[DC_SQL_READ_CHANGED] = {"SELECT u.key, sum(u.inc) - sum(u.dec), max(u.at) FROM ("
							 "SELECT t.key, t.inc, t.dec, t.updated_at AS at FROM @totals AS t"
							 " WHERE t.key = ANY ($1) UNION ALL"
							 " SELECT s.key, s.inc, s.dec, s.updated_at FROM @shards AS s"
							 " WHERE s.key = ANY ($1)) AS u GROUP BY u.key ORDER BY u.key COLLATE \"C\"",
							 {TEXTARRAYOID},
							 .columns = {DC_TEXT("key"), DC_COLUMN("inc", NUMERICOID), DC_TIME("updated_at")}},
	/* shard rows, keys with an amount, highest max / mean of a key's rows, amount
	 * and oldest time of the rows with an amount */
	[DC_SQL_STATS] = {"SELECT coalesce(sum(k.n), 0)::int8, count(*) FILTER (WHERE k.used > 0),"
					  " max(k.most / nullif(k.mean, 0)) FILTER (WHERE k.used > 1),"
					  " coalesce(sum(k.amount), 0), min(k.oldest)"
					  " FROM (SELECT count(*) AS n, sum(s.inc) - sum(s.dec) AS amount,"
					  " count(*) FILTER (WHERE " ROW_IS_USED ") AS used,"
					  " max(s.inc::float8 + s.dec) FILTER (WHERE " ROW_IS_USED ") AS most,"
					  " avg(s.inc::float8 + s.dec) FILTER (WHERE " ROW_IS_USED ") AS mean,"
					  " min(s.updated_at) FILTER (WHERE " ROW_IS_USED ") AS oldest"
					  " FROM @shards AS s GROUP BY s.key) AS k",
					  {0},
					  true,
					  .columns = {DC_BIGINT("shard"), DC_BIGINT("inc"), DC_NULLABLE("inc", FLOAT8OID), DC_COLUMN("inc", NUMERICOID), DC_NULLABLE("updated_at", TIMESTAMPTZOID)},
					  .of = DC_OF_SHARDS},
	/* key */
	[DC_SQL_READ_TOTAL] = {"SELECT t.inc, t.dec, t.updated_at FROM @totals AS t WHERE t.key = $1", {TEXTOID}, .columns = {DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TIME("updated_at")}},
	/* how many */
	[DC_SQL_TOP] = {"SELECT t.key, t.value FROM @totals AS t WHERE t.value IS NOT NULL"
					" ORDER BY t.value DESC, t.key COLLATE \"C\" LIMIT $1",
					{INT4OID},
					.columns = {DC_TEXT("key"), DC_BIGINT("value")}},
	/* key */
	[DC_SQL_LOCK_TOTAL] = {"SELECT t.inc, t.dec FROM @totals AS t WHERE t.key = $1"
						   " FOR NO KEY UPDATE",
						   {TEXTOID},
						   .columns = {DC_BIGINT("inc"), DC_BIGINT("dec")}},
	/* key, inc, dec, at */
	[DC_SQL_UPDATE_TOTAL] = {"UPDATE @totals AS t SET inc = $2, dec = $3, updated_at = $4"
							 " WHERE t.key = $1",
							 {TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID}},
	/* key */
	[DC_SQL_DELETE_TOTAL] = {"DELETE FROM @totals AS t WHERE t.key = $1 RETURNING t.inc, t.dec", {TEXTOID}, .columns = {DC_BIGINT("inc"), DC_BIGINT("dec")}},
	/* key */
	[DC_SQL_DELETE_SHARDS] = {"DELETE FROM @shards AS s WHERE s.key = $1 RETURNING s.inc, s.dec", {TEXTOID}, .columns = {DC_BIGINT("inc"), DC_BIGINT("dec")}, .of = DC_OF_SHARDS},
	/* after key, after shard, limit, keys to leave out: rows that nobody has locked */
	[DC_SQL_COMPACT_SHARDS] = {"SELECT s.key, s.shard, s.inc, s.dec, s.updated_at, s.@units FROM @shards AS s"
							   " WHERE (s.key, s.shard) > ($1, $2) AND s.key <> ALL ($4) ORDER BY s.key, s.shard"
							   " LIMIT $3 FOR UPDATE SKIP LOCKED",
							   {TEXTOID, INT4OID, INT4OID, TEXTARRAYOID},
							   .columns = {DC_TEXT("key"), DC_COLUMN("shard", INT4OID), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_TIME("updated_at"), DC_BIGINT("units")},
							   .of = DC_OF_SHARDS},
	/* keys */
	[DC_SQL_COMPACT_LOCK] = {"SELECT t.key, t.inc, t.dec FROM @totals AS t WHERE t.key = ANY ($1)"
							 " FOR NO KEY UPDATE SKIP LOCKED",
							 {TEXTARRAYOID},
							 .columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}},
	/* the same, with where they are */
	[DC_SQL_COMPACT_LOCK_PLACES] = {"SELECT t.key, t.inc, t.dec, t.ctid FROM @totals AS t WHERE t.key = ANY ($1)"
									" FOR NO KEY UPDATE SKIP LOCKED",
									{TEXTARRAYOID},
									.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec"), DC_COLUMN("ctid", TIDOID)}},
	/* keys */
	[DC_SQL_COMPACT_EXISTING] = {"SELECT t.key FROM @totals AS t WHERE t.key = ANY ($1)", {TEXTARRAYOID}, .columns = {DC_TEXT("key")}},
	/* keys, incs, decs, times */
	[DC_SQL_COMPACT_UPDATE] = {"UPDATE @totals AS t SET inc = d.inc, dec = d.dec,"
							   " updated_at = greatest(t.updated_at, d.at)"
							   " FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
							   " WHERE t.key = d.key",
							   {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID}},
	/* keys, incs, decs, times, places: of rows that this transaction has locked */
	[DC_SQL_COMPACT_UPDATE_PLACES] = {"UPDATE @totals AS t SET inc = d.inc, dec = d.dec,"
									  " updated_at = greatest(t.updated_at, d.at)"
									  " FROM unnest($1, $2, $3, $4, $5) AS d(key, inc, dec, at, place)"
									  " WHERE t.ctid = d.place AND t.key = d.key",
									  {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, TIDARRAYOID}},
	/* keys, incs, decs, times */
	[DC_SQL_COMPACT_INSERT] = {"INSERT INTO @totals (key, inc, dec, updated_at)"
							   " SELECT d.key, d.inc, d.dec, d.at"
							   " FROM unnest($1, $2, $3, $4) AS d(key, inc, dec, at)"
							   " ON CONFLICT DO NOTHING",
							   {TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID}},
	/* keys, shards */
	[DC_SQL_COMPACT_DELETE] = {"DELETE FROM @shards AS s USING unnest($1, $2) AS d(key, shard)"
							   " WHERE s.key = d.key AND s.shard = d.shard",
							   {TEXTARRAYOID, INT4ARRAYOID}},
	/* keys, shards */
	[DC_SQL_COMPACT_ZERO] = {"UPDATE @shards AS s SET inc = 0, dec = 0"
							 " FROM unnest($1, $2) AS d(key, shard)"
							 " WHERE s.key = d.key AND s.shard = d.shard",
							 {TEXTARRAYOID, INT4ARRAYOID}},
	/* keys, shards, units: the same for a stock */
	[DC_SQL_COMPACT_UNITS] = {"UPDATE @shards AS s SET inc = 0, dec = 0, units = d.units"
							  " FROM unnest($1, $2, $3) AS d(key, shard, units)"
							  " WHERE s.key = d.key AND s.shard = d.shard",
							  {TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID}},
	/* keys, shards, units, at: more rows of a stock */
	[DC_SQL_COMPACT_SPREAD] = {"INSERT INTO @shards (key, shard, units, updated_at)"
							   " SELECT d.key, d.shard, d.units, $4"
							   " FROM unnest($1, $2, $3) AS d(key, shard, units)",
							   {TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID}},
	/* key */
	[DC_SQL_COUNT_ROWS] = {"SELECT count(*) FROM @shards AS s WHERE s.key = $1", {TEXTOID}, .columns = {DC_BIGINT("count")}, .of = DC_OF_SHARDS},
	/* hold */
	[DC_SQL_HOLD_FIND] = {"SELECT h.key, h.qty, h.ttl FROM @holds AS h WHERE h.hold_id = $1", {UUIDOID}, .columns = {DC_TEXT("key"), DC_BIGINT("qty"), DC_COLUMN("ttl", INTERVALOID)}, .of = DC_OF_HOLDS},
	/* hold, key, quantity, time to live, now, expiry */
	[DC_SQL_HOLD_INSERT] = {"INSERT INTO @holds (hold_id, key, qty, ttl, created_at, expires_at)"
							" VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (hold_id) DO NOTHING",
							{UUIDOID, TEXTOID, INT8OID, INTERVALOID, TIMESTAMPTZOID, TIMESTAMPTZOID}},
	/* hold */
	[DC_SQL_HOLD_LOCK] = {"SELECT h.key, h.qty, h.state, h.expires_at FROM @holds AS h"
						  " WHERE h.hold_id = $1 FOR NO KEY UPDATE",
						  {UUIDOID},
						  .columns = {DC_TEXT("key"), DC_BIGINT("qty"), DC_TEXT("state"), DC_TIME("expires_at")},
						  .of = DC_OF_HOLDS},
	/* hold, state, confirmed quantity, now */
	[DC_SQL_HOLD_END] = {"UPDATE @holds AS h SET state = $2, confirmed = $3, ended_at = $4"
						 " WHERE h.hold_id = $1",
						 {UUIDOID, TEXTOID, INT8OID, TIMESTAMPTZOID}},
	/* now, how many */
	[DC_SQL_HOLD_EXPIRE] = {"UPDATE @holds AS h SET state = 'expired', confirmed = 0, ended_at = $1"
							" WHERE h.hold_id IN (SELECT e.hold_id FROM @holds AS e"
							" WHERE e.state = 'open' AND e.expires_at <= $1"
							" ORDER BY e.expires_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)"
							" RETURNING h.key, h.qty",
							{TIMESTAMPTZOID, INT4OID},
							.columns = {DC_TEXT("key"), DC_BIGINT("qty")},
							.of = DC_OF_HOLDS},
	/* now, key, how many */
	[DC_SQL_HOLD_EXPIRE_KEY] = {"UPDATE @holds AS h SET state = 'expired', confirmed = 0, ended_at = $1"
								" WHERE h.hold_id IN (SELECT e.hold_id FROM @holds AS e"
								" WHERE e.state = 'open' AND e.key = $2 AND e.expires_at <= $1"
								" ORDER BY e.expires_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED)"
								" RETURNING h.key, h.qty",
								{TIMESTAMPTZOID, TEXTOID, INT4OID},
								.columns = {DC_TEXT("key"), DC_BIGINT("qty")},
								.of = DC_OF_HOLDS},
	/* now, key */
	[DC_SQL_HOLD_EXPIRED] = {"SELECT least(coalesce(sum(h.qty), 0), 9223372036854775807)::int8 FROM @holds AS h"
							 " WHERE h.state = 'open' AND h.key = $2 AND h.expires_at <= $1",
							 {TIMESTAMPTZOID, TEXTOID},
							 .columns = {DC_BIGINT("qty")},
							 .of = DC_OF_HOLDS},
	/* ended before, how many */
	[DC_SQL_HOLD_PURGE] = {"DELETE FROM @holds AS h WHERE h.hold_id IN (SELECT e.hold_id FROM @holds AS e"
						   " WHERE e.state <> 'open' AND e.ended_at < $1"
						   " ORDER BY e.ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
						   {TIMESTAMPTZOID, INT4OID}},
	/* key */
	[DC_SQL_HOLD_FIRST] = {"SELECT min(h.expires_at) FROM @holds AS h WHERE h.state = 'open' AND h.key = $1", {TEXTOID}, .columns = {DC_NULLABLE("expires_at", TIMESTAMPTZOID)}, .of = DC_OF_HOLDS},
	/* key, now */
	[DC_SQL_HOLD_LIST] = {"SELECT h.key, h.hold_id, h.qty, h.expires_at, $2 - h.created_at FROM @holds AS h"
						  " WHERE h.state = 'open' AND h.key = $1 ORDER BY h.expires_at, h.hold_id",
						  {TEXTOID, TIMESTAMPTZOID},
						  .columns = {DC_TEXT("key"), DC_COLUMN("hold_id", UUIDOID), DC_BIGINT("qty"), DC_TIME("expires_at"), DC_COLUMN("created_at", INTERVALOID)},
						  .of = DC_OF_HOLDS},
	/* now */
	[DC_SQL_HOLD_LIST_ALL] = {"SELECT h.key, h.hold_id, h.qty, h.expires_at, $1 - h.created_at FROM @holds AS h"
							  " WHERE h.state = 'open' ORDER BY h.expires_at, h.hold_id",
							  {TIMESTAMPTZOID},
							  .columns = {DC_TEXT("key"), DC_COLUMN("hold_id", UUIDOID), DC_BIGINT("qty"), DC_TIME("expires_at"), DC_COLUMN("created_at", INTERVALOID)},
							  .of = DC_OF_HOLDS},
};
