/*
 * beat.c
 *		Heartbeats: rows of dcounter.region (beatrow.c), by which each region shows the others how far it is.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Only the database that counts under a region and epoch writes their row. Each transaction that
 * publishes raises its number (seq), as the last thing of its commit: so it goes to the others
 * after the rows that were published, and the row is locked only for the end of a commit. A
 * transaction that has published, and has been rolled back to a savepoint since, raises it
 * needlessly, which does no harm.
 *
 * The lock is an advisory one, held until the transaction has ended, and the row is read after it,
 * as of that moment (base/catrow.c): so no isolation level makes this fail, and the numbers follow
 * the order of the commits, without gaps. It is taken last: by then the transaction has written its
 * pending deltas and events, and amounts that it adds in memory wait for nobody. So there is no
 * deadlock.
 *
 * A prepared transaction would keep the lock, and so keep all others from publishing. It would also
 * keep the lock on the identity over a start of the server, so that the start could not be
 * completed. So PREPARE TRANSACTION is refused if the transaction has published, or has asked to do
 * so.
 *
 * Now and then the worker sends more: a heartbeat that is raised only for that (beat_tell) has the
 * time before which everything was published (beat_at), and the state of the others as known here
 * (seen).
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/xactrooms.h"
#include "region/life.h"

/* The work of this transaction at its commit. */
static bool raises = false;	 /* the own heartbeat, */
static bool has_published;	 /* as something was published; */
static bool tells;			 /* and to send what it knows, */
static TimestampTz tells_at; /* and that all was published before this time */

/* A transaction of this process has published since it last sent that. */
static bool has_news = false;

static void raise_at_commit(void);
static bool beat_is_idle(void);
static void beat_xact_callback(XactEvent event, void *arg);

/*
 * region_xact_init registers the callback that raises the heartbeat; called once.
 */
void
region_xact_init(void)
{
	xact_room_add(DC_XACT_REGION, beat_xact_callback, NULL, beat_is_idle);
}

/*
 * region_published notes that this transaction has published something under the identity that it
 * has asked for (region_identity_needed).
 */
void
region_published(void)
{
	xact_mark(DC_XACT_REGION);
	raises = has_published = true;
}

/*
 * Return true if this transaction has published something.
 */
bool
beat_publishes(void)
{
	return has_published;
}

/*
 * beat_tell makes this transaction raise the heartbeat and send what is known. `at`: the time
 * before which all was published, or DT_NOBEGIN.
 */
void
beat_tell(TimestampTz at)
{
	xact_mark(DC_XACT_REGION);
	raises = tells = true;
	tells_at = at;
}

/*
 * Return true if this process has published since beat_forget_news().
 */
bool
beat_has_news(void)
{
	return has_news;
}

/*
 * Note that a heartbeat covers all that this session has published.
 */
void
beat_forget_news(void)
{
	has_news = false;
}

/*
 * Return true if the transaction has published nothing, sends nothing, and keeps no lock on the
 * identity.
 */
static bool
beat_is_idle(void)
{
	return !raises && !has_published && !region_identity_is_kept && !tells;
}

/*
 * Raise the heartbeat as the last thing before the commit. PREPARE is refused, as the heartbeat's
 * lock would keep all others from publishing.
 */
static void
beat_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (raises)
				raise_at_commit();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (raises || region_identity_is_kept)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has published amounts of a region"),
						 errdetail("No other transaction could publish any before it ended.")));
			break;
		case XACT_EVENT_COMMIT:
			has_news |= has_published;
			pg_fallthrough;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			raises = has_published = region_identity_is_kept = tells = false;
			region_forget_self();
			break;
		default:
			break;
	}
}

/*
 * Raise this region's heartbeat, in a new snapshot, even if the transaction has become read-only
 * in the meantime.
 */
static void
raise_at_commit(void)
{
	bool read_only = XactReadOnly;
	DcSelfRow self;

	xact_end_temporary();
	XactReadOnly = false; /* it may have been declared so since */
	PushActiveSnapshot(GetLatestSnapshot());
	if (self_read(&self))
		beat_raise(&self, has_published);
	PopActiveSnapshot();
	XactReadOnly = read_only;
}

/*
 * beat_raise raises the heartbeat of an epoch of this region now.
 */
void
beat_raise(const DcSelfRow *self, bool published)
{
	ItemPointerData tid;
	DcBeat beat = {.region = self->region, .epoch = self->epoch};
	char *boot = boot_text(self->boot);
	List *aside;
	bool any;

	(void) advisory_lock(REGION_LOCK_CLASS, 0, BEAT_LOCK, ExclusiveLock, true);
	ItemPointerSetInvalid(&tid);
	(void) beat_find(self->region, self->epoch, &beat, &tid);
	beat.seq++;
	if (beat.boot == (Datum) 0 || !boots_are_of_series(boot_text(beat.boot), boot))
		beat.first = beat.seq;
	beat.boot = self->boot;
	if (published)
		beat.published = beat.seq;
	if (tells)
	{
		beat.beat_at = tells_at == DT_NOBEGIN ? beat.beat_at : Max(beat.beat_at, tells_at);
		aside = unpublished_aside(&any);
		beat.seen = seen_now(self, beat.seen, any ? &aside : NULL);
	}
	beat_store(&tid, &beat);
}
