/*
 * rights.h
 *		Stocks that several regions sell from: shared by the files about that.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The units of a stock's shard rows are the rights of its region: dc_take() takes from them without
 * asking anybody. Each unit is in the rows of one region, or on its way between two. A region that
 * gives units to another one takes them from its own rows, and in the same transaction raises a row
 * of its table of grants,
 *
 *		NAME_grant (key, from_region, from_epoch, to_region, to_epoch, units)
 *
 * which says how many units the first has given to the second in all. The row goes to the others by
 * logical replication. Each keeps the greater of the existing and the incoming row (merge_grant);
 * the receiver adds the difference to its own rows, in the transaction that writes the row.
 *
 * Why no unit is ever sold twice. Only its giver writes a grant, and it only grows, by the units
 * that have left the giver's rows in the same transaction. So for any two of its states that the
 * receiver has seen, the difference is units that nobody else has. Even if a state comes again, or
 * an older one later, or several at once, or in the copy of a table, the sum of the differences is
 * the greatest state that came. A crash on either side undoes both halves of its transaction or
 * none, and a receiver that has not got a state gets it again. So
 *
 *		restocked - sold  =  units in all regions + grants that have not been received.
 *
 * Epochs. A database that was restored or copied has units that it may have sold or given since;
 * its grants are out of date in the same way. It takes a new epoch for each stock before it sells,
 * gives or receives anything (identity.c, rights_renew()), and forgets its units, unless the
 * operator says that nothing is lost. Units that are given to an epoch that a region no longer has
 * are lost. The epoch is that of a stock (dcounter.counter.rights_epoch), not that of the database:
 * a stock that is dropped and made again, or replicated again, must not receive again the units
 * that were given to its predecessor.
 *
 * Wants. A region that is short of units says so in its row of
 *
 *		NAME_want (key, region, ...)
 *
 * which others get as well; the row with the latest stamp (hlc) holds. It says how many units are
 * needed, and how many had been granted to the region when it was written. The job "rights" of
 * regions that have units serves it: escrow.c decides which region gives how many to which. A want
 * is only a wish: if it is late, lost or duplicated, units move to where they are not needed, at
 * worst. The row also reports how many units there were, even of keys that nobody asks for
 * (rightstell.c).
 *
 * Locks, in this order: the identity (life.h), the table of grants, that of wants, the stock's
 * tables, units (rows of the shard table), the row of wants. A transaction that has a stock locked
 * must not wait for the identity (rightsrenew.c). An apply worker has one of the first two tables
 * locked already, and adds units to rows of its own transaction, so it waits for no row. The job
 * waits for no lock at all: it skips tables that are locked, takes units that are free, and if two
 * jobs work on one stock, only one continues (RIGHTS_LOCK_CLASS). dc_want() in a transaction that
 * has taken units takes the lock on wants after those on the stock's tables; that matters only if
 * these are locked against writers, as by rights_renew(), and then the server resolves the
 * deadlock. Rows of wants of this region are written by its sessions, those of others by apply
 * workers.
 */
#ifndef DC_RIGHTS_H
#define DC_RIGHTS_H

#include "base/job.h"
#include "core/counter/sqlpath.h"
#include "region/escrow.h"
#include "region/region.h"

/* Columns of a table of grants, by number. */
enum
{
	GRANT_KEY,
	GRANT_FROM_REGION,
	GRANT_FROM_EPOCH,
	GRANT_TO_REGION,
	GRANT_TO_EPOCH,
	GRANT_UNITS,
	GRANT_NUM_COLUMNS
};

/* The same of wants. */
enum
{
	WANT_KEY,
	WANT_REGION,
	WANT_EPOCH,
	WANT_HLC,
	WANT_SINCE,
	WANT_WANTED,
	WANT_LOW,
	WANT_GRANTED,
	WANT_KEPT,
	WANT_WAITS,
	WANT_ASKED,
	WANT_ASKED_AT,
	WANT_UNTIL,
	WANT_UNITS,
	WANT_GIVEN,
	WANT_NUM_COLUMNS
};

/* rightstable.c */
extern const char *const grant_columns;
extern const char *const want_columns;
extern void rights_tables_create(DcCounter *counter, DcCounterRow *row);
extern void rights_tables_adopt(DcCounterRow *row, Oid functions);
extern bool rights_lock(const DcCounter *counter, LOCKMODE mode, bool wait);
extern const char *rights_problem(const DcCounter *counter);
extern void rights_begin(DcSqlSession *session, DcCounter *counter);
extern void rights_key(Datum value, MemoryContext cxt, DcKey *key);
extern void rights_needed(const DcCounter *counter);

/* grant.c */
extern void grant_raise(DcSqlSession *session, Datum key, const DcIdentity *from, const DcIdentity *to,
						int64 units);

/* want.c */
extern bool want_change(DcCounter *counter, const DcKey *key, DcWantChange change, TimestampTz until,
						bool wait);
extern bool want_is_stale(DcCounter *counter, const DcKey *key, int64 since, TimestampTz until);
extern int64 want_stamp_at(TimestampTz time);

/* rights.c */
extern bool rights_job(DcJobRun *run);

/* rightstell.c */
extern bool rights_tell(DcCounter *counter, const DcIdentity *identity, bool all);

/* stockregions.c */
extern bool region_has_units(DcCounter *counter, const char *region, bool own);

/*
 * rights_epoch_of returns the epoch under which this database has its units of a stock, even while
 * they are shut.
 */
static inline int64
rights_epoch_of(const DcCounter *counter)
{
	return counter->row.rights_epoch < 0 ? -counter->row.rights_epoch : counter->row.rights_epoch;
}

/* rightsrenew.c */
extern void rights_await(Oid stock, const char *function);
extern void rights_await_and_lock(Oid stock, const char *function);
extern void rights_identity_check(DcCounter *counter);
extern bool rights_are_open(DcCounter *counter);

#endif /* DC_RIGHTS_H */
