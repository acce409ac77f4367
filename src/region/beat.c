/*
 * beat.c
 *		Heartbeats: rows of dcounter.region (beatrow.c), by which each region tells the others how far it is.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The row of a region and epoch is written by the database that counts under it, alone. Each
 * transaction that publishes raises its number (seq), as the last thing of its commit: so it goes
 * to the others with what was published, after it, and the row is locked for the end of a commit
 * alone. A transaction that has published and is rolled back to a savepoint since raises it
 * for nothing, which does no harm.
 *
 * The lock is an advisory one, held until the transaction has ended, and the row is read after
 * it, as of that moment (base/catrow.c): so no isolation level makes this fail, and the numbers follow
 * the order of the commits, without gaps. It is taken last: by then the transaction has written its pending deltas
 * and events, and what amounts it hands over to memory waits for nobody. So no deadlock.
 *
 * A prepared transaction would keep the lock, and so all others from publishing; and it would keep the
 * lock on the identity, over a start of the server, which then would not come to its end. So PREPARE
 * TRANSACTION of one that has published, or has asked to do so, is refused.
 *
 * Now and then the worker tells more: a heartbeat that is raised for that alone (beat_tell) has the
 * time before which all was published (beat_at), and what was heard of the others (seen).
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/xactrooms.h"
#include "region/life.h"

/* What this transaction is to do when it commits. */
static bool raises = false;	 /* the own heartbeat, */
static bool has_published;	 /* as something comes with it; */
static bool tells;			 /* and to tell what it knows, */
static TimestampTz tells_at; /* that before this time all was published */

/* A transaction of this process has published since it last told. */
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
 * region_published tells that this transaction has published something under the identity that it has asked
 * for (region_identity_needed).
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
 * beat_tell lets this transaction raise the heartbeat, and tell what is known. `at`: before that all was
 * published, or DT_NOBEGIN.
 */
void
beat_tell(TimestampTz at)
{
	xact_mark(DC_XACT_REGION);
	raises = tells = true;
	tells_at = at;
}

/*
 * Return true if this process has published since it forgot that.
 */
bool
beat_has_news(void)
{
	return has_news;
}

void
beat_forget_news(void)
{
	has_news = false;
}

static bool
beat_is_idle(void)
{
	return !raises && !has_published && !region_identity_is_kept && !tells;
}

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
						 errdetail("Until it ended no other transaction could publish any.")));
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

static void
raise_at_commit(void)
{
	bool read_only = XactReadOnly;
	DcSelfRow self;

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
