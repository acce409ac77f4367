/*
 * bufferinit.c
 *		The buffer room's entry points: library load, shared memory, transaction ends, DROP EXTENSION.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/shmem.h"
#include "base/utility.h"
#include "base/xactrooms.h"
#include "core/worker/flusher.h"
#include "memory/buffer/buffer.h"
#include "memory/buffer/bufferinit.h"

/* The size of the map, as it was asked for. */
static Size map_bytes = 0;

static bool was_buffered(DcCounter *counter);
static Size buffer_map_size(void);
static void buffer_map_init(void *new_map);
static void bufferinit_around_statement(DcUtility *utility);
static bool drops_extension(Node *statement);

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
	.takes_too_long = flusher_takes_too_long,
	.altered = buffer_altered,
};

static bool bufferinit_is_idle(void);
static void bufferinit_xact_callback(XactEvent event, void *arg);
static void bufferinit_subxact_callback(SubXactEvent event, SubTransactionId subid,
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
	shmem_add("dcounter buffer", sizeof(DcBufferArea), (void **) &buffer_area, area_init);
	shmem_add_raw("dcounter buffer map", buffer_map_size, (void **) &buffer_map, buffer_map_init);
	discard_init();
	flush_wait_init();
	utility_add(bufferinit_around_statement);
	xact_room_add(DC_XACT_BUFFER, bufferinit_xact_callback, bufferinit_subxact_callback, bufferinit_is_idle);
}

/*
 * buffer_map_size is called once, when the server starts.
 */
static Size
buffer_map_size(void)
{
	/* the file must fit in any case; an entry takes less than this */
	map_bytes = map_size((Size) dc_buffer_size * 1024 + 8 * bufferfile_size());
	return map_bytes;
}

/*
 * buffer_map_init comes after area_init, and fills both from the file. It is called
 * when the server starts over after a crash, too: the size is the one asked for at
 * the first start, whatever file there is now.
 */
static void
buffer_map_init(void *new_map)
{
	map_init(new_map, map_bytes, sizeof(DcBuffer));
	bufferfile_load();
	on_shmem_exit(bufferfile_save, (Datum) 0);
}

/*
 * Run a utility statement. Flush all tables of the database before DROP EXTENSION, and discard
 * amounts in memory after TRUNCATE.
 */
static void
bufferinit_around_statement(DcUtility *utility)
{
	if (drops_extension(utility->statement))
		flush_database();
	if (IsA(utility->statement, TruncateStmt))
		discard_run_truncate(utility);
	else
		utility_run(utility);
}

/*
 * Return true if a statement drops this extension, and may do so.
 */
static bool
drops_extension(Node *statement)
{
	ListCell *lc;

	if (!IsA(statement, DropStmt) ||
		((DropStmt *) statement)->removeType != OBJECT_EXTENSION)
		return false;
	foreach(lc, ((DropStmt *) statement)->objects)
	{
		if (strcmp(strVal(lfirst(lc)), "dcounter") == 0)
		{
			Oid extension = get_extension_oid("dcounter", true);

			return OidIsValid(extension) &&
				compat_owns_extension(extension, GetUserId());
		}
	}
	return false;
}

/*
 * Return true if the table has a slot, and so may have had amounts in memory since the server
 * started.
 */
static bool
was_buffered(DcCounter *counter)
{
	return table_slot(counter) != NULL;
}

/*
 * Return true if the transaction has nothing for the callbacks to do: no flush, no discard, no
 * reserved amounts.
 */
static bool
bufferinit_is_idle(void)
{
	return flush_is_idle() && discard_is_idle() && reserve_is_idle();
}

/*
 * End the room's part of a transaction. A transaction that has flushed cannot be prepared, as
 * nobody would be left to drop the amounts that it has taken.
 */
static void
bufferinit_xact_callback(XactEvent event, void *arg)
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

/*
 * Hand what a subtransaction has flushed and discarded to its parent, or undo it.
 */
static void
bufferinit_subxact_callback(SubXactEvent event, SubTransactionId subid,
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
