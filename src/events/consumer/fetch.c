/*
 * fetch.c
 *		dc_fetch(): the next events of a consumer.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A fetch returns the events after the position, up to the horizon (registry.c),
 * and notes in the member's row how far it went. dc_ack() moves the position. An event
 * that is not acknowledged comes again with the next fetch. So an event is delivered
 * at least once. No event is skipped, as none can appear below the horizon later.
 *
 * attempts.c counts how often each event has been handed out.
 *
 * The member's row is locked to the end of the transaction. A second session that
 * fetches for the same member in the meantime gets nothing, and waits as if there were no events. A
 * fetch that finds nothing writes nothing before its time is up, even if it is a new member's, or
 * has lanes to give or to take (member.c). It keeps no lock on the consumer itself, but one on its
 * member, which protects the member's lanes while it waits. A fetch that had to write, because it
 * has passed many events, and has nothing to return, keeps the lock, and waits only for a moment,
 * so that other sessions can work.
 *
 * A fetch returns fewer events than it was asked for if they are large: it ends with the event that
 * makes BATCH_BYTES full, as the client takes all of them into its memory.
 *
 * Events that are of no interest (other topics, other members' lanes) are passed when
 * an event after them is handed out, or after SKIP_AT_LEAST of them.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/args.h"
#include "base/compat.h"
#include "events/consumer/consumer.h"
#include "events/consumer/retry.h"

PG_FUNCTION_INFO_V1(dc_fetch);
PG_FUNCTION_INFO_V1(last_fetch);

/* The number of uninteresting events after which a position is written. */
#define SKIP_AT_LEAST 4096

/*
 * How many events a fetch passes at most, and how many it parks. It then returns, even
 * with nothing, so that its changes are committed.
 */
#define SKIP_MAX 100000
#define PARK_MAX 5000

/* How many bytes of payloads and headers, as jsonb, a fetch returns, about. */
#define BATCH_BYTES (16 * 1024 * 1024)

/* How soon to look again for a member that another transaction has locked. */
#define BUSY_US (20 * INT64CONST(1000))

/* How long a fetch that has changed something waits at most before other sessions can see it. */
#define WROTE_US (1 * USECS_PER_SEC)

/* How this session's last fetch ended; NULL: with an error, or there was none. */
static const char *last_end = NULL;

typedef struct Fetch
{
	const char *name;	/* of the consumer */
	const char *member; /* "": none */
	int max;
	ReturnSetInfo *result;
	DcMoment until;		 /* when to give up */
	DcMoment look_again; /* when to look again, even if nothing wakes this session */
	DcConsumer *consumer;
	DcMember me;
	DcTrade trade;	 /* lanes that move between the member's row and others */
	bool final;		 /* the time is up: changes must be stored */
	bool busy;		 /* another session works as the member */
	bool joins;		 /* the member is new: the consumer itself is locked, and me to be stored */
	bool hidden;	 /* others do not see a live member */
	int32 announced; /* the consumer whose members know of it by a lock */
	bool wrote;		 /* something was stored */
	bool renew;		 /* the lease must be renewed */
	int64 lease;	 /* its length */
	DcRetries *retries;
	int nrows;		   /* returned, */
	Size bytes;		   /* with so many of payloads and headers */
	int64 first;	   /* new event returned, 0: none */
	int64 last;		   /* the last such event */
	int nskipped;	   /* events that were of no interest */
	bool stopped;	   /* because there were too many of these */
	int nparked;	   /* events that have rows, perhaps since now */
	MemoryContext cxt; /* for one event */
} Fetch;

static void fetch_args(FunctionCallInfo fcinfo, Fetch *fetch, int64 *wait);
static void fetch_try(Fetch *fetch);
static void open_self(Fetch *fetch);
static bool open_member(Fetch *fetch);
static bool fetch_join(Fetch *fetch);
static void read_events(Fetch *fetch);
static int64 read_new(Fetch *fetch, int64 after, int64 upto);
static bool fetch_is_full(const Fetch *fetch);
static void fetch_note(Fetch *fetch, int64 scanned);
static void fetch_forget(Fetch *fetch);
static bool lease_is_old(const Fetch *fetch);

/*
 * dc_fetch(consumer text, max_events int, wait interval, member text) -> the next
 * events.
 *
 * Errors: 42704 no such consumer, 42501, 22004 and 22023 for arguments; 55000 if the
 * consumer was cut off, 55006 without member while members are at work.
 */
Datum
dc_fetch(PG_FUNCTION_ARGS)
{
	Fetch fetch = {0};
	MemoryContext cxt;
	MemoryContext old;
	bool repeated = false;
	int64 wait;

	fetch_args(fcinfo, &fetch, &wait);
	consumer_check_writable("dc_fetch()");
	last_end = NULL;
	InitMaterializedSRF(fcinfo, 0);
	fetch.result = (ReturnSetInfo *) fcinfo->resultinfo;
	fetch.until = moment_after(moment_now(), wait);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter fetch",
								ALLOCSET_DEFAULT_SIZES);

	consumer_xact_enter();
	if (wait > 0)
		outbox_wait_begin();
	old = MemoryContextSwitchTo(cxt);
	for (;;)
	{
		fetch.look_again = DC_NEVER;
		fetch.final = moment_is_reached(fetch.until);
		fetch_try(&fetch);
		MemoryContextReset(cxt);
		if (fetch.nrows > 0 || fetch.stopped)
			break;
		if (fetch.nparked > 0 && !repeated)
		{
			/* the position has passed events that have rows: some may be due */
			repeated = true;
			continue;
		}
		if (fetch.final)
			break;
		(void) outbox_wait(moment_min(fetch.until, fetch.look_again));
	}
	if (fetch.renew)
	{
		fetch.me.lease_until = GetCurrentTimestamp() + fetch.lease;
		member_write(&fetch.me);
	}
	MemoryContextSwitchTo(old);
	if (wait > 0)
		outbox_wait_end();
	consumer_xact_leave();
	MemoryContextDelete(cxt);
	last_end = fetch.busy ? "busy" : fetch.stopped || fetch.nparked > 0 ? "stopped"
																		: "complete";
	PG_RETURN_NULL();
}

/*
 * last_fetch() -> text: whether the last dc_fetch() of this session has looked at all events
 * ('complete'). If not, and it returned none, events may be left: it has met many events that were
 * of no interest or had to wait ('stopped'), or another transaction works for the consumer
 * ('busy').
 */
Datum
last_fetch(PG_FUNCTION_ARGS)
{
	if (last_end == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(last_end));
}

/*
 * Read and check the arguments of dc_fetch(). *wait is in us.
 */
static void
fetch_args(FunctionCallInfo fcinfo, Fetch *fetch, int64 *wait)
{
	fetch->name = consumer_name_arg(fcinfo, 0, "consumer");
	arg_not_null(fcinfo, 1, "max_events");
	arg_not_null(fcinfo, 2, "wait");
	fetch->max = PG_GETARG_INT32(1);
	if (fetch->max < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_events must be greater than zero")));
	*wait = duration_arg_us(PG_GETARG_DATUM(2), "wait");
	fetch->member = member_arg(fcinfo, 3);
}

/*
 * fetch_try looks for events once.
 */
static void
fetch_try(Fetch *fetch)
{
	bool opened = true;

	fetch->consumer = consumer_open_to_read(fetch->name);
	if (fetch->consumer->cut_off != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("consumer \"%s\" was cut off", fetch->name),
				 errdetail("It was further behind than its max_retention_age or max_retention_size allows; events up to %lld were removed.",
						   (long long) fetch->consumer->cut_off),
				 errhint("Move it to another position with dc_seek().")));
	fetch->busy = !member_lock(fetch->consumer->id, fetch->member, false, NULL);
	if (fetch->busy)
	{
		fetch->look_again = moment_after(moment_now(), BUSY_US);
		return;
	}
	fetch->consumer = consumer_read_again(fetch->consumer);
	fetch->joins = fetch->hidden = fetch->wrote = fetch->renew = false;
	trade_begin(&fetch->trade);
	fetch->lease = fetch->consumer->lease;
	if (fetch->member[0] == '\0')
		open_self(fetch);
	else
		opened = open_member(fetch);
	if (opened)
		read_events(fetch);
	if (fetch->wrote)
		fetch->until = moment_min(fetch->until, moment_after(moment_now(), WROTE_US));
	else if (fetch->member[0] == '\0')
		member_unlock(fetch->consumer->id, fetch->member);
}

/*
 * open_self reads the row of the consumer itself, which needs all lanes.
 */
static void
open_self(Fetch *fetch)
{
	const DcMember *holder;

	if (!member_read(fetch->consumer->id, "", &fetch->me))
		consumer_is_missing(fetch->name);
	if (fetch->me.lanes == ALL_LANES)
		return;
	holder = member_take_all(fetch->consumer, &fetch->me, &fetch->trade);
	if (fetch->me.lanes != ALL_LANES)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("consumer \"%s\" has active members", fetch->name),
				 holder != NULL
					 ? errdetail("Member \"%s\" has a lease until %s.", holder->name,
								 timestamptz_to_str(holder->lease_until))
					 : 0,
				 errhint("Fetch as a member, or wait until their leases have expired.")));
}

/*
 * open_member reads the row of a member, and gets it its share of the lanes; false if
 * that has to wait.
 */
static bool
open_member(Fetch *fetch)
{
	bool exists = member_read(fetch->consumer->id, fetch->member, &fetch->me);

	if (!exists && !fetch_join(fetch))
		return false;
	fetch->hidden = !exists || (fetch->me.lanes == 0 && fetch->me.lease_until <= GetCurrentTimestamp());
	member_share(fetch->consumer, &fetch->me, &fetch->trade, &fetch->look_again);
	return true;
}

/*
 * fetch_join creates a new member. It keeps the lock on the consumer itself, so that the consumer
 * cannot be dropped before the member can be seen.
 */
static bool
fetch_join(Fetch *fetch)
{
	DcMember self;

	fetch->busy = !member_lock(fetch->consumer->id, "", false, NULL);
	if (fetch->busy)
	{
		member_unlock(fetch->consumer->id, fetch->member);
		fetch->look_again = moment_after(moment_now(), BUSY_US);
		return false;
	}
	if (!member_read(fetch->consumer->id, "", &self))
		consumer_is_missing(fetch->name);
	member_new(&fetch->me, fetch->consumer->id, fetch->member);
	fetch->joins = true;
	return true;
}

/*
 * read_events returns retries that are due, then new events, and notes what it has
 * done.
 */
static void
read_events(Fetch *fetch)
{
	int64 after = member_acked(&fetch->me);
	int64 horizon = outbox_horizon(NULL);
	int64 upto = after;

	fetch->first = fetch->last = 0;
	fetch->nskipped = fetch->nparked = 0;
	fetch->retries = NULL;
	fetch->bytes = 0;
	fetch->cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter event",
									   ALLOCSET_DEFAULT_SIZES);
	fetch->me.nretries = 0;
	if (fetch->me.lanes != 0)
	{
		fetch->retries = retries_open(fetch->consumer, &fetch->me, &fetch->trade);
		fetch->nrows = retries_fetch(fetch->retries, fetch->max, BATCH_BYTES, &fetch->bytes, fetch->result,
									 &fetch->look_again);
		if (!fetch_is_full(fetch) && horizon > after)
			upto = read_new(fetch, after, horizon);
	}
	if (fetch_is_full(fetch) && fetch->last > 0)
		upto = fetch->last;
	fetch_note(fetch, upto);
}

/*
 * read_new returns new events, and how far it has looked.
 */
static int64
read_new(Fetch *fetch, int64 after, int64 upto)
{
	DcReader *reader = reader_begin(after, upto);
	MemoryContext old = MemoryContextSwitchTo(fetch->cxt);
	DcStoredEvent event;

	while (!fetch_is_full(fetch) && !fetch->stopped && reader_next(reader, &event))
	{
		CHECK_FOR_INTERRUPTS();
		if (!event_is_of(fetch->consumer, &fetch->me, &event) ||
			!trade_keeps(&fetch->trade, event_lane(&event)))
			fetch->nskipped++;
		else if (retries_keep_back(fetch->retries, &event))
			fetch->nparked++;
		else
		{
			fetch->bytes += event_put(fetch->result, &event, member_attempts(&fetch->me, event.seq) + 1);
			fetch->nrows++;
			if (fetch->first == 0)
				fetch->first = event.seq;
			fetch->last = event.seq;
		}
		fetch->stopped = fetch->nskipped >= SKIP_MAX || fetch->nparked >= PARK_MAX;
		if (fetch->stopped)
			upto = event.seq;
		MemoryContextReset(fetch->cxt);
	}
	MemoryContextSwitchTo(old);
	reader_end(reader);
	return upto;
}

/*
 * Return true if a fetch has as many events, or as many bytes of them, as it may return.
 */
static bool
fetch_is_full(const Fetch *fetch)
{
	return fetch->nrows == fetch->max || fetch->bytes >= BATCH_BYTES;
}

/*
 * fetch_note stores what was fetched, and how far the fetch has looked (scanned).
 */
static void
fetch_note(Fetch *fetch, int64 scanned)
{
	DcMember *me = &fetch->me;
	int64 done = fetch->first > 0 ? fetch->first - 1 : scanned;
	bool changed = fetch->joins || fetch->trade.others != NIL || retries_noted(fetch->retries);

	if (fetch->nrows == 0 && !(changed && fetch->final) && fetch->nskipped < SKIP_AT_LEAST &&
		fetch->nparked == 0 && !retries_wrote(fetch->retries))
	{
		fetch_forget(fetch);
		return;
	}
	/* lanes that are given away take their old positions along */
	trade_store(&fetch->trade, me);
	/* what comes before the first event is of no interest, or waits elsewhere */
	member_advance(me, done);
	if (fetch->first > 0)
		member_hand_out(me, fetch->last);
	me->fetched = Max(scanned, done);
	me->skip = fetch->consumer->skip;
	me->nretries = retries_given(fetch->retries, me->retries);
	me->lease_until = GetCurrentTimestamp() + fetch->lease;
	member_write(me);
	fetch->wrote = true;
}

/*
 * fetch_forget leaves all rows as they are. If the fetch goes on waiting, the other members must
 * know that there is one more.
 */
static void
fetch_forget(Fetch *fetch)
{
	trade_forget(&fetch->trade);
	if (fetch->joins)
		member_unlock(fetch->consumer->id, "");
	if (fetch->hidden && !fetch->final && fetch->announced != fetch->consumer->id)
	{
		member_lock_joining(fetch->consumer->id);
		fetch->announced = fetch->consumer->id;
	}
	fetch->renew = fetch->final && lease_is_old(fetch);
}

/*
 * Return true if a third of a member's lease has passed. It is renewed
 * when the fetch ends, as other sessions cannot see it before, and while the fetch waits the lock
 * is as good.
 */
static bool
lease_is_old(const Fetch *fetch)
{
	return fetch->member[0] != '\0' &&
		fetch->me.lease_until - GetCurrentTimestamp() < fetch->lease / 3 * 2;
}
