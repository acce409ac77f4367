/*
 * identity.c
 *		The region that this database is, and the epoch under which it counts.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A region is a name that people choose. An epoch is a number that no database has had before: the
 * time, and random bits. Counts are identified by both. So a database that was copied or restored
 * may continue under the same name if it takes a new epoch; under the old epoch others would take
 * its counts for ones that they have already.
 *
 * dcounter.self has one row, or none (self.c). It also says for which system, timeline, database
 * and start of the server that holds. Each transaction that publishes calls region_identity(),
 * after it has taken the lock on the identity (life.h). A row that came with a dump, and was not
 * written by dc_region_init() or by a renewal, must not be used to publish. Neither must a row of
 * another system, timeline or database, nor one whose start is not over (boot.c): counts stay in
 * shard rows until then.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/xactrooms.h"
#include "region/life.h"

PG_FUNCTION_INFO_V1(on_self_change);

/*
 * The lowest bits of an epoch are the same in all epochs that a database uses until it is renewed.
 */
#define EPOCH_TAG(epoch) ((epoch) & ((1 << EPOCH_RANDOM_BITS) - 1))

/* How often to check whether a start is over. */
#define LOOK_AGAIN_MS 50

/*
 * How long a transaction that has a stock locked waits for other transactions that have the
 * identity locked for a moment.
 */
#define LOCKED_STOCK_MS 1000

/* This transaction may have the identity locked until it ends, which beat.c sees. */
bool region_identity_is_kept = false;

/* The transaction that has locked a stock last. */
static LocalTransactionId stock_locked_in = InvalidLocalTransactionId;

static bool identity_is_ready(const DcSelfRow *row);
static bool is_kept(void);
static void await_identity(DcIdentity *identity);
static void keep_identity(void);
pg_noreturn static void in_the_way_error(const DcSelfRow *row, bool published);
pg_noreturn static void no_identity_error(const DcSelfRow *row);

/*
 * Return true if this database may publish under the row.
 */
static bool
identity_is_ready(const DcSelfRow *row)
{
	DcSelfMarks marks;

	if (row->state == SELF_RENEW || !self_is_here(row))
		return false;
	if (!RecoveryInProgress() && (row->starting || !self_is_begun(row)))
		return false;
	self_marks(row, &marks);
	return !marks.renew && !marks.retired;
}

/*
 * region_identity sets the region and the epoch to publish under; false if this database has none,
 * or must not publish now.
 */
bool
region_identity(DcIdentity *identity)
{
	DcSelfRow row;

	if (!self_read(&row) || !identity_is_ready(&row))
		return false;
	*identity = (DcIdentity){row.region, row.epoch};
	return true;
}

/*
 * region_identity_at_once does the same for a caller that is about to publish, and must not wait.
 * If it returns true, the identity stays until the transaction ends.
 */
bool
region_identity_at_once(DcIdentity *identity)
{
	if (!advisory_lock(REGION_LOCK_CLASS, 0, IDENTITY_LOCK, ShareLock, false))
		return false;
	if (!region_identity(identity))
	{
		advisory_unlock(REGION_LOCK_CLASS, 0, IDENTITY_LOCK, ShareLock);
		return false;
	}
	keep_identity();
	return true;
}

/*
 * region_identity_needed does the same for a caller that may wait: while a start is under way, it
 * waits until that is over. Raises 55000 if there is no identity then, and 40001 if the transaction
 * has published under one that must be given up. The identity stays until the transaction ends.
 */
void
region_identity_needed(DcIdentity *identity)
{
	keep_identity();
	await_identity(identity);
}

/*
 * region_identity_awaited does the same for a caller that has, or is about to take, other locks
 * that keep a renewal away: those on a stock. So it does not keep the lock on the identity.
 */
void
region_identity_awaited(DcIdentity *identity)
{
	await_identity(identity);
	if (!RecoveryInProgress())
		advisory_unlock(REGION_LOCK_CLASS, 0, IDENTITY_LOCK, ShareLock);
}

/*
 * Return true if this transaction has asked for the identity before, and still has it: it does not
 * keep the lock if it has asked without success, or has been rolled back to before that.
 */
static bool
is_kept(void)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, IDENTITY_LOCK, REGION_LOCK_CLASS);
	return compat_has_lock(&tag, ShareLock);
}

/*
 * Note that this transaction has a stock locked, which a renewal locks after the identity: it must
 * no longer wait for the identity, until it ends.
 */
void
region_stock_is_locked(void)
{
	stock_locked_in = compat_local_xid();
}

/*
 * identity_lock keeps all others from publishing, and from changing the identity, until the
 * transaction ends.
 */
void
identity_lock(void)
{
	keep_identity();
	(void) advisory_lock(REGION_LOCK_CLASS, 0, IDENTITY_LOCK, ExclusiveLock, true);
}

/*
 * identity_try_lock does the same, but returns false if it would have to wait.
 */
bool
identity_try_lock(void)
{
	if (!advisory_lock(REGION_LOCK_CLASS, 0, IDENTITY_LOCK, ExclusiveLock, false))
		return false;
	keep_identity();
	return true;
}

/*
 * keep_identity notes that this transaction has the lock on the identity, or is about to take it.
 */
static void
keep_identity(void)
{
	xact_mark(DC_XACT_REGION);
	region_identity_is_kept = true;
}

/*
 * await_identity waits until there is one, for as long as a renewal may take. A transaction that
 * keeps the renewal waiting has to be retried: one that has published under an epoch that must be
 * given up, as a link has found since, or that has locked a stock.
 */
static void
await_identity(DcIdentity *identity)
{
	DcMoment until = moment_in(dc_region_handshake + dc_compact_interval);
	bool has_stock = stock_locked_in != InvalidLocalTransactionId && stock_locked_in == compat_local_xid();
	DcMoment soon = moment_in(LOCKED_STOCK_MS);
	bool kept = is_kept();
	DcSelfMarks marks;
	DcSelfRow row;

	for (;;)
	{
		bool standby = RecoveryInProgress();
		bool locked = standby || advisory_lock(REGION_LOCK_CLASS, 0, IDENTITY_LOCK, ShareLock, !has_stock);

		if (locked && region_identity(identity))
			return;
		if (!self_read(&row))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("this database is not in a region"),
					 errhint("Call dc_region_init() first.")));
		self_marks(&row, &marks);
		if (!marks.retired && ((kept && self_needs_renew(&row)) || (has_stock && (locked || moment_is_reached(soon)))))
			in_the_way_error(&row, kept);
		if (marks.retired || (locked && !boot_can_wait()) || moment_is_reached(until))
			no_identity_error(&row);
		if (locked && !standby)
			advisory_unlock(REGION_LOCK_CLASS, 0, IDENTITY_LOCK, ShareLock);
		boot_sleep(LOOK_AGAIN_MS);
	}
}

/*
 * Raise the error that this transaction itself keeps the database from taking a new epoch (40001).
 */
static void
in_the_way_error(const DcSelfRow *row, bool published)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("this database needs a new epoch in region \"%s\"", row->region),
			 published
				 ? errdetail("This transaction has published under the old epoch, and a new one cannot be taken before it ends.")
				 : errdetail("This transaction has locked a stock, which needs a new epoch as well."),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * Raise the error that the database may not publish now (55000), and why: it is retired, is
 * starting, or must renew.
 */
static void
no_identity_error(const DcSelfRow *row)
{
	DcSelfMarks marks;

	self_marks(row, &marks);
	if (marks.retired)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("region \"%s\" is retired", row->region),
				 errhint("Use dc_region_renew() to bring it back.")));
	if (!self_needs_renew(row))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database has not announced its start to the other regions yet"),
				 errdetail("It publishes nothing until all of them have acknowledged it, or dcounter.region_handshake has elapsed."),
				 errhint("If no worker runs, call dc_region_renew().")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this database needs a new epoch in region \"%s\"", row->region),
			 errdetail("It was restored, copied or promoted."),
			 errhint("If no worker runs, call dc_region_renew().")));
}

/*
 * Return true if a worker will do the next step, and this process may wait for it. An apply worker
 * may not: the confirmations may have to come by its link.
 */
bool
boot_can_wait(void)
{
	return activity_is_known() && dc_worker && !compat_is_background_worker();
}

/*
 * boot_sleep sleeps, and can be interrupted.
 */
void
boot_sleep(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, compat_wait_event("DcounterRegionStart"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * region_identity_received sets the identity under which this database may receive rows: as
 * region_self(), but it raises 55000 if the database needs a new epoch first. An apply worker does
 * not wait for that: it has tables locked that a renewal needs.
 */
void
region_identity_received(DcIdentity *identity)
{
	DcSelfRow row;

	if (!self_read(&row) || (self_needs_renew(&row) && boot_can_wait()))
		region_identity_awaited(identity);
	else if (self_needs_renew(&row))
		no_identity_error(&row);
	else
		*identity = (DcIdentity){row.region, row.epoch};
}

/*
 * Return true if this database writes rows under the epoch: its own, or one that it has taken since
 * for new slots (regionslot.c).
 */
bool
region_epoch_is_own(const DcIdentity *identity, int64 epoch)
{
	return epoch >= identity->epoch && epoch - identity->epoch < REGION_EPOCH_SLOTS;
}

/*
 * region_node returns the name of this database among its replicas, or NULL.
 */
const char *
region_node(void)
{
	DcIdentity identity;

	if (!OidIsValid(catalog_relation_if_any("self")) || !region_identity(&identity))
		return NULL;
	return psprintf("%s:" INT64_FORMAT, identity.region, identity.epoch);
}

/*
 * region_epoch_later returns a number that no database has had, later than an epoch, and outside of
 * the range of region_epoch_is_own().
 */
int64
region_epoch_later(int64 epoch)
{
	int64 now = region_epoch_new();

	if (now >> EPOCH_RANDOM_BITS > epoch >> EPOCH_RANDOM_BITS)
		return now;
	return (((epoch >> EPOCH_RANDOM_BITS) + 1) << EPOCH_RANDOM_BITS) | EPOCH_TAG(now);
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
 * region_check_owner raises 42501 for all but the owner of the database.
 */
void
region_check_owner(void)
{
	if (!compat_owns_database(MyDatabaseId, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of the database to change its region")));
}

/*
 * region_check_role raises 55000 in a session whose writes would be taken for rows that come from
 * another region, as the triggers that merge fire.
 */
void
region_check_role(void)
{
	if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change what this region has counted while \"session_replication_role\" is \"replica\"")));
}

/*
 * region_check_name raises 22023 for a name that would have to be quoted in a name of another
 * kind: of a subscription, a slot, a node.
 */
void
region_check_name(const char *region)
{
	if (!region_name_is_valid(region))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid region name: \"%s\"", region),
				 errdetail("A region name consists of up to %d lower-case letters, digits and underscores.", MAX_REGION_BYTES)));
}

/*
 * Return true if a name is one that a region can have.
 */
bool
region_name_is_valid(const char *region)
{
	size_t len = strlen(region);

	return len > 0 && len <= MAX_REGION_BYTES && strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789_") == len;
}

/*
 * on_self_change() -> trigger on dcounter.self, BEFORE INSERT: handles a row that comes with a
 * dump. A database that is in a region already stays in it. Otherwise it needs a new epoch, since
 * the epoch of the dump may be, or may have been, in use.
 */
Datum
on_self_change(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	DcSelfRow row = {0};
	DcSelfRow old;
	DcCatRow io;

	trigger_check(fcinfo, "on_self_change()");
	if (RelationGetRelid(data->tg_relation) != self_relation() ||
		!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be a trigger of the extension's own table", "on_self_change()")));
	if (self_read(&old))
		PG_RETURN_POINTER(NULL);
	if (!cat_deform(&selves, RelationGetDescr(data->tg_relation), data->tg_trigtuple, &row))
		PG_RETURN_POINTER(data->tg_trigtuple);
	row.state = SELF_RENEW;
	activity_note(beats_relation());
	PG_RETURN_POINTER(cat_form(&selves, RelationGetDescr(data->tg_relation), &row, &io));
}
