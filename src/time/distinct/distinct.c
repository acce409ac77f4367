/*
 * distinct.c
 *		Distinct tables: how many different items each key has had. The room's entry, and its protocol in short.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * NAME has a row for each key, with a sketch (dc_hll) of its items. Adding an item there would mean
 * writing a row of some kilobytes, and all transactions that add to the key would wait for each
 * other. Instead
 *
 *	1. dc_add() checks whether the session knows that the item changes nothing (distinctknown.c).
 *	   That holds for almost all: a repeat never changes anything, and after n different items a new
 *	   one does so with a probability of about 0.7 m / n, with m = 2^precision registers. Then there
 *	   is nothing left to do.
 *	2. Otherwise the item is pending, and the commit inserts a small sketch of the unknown items
 *	   into NAME_delta, which waits for nobody (distinctpending.c).
 *	3. The worker adds deltas to the sketches and deletes them, in one transaction (distinctfold.c).
 *	4. A read is the union of the sketch, the deltas and what is pending, in one snapshot
 *	   (distinctread.c).
 *
 * Why that is never wrong: a sketch is a set that is only ever removed as a whole, and a union may
 * be made in any order and any number of times. So it does not matter which items are written
 * twice, who folds them, or when. It does matter that each item of a committed transaction is in
 * some row that the commit relies on: distinctknown.c ensures that.
 *
 * Order of locks: NAME, NAME_delta, the lock `distinct` (lockclass.h). Only dc_distinct_reset()
 * waits for rows.
 */
#include "postgres.h"

#include "base/hooks.h"
#include "core/table/ddlhooks.h"
#include "time/distinct/distinct.h"

static bool is_distinct(Oid relid);

/*
 * distinct_init is called when the library is loaded.
 */
void
distinct_init(void)
{
	static const DcDistinctHooks hooks = {.is_distinct = is_distinct,
										  .write_early = distinct_write_early,
										  .truncated = distinct_truncated,
										  .prevent_change = distinct_prevent_change};

	distinct_hooks = &hooks;
	distinct_name_init();
	distinct_pending_init();
	distinct_fold_init();
	ddl_hook_add(&distinct_ddl);
}

/*
 * Return true if the relation is a distinct table.
 */
static bool
is_distinct(Oid relid)
{
	return distinct_find(relid) != NULL;
}
