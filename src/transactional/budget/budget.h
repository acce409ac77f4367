/*
 * budget.h
 *		Budgets: grants of units, of which some are reserved, and settled later (see budget.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_BUDGET_H
#define DC_BUDGET_H

#include "fmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/timestamp.h"

#include "base/job.h"
#include "core/counter/sqlpath.h"
#include "core/table/ddlhooks.h"

#define DC_POOL_SUFFIX "_pool"
#define DC_RESERVATION_SUFFIX "_reservation"

/* Keys of debts have one byte more, and are keys of the pool. */
#define MAX_BUDGET_KEY (DC_MAX_KEY_BYTES - 1)

/* A row of dcounter.budget. */
typedef struct DcBudgetRow
{
	Oid budget;		  /* the table of grants, */
	Oid pool;		  /* the stock that has their units, */
	Oid reservations; /* and the reservations */
} DcBudgetRow;

/* A budget that is open: its tables are locked. */
typedef struct DcBudget
{
	DcBudgetRow row;
	DcCounter *pool;
} DcBudget;

/* A grant that units can be taken of, and how many it has. */
typedef struct DcUsable
{
	int64 grant;
	int64 units;
	TimestampTz expires_at;
} DcUsable;

/* Units of grants, in the order of use. */
typedef struct DcDrawn
{
	int64 *grants;
	int64 *taken;
	int64 *owners; /* which of the keys of a reservation they are for */
	int count;
	int size;
	MemoryContext cxt; /* of the arrays */
} DcDrawn;

/* budgetrow.c */
extern bool budget_read(Oid relid, DcBudgetRow *row);
extern bool budget_read_by_pool(Oid pool, DcBudgetRow *row);
extern List *budget_read_all(void);
extern void budget_insert(const DcBudgetRow *row);
extern bool budget_delete(Oid relid);

/* budgettable.c */
extern void budget_init(void);

/* budgetshape.c */
extern Oid budget_check_shapes(const DcBudgetRow *row);

/* budgetddl.c */
extern const DcDdlHook budget_ddl;

/* budget.c */
extern void budget_open(FunctionCallInfo fcinfo, const char *function, LOCKMODE mode, AclMode rights, DcBudget *budget);
extern bool budget_open_at_once(Oid pool, bool all_owners, DcBudget *budget);
extern void budget_sql_begin(DcSqlSession *session, const DcBudget *budget);
extern Datum budget_key_arg(FunctionCallInfo fcinfo, int argno);
extern void budget_key_check(Datum text);
extern int64 *int8_array(Datum array, int *count);
extern Datum int8_array_datum(const int64 *values, int count);

/* budgetdraw.c */
extern int usable_grants(const DcBudget *budget, Datum key, DcUsable **grants);
extern int usable_grants_latest(const DcBudget *budget, Datum key, DcUsable **grants);
extern int64 usable_sum(const DcUsable *grants, int count);
extern int64 owed_units(const DcBudget *budget, Datum key);
extern int64 debt_take(const DcBudget *budget, Datum key, int64 units);
extern void debt_add(const DcBudget *budget, Datum key, int64 units);
extern void spent_add(const DcBudget *budget, Datum key, int64 units);
extern int64 grant_take(const DcBudget *budget, int64 grant, int64 units, int flags);
extern void grant_give(const DcBudget *budget, int64 grant, int64 units);
extern void grant_give_back(const DcBudget *budget, int64 grant, int64 units);
extern int64 grants_draw(const DcBudget *budget, const DcUsable *grants, int count, int64 amount,
						 DcDrawn *drawn, int owner);
extern void drawn_add(DcDrawn *drawn, int64 grant, int64 taken, int owner);

/* budgetperiod.c */
extern char *period_name(const Interval *period);
extern int64 period_find(const Interval *period, Timestamp anchor, Timestamp here, Timestamp *begins);
extern Timestamp period_end(const Interval *period, Timestamp anchor, int64 n, const Interval *valid_for);
extern void period_check(const Interval *period, const char *name);

/* budgetsettle.c */
extern uint64 reservations_expire(const DcBudget *budget, Datum keys, int limit, bool *more);
extern bool reservations_purge(const DcBudget *budget, TimestampTz before, int limit);
pg_noreturn extern void reservation_broken(Datum id);

/* budgetjob.c */
extern bool budget_job(DcJobRun *run);

#endif /* DC_BUDGET_H */
