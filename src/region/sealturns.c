/*
 * sealturns.c
 *		The worker's turns: sealing and folding each replicated counter before this database begins, publishes or renews.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A table that its owner has locked, one with very many rows, or an error in one must not keep the
 * counters of all others from being used. So the worker seals and folds (seal.c) each counter in a
 * step of its own, whose locks, time and errors are bounded as those of any step are. The time that
 * an owner's counters take in a round is bounded as well, however many they are; successful turns
 * do not count if no other owner waits, or the owner has the database. A counter that fails or is
 * put off is tried again after the others, until dcounter.region_handshake is over; then again,
 * without rows that other transactions have locked; then it is left out, with a warning. When all
 * have had their turns the row of dcounter.self is changed, which needs no table of an owner.
 *
 * So these are several transactions, and a crash may leave some of them done. That is safe at any
 * point:
 *
 *	- Before a database begins, sessions do not count (boot_await). So the amounts sealed by then
 *	  are those of the start, in whatever order; amounts that were sealed before a crash are folded
 *	  with the rest.
 *	- Folding publishes, and that is allowed then: the others have confirmed that the epoch is this
 *	  database's, or it is about to be given up, and its slots that come from others are not merged
 *	  before that (slot_is_foreign). Each transaction that folds raises the heartbeat, under a new
 *	  boot which is taken before the first turn, as rows must not be published under a boot that an
 *	  earlier copy has (life.h). A worker that finds another boot than the one it has begun with
 *	  starts over.
 *	- Counts while a database waits to renew, after the turn of their counter, were never published,
 *	  so they may go to the new epoch.
 *
 * A counter that was left out of the folding gets another turn now and then, while this worker
 * lives; after that, at the next start of the server.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/guc.h"
#include "core/table/tablejob.h"
#include "region/life.h"

/* The least time that a turn has. */
#define TURN_MS 500

/*
 * How many keys of a counter that was left out are folded in a turn, and how long that may take, as
 * nobody publishes in the meantime. The pause after it is this many times as long.
 */
#define LEFT_KEYS 10000
#define LEFT_MS 2500
#define LEFT_PAUSE 4

/* A pause before those that have failed are tried again. */
#define ROUND_MS 1000

/* How many sealed keys are folded in any other turn. */
#define FOLDED_KEYS 100000

/* In a round, the turns of an owner may take this fraction of dcounter.region_handshake. */
#define OWNER_SHARE 4

/* The purpose of the turns. */
static struct
{
	DcLifeChange change; /* LIFE_NONE: they are over */
	DcRights rights;
	bool seals;
	bool folds;
	bool last;					  /* the last round: rows that are locked are not waited for */
	char boot[BOOT_TEXT_LEN + 1]; /* of this database, */
	int64 epoch;				  /* and its epoch */
	DcMoment began;
	DcMoment round; /* when the next round begins */
	List *counters; /* Oid, whose turns come in this round, in TopMemoryContext */
	List *failed;	/* counters whose turns have failed; the same */
	List *owners;	/* OwnerTime, the same */
	List *trusted;	/* Oid, the same: counters that may take longer than the step of a job, as all may if they are of one owner */
	bool is_shared; /* the counters are of several owners */
} turns = {.change = LIFE_NONE};

/* A turn that is running. */
typedef struct Turn
{
	Oid counter;
	Oid owner;
	bool is_free;	 /* out: its time does not count, if it succeeds; */
	bool is_put_off; /* its owner has used up the time of this round, */
	bool has_more;	 /* or not all was folded */
} Turn;

static void note_self(const DcSelfRow *self);
static bool is_same(const DcSelfRow *self);
static bool is_patient(void);
static bool next_round(void);
static bool is_limited(Oid counter);
static int64 turn_ms(Oid counter);
static void sealturns_put_off(Oid counter, bool tried);
static void again_now(Oid counter);
static void turn_step(void *arg);

/*
 * turns_begin begins the turns of all replicated counters before a change of dcounter.self.
 */
void
turns_begin(DcSelfRow *self, DcLifeChange change, DcRights rights, bool seals, bool folds)
{
	MemoryContext old;
	ListCell *lc;

	turns_end(self, false);
	if (folds && (self->starting || !self_is_begun(self) || self->boot == (Datum) 0))
	{
		self->boot = self_new_boot();
		self->begun_at = GetCurrentTimestamp();
		self_update(self);
		if (change == LIFE_CONFIRMED)
			beat_tell(DT_NOBEGIN);
	}
	turns.rights = rights;
	turns.seals = seals;
	turns.folds = folds;
	turns.last = false;
	turns.is_shared = false;
	note_self(self);
	turns.began = turns.round = moment_now();
	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(row->regions) || !(seals || folds))
			continue;
		old = MemoryContextSwitchTo(TopMemoryContext);
		turns.counters = lappend_oid(turns.counters, row->counter);
		if (table_is_trusted(row->counter))
			turns.trusted = lappend_oid(turns.trusted, row->counter);
		MemoryContextSwitchTo(old);
		turns.is_shared |= relation_owner(row->counter) != relation_owner(linitial_oid(turns.counters));
	}
	turns.change = change;
}

/*
 * Note the boot and epoch for which the turns are.
 */
static void
note_self(const DcSelfRow *self)
{
	strlcpy(turns.boot, boot_text(self->boot), sizeof(turns.boot));
	turns.epoch = self->epoch;
}

/*
 * is_same returns true if this database is what it was when the turns began.
 */
static bool
is_same(const DcSelfRow *self)
{
	return turns.epoch == self->epoch && strcmp(turns.boot, boot_text(self->boot)) == 0;
}

/*
 * turns_for returns what the turns are for, LIFE_NONE if there are none; *rights is what
 * turns_begin() was called with.
 */
DcLifeChange
turns_for(const DcSelfRow *self, DcRights *rights)
{
	if (turns.change == LIFE_NONE || turns.change == LIFE_LEFT || !is_same(self))
		return LIFE_NONE;
	*rights = turns.rights;
	return turns.change;
}

/*
 * turns_are_over returns true if each counter has had its turn, or is left out.
 */
bool
turns_are_over(void)
{
	return turns.counters == NIL && (turns.failed == NIL || turns.last);
}

/*
 * Return true if the next step makes a change of all counters together: its time is not limited, as
 * its own rules say whose tables are left out the next time (rightsrenew.c).
 */
bool
turns_lead_to_change(void)
{
	return turns.change != LIFE_NONE && turns.change != LIFE_LEFT && turns_are_over();
}

/*
 * turns_have_sealed returns true if the turns are over, and have sealed and folded as is needed
 * now.
 */
bool
turns_have_sealed(bool seals, bool folds)
{
	return turns_are_over() && turns.seals == seals && turns.folds == folds;
}

/*
 * turns_end forgets the turns; `done`: the change was made. Sealed amounts of counters that were
 * left out have yet to be folded.
 */
void
turns_end(const DcSelfRow *self, bool done)
{
	ListCell *lc;

	list_free(turns.counters);
	turns.counters = NIL;
	foreach(lc, done ? turns.failed : NIL)
	{
		const char *name = get_rel_name(lfirst_oid(lc));

		if (name != NULL)
			ereport(WARNING,
					(errmsg("counter table \"%s\" was left out when region \"%s\" began or took a new epoch", name, self->region),
					 errdetail("It was locked, or there was not enough time for it. Its increments are published later.")));
	}
	if (done && turns.folds && turns.failed != NIL)
	{
		turns.change = LIFE_LEFT;
		turns.seals = false;
		turns.last = true;
		turns.round = moment_in(dc_region_handshake);
		note_self(self);
		return;
	}
	list_free(turns.failed);
	turns.failed = NIL;
	list_free_deep(turns.owners);
	turns.owners = NIL;
	list_free(turns.trusted);
	turns.trusted = NIL;
	turns.change = LIFE_NONE;
}

/*
 * turns_due returns when the next turn is due.
 */
DcMoment
turns_due(void)
{
	if (turns.change == LIFE_NONE || (turns.counters == NIL && turns.failed == NIL))
		return DC_NEVER;
	return turns.counters != NIL ? DC_LONG_AGO : turns.round;
}

/*
 * worker_is_patient returns true if the worker should try failed steps again.
 */
bool
worker_is_patient(void)
{
	return turns.change != LIFE_NONE && is_patient();
}

/*
 * Return true while the turns have not lasted for dcounter.region_handshake.
 */
static bool
is_patient(void)
{
	return moment_age(turns.began) < dc_region_handshake * INT64CONST(1000);
}

/*
 * next_round begins another round with those that have failed; false if it is too early, or there
 * are none.
 */
static bool
next_round(void)
{
	if (turns.counters != NIL)
		return true;
	if (turns.failed == NIL || !moment_is_reached(turns.round) || (turns.last && turns.change != LIFE_LEFT))
		return false;
	turns.counters = turns.failed;
	turns.failed = NIL;
	list_free_deep(turns.owners);
	turns.owners = NIL;
	turns.last = !is_patient();
	return true;
}

/*
 * Return true if a step of this counter has limits: other owners wait, and its owner does not have
 * the database.
 */
static bool
is_limited(Oid counter)
{
	return turns.is_shared && !list_member_oid(turns.trusted, counter);
}

/*
 * turn_ms returns how long the turn of a counter may take: the remaining counters share the rest of
 * the handshake. So one that needs long gets more when the others are done; but no owner may keep
 * the worker from the tables of others for longer than in any other job.
 */
static int64
turn_ms(Oid counter)
{
	int64 left = turns.last ? dc_region_handshake : dc_region_handshake - moment_age(turns.began) / 1000;
	int64 most = is_limited(counter) ? DC_STEP_MS : dc_region_handshake;

	if (turns.change == LIFE_LEFT)
		return LEFT_MS;
	return Min(Max(left / list_length(turns.counters), TURN_MS), most);
}

/*
 * turns_run runs the turns that are due; true if it has to yield.
 */
bool
turns_run(DcJobRun *run)
{
	int64 took = 0;
	int64 failed = 0;
	bool again = false;

	if (turns.change == LIFE_NONE || !next_round())
		return false;
	while (turns.counters != NIL)
	{
		Turn turn = {.counter = linitial_oid(turns.counters)};

		if (job_is_late(run))
			return true;
		run->limit = turn_ms(turn.counter);
		turns.counters = list_delete_first(turns.counters);
		if (turn.counter == run->suspect)
			sealturns_put_off(turn.counter, true);
		else if (!run->step(run, turn_step, &turn, turn.counter))
		{
			sealturns_put_off(turn.counter, true);
			turn.is_free = false;
			failed = Max(failed, run->took);
		}
		else if (turn.has_more && turns.change != LIFE_LEFT)
			again_now(turn.counter);
		else if (turn.is_put_off || turn.has_more)
			sealturns_put_off(turn.counter, false);
		if (OidIsValid(turn.owner) && !turn.is_free)
			*owner_time(&turns.owners, turn.owner) += run->took;
		took = Max(took, run->took);
		again |= turn.has_more;
		run->limit = 0;
	}
	turns.round = moment_in(turns.change != LIFE_LEFT ? Max(Min(failed / 1000, DC_STEP_MS), ROUND_MS) : again ? Max(LEFT_PAUSE * took / 1000, ROUND_MS)
																											  : dc_region_handshake);
	if (turns.failed == NIL && turns.change == LIFE_LEFT)
		turns.change = LIFE_NONE;
	return false;
}

/*
 * sealturns_put_off leaves a counter to the next round, in which counters that were not tried come
 * first.
 */
static void
sealturns_put_off(Oid counter, bool tried)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	turns.failed = tried ? lappend_oid(turns.failed, counter) : lcons_oid(counter, turns.failed);
	MemoryContextSwitchTo(old);
}

/*
 * again_now gives a counter another turn in this round, after the others.
 */
static void
again_now(Oid counter)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	turns.counters = lappend_oid(turns.counters, counter);
	MemoryContextSwitchTo(old);
}

/*
 * turn_step seals and folds a counter. It does nothing if this database is not what it was when the
 * turns began.
 */
static void
turn_step(void *arg)
{
	Turn *turn = arg;
	DcCounterRow row;
	DcCounter *counter;
	DcSelfRow self;
	List *counters;
	int64 limit;
	int64 keys;
	bool more = false;

	region_check_role();
	if (!catalog_read(turn->counter, &row) || !OidIsValid(row.regions))
		return;
	turn->owner = relation_owner(turn->counter);
	turn->is_free = !turns.is_shared || table_is_trusted(turn->counter);
	turn->is_put_off = *owner_time(&turns.owners, turn->owner) >= dc_region_handshake * INT64CONST(1000) / OWNER_SHARE;
	if (turn->is_put_off)
		return;
	counter = replicated_lock_one(&row, true);
	if (counter == NULL)
		return;
	identity_lock();
	if (!self_read(&self) || !is_same(&self))
		return;
	if (turns.change == LIFE_LEFT && (self.starting || !self_is_begun(&self) || self_needs_renew(&self)))
		return;
	counters = list_make1(counter);
	if (turns.seals)
		seal_all(counters, &self, turns.last);
	limit = turns.change == LIFE_LEFT || is_limited(turn->counter) ? LEFT_KEYS : FOLDED_KEYS;
	keys = turns.folds ? fold_some(counters, &self, limit, &more) : 0;
	if (keys > 0)
		region_published();
	turn->has_more = more;
}
