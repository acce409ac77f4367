/*
 * linkerrors.c
 *		Counts the errors by which apply workers of links end before they receive anything.
 *
 * The server counts the errors of an apply worker from when it streams (pg_stat_subscription_stats): not that the peer cannot be
 * reached, nor that the slot is gone. A worker that fails so is started anew every few seconds, and nothing but the log shows it.
 * So errors that are about to be logged are counted here, if the worker of a link has not received anything yet. All later ones
 * the server counts by itself. Only where the library is preloaded is it in these workers.
 */
#include "postgres.h"

#include "base/compat.h"
#include "pgstat.h"
#include "region/link.h"
#include "region/region.h"
#include "replication/logicalworker.h"
#include "replication/worker_internal.h"
#include "utils/elog.h"

static emit_log_hook_type previous_hook = NULL;

static void count_error(ErrorData *error);
static bool is_of_start(const ErrorData *error);

void
link_errors_init(void)
{
	previous_hook = emit_log_hook;
	emit_log_hook = count_error;
}

static void
count_error(ErrorData *error)
{
	if (error->elevel >= ERROR && compat_is_background_worker() && is_of_start(error))
		pgstat_report_subscription_error(MySubscription->oid, true);
	if (previous_hook != NULL)
		previous_hook(error);
}

/*
 * is_of_start returns true for an error of the main worker of a link that has not received anything. To be ended by an operator is none.
 */
static bool
is_of_start(const ErrorData *error)
{
	return IsLogicalWorker() && MyLogicalRepWorker != NULL && MySubscription != NULL && error->sqlerrcode != ERRCODE_ADMIN_SHUTDOWN &&
		!am_tablesync_worker() && !compat_is_parallel_apply_worker() && XLogRecPtrIsInvalid(MyLogicalRepWorker->last_lsn) &&
		(link_brings(MySubscription, PUBLICATION_OWN) || link_brings(MySubscription, PUBLICATION_ALL));
}
