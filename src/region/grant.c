/*
 * grant.c
 *		Grants: rows that say how many units regions have given to each other (rights.h).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * merge_grant() is the trigger for what comes from other regions (mergetrigger.c). It keeps the
 * greater one of two states of a row, and adds the difference to the units here if the row is for
 * this region and its present epoch. The units go to rows of this transaction's own, which waits
 * for nobody.
 *
 * Earlier epochs of this region count as well if nothing was lost when it gave them up
 * (rights_renew()). A row from the old epoch to the new one says so.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "base/activity.h"
#include "base/compat.h"
#include "core/counter/apply.h"
#include "core/counter/pending.h"
#include "core/table/access.h"
#include "region/merge.h"
#include "region/rights.h"

PG_FUNCTION_INFO_V1(merge_grant);

/* key, from_region, from_epoch, to_region, to_epoch */
#define GRANT_ARGS \
	{ \
		TEXTOID, TEXTOID, INT8OID, TEXTOID, INT8OID, INT8OID \
	}

/* the same, more units */
static const DcStatement sql_grant_raise = {
	.text = "INSERT INTO @grants AS g (key, from_region, from_epoch, to_region, to_epoch, units)"
			" VALUES ($1, $2, $3, $4, $5, $6)"
			" ON CONFLICT (key, from_region, from_epoch, to_region, to_epoch)"
			" DO UPDATE SET units = g.units + excluded.units",
	.argtypes = GRANT_ARGS,
	.of = DC_OF_MORE};

/* key, region, old epoch, new epoch */
static const DcStatement sql_grant_carried = {
	.text = "SELECT g.units FROM @grants AS g WHERE g.key = $1 AND g.from_region = $2"
			" AND g.from_epoch = $3 AND g.to_region = $2 AND g.to_epoch = $4",
	.argtypes = {TEXTOID, TEXTOID, INT8OID, INT8OID},
	.columns = {DC_BIGINT("units")},
	.of = DC_OF_MORE};

/*
 * key: the units that may still come. Rows that are written directly may be negative. Where there
 * are very many rows, they were written directly, and no more units come. The table of totals,
 * which may have code of its owner, is not read.
 */
static const DcStatement sql_grant_room = {
	.text = "SELECT CASE WHEN count(*) > 10000 THEN -1 ELSE greatest(least(9223372036854775807 - coalesce(sum(greatest(s.units, 0)), 0), 9223372036854775807 - coalesce(sum(greatest(s.inc, 0)), 0)), -1)::int8 END"
			" FROM (SELECT h.units, h.inc FROM @shards AS h WHERE h.key = $1 LIMIT 10001) AS s",
	.argtypes = {TEXTOID},
	.columns = {DC_BIGINT("room")},
	.of = DC_OF_SHARDS};

static const char *grant_problem(DcMerge *merge);
static void grant_receive(DcMerge *merge, int64 units);
static bool grant_has_room(DcCounter *counter, const Datum *grant, int64 units);
static bool is_for_us(DcCounter *counter, const Datum *grant);

static const DcMergeKind grant_kind = {
	.function = "merge_grant()",
	.table = TABLE_OF_GRANTS,
	.problem = grant_problem,
	.other = gettext_noop("It would become the row of another grant."),
	.number = GRANT_UNITS,
	.raised = grant_receive,
};

/*
 * merge_grant() -> trigger, BEFORE INSERT OR UPDATE FOR EACH ROW
 *
 * Errors: as of merge_trigger(), and 55000 if this database needs a new epoch first.
 */
Datum
merge_grant(PG_FUNCTION_ARGS)
{
	static DcCounter *last = NULL; /* entries stay where they are */

	return merge_trigger(fcinfo, &grant_kind, &last);
}

/*
 * Return what is wrong with a row that has come, or NULL.
 */
static const char *
grant_problem(DcMerge *merge)
{
	return DatumGetInt64(merge->come[GRANT_UNITS]) < 0 ? _("The units are negative.") : NULL;
}

/*
 * grant_receive adds units of a grant to those here, if they are for this region. If the sum would
 * overflow bigint, no region can have had these units.
 */
static void
grant_receive(DcMerge *merge, int64 units)
{
	DcCounter *counter;
	DcKey key;
	DcDelta delta = {.inc = units};
	DcDelta *deltas = &delta;

	if (units == 0)
		return;
	counter = merge_lock(merge);
	activity_note(counter->relid); /* the job may have something to do */
	if (!is_for_us(counter, merge->come))
		return;
	if (!grant_has_room(counter, merge->come, units))
	{
		(void) region_row_passed_over(merge->rel, counter, _("There are too many units."));
		return;
	}
	key_from_text(merge->come[GRANT_KEY], &key);
	delta.key = delta_key(counter->relid, &key);
	apply_amounts(counter, &deltas, 1);
}

/*
 * grant_has_room returns true if a key has room for units. The rows of a key are read once in a
 * transaction, if the result still fits into memory: there may be very many rows, and very many
 * grants. Amounts that others add in the meantime only harm the owner's own key.
 */
static bool
grant_has_room(DcCounter *counter, const Datum *grant, int64 units)
{
	static struct
	{
		LocalTransactionId transaction;
		Oid relid;
		uint64 hash;
		int64 room;
	} keys[256];
	Datum name = grant[GRANT_KEY];
	text *key = DatumGetTextPP(name);
	uint64 hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), 0);
	int place = (hash ^ counter->relid) % lengthof(keys);
	DcSqlSession session;

	if (keys[place].transaction != compat_local_xid() || keys[place].relid != counter->relid || keys[place].hash != hash)
	{
		rights_begin(&session, counter);
		(void) sql_run(&session, &sql_grant_room, &name);
		keys[place].room = rows_bigint(&session.rows, 0, 1);
		sql_end(&session);
		keys[place].transaction = compat_local_xid();
		keys[place].relid = counter->relid;
		keys[place].hash = hash;
	}
	if (keys[place].room < units)
		return false;
	keys[place].room -= units;
	return true;
}

/*
 * Return true if the units of the grant are for this database: for its present epoch, or for one
 * from which a row carries them to that. A grant from this region to itself is such a row, and
 * brings none.
 */
static bool
is_for_us(DcCounter *counter, const Datum *grant)
{
	char *to = TextDatumGetCString(grant[GRANT_TO_REGION]);
	char *from = TextDatumGetCString(grant[GRANT_FROM_REGION]);
	DcIdentity identity;
	DcSqlSession session;
	Datum values[4];
	bool carried;

	region_identity_received(&identity);
	if (strcmp(to, identity.region) != 0 || strcmp(from, identity.region) == 0)
		return false;
	if (DatumGetInt64(grant[GRANT_TO_EPOCH]) == rights_epoch_of(counter))
		return true;
	values[0] = grant[GRANT_KEY];
	values[1] = grant[GRANT_TO_REGION];
	values[2] = grant[GRANT_TO_EPOCH];
	values[3] = Int64GetDatum(rights_epoch_of(counter));
	rights_begin(&session, counter);
	carried = sql_run(&session, &sql_grant_carried, values) > 0;
	sql_end(&session);
	return carried;
}

/*
 * grant_raise notes that units leave this region for another one, in this transaction.
 */
void
grant_raise(DcSqlSession *session, Datum key, const DcIdentity *from, const DcIdentity *to, int64 units)
{
	Datum values[] = {key, CStringGetTextDatum(from->region), Int64GetDatum(from->epoch),
					  CStringGetTextDatum(to->region), Int64GetDatum(to->epoch), Int64GetDatum(units)};

	(void) sql_run(session, &sql_grant_raise, values);
}
