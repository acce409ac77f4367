/*
 * grant.c
 *		Grants: rows that say how many units regions have given to each other (rights.h).
 *
 * merge_grant() is the trigger for what comes from other regions. It keeps the greater one of two
 * states of a row, and adds the difference to the units here if this region, under the epoch that it
 * has now, is the one that it is for. As with counters (regionmerge.c), what does
 * not grow writes nothing, and a row that is not there is inserted here, with ON CONFLICT, as two
 * links may bring it. The units go to rows of this transaction's own, which waits for nobody.
 *
 * Epochs that this region had before count as well if nothing was lost when it gave them up
 * (rights_renew()). A row from the old epoch to the new one says so.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "base/activity.h"
#include "base/args.h"
#include "base/compat.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "counter/apply.h"
#include "counter/pending.h"
#include "fmgr.h"
#include "region/rights.h"
#include "table/access.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(merge_grant);

/* A row of a table of grants. */
typedef struct DcGrant
{
	Datum columns[GRANT_UNITS]; /* what it is known by */
	int64 units;
} DcGrant;

/* key, from_region, from_epoch, to_region, to_epoch */
#define GRANT_ARGS \
	{ \
		TEXTOID, TEXTOID, INT8OID, TEXTOID, INT8OID, INT8OID \
	}
#define THIS_GRANT \
	" WHERE g.key = $1 AND g.from_region = $2 AND g.from_epoch = $3 AND g.to_region = $4 AND g.to_epoch = $5"

/* the same, units */
static const DcStatement sql_grant_look = {
	.text = "SELECT g.units FROM @grants AS g" THIS_GRANT " AND g.units >= $6",
	.argtypes = GRANT_ARGS,
	.columns = {DC_BIGINT("units")},
	.of = DC_OF_MORE};

static const DcStatement sql_grant_insert = {
	.text = "INSERT INTO @grants AS g (key, from_region, from_epoch, to_region, to_epoch, units)"
			" VALUES ($1, $2, $3, $4, $5, $6)"
			" ON CONFLICT (key, from_region, from_epoch, to_region, to_epoch) DO NOTHING",
	.argtypes = GRANT_ARGS,
	.of = DC_OF_MORE};

static const DcStatement sql_grant_lock = {
	.text = "SELECT g.units FROM @grants AS g" THIS_GRANT " AND $6 IS NOT NULL FOR NO KEY UPDATE",
	.argtypes = GRANT_ARGS,
	.columns = {DC_BIGINT("units")},
	.of = DC_OF_MORE};

static const DcStatement sql_grant_update = {
	.text = "UPDATE @grants AS g SET units = $6" THIS_GRANT,
	.argtypes = GRANT_ARGS,
	.of = DC_OF_MORE};

/* the same, units more */
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

/* key, units. What was written by hand may be negative. The table of totals, which may have code of its owner, is not read. */
static const DcStatement sql_grant_room = {
	.text = "SELECT 1::int8 FROM @shards AS s WHERE s.key = $1"
			" HAVING coalesce(sum(greatest(s.units, 0)), 0) + $2 <= 9223372036854775807"
			" AND coalesce(sum(greatest(s.inc, 0)), 0) + $2 <= 9223372036854775807",
	.argtypes = {TEXTOID, INT8OID},
	.columns = {DC_BIGINT("one")},
	.of = DC_OF_SHARDS};

/* The table that a statement of ours writes to, which fires the trigger once more; or InvalidOid. */
static Oid merging = InvalidOid;

static const char *grant_of(DcCounter *counter, Relation rel, HeapTuple tuple, DcGrant *grant);
static void merge_new_grant(DcCounter *counter, Relation rel, const DcGrant *grant);
static int64 raise_to(DcCounter *counter, const DcGrant *grant);
static int64 raise_row(DcSqlSession *session, Datum *values);
static void receive(DcCounter *counter, Relation rel, const DcGrant *grant, int64 units);
static bool has_room(DcCounter *counter, const DcGrant *grant, int64 units);
static bool is_for_us(DcCounter *counter, const DcGrant *grant);

/*
 * merge_grant() -> trigger, BEFORE INSERT OR UPDATE FOR EACH ROW
 *
 * Errors: 55000 if the table does not belong to a replicated stock, or this database needs a new epoch
 * first; those of a stock that cannot be written to. All of these stop the subscription, and nothing is
 * lost when the reason is gone. What is in a row is no reason (passedover.c).
 */
Datum
merge_grant(PG_FUNCTION_ARGS)
{
	static DcCounter *last = NULL; /* entries stay where they are */
	TriggerData *data = (TriggerData *) fcinfo->context;
	const char *problem;
	DcCounter *counter;
	DcGrant old;
	DcGrant new;

	trigger_check(fcinfo, "merge_grant()");
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		TRIGGER_FIRED_BY_DELETE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be called as a trigger, %s", "merge_grant()", "BEFORE INSERT OR UPDATE FOR EACH ROW")));
	if (merging == RelationGetRelid(data->tg_relation))
		return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
	counter = rights_counter_of(data->tg_relation, &last);
	if (counter->fed)
		return region_row_as_it_came(data);
	if ((problem = rights_problem(counter)) != NULL)
		return region_row_missed(data->tg_relation, counter, problem);
	problem = grant_of(counter, data->tg_relation, TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple, &new);
	if (problem != NULL)
		return region_row_passed_over(data->tg_relation, counter, problem);
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event))
	{
		merge_new_grant(counter, data->tg_relation, &new);
		return PointerGetDatum(NULL);
	}
	(void) grant_of(counter, data->tg_relation, data->tg_trigtuple, &old);
	if (!batch_key_equal(old.columns[GRANT_KEY], new.columns[GRANT_KEY]) ||
		!batch_key_equal(old.columns[GRANT_FROM_REGION], new.columns[GRANT_FROM_REGION]) ||
		!batch_key_equal(old.columns[GRANT_TO_REGION], new.columns[GRANT_TO_REGION]) ||
		old.columns[GRANT_FROM_EPOCH] != new.columns[GRANT_FROM_EPOCH] ||
		old.columns[GRANT_TO_EPOCH] != new.columns[GRANT_TO_EPOCH])
		return region_row_passed_over(data->tg_relation, counter, _("It is to become that of another grant."));
	if (new.units <= old.units)
		return PointerGetDatum(NULL);
	receive(counter, data->tg_relation, &new, new.units - Max(old.units, 0));
	return PointerGetDatum(data->tg_newtuple);
}

/*
 * grant_of reads a row, and returns what is wrong with it, as a sentence, or NULL.
 */
static const char *
grant_of(DcCounter *counter, Relation rel, HeapTuple tuple, DcGrant *grant)
{
	const AttrNumber *atts = counter->grants.atts;
	const char *problem = row_null_problem(rel, tuple, atts, GRANT_NUM_COLUMNS);

	if (problem != NULL)
		return problem;
	for (int i = 0; i < GRANT_UNITS; i++)
		grant->columns[i] = tuple_datum(rel, tuple, atts[i],
										i == GRANT_FROM_EPOCH || i == GRANT_TO_EPOCH ? INT8OID : TEXTOID);
	grant->units = DatumGetInt64(tuple_datum(rel, tuple, atts[GRANT_UNITS], INT8OID));
	if ((problem = row_key_problem(grant->columns[GRANT_KEY])) == NULL &&
		(problem = row_region_problem(grant->columns[GRANT_FROM_REGION])) == NULL &&
		(problem = row_region_problem(grant->columns[GRANT_TO_REGION])) == NULL && grant->units < 0)
		problem = _("The units are negative.");
	return problem;
}

/*
 * merge_new_grant merges a row that is to be inserted.
 */
static void
merge_new_grant(DcCounter *counter, Relation rel, const DcGrant *grant)
{
	volatile int64 more = 0;

	if (!counter_lock(counter->relid, RowExclusiveLock))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stock \"%s\" was dropped", get_rel_name(counter->relid))));
	merging = counter->row.grants;
	PG_TRY();
	{
		more = raise_to(counter, grant);
	}
	PG_FINALLY();
	{
		merging = InvalidOid;
	}
	PG_END_TRY();
	if (more > 0)
		receive(counter, rel, grant, more);
}

/*
 * raise_to raises the row that there is, or inserts it, and returns by how much.
 */
static int64
raise_to(DcCounter *counter, const DcGrant *grant)
{
	Datum values[GRANT_NUM_COLUMNS];
	DcSqlSession session;
	int64 more;

	memcpy(values, grant->columns, sizeof(grant->columns));
	values[GRANT_UNITS] = Int64GetDatum(grant->units);
	rights_begin(&session, counter);
	if (sql_run(&session, &sql_grant_look, values) > 0)
		more = 0;
	else if (sql_run(&session, &sql_grant_insert, values) > 0)
		more = grant->units;
	else
		more = raise_row(&session, values);
	sql_end(&session);
	return more;
}

static int64
raise_row(DcSqlSession *session, Datum *values)
{
	int64 units = DatumGetInt64(values[GRANT_UNITS]);
	int64 present;

	if (sql_run(session, &sql_grant_lock, values) == 0)
		elog(ERROR, "a grant has vanished");
	present = rows_bigint(&session->rows, 0, 1);
	if (units <= present)
		return 0;
	(void) sql_run(session, &sql_grant_update, values);
	return units - Max(present, 0);
}

/*
 * receive adds units of a grant to those here, if they are for this region. If there are more than a bigint has
 * then, they are no units that somebody had to give.
 */
static void
receive(DcCounter *counter, Relation rel, const DcGrant *grant, int64 units)
{
	Oid relid = counter->relid;
	DcKey key;
	DcDelta delta = {.inc = units};
	DcDelta *deltas = &delta;

	if (!counter_lock(relid, RowExclusiveLock))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stock \"%s\" was dropped", get_rel_name(relid))));
	counter = counter_lookup(relid);
	activity_note(relid); /* the job may have something to do */
	if (!is_for_us(counter, grant))
		return;
	if (!has_room(counter, grant, units))
	{
		(void) region_row_passed_over(rel, counter, _("There are too many units."));
		return;
	}
	key_from_text(grant->columns[GRANT_KEY], &key);
	delta.key = delta_key(relid, &key);
	apply_amounts(counter, &deltas, 1);
}

static bool
has_room(DcCounter *counter, const DcGrant *grant, int64 units)
{
	Datum values[] = {grant->columns[GRANT_KEY], Int64GetDatum(units)};
	DcSqlSession session;
	bool room;

	rights_begin(&session, counter);
	room = sql_run(&session, &sql_grant_room, values) > 0;
	sql_end(&session);
	return room;
}

static bool
is_for_us(DcCounter *counter, const DcGrant *grant)
{
	char *to = TextDatumGetCString(grant->columns[GRANT_TO_REGION]);
	char *from = TextDatumGetCString(grant->columns[GRANT_FROM_REGION]);
	DcIdentity identity;
	DcSqlSession session;
	Datum values[4];
	bool carried;

	region_identity_received(&identity);
	if (strcmp(to, identity.region) != 0 || strcmp(from, identity.region) == 0)
		return false;
	if (DatumGetInt64(grant->columns[GRANT_TO_EPOCH]) == rights_epoch_of(counter))
		return true;
	values[0] = grant->columns[GRANT_KEY];
	values[1] = grant->columns[GRANT_TO_REGION];
	values[2] = grant->columns[GRANT_TO_EPOCH];
	values[3] = Int64GetDatum(rights_epoch_of(counter));
	rights_begin(&session, counter);
	carried = sql_run(&session, &sql_grant_carried, values) > 0;
	sql_end(&session);
	return carried;
}

/*
 * grant_raise notes that units have left this region for another one. They have, in this
 * transaction.
 */
void
grant_raise(DcSqlSession *session, Datum key, const DcIdentity *from, const DcIdentity *to, int64 units)
{
	Datum values[] = {key, CStringGetTextDatum(from->region), Int64GetDatum(from->epoch),
					  CStringGetTextDatum(to->region), Int64GetDatum(to->epoch), Int64GetDatum(units)};

	(void) sql_run(session, &sql_grant_raise, values);
}
