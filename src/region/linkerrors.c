/*
 * linkerrors.c
 *		Counts the errors by which apply workers of links end before they receive anything.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The server counts the errors of an apply worker only once it streams
 * (pg_stat_subscription_stats): it counts neither a peer that cannot be reached nor a slot that is
 * gone. A worker that fails that way is restarted every few seconds, and only the log shows it. So
 * errors that are about to be logged are counted here, if the worker of a link has not received
 * anything yet. The server counts all later ones itself. These workers have the library only if it
 * is preloaded.
 *
 * An error of the peer when asked to stream shows that it is reachable, and that the link will not
 * work again: its slot is gone or lost, or is another database's. Such links are noted, so that
 * dc_region_join() makes them again. The notes are for the whole server, as OIDs of subscriptions
 * are; if two are written at once, one may be lost until the next try.
 */
#include "postgres.h"

#include "pgstat.h"
#include "port/atomics.h"
#include "replication/logicalworker.h"
#include "replication/worker_internal.h"
#include "utils/elog.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/shmem.h"
#include "region/link.h"
#include "region/region.h"

/* How many refused links are noted at the same time, and for how long a note is valid. */
#define REFUSED_MAX 64
#define REFUSED_SECONDS 60

typedef struct DcRefused
{
	pg_atomic_uint32 link;
	pg_atomic_uint64 at; /* TimestampTz */
} DcRefused;

static DcRefused *refused = NULL; /* in shared memory */
static emit_log_hook_type previous_hook = NULL;

static void refused_init(void *area);
static void note_refused(Oid link);

static void linkerrors_count_error(ErrorData *error);
static bool is_of_start(const ErrorData *error);
static bool is_refusal(const ErrorData *error);

/*
 * Ask for shared memory, and install the hook that sees errors before they are logged. Called when
 * the library is preloaded.
 */
void
link_errors_init(void)
{
	shmem_add("dcounter refused links", REFUSED_MAX * sizeof(DcRefused), (void **) &refused, refused_init);
	previous_hook = emit_log_hook;
	emit_log_hook = linkerrors_count_error;
}

/*
 * Initialize the list of refused links: there are none.
 */
static void
refused_init(void *area)
{
	for (int i = 0; i < REFUSED_MAX; i++)
	{
		pg_atomic_init_u32(&((DcRefused *) area)[i].link, InvalidOid);
		pg_atomic_init_u64(&((DcRefused *) area)[i].at, 0);
	}
}

/*
 * Note that the peer has refused a link just now. The oldest note is overwritten if the list is
 * full.
 */
static void
note_refused(Oid link)
{
	DcRefused *place = refused;

	for (int i = 0; i < REFUSED_MAX && pg_atomic_read_u32(&place->link) != link; i++)
	{
		if (pg_atomic_read_u32(&refused[i].link) == link || pg_atomic_read_u64(&refused[i].at) < pg_atomic_read_u64(&place->at))
			place = &refused[i];
	}
	pg_atomic_write_u32(&place->link, link);
	pg_atomic_write_u64(&place->at, (uint64) GetCurrentTimestamp());
}

/*
 * link_is_refused returns true if the peer has refused to stream for a link lately.
 */
bool
link_is_refused(const Subscription *link)
{
	for (int i = 0; i < REFUSED_MAX && refused != NULL; i++)
	{
		if (pg_atomic_read_u32(&refused[i].link) == link->oid)
			return !TimestampDifferenceExceeds((TimestampTz) pg_atomic_read_u64(&refused[i].at), GetCurrentTimestamp(), REFUSED_SECONDS * 1000);
	}
	return false;
}

/*
 * Count an error by which the worker of a link ends before it receives anything, and note if its
 * peer has refused it.
 */
static void
linkerrors_count_error(ErrorData *error)
{
	if (error->elevel >= ERROR && compat_is_background_worker() && is_of_start(error))
	{
		compat_count_apply_error(MySubscription->oid);
		if (is_refusal(error))
			note_refused(MySubscription->oid);
	}
	if (previous_hook != NULL)
		previous_hook(error);
}

/*
 * is_refusal returns true for an error of the peer when asked to stream, by the code that
 * walrcv_startstreaming() gives to all of these. A slot that is still in use, as after a crash
 * here, will soon be free. The peer's text may be in another language: then a join that comes too
 * early replaces the link, which is right, too.
 */
static bool
is_refusal(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_PROTOCOL_VIOLATION && strstr(error->message, "is active for PID") == NULL;
}

/*
 * is_of_start returns true for an error of the main worker of a link that has not received
 * anything. Being terminated by an operator does not count.
 */
static bool
is_of_start(const ErrorData *error)
{
	return IsLogicalWorker() && MyLogicalRepWorker != NULL && MySubscription != NULL && error->sqlerrcode != ERRCODE_ADMIN_SHUTDOWN &&
		!am_tablesync_worker() && !compat_is_parallel_apply_worker() && XLogRecPtrIsInvalid(MyLogicalRepWorker->last_lsn) &&
		(link_brings(MySubscription, PUBLICATION_OWN) || link_brings(MySubscription, PUBLICATION_ALL));
}
