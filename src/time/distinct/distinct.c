/*
 * distinct.c
 *		Distinct tables: how many different items each key has had. The room's entry, and its protocol in short.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * NAME has a row for each key, with a sketch (dc_hll) of its items. To add an item there would be to write a row of some
 * kilobytes, which all who add to the key would wait for. Instead
 *
 *	1. dc_add() looks whether the session knows that the item changes nothing (distinctknown.c). That is so for almost all:
 *	   a repeat never changes anything, and of n different items a new one does with a probability of about 0.7 m / n,
 *	   with m = 2^precision registers. Then that is all.
 *	2. Else the item is pending, and the commit inserts a small sketch of what is not known into
 *	   NAME_delta, which waits for nobody (distinctpending.c).
 *	3. The worker adds deltas to the sketches and deletes them, in one transaction (distinctfold.c).
 *	4. A read is the union of the sketch, the deltas and what is pending, in one snapshot (distinctread.c).
 *
 * Why that is never wrong: a sketch is a set of which nothing is ever taken away but as a whole, and a union may be
 * made in any order and any number of times. So it does not matter which items are written twice, who folds
 * them, or when. What matters is that each item of a committed transaction is in some row that the commit rests on: that is
 * what distinctknown.c is about.
 *
 * Order of locks: NAME, NAME_delta, the lock `distinct` (lockclass.h). No row is waited for but by dc_distinct_reset().
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
