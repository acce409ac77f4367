/*
 * hotalarm.c
 *		Alerts about hot keys, as a job.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A key is hot if its writes of the last window (core/stats/hotkeys.c) are dcounter.hot_key_alarm a
 * second or more, and cool again when they are below half of that. Each change is reported once: in
 * the server's log, and in an event, counter.hot or counter.cool, whose topic is the name of the
 * table.
 *
 * Shared memory has, with the key, what was reported. It is noted there when the transaction with
 * the event has committed. If it is rolled back, or the savepoint that the event is in, nothing is
 * noted, and the key is reported the next time. A transaction that is prepared counts as committed.
 * The server's log is written just before the commit, as writing to it may fail, so a commit that
 * fails after that leaves one line too many.
 *
 * One transaction at a time reports on the keys of a table: it has a lock (lockclass.h) until it
 * has ended, which is after this is noted. So the worker and a call of dc_maintain() do not both
 * report. A key that has left the list, or whose table has lost its statistics, is forgotten, and
 * reported again if it comes back.
 *
 * A standby has no events of its own, nor statistics of writes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/job.h"
#include "base/lockclass.h"
#include "base/xactrooms.h"
#include "core/stats/stats.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "events/outbox/outbox.h"
#include "events/outbox/payload.h"
#include "time/trend/trend.h"

/* A key is cool again below this fraction of the threshold. */
#define COOL 0.5

/* A step of the worker that takes longer leaves the other tables to the next one. */
#define STEP_MS 500

/* A key that was reported in this transaction. */
typedef struct DcToldHot
{
	Oid counter;
	uint64 hash;
	bool is_hot;
	int64 rate;
	int nest; /* level of the transaction */
	char *table;
	char *key; /* and its name; all in TopTransactionContext */
} DcToldHot;

/* In TopTransactionContext, in the order of their levels; hotalarm_xact_callback() forgets them. */
static List *told = NIL;

static const int interval = 1000; /* ms */

static bool hotalarm_is_needed(void);
static bool hot_job(DcJobRun *run);
static void hot_step(void *arg);
static void tell_table(Oid counter);
static void tell_key(Oid counter, const char *name, const DcHotKey *key, bool is_hot, double rate);
static Jsonb *payload_of(int64 rate);
static void log_told(const DcToldHot *hot);
static bool hotalarm_is_idle(void);
static void hotalarm_xact_callback(XactEvent event, void *arg);
static void hotalarm_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg);

/*
 * hot_alarm_init registers the job and the callbacks; called once.
 */
void
hot_alarm_init(void)
{
	xact_room_add(DC_XACT_HOT_ALARM, hotalarm_xact_callback, hotalarm_subxact_callback, hotalarm_is_idle);
	job_register((DcJob){.name = "hot_keys", .interval = &interval, .run = hot_job, .is_needed = hotalarm_is_needed});
}

/*
 * Return true if the alert is on, and there are counter tables.
 */
static bool
hotalarm_is_needed(void)
{
	return dc_hot_key_alarm > 0 && catalog_has_rows();
}

/*
 * hot_job looks at the hot keys of each table.
 */
static bool
hot_job(DcJobRun *run)
{
	static DcSharedStep shared = {0};

	if (dc_hot_key_alarm > 0 && stats_enabled())
		(void) shared_step_run(&shared, run, hot_step, run);
	return false;
}

/*
 * Go over the tables, beginning after the last one of the previous step.
 */
static void
hot_step(void *arg)
{
	static Oid last = InvalidOid;
	DcJobRun *run = arg;
	DcMoment end;
	List *tables = NIL;
	int first = 0;
	ListCell *lc;

	if (!catalog_lock_at_once() || extension_is_fed())
		return;
	foreach(lc, catalog_read_all())
		tables = lappend_oid(tables, ((DcCounterRow *) lfirst(lc))->counter);
	list_sort(tables, list_oid_cmp);
	end = run->all_owners ? moment_in(STEP_MS) : DC_NEVER;
	while (first < list_length(tables) && list_nth_oid(tables, first) <= last)
		first++;
	for (int i = 0; i < list_length(tables) && !moment_is_reached(end); i++)
	{
		Oid counter = list_nth_oid(tables, (first + i) % list_length(tables));

		CHECK_FOR_INTERRUPTS();
		last = counter;
		if (get_rel_name(counter) != NULL &&
			(run->all_owners || compat_owns_relation(counter, GetUserId())))
			tell_table(counter);
	}
}

/*
 * tell_table reports the keys of a table that have become hot, or cool.
 */
static void
tell_table(Oid counter)
{
	char *name = get_rel_name(counter); /* it may be dropped at any time */
	DcHotStats hot;
	bool locked = false;

	if (name == NULL || !stats_get_hot_keys(counter, &hot))
		return;
	for (int i = 0; i < hot.keys.nkeys; i++)
	{
		const DcHotKey *key = &hot.keys.keys[i];
		double rate = (double) key->last * USECS_PER_SEC / DC_HOT_WINDOW;
		bool is_hot = rate >= dc_hot_key_alarm * (key->is_hot ? COOL : 1.0);

		if (is_hot == key->is_hot)
			continue;
		if (!locked)
		{
			if (!advisory_lock(HOT_LOCK_CLASS, counter, 0, ExclusiveLock, false))
				return;
			/* the session that had the lock may have reported these */
			if (!stats_get_hot_keys(counter, &hot))
				return;
			locked = true;
			i = -1;
			continue;
		}
		tell_key(counter, name, key, is_hot, rate);
	}
}

/*
 * tell_key reports a key, unless this transaction has done so already.
 */
static void
tell_key(Oid counter, const char *name, const DcHotKey *key, bool is_hot, double rate)
{
	MemoryContext old;
	DcToldHot *hot;
	DcEvent event = {0};
	ListCell *lc;

	foreach(lc, told)
	{
		hot = lfirst(lc);
		if (hot->counter == counter && hot->hash == key->hash)
			return;
	}
	event_id(&event.id);
	event.topic = cstring_to_text(name);
	event.key = cstring_to_text_with_len(key->data, key->len);
	event.type = cstring_to_text(is_hot ? "counter.hot" : "counter.cool");
	event.payload = (struct varlena *) payload_of((int64) rate);
	outbox_append(&event, "the job hot_keys");

	old = MemoryContextSwitchTo(TopTransactionContext);
	hot = palloc(sizeof(DcToldHot));
	*hot = (DcToldHot){
		.counter = counter,
		.hash = key->hash,
		.is_hot = is_hot,
		.rate = (int64) rate,
		.nest = GetCurrentTransactionNestLevel(),
		.table = pstrdup(name),
		.key = pnstrdup(key->data, key->len),
	};
	xact_mark(DC_XACT_HOT_ALARM);
	told = lappend(told, hot);
	MemoryContextSwitchTo(old);
}

/*
 * Return the payload of an event: the threshold, and the key's writes per second.
 */
static Jsonb *
payload_of(int64 rate)
{
	DcJsonWriter writer;

	json_begin(&writer);
	json_add_int(&writer, "alarm", dc_hot_key_alarm);
	json_add_int(&writer, "writes_per_second", rate);
	return json_end(&writer);
}

/*
 * log_told writes the transaction's report to the server's log. It does so just before the commit:
 * a message has text of a user, and the context of the code that is running, so it may fail. The
 * client does not see it.
 */
static void
log_told(const DcToldHot *hot)
{
	ereport(LOG_SERVER_ONLY,
			(hot->is_hot
				 ? errmsg("key \"%s\" of counter table \"%s\" is hot: %lld writes a second",
						  hot->key, hot->table, (long long) hot->rate)
				 : errmsg("key \"%s\" of counter table \"%s\" is no longer hot: %lld writes a second",
						  hot->key, hot->table, (long long) hot->rate),
			 errhidestmt(true)));
}

/*
 * Return true if the transaction has made no such events.
 */
static bool
hotalarm_is_idle(void)
{
	return told == NIL;
}

/*
 * Write the server's log before the commit, and note in shared memory after it which keys have been
 * reported as hot or cool.
 */
static void
hotalarm_xact_callback(XactEvent event, void *arg)
{
	ListCell *lc;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			foreach(lc, told)
				log_told(lfirst(lc));
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			foreach(lc, told)
			{
				const DcToldHot *hot = lfirst(lc);

				stats_set_hot(hot->counter, hot->hash, hot->is_hot);
			}
			pg_fallthrough;
		case XACT_EVENT_ABORT:
			told = NIL;
			break;
		default:
			break;
	}
}

/*
 * Hand the keys that a subtransaction has reported to its parent, or forget them.
 */
static void
hotalarm_subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	int nest = GetCurrentTransactionNestLevel();
	ListCell *lc;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	foreach(lc, told)
	{
		DcToldHot *hot = lfirst(lc);

		if (hot->nest < nest)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			hot->nest = nest - 1;
		else
			told = foreach_delete_current(told, lc);
	}
}
