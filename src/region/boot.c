/*
 * boot.c
 *		The job "regions": what a region's database does after each start of its server, and
 *		regularly.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	1. Begin, once after a start: unpublished counts are sealed (seal.c), and a heartbeat sends the
 *	   new boot to the others. If the database needs a new epoch, it takes that instead. It also
 *	   takes one if no other region is known: none could tell it that it is a snapshot of the disk
 *	   (life.h). Then it is ready at once.
 *	2. Then it publishes nothing (region_identity) until each active region that it knows has
 *	   confirmed this boot as the latest. When dcounter.region_handshake is over it takes a new
 *	   epoch, as it does when one of them knows something else (beatmerge.c). In the latter case the
 *	   units of stocks are given up, as others may have them. In the former they stay if at least
 *	   one region has confirmed the start; if none has, they are not sold until the operator says so
 *	   (rightsrenew.c). With a region that is lost but not retired that happens at each start; it
 *	   delays what others see, and costs one row per key. Meanwhile the database answers others that
 *	   are starting as well.
 *	3. From then on its heartbeats send what it knows of the others, and the time before which all
 *	   of its commits are published: after it has published something, when it has learned of a new
 *	   boot or epoch of another region, and every dcounter.region_beat_interval. It does not answer
 *	   heartbeats: so in between nothing is written.
 *
 * Each step is a transaction that reads dcounter.self again, under the lock on the identity if it
 * changes the row. So several processes may run steps, and a crash leaves a step done, or not.
 *
 * Sessions. Increments between the start and the first step would be sealed as well, and may be
 * lost with it. So a session that writes to a replicated counter waits for the first step, when the
 * entry of its cache is created (core/table/countercache.c). Sessions with an entry that was made
 * on a standby wait as well, since a standby is promoted without a start. Without preload, or with
 * dcounter.worker off, there is no worker to wait for: then the owner of the database should call
 * dc_region_renew(), or dc_compact(), before anything is counted.
 *
 * A copy of a region that an ordinary subscription keeps, including the tables of the extension, is
 * not a region itself: it does none of this while the subscription exists.
 *
 * Times are those of the wall clock: if the clock is set, a database takes a new epoch early or
 * late. Both are right.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/guc.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "region/life.h"

#define SOON_MS 100
#define LATER_MS 1000
#define SELDOM_MS 60000

/* Pause after a step that has failed: this many times its length, at least LATER_MS. */
#define FAILED_PAUSE 4

/* State of the job in this process. */
static DcMoment due = {0};	/* when to look again */
static DcMoment told = {0}; /* the last heartbeat with all that is known */
static DcSharedStep job_steps = {0};
static Oid beats_relid = InvalidOid; /* the table under which heartbeats of others are noted (base/activity.c) */
static uint32 beats_seen = 0;

static bool beats_have_come(void);
static void job_step(void *arg);
static bool next_step(DcSelfRow *self, bool worker);
static bool begin_change(DcSelfRow *self, DcLifeChange change, DcRights rights, bool worker);
static void wanted_turns(const DcSelfRow *self, DcLifeChange change, bool *seals, bool *folds);
static bool make_change(DcSelfRow *self, DcLifeChange change, DcRights rights, bool worker);
static bool boot_begin(DcSelfRow *self, bool worker);
static bool is_confirmed(const DcSelfRow *self);
static int boot_confirmations(const DcSelfRow *self, int *missing);
static bool is_late(const DcSelfRow *self);
static void note_marks(DcSelfRow *self);
static bool boot_tell(const DcSelfRow *self, bool worker);
static void boot_answer(const DcSelfRow *self);
static bool is_to_answer(const DcBeat *own, const char *region);

/*
 * region_job does the steps that are due.
 */
bool
region_job(DcJobRun *run)
{
	bool more = true;
	bool worker = run->all_owners;
	bool news = beats_have_come();

	beats_seen = OidIsValid(beats_relid) ? activity_collect(MyDatabaseId, beats_relid) : 0;
	for (int i = 0; more && i < 4; i++)
	{
		if (worker && turns_run(run))
			return true;
		/* a region that waits for an answer does not wait until all counters were looked at */
		if (worker && !(news && i == 0) && unpublished_run(run))
			return true;
		more = worker;
		if (turns_lead_to_change() ? !run->step(run, job_step, &more, InvalidOid) : !shared_step_run(&job_steps, run, job_step, &more))
		{
			/*
			 * it has failed, maybe on a lock, and sessions may be waiting; or it took too long for
			 * other jobs
			 */
			due = moment_max(moment_in(Max(LATER_MS, FAILED_PAUSE * run->took / 1000)), job_steps.rests);
			break;
		}
	}
	if (!worker)
		unpublished_end();
	return false;
}

/*
 * Return true if heartbeats of others have come since this process looked last.
 */
static bool
beats_have_come(void)
{
	return OidIsValid(beats_relid) && activity_differs(MyDatabaseId, beats_relid, beats_seen);
}

/*
 * region_job_due returns when the worker has something to do.
 */
DcMoment
region_job_due(void)
{
	if (beats_have_come())
		return job_steps.rests;
	if (beat_has_news())
		return moment_max(job_steps.rests, moment_min(due, moment_after(told, dc_compact_interval * INT64CONST(1000))));
	return moment_max(job_steps.rests, due);
}

/*
 * Return true if this database is in a region.
 */
bool
region_job_is_needed(void)
{
	DcSelfRow self;

	return self_read(&self) && !extension_is_fed();
}

/*
 * job_step runs the next step. *arg: in, is it called by the worker? out, is there more to do?
 */
static void
job_step(void *arg)
{
	bool *more = arg;
	bool worker = *more;
	DcRights rights;
	DcSelfRow self;

	*more = false;
	due = moment_in(SELDOM_MS);
	if (!OidIsValid(beats_relid))
		beats_seen = activity_collect(MyDatabaseId, beats_relation());
	beats_relid = beats_relation();
	if (RecoveryInProgress() || extension_is_fed() || (!worker && !compat_owns_database(MyDatabaseId, GetUserId())) || !self_read(&self))
		return;
	*more = next_step(&self, worker);
	if (*more)
		due = moment_in(SOON_MS);
	else if (turns_for(&self, &rights) != LIFE_NONE)
		due = turns_due();
	else if (self.starting)
		due = moment_in(SOON_MS);
	else if (!self_is_begun(&self) || self_needs_renew(&self))
		due = moment_in(LATER_MS);
	else
		due = moment_min(moment_min(due, turns_due()), moment_after(told, dc_region_beat_interval * INT64CONST(1000)));
}

/*
 * next_step does one step; true if other steps may follow at once.
 */
static bool
next_step(DcSelfRow *self, bool worker)
{
	DcLifeChange change;
	DcSelfMarks marks;
	DcRights rights;

	change = worker ? turns_for(self, &rights) : LIFE_NONE;
	if (change != LIFE_NONE)
		return turns_are_over() && make_change(self, change, rights, true);
	if (self_needs_renew(self))
	{
		if (self->state == SELF_RENEW && restore_is_under_way(worker))
			return false;
		return begin_change(self, LIFE_RENEW, RIGHTS_GIVEN_UP, worker);
	}
	self_marks(self, &marks);
	if (!self_is_begun(self) && !marks.retired && !region_has_others(self->region))
		return begin_change(self, LIFE_RENEW, RIGHTS_ALONE, worker);
	if (!self_is_begun(self))
		return begin_change(self, LIFE_BEGIN, RIGHTS_KEPT, worker);
	if (self->starting && is_confirmed(self))
		return begin_change(self, LIFE_CONFIRMED, RIGHTS_KEPT, worker);
	if (self->starting && is_late(self))
	{
		int missing;
		int confirmed = boot_confirmations(self, &missing);

		ereport(LOG,
				(errmsg("%d other regions have not acknowledged this start of region \"%s\"", missing, self->region),
				 errdetail("This database takes a new epoch."),
				 confirmed == 0 ? errhint("Stocks that are replicated are shut until dc_region_renew() is called.") : 0));
		return begin_change(self, LIFE_RENEW, confirmed > 0 ? RIGHTS_KEPT : RIGHTS_SHUT, worker);
	}
	self_marks(self, &marks);
	if (self->starting && !marks.retired)
		boot_answer(self);
	if (self->starting || marks.retired)
		return false;
	if (marks.recopy && self->state == SELF_ACTIVE)
		note_marks(self);
	else if (lacks_nothing(self))
		end_recopy(self);
	return boot_tell(self, worker);
}

/*
 * begin_change makes a change. The worker first gives each counter its turn.
 */
static bool
begin_change(DcSelfRow *self, DcLifeChange change, DcRights rights, bool worker)
{
	DcSelfRow now;
	bool seals;
	bool folds;

	if (!worker)
		return make_change(self, change, rights, false);
	identity_lock();
	if (!self_read(&now) || strcmp(boot_text(now.boot), boot_text(self->boot)) != 0)
		return true; /* another process has made one */
	*self = now;
	wanted_turns(self, change, &seals, &folds);
	turns_begin(self, change, rights, seals, folds);
	return true;
}

/*
 * wanted_turns sets what has to be done to all counters before a change.
 */
static void
wanted_turns(const DcSelfRow *self, DcLifeChange change, bool *seals, bool *folds)
{
	bool others = region_has_others(self->region);

	*seals = !self->starting && (change == LIFE_RENEW || (change == LIFE_BEGIN && others));
	*folds = change != LIFE_BEGIN || (self->starting && !others);
}

/*
 * Do what the database has to do next: begin, renew, or fold what was sealed. Return true if other
 * steps may follow at once. The worker has had its turns at the counters before, and returns true.
 */
static bool
make_change(DcSelfRow *self, DcLifeChange change, DcRights rights, bool worker)
{
	bool done = true;

	if (change == LIFE_RENEW)
		region_renew(self, rights, worker);
	else if (change == LIFE_CONFIRMED)
		done = fold_sealed(self, worker);
	else
		done = boot_begin(self, worker);
	if (worker)
		turns_end(self, done);
	return worker || change != LIFE_CONFIRMED || !self->starting;
}

/*
 * boot_begin does the first step after a start; false if it cannot be done now.
 */
static bool
boot_begin(DcSelfRow *self, bool worker)
{
	List *counters = worker ? NIL : replicated_lock();
	bool others;
	bool seals;
	bool folds;

	identity_lock();
	if (!self_read(self) || self_is_begun(self) || self_needs_renew(self))
		return false; /* another process has */
	others = region_has_others(self->region);
	wanted_turns(self, LIFE_BEGIN, &seals, &folds);
	if (worker && !turns_have_sealed(seals, folds))
		return false; /* other regions are known by now */
	if (seal_and_fold(counters, self, seals, folds))
		region_published();
	self->boot = others && self->starting && self->boot != (Datum) 0 ? self_next_boot(self->boot) : self_new_boot();
	self_here(self);
	self->starting = others;
	self_update(self);
	beat_tell(DT_NOBEGIN);
	told = moment_now();
	return true;
}

/*
 * Return true if each active region has confirmed this boot as the latest.
 */
static bool
is_confirmed(const DcSelfRow *self)
{
	int missing;

	(void) boot_confirmations(self, &missing);
	return missing == 0;
}

/*
 * boot_confirmations returns how many active regions have confirmed this boot, and sets *missing to
 * how many have not.
 */
static int
boot_confirmations(const DcSelfRow *self, int *missing)
{
	char *boot = boot_text(self->boot);
	int confirmed = 0;
	ItemPointerData tid;
	DcBeat own;
	ListCell *lc;

	*missing = 0;
	if (!beat_find(self->region, self->epoch, &own, &tid))
		own.seq = 0; /* no region can know of it */
	foreach(lc, beats_current(beats_all()))
	{
		const DcBeat *beat = lfirst(lc);
		DcSeen seen;

		if (strcmp(beat->region, self->region) == 0 || !beat_is_active(beat))
			continue;
		if (seen_get(beat, self->region, &seen) && seen.epoch == self->epoch && seen.seq <= own.seq &&
			strcmp(seen.boot, boot) == 0)
			confirmed++;
		else
			(*missing)++;
	}
	return confirmed;
}

/*
 * Return true if dcounter.region_handshake has passed since the database began, or the clock was
 * set back to before that.
 */
static bool
is_late(const DcSelfRow *self)
{
	TimestampTz now = GetCurrentTimestamp();

	return now < self->begun_at || now >= self->begun_at + dc_region_handshake * INT64CONST(1000);
}

/*
 * note_marks stores in the row what apply workers have found, and when. So a copy since then ends
 * the state, even if this is late.
 */
static void
note_marks(DcSelfRow *self)
{
	DcSelfMarks marks;

	/*
	 * a transaction that sets a key has this lock, and may stay open: other regions do not wait for
	 * it
	 */
	if (!identity_try_lock() || !self_read(self) || self->state != SELF_ACTIVE)
		return;
	self_marks(self, &marks);
	if (!marks.recopy)
		return;
	self->state = SELF_RECOPY;
	self->begun_at = marks.recopy_at;
	self_update(self);
}

/*
 * boot_tell sends a heartbeat with what is known, if it is time, or there is news; true if the
 * worker has to look at all counters first.
 */
static bool
boot_tell(const DcSelfRow *self, bool worker)
{
	bool is_time = moment_age(told) >= dc_region_beat_interval * INT64CONST(1000);
	ItemPointerData tid;
	TimestampTz all_before;
	DcBeat own;

	if (!beat_find(self->region, self->epoch, &own, &tid))
		return false;
	if (!is_time && !is_to_answer(&own, self->region) && !beat_has_news() && !unpublished_looks())
		return false;
	if (worker && !unpublished_looked())
	{
		/*
		 * a region that waits for an answer must not wait until all counters were checked, which
		 * may be under way
		 */
		if (is_to_answer(&own, self->region))
			beat_tell(DT_NOBEGIN);
		if (!unpublished_looks())
			unpublished_looks_begin();
		return true;
	}
	all_before = worker ? unpublished_before() : unpublished_look_all();
	if (!is_time && !is_to_answer(&own, self->region) && all_before <= own.beat_at)
	{
		told = moment_now(); /* look again soon */
		return false;
	}
	if (all_before != DT_NOBEGIN)
		beat_forget_news();
	beat_tell(all_before);
	told = moment_now();
	return false;
}

/*
 * boot_answer confirms the starts of other regions while this one's own start is under way:
 * otherwise two that have begun at the same time would wait for each other. It sends one more
 * heartbeat of the boot that others have to confirm, without rows.
 */
static void
boot_answer(const DcSelfRow *self)
{
	ItemPointerData tid;
	DcBeat own;

	if (beat_find(self->region, self->epoch, &own, &tid) && is_to_answer(&own, self->region))
		beat_tell(DT_NOBEGIN);
}

/*
 * Return true if another region has a boot or an epoch, or was retired, and this region's heartbeat
 * does not confirm that yet. Ordinary heartbeats are not answered.
 */
static bool
is_to_answer(const DcBeat *own, const char *region)
{
	ListCell *lc;

	foreach(lc, beats_current(beats_all()))
	{
		const DcBeat *beat = lfirst(lc);
		DcSeen seen;

		if (strcmp(beat->region, region) == 0)
			continue;
		if (!seen_get(own, beat->region, &seen) || seen.epoch != beat->epoch ||
			strcmp(seen.boot, boot_text(beat->boot)) != 0 || (seen.retired_at == 0) != (beat->retired_at == 0))
			return true;
	}
	return false;
}

/*
 * boot_is_held returns true if increments of a replicated counter have to wait. It is called when
 * the counter's entry is created.
 */
bool
boot_is_held(void)
{
	DcSelfRow self;

	if (!activity_is_known())
		return false;
	return RecoveryInProgress() || (self_read(&self) && !self_is_begun(&self));
}

/*
 * boot_await waits for the first step. Raises 55000 if it does not come.
 */
void
boot_await(void)
{
	DcMoment until = moment_in(dc_region_handshake);
	DcSelfRow self;

	while (boot_can_wait() && self_read(&self) && !self_is_begun(&self))
	{
		if (moment_is_reached(until))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("this database has not rejoined region \"%s\" since its server was started or promoted", self.region),
					 errdetail("The worker of this database has not done that yet."),
					 errhint("See dc_stat_worker for the reason, or call dc_region_renew().")));
		boot_sleep(20);
	}
}

/*
 * region_await is for calls of dc_compact(): it waits until a start is over or, without a worker,
 * does the next step. The others can confirm it only after this transaction has committed.
 */
void
region_await(DcCounter *counter)
{
	DcIdentity identity;
	DcSelfRow self;

	if (region_identity(&identity))
		return;
	if (self_read(&self) && boot_can_wait())
	{
		region_identity_needed(&identity);
		return;
	}
	if (self_read(&self) && compat_owns_database(MyDatabaseId, GetUserId()))
		(void) next_step(&self, false);
	if (!region_identity(&identity))
		ereport(NOTICE,
				(errmsg("nothing of \"%s\" is published now", get_rel_name(counter->relid)),
				 errdetail("This database needs a new epoch, or the other regions have not acknowledged its start yet.")));
}
