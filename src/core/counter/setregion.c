/*
 * setregion.c
 *		dc_set(), dc_reset(), dc_delete() of a counter that several regions count in.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Steps 1 to 4 are those of set.c. The shard rows that are deleted are of two kinds: amounts
 * that were counted here and are not published yet, which region_hooks->set() adds to those of
 * this region; and amounts from other regions, which are in their rows already. That function
 * returns what the totals have to be. Without a row of totals the difference goes to a shard
 * row of the latter kind, as it is not to be published.
 *
 * The tables that the counter has for its regions are locked before the others (region/region.h).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "base/hooks.h"
#include "core/counter/apply.h"
#include "core/counter/read.h"
#include "core/counter/serial.h"
#include "core/counter/set.h"
#include "core/rows/shardnumber.h"
#include "core/table/access.h"

/* key */
static const DcStatement sql_take_region_shards = {
	.text = "DELETE FROM @shards AS s WHERE s.key = $1 RETURNING s.inc, s.dec, s.shard",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("inc"), DC_BIGINT("dec"), DC_COLUMN("shard", INT4OID)},
	.of = DC_OF_SHARDS};

/* key: of these, the rows that belong to one transaction alone (set.c) */
static const DcStatement sql_take_region_own = {
	.text = "DELETE FROM @shards AS s WHERE s.key = $1 AND s.shard < 1 << 30"
			" RETURNING s.inc, s.dec, s.shard",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("inc"), DC_BIGINT("dec"), DC_COLUMN("shard", INT4OID)},
	.of = DC_OF_SHARDS};

static void take_region_shards(DcSqlSession *session, Datum *values, DcSums *own);
static void take_region_rows(DcSqlSession *session, const DcStatement *statement, Datum *values, DcSums *own);
static void write_total(DcSqlSession *session, Datum *values, const DcRegionSetting *setting);

/*
 * set_lock_first locks the further tables of a counter that is replicated, or has a trend, if the
 * caller may see that it is one.
 */
void
set_lock_first(FunctionCallInfo fcinfo)
{
	Oid relid = counter_arg(fcinfo);
	DcCounter *counter = XactReadOnly ? NULL : counter_find(relid);

	if (counter == NULL || !(counter_is_replicated(counter) || counter_has_trend(counter)) ||
		pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return;
	if (counter_is_replicated(counter))
		region_hooks->lock(counter);
	if (counter_has_trend(counter))
		trend_hooks->set_begin(counter);
}

/*
 * set_replicated makes a key's value exactly `value`, or deletes it, and sets *old to the old
 * value; false if that overflowed bigint.
 */
bool
set_replicated(DcCounter *counter, const DcKey *key, int64 value, bool deleted, int64 *old)
{
	DcRegionSetting setting = {.value = value, .deleted = deleted};
	DcSqlSession session;
	DcSums own;
	Datum values[4];
	bool has_total;

	region_hooks->set_begin(counter);
	key_take(counter, key);
	sums_init(&own);
	values[0] = key_text_datum(key);
	sql_begin(&session, counter);
	setting.own = &own;
	take_region_shards(&session, values, &own);
	if (counter_has_trend(counter))
	{
		if (deleted)
			trend_hooks->deleted(&session, values[0]);
		else
			trend_hooks->set(&session, values[0], &own);
	}
	has_total = sql_run(&session, &sql_lock_total, values) > 0;
	set_check_newer(&session, values, has_total);
	region_hooks->set(&session, key, &setting);
	if (has_total)
		write_total(&session, values, &setting);
	serial_mark_key(&session, key);
	sql_end(&session);
	if (!has_total && (setting.inc != 0 || setting.dec != 0))
		apply_remote(counter, key, setting.inc, setting.dec);
	counter_changed(counter, values, 1);
	*old = setting.old;
	return setting.known;
}

/*
 * take_region_shards deletes the shard rows of a key, and adds up those that were counted here.
 */
static void
take_region_shards(DcSqlSession *session, Datum *values, DcSums *own)
{
	take_region_rows(session, &sql_take_region_shards, values, own);
	if (session->counter->direct_write && !IsolationUsesXactSnapshot())
		take_region_rows(session, &sql_take_region_own, values, own);
}

/*
 * Run a statement that deletes shard rows, and add up those that were counted in this region.
 */
static void
take_region_rows(DcSqlSession *session, const DcStatement *statement, Datum *values, DcSums *own)
{
	uint64 rows = sql_run(session, statement, values);

	for (uint64 i = 0; i < rows; i++)
	{
		if (!shard_is_remote(DatumGetInt32(rows_datum(&session->rows, i, 3))))
			sums_add(own, rows_bigint(&session->rows, i, 1), rows_bigint(&session->rows, i, 2));
	}
}

/*
 * write_total writes the row of totals, which is locked. That of a deleted key goes, unless it has
 * to make up for amounts of other regions that came a moment ago.
 */
static void
write_total(DcSqlSession *session, Datum *values, const DcRegionSetting *setting)
{
	if (setting->deleted && setting->total_inc == 0 && setting->total_dec == 0)
	{
		sql_run(session, &sql_delete_total, values);
		return;
	}
	values[1] = Int64GetDatum(setting->total_inc);
	values[2] = Int64GetDatum(setting->total_dec);
	values[3] = TimestampTzGetDatum(GetCurrentTimestamp());
	sql_run(session, &sql_update_total, values);
}
