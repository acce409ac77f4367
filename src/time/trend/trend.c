/*
 * trend.c
 *		Trending: the keys of a counter table with the most increments recently.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A counter with a trend has a third table, NAME_trend (key, weight, epoch): a weight for each key
 * that was counted recently (decay.c), with an index on epoch and weight. Counting costs nothing
 * more: compaction, which reads the increments of each key anyway, adds them to the weight, in the
 * transaction that moves them to the totals (trendbatch.c). So an increment counts in the trend
 * once, as it does in the total. An idle key is never written: the order of weights is that of
 * scores, at any time.
 *
 * Increments and decrements of this database count, as of the time of the last change of the shard
 * rows that have them (not of the compaction, which may be late). Within a compaction's interval
 * their times are not distinguished: a factor of at most 2^(interval / half-life). Values that keys
 * are set, reset or loaded to do not count (core/counter/set.c, core/counter/load.c); differences
 * that dc_reconcile() or a repair adds do, when they are added. A deleted key is gone from the
 * trend, and so are all keys when the table is truncated. Commits write no totals themselves while
 * there is a trend (core/table/directtotals.c), since compaction would not see that.
 *
 * The table belongs to the owner of the counter, who may change it in any way:
 *
 *	- While it is locked (LOCK TABLE, ALTER TABLE, VACUUM FULL in progress) the counter table is not
 *	  compacted, as if it were locked itself. Rows that are locked keep their keys from being
 *	  compacted.
 *	- If it is dropped, the trend ends (trendddl.c). If it is altered so that it cannot be used, or
 *	  given to somebody else, compaction continues without it: that costs the trend its increments,
 *	  and nothing else.
 *	- Code that is put on it is the owner's, as with the other tables: then the worker leaves the
 *	  counter to the owner (core/table/ownercode.c). It runs in the owner's own dc_compact() and
 *	  dc_set(), and in other users' calls as the owner.
 *	- Rows that are changed directly are treated like any other. A weight that is not a finite
 *	  number counts as none.
 *
 * The locks. The table is locked after those of the counter, and its rows after the counter's:
 * shard rows, totals, weights. Compaction waits for none of them; dc_set(), dc_delete() and
 * dc_alter() do, the latter with all others kept out.
 */
#include "postgres.h"

#include "base/hooks.h"
#include "core/table/ddlhooks.h"
#include "time/trend/trend.h"

/*
 * trend_init is called when the library is loaded.
 */
void
trend_init(void)
{
	static const DcTrendHooks hooks = {
		.half_life_arg = trend_half_life_arg,
		.create = trend_create,
		.alter = trend_alter,
		.ready = trend_ready,
		.lock = trend_lock,
		.write = trend_write,
		.swept = trend_swept,
		.set_begin = trend_set_begin,
		.set = trend_set,
		.deleted = trend_deleted,
		.lock_keys = trend_lock_keys,
	};

	trend_hooks = &hooks;
	ddl_hook_add(&trend_ddl);
	hot_alarm_init();
}
