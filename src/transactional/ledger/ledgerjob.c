/*
 * ledgerjob.c
 *		Ending pending transfers whose time is up, and making months, as a job.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A step ends a batch of them, and gives back the amounts that they have set aside in the same
 * transaction. It skips rows that another transaction has locked, which may be ending the transfer.
 * As with compaction, the commit need not wait for the disk: if it is lost, the transfer is open
 * again, and expired.
 *
 * The last step on a ledger whose entries are kept by month makes the next months. Nothing else
 * is done if a subscription feeds it.
 *
 * A ledger without expired ones is idle until the first open one expires. The pause of an idle
 * table (core/table/tabledue.c) is short enough for months.
 */
#include "postgres.h"

#include "core/table/tablejob.h"
#include "transactional/ledger/entrymonth.h"
#include "transactional/ledger/ledger.h"
#include "transactional/ledger/ledgerinit.h"
#include "transactional/ledger/transferpending.h"

#define BATCH 500

static DcTableJob job;

/*
 * Return true for the table of balances of a ledger; its other counter tables have the same
 * `ledger`.
 */
static bool
ledgerjob_wants(const DcCounterRow *row)
{
	return row->ledger == row->counter;
}

/*
 * ledgerjob_step ends a batch of pending transfers, or makes months.
 */
static DcTableStep
ledgerjob_step(Oid table, bool all_owners)
{
	DcLedger *ledger = ledger_open_at_once(table, all_owners);
	uint64 expired;

	if (ledger == NULL)
		return TABLE_DONE;
	expired = pendings_expire(ledger, BATCH);
	if (expired == BATCH)
		return TABLE_GOES_ON;
	months_ahead(ledger);
	if (expired > 0)
		return TABLE_DONE;
	if (all_owners)
		job.until = moment_at_wall(pendings_next(ledger));
	return TABLE_IDLE;
}

/*
 * ledgerjob_step_fed makes months, which have to be there for the rows that the subscription
 * brings.
 */
static DcTableStep
ledgerjob_step_fed(Oid table, bool all_owners)
{
	DcLedger *ledger = ledger_open_at_once(table, all_owners);

	if (ledger != NULL)
		months_ahead(ledger);
	return ledger != NULL ? TABLE_IDLE : TABLE_DONE;
}

static DcTableJob job = {.wants = ledgerjob_wants, .step = ledgerjob_step, .step_fed = ledgerjob_step_fed};

/*
 * ledger_job goes over the ledgers; true if it has yielded.
 */
bool
ledger_job(DcJobRun *run)
{
	return table_job_run(&job, run);
}
