/*
 * identity.c
 *		Which region this database is, and under which epoch it counts.
 *
 * A region is a name that people give. An epoch is a number that no database has ever had
 * before: the time, and random bits. What was counted is known by both. So a database that was
 * copied or restored may go on under the same name if it takes a new epoch; under the old one
 * others would take what it counts for what they have already.
 *
 * dcounter.self has one row, or none. It also says in which system, on which timeline and in
 * which database that was true. All that publishes asks region_identity(), in its own
 * transaction, with the lock on the compaction of its table. A row that was not written by
 * dc_region_init(), but came with a dump, is not good to publish under. Neither is one of another system,
 * timeline or database: what is counted then stays in shard rows.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "base/args.h"
#include "base/compat.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "region/region.h"
#include "storage/lmgr.h"
#include "table/access.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(dc_region_init);
PG_FUNCTION_INFO_V1(on_self_change);

#define MAX_REGION_BYTES 40
#define EPOCH_RANDOM_BITS 10

/* Microseconds from 1970 to 2000, where TimestampTz begins. */
#define EPOCH_DIFF ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/* Whether this database may publish. */
typedef enum DcSelfState
{
	SELF_ACTIVE,
	SELF_RENEW, /* it needs a new epoch first */
	SELF_RECOPY /* it has one, and does not have all of the others yet */
} DcSelfState;

static const char *const state_names[] = {"active", "renew", "recopy"};

/* A row of dcounter.self. */
typedef struct DcSelfRow
{
	char *region;
	int64 epoch;
	int64 system_id;
	int32 timeline;
	Oid dboid;
	TimestampTz postmaster_start;
	DcSelfState state;
} DcSelfRow;

static void columns(DcCatRow *io, void *data);
static bool self_read(DcSelfRow *row);
static bool is_here(const DcSelfRow *row);

static const DcCatalog selves = {
	.table = "self",
	.pkey = "self_pkey",
	.nkeys = 1,
	.size = sizeof(DcSelfRow),
	.columns = columns,
};

static void
columns(DcCatRow *io, void *data)
{
	DcSelfRow *row = data;

	cat_string(io, &row->region);
	cat_int8(io, &row->epoch);
	cat_int8(io, &row->system_id);
	cat_int4(io, &row->timeline);
	cat_oid(io, &row->dboid);
	cat_time(io, &row->postmaster_start);
	row->state = cat_choice(io, row->state, state_names, lengthof(state_names));
}

static bool
self_read(DcSelfRow *row)
{
	List *rows = cat_read_all(&selves, SnapshotSelf);

	if (rows == NIL)
		return false;
	*row = *(DcSelfRow *) linitial(rows);
	return true;
}

/*
 * is_here tells whether a row was written in this database, and not in one that it is a copy of, or
 * was restored from, or was a standby of. All of these may have published more under its epoch
 * than this database knows. A standby publishes nothing, and is here as its primary is.
 */
static bool
is_here(const DcSelfRow *row)
{
	return row->system_id == (int64) GetSystemIdentifier() && row->dboid == MyDatabaseId &&
		(RecoveryInProgress() || row->timeline == (int32) GetWALInsertionTimeLine());
}

/*
 * region_identity tells the region and the epoch to publish under; false if this database has
 * none, or must not publish now.
 */
bool
region_identity(DcIdentity *identity)
{
	DcSelfRow row;

	if (!self_read(&row) || row.state == SELF_RENEW || !is_here(&row))
		return false;
	*identity = (DcIdentity){row.region, row.epoch};
	return true;
}

/*
 * region_identity_needed is the same, and raises 55000 if there is none.
 */
void
region_identity_needed(DcIdentity *identity)
{
	DcSelfRow row;

	if (region_identity(identity))
		return;
	if (self_read(&row))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database needs a new epoch in region \"%s\"", row.region),
				 errdetail("It was restored, copied or promoted.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this database is in no region"),
			 errhint("Call dc_region_init() first.")));
}

/*
 * region_node returns the name of this database among its replicas, or NULL.
 */
const char *
region_node(void)
{
	DcIdentity identity;

	if (!OidIsValid(catalog_relation_if_any(selves.table)) || !region_identity(&identity))
		return NULL;
	return psprintf("%s:" INT64_FORMAT, identity.region, identity.epoch);
}

/*
 * region_epoch_new returns a number that no database has had.
 */
int64
region_epoch_new(void)
{
	uint16 random;

	if (!pg_strong_random(&random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
	return ((GetCurrentTimestamp() + EPOCH_DIFF) << EPOCH_RANDOM_BITS) |
		(random & ((1 << EPOCH_RANDOM_BITS) - 1));
}

/*
 * dc_region_init(region text) -> bigint, the epoch: makes this database one of a region. The
 * caller owns the database.
 *
 * Errors: 22023 for a name that is none, 42501, 42710 if the database is in a region already,
 * and those of publications_create().
 */
Datum
dc_region_init(PG_FUNCTION_ARGS)
{
	DcSelfRow row = {0};

	arg_not_null(fcinfo, 0, "region");
	row.region = text_to_cstring(PG_GETARG_TEXT_PP(0));
	region_check_name(row.region);
	prevent_write("dc_region_init()");
	if (!compat_owns_database(MyDatabaseId, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of the database to make it one of a region")));
	LockRelationOid(catalog_relation(selves.table), ShareRowExclusiveLock);
	if (cat_read_all(&selves, SnapshotSelf) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("this database is in a region already")));
	row.epoch = region_epoch_new();
	row.system_id = (int64) GetSystemIdentifier();
	row.timeline = (int32) GetWALInsertionTimeLine();
	row.dboid = MyDatabaseId;
	row.postmaster_start = PgStartTime;
	row.state = SELF_ACTIVE;
	cat_insert(&selves, &row);
	publications_create();
	PG_RETURN_INT64(row.epoch);
}

/*
 * region_check_name raises 22023 for a name that would have to be quoted in a name of another
 * kind: of a subscription, a slot, a node.
 */
void
region_check_name(const char *region)
{
	size_t len = strlen(region);

	if (len == 0 || len > MAX_REGION_BYTES ||
		strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789_") != len)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid name of a region: \"%s\"", region),
				 errdetail("It must be up to %d lower-case letters, digits and underscores.", MAX_REGION_BYTES)));
}

/*
 * on_self_change() -> trigger on dcounter.self, BEFORE INSERT: a row that comes with a dump. If
 * the database is in a region already, it stays there. If not, it needs a new epoch, since the
 * one of the dump may be in use, or have been used.
 */
Datum
on_self_change(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	DcSelfRow row = {0};
	DcCatRow io;

	trigger_check(fcinfo, "on_self_change()");
	if (RelationGetRelid(data->tg_relation) != catalog_relation(selves.table) ||
		!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be a trigger of the extension's own table", "on_self_change()")));
	if (cat_read_all(&selves, SnapshotSelf) != NIL)
		PG_RETURN_POINTER(NULL);
	if (!cat_deform(&selves, RelationGetDescr(data->tg_relation), data->tg_trigtuple, &row))
		PG_RETURN_POINTER(data->tg_trigtuple);
	row.state = SELF_RENEW;
	PG_RETURN_POINTER(cat_form(&selves, RelationGetDescr(data->tg_relation), &row, &io));
}
