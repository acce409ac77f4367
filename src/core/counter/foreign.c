/*
 * foreign.c
 *		Support for counter tables on other servers.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Order of callbacks. A foreign data wrapper commits its remote transactions in its own
 * PRE_COMMIT callback, so ours, which writes the pending increments, must run before it.
 * Callbacks run in the reverse order of registration, and wrappers register theirs with their
 * first connection in a session. So the first increment in a session has the wrapper connect
 * (foreign_ready), and then registers our callback again. If the order were wrong, the wrapper
 * would find an open remote transaction after the commit, which is a PANIC.
 *
 * Failures. The wrapper commits the remote transactions one after the other. Deltas
 * that are written at commit are written to all servers before the first of them
 * commits. If some were written earlier, foreign_check_alive() checks at that point that each of
 * their servers still responds, so that the transaction fails as a whole if one does not. A failure
 * between the first and the last remote commit cannot be helped without two-phase commit, which
 * wrappers lack.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "foreign/foreign.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/runas.h"
#include "base/xactrooms.h"
#include "core/counter/apply.h"
#include "core/counter/foreign.h"

/* Wrappers that are known to have registered their callbacks; in TopMemoryContext. */
static List *ready_wrappers = NIL;

/*
 * Counter tables written before the commit; in TopTransactionContext, forgotten by
 * foreign_end_xact().
 */
static List *early_counters = NIL;

static void foreign_touch(DcCounter *counter, Oid leaf);

/*
 * foreign_ready makes sure that our PRE_COMMIT callback runs before those of the
 * wrappers of a counter table. It needs one query for each wrapper and session.
 */
void
foreign_ready(DcCounter *counter)
{
	for (int i = 0; i < counter->nforeign; i++)
	{
		Oid leaf = counter->foreign_leaves[i];
		Oid server = GetForeignTable(leaf)->serverid;
		Oid wrapper = GetForeignServer(server)->fdwid;
		MemoryContext old;

		if (list_member_oid(ready_wrappers, wrapper))
			continue;
		foreign_touch(counter, leaf);
		xact_callback_move();
		old = MemoryContextSwitchTo(TopMemoryContext);
		ready_wrappers = lappend_oid(ready_wrappers, wrapper);
		MemoryContextSwitchTo(old);
	}
}

/*
 * foreign_note_early records that a counter table is written before the commit.
 */
void
foreign_note_early(DcCounter *counter)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	xact_mark(DC_XACT_COUNTER);
	early_counters = list_append_unique_oid(early_counters, counter->relid);
	MemoryContextSwitchTo(old);
}

/*
 * foreign_check_alive raises an error if a server that this transaction has
 * written to early does not answer. Called at PRE_COMMIT.
 */
void
foreign_check_alive(void)
{
	ListCell *lc;

	if (early_counters == NIL)
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	foreach(lc, early_counters)
	{
		DcCounter *counter = NULL;

		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(lc))))
			counter = counter_find(lfirst_oid(lc));
		/* it, or its shard table, may have been dropped in this transaction */
		for (int i = 0; counter != NULL && i < counter->nforeign; i++)
			foreign_touch(counter, counter->foreign_leaves[i]);
	}
	PopActiveSnapshot();
}

/*
 * foreign_end_xact forgets the state of a transaction that has ended.
 */
void
foreign_end_xact(void)
{
	early_counters = NIL;
}

/*
 * foreign_touch sends a query to the server of a foreign table.
 */
static void
foreign_touch(DcCounter *counter, Oid leaf)
{
	char *sql = psprintf("SELECT FROM %s LIMIT 1", relation_sql_name(leaf));
	DcRunAs runas;

	SPI_connect();
	runas_begin(&runas, counter->owner);
	if (SPI_execute(sql, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	runas_end(&runas);
	SPI_finish();
	pfree(sql);
}
