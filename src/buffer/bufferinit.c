/*
 * bufferinit.c
 *		The buffer room's entry points: library load and transaction ends.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/xactrooms.h"
#include "buffer/buffer.h"
#include "buffer/bufferinit.h"

static bool was_buffered(DcCounter *counter);

static const DcBufferHooks hooks = {
	.flushes = flusher_runs,
	.reserve = buffer_reserve,
	.give_back = reserve_abort,
	.read_keys = buffer_read_keys,
	.read_all = buffer_read_all,
	.was_buffered = was_buffered,
	.key_set = buffer_key_set,
	.write_down = flush_here,
	.truncated = discard_truncated,
	.altered = buffer_altered,
};

static bool is_idle(void);
static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId subid,
							 SubTransactionId parent, void *arg);

/*
 * buffering_init sets up the room; called once.
 */
void
buffering_init(bool preloading)
{
	job_register((DcJob){.name = "flush", .run = flush_job, .due = flush_due});
	if (!preloading)
		return;
	buffer_hooks = &hooks;
	buffer_init();
	discard_init();
	flush_wait_init();
	xact_room_add(DC_XACT_BUFFER, xact_callback, subxact_callback, is_idle);
}

static bool
was_buffered(DcCounter *counter)
{
	return table_slot(counter) != NULL;
}

static bool
is_idle(void)
{
	return flush_is_idle() && discard_is_idle() && reserve_is_idle();
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (take_any())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has flushed a buffered counter table")));
			discard_check_prepare();
			break;
		case XACT_EVENT_COMMIT:
			flush_commit();
			discard_commit();
			reserve_commit(); /* the last: these amounts come after a truncation */
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			flush_abort();
			discard_abort();
			reserve_abort();
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent, void *arg)
{
	int nest = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		flush_commit_subxact(nest);
		discard_commit_subxact(nest);
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		flush_abort_subxact(nest);
		discard_abort_subxact(nest);
	}
}
