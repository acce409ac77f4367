/*
 * rights.h
 *		Stocks that several regions sell from: what the files about that share.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The units of a stock's shard rows are the rights of its region: dc_take() takes from them and
 * asks nobody, as ever. Each unit is in the rows of one region, or on its way between two. A region
 * that gives units to another one takes them from its own rows, and in the same transaction
 * raises a row of its table of grants,
 *
 *		NAME_grant (key, from_region, from_epoch, to_region, to_epoch, units)
 *
 * which says how many units the one has ever given to the other. The row goes to the others by logical
 * replication. Each keeps the greater one of what it has and what comes (merge_grant); the one that
 * is named as the receiver adds the difference to its own rows, in the transaction that
 * writes the row.
 *
 * Why no unit is ever sold twice. A grant is written by its giver alone, and only grows, by
 * what has left the giver's rows in the same transaction. So for any two of its states that
 * the receiver has seen, the difference is units that nobody else has. Whether a state comes
 * again, or an older one later, or several at once, or in the copy of a table, the sum of
 * the differences is the greatest state that came. A crash on either side undoes both halves of its
 * transaction or none, and a receiver that has not got a state gets it again. So
 *
 *		restocked - sold  =  units in all regions + grants that have not been received.
 *
 * Epochs. A database that was restored or copied has units that it may have sold or given
 * since; so have its grants. It takes a new epoch for each stock before it sells, gives or receives
 * anything (identity.c, rights_renew()), and forgets its units, unless it is told that
 * nothing is lost. What is given to an epoch that a region no longer has is lost. The epoch is that of a stock
 * (dcounter.counter.rights_epoch), not that of the database: a stock that is dropped and made
 * again, or replicated again, must not receive once more what was given to the one before it.
 *
 * Wants. A region that is short of units says so in its row of
 *
 *		NAME_want (key, region, ...)
 *
 * which others get as well, the one with the latest stamp (hlc) being the one that holds. It says how many units
 * are needed, and how many had been granted to the region when it was written. The job "rights"
 * of those that have units serves it: escrow.c says who gives how many to whom. A want is a wish:
 * whatever becomes of it, late, lost or doubled, moves units to where they are not needed, at worst. The row also tells
 * how many units there were, of keys that nobody asks for as well (rightstell.c).
 *
 * Locks, in this order: the identity (life.h), the table of grants, that of wants, the stock's tables, units (rows of the
 * shard table), the row of wants. Who has a stock locked must not wait for the identity (rightsrenew.c). An apply worker has one of the first two when it comes, and adds units to
 * rows of its transaction's own, so it waits for no row. The job waits for none at all: it passes over
 * tables that are locked, takes units that are free, and of two jobs that look after one stock one goes
 * on (RIGHTS_LOCK_CLASS). dc_want() in a transaction that has taken units comes to wants with the stock's tables locked;
 * that matters where these are locked against writers, by rights_renew(), say, and the server ends a deadlock.
 * Rows of wants of this region are written by its sessions, those of others by apply workers.
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
 * rights_epoch_of returns the epoch under which this database has its units of a stock, also while they are shut.
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
