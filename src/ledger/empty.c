/*
 * empty.c
 *		Emptying a ledger, when its table of balances is truncated.
 *
 * The owner may do that as he may drop it: all of its tables are emptied, so that it is
 * as it was made, without accounts. Tables of months that were detached before are none
 * of it. The order of locks is that of those who post: balances, limits, entries, others
 * (counter/protect.c has the protocol).
 */
#include "postgres.h"

#include "ledger/ledger.h"
#include "once/opslot.h"
#include "table/protect.h"

static void empty_tables(const DcLedgerRow *ledger);

/*
 * ledger_empty empties the other tables of a ledger whose balances were truncated.
 */
void
ledger_empty(const DcCounterRow *row)
{
	DcLedgerRow ledger;

	if (row->ledger == row->counter && ledger_read(row->ledger, &ledger))
		empty_tables(&ledger);
}

static void
empty_tables(const DcLedgerRow *ledger)
{
	DcOpSlot slots[DC_OP_SLOTS];
	DcCounterRow limits;

	relation_truncate(ledger->limits);
	if (catalog_read(ledger->limits, &limits))
	{
		/* nothing may have been compacted yet, and so no trigger have fired */
		relation_truncate(limits.shards);
		relation_truncate(limits.holds);
	}
	relation_truncate(ledger->entries);
	relation_truncate(ledger->accounts);
	relation_truncate(ledger->pendings);
	if (OidIsValid(ledger->openings))
		relation_truncate(ledger->openings);
	if (opslots_read(ledger->ledger, slots) > 0)
		relation_truncate(slots[0].ops);
}
