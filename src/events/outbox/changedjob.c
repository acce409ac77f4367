/*
 * changedjob.c
 *		Events of type counter.changed, as a job.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A round over the marks of a counter table (changed.c) begins when its interval
 * has passed since the last one. It continues in steps, each a transaction that
 *
 *	1. takes the lock of the table's rounds without waiting,
 *	2. reads and deletes some marks,
 *	3. reads the exact values of their keys in a new snapshot, which is at least as
 *	   new as the changes that the marks stand for,
 *	4. queues the events and notifications, which are written when it commits.
 *
 * So a mark is removed exactly when its event is written, and the event has the newest value. A key
 * that a round has reported is left for the next one, unless its mark was there before the first
 * values were read. Rounds are an interval apart, counted from the last step, which is noted in the
 * settings. Hence at most one event for each key and interval.
 *
 * Marks are read in the order of their time, as they are now (SnapshotSelf). While there
 * is an old snapshot, those that were deleted cannot be removed. So the worker
 * remembers up to when it has seen all marks, and starts there. It has seen all of a round
 * if no other transaction could have been inserting at its start. Now and then it reads all, as a
 * dump may have been restored.
 *
 * Marks and rounds have wall time, as they are rows that outlive the worker. If the clock was set
 * back, marks may be before the time up to which all were seen, or after now. The first is noticed
 * (seen_of), and all are read. For the second a round does not end at now
 * (round_begin). And a round that was in the future does not put off the next one. If the clock is
 * set forward, the next round comes that much earlier.
 *
 * Nothing is done while a subscription feeds the tables of events and marks. If it
 * feeds the counter table, that is only read here.
 *
 * The worker's commit need not wait for the disk: a crash that loses it brings
 * the marks back.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/interval.h"
#include "base/key.h"
#include "base/lockclass.h"
#include "base/relcached.h"
#include "base/rowread.h"
#include "core/compact/compact.h"
#include "core/counter/sqlpath.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "events/outbox/changed.h"
#include "events/outbox/outbox.h"
#include "events/outbox/payload.h"

/* How many marks a step deletes. */
#define STEP_MARKS 2000

/*
 * How many keys that a round has reported are remembered, and how many of all rounds that are under
 * way: 16 MB. Others may be reported twice.
 */
#define REPORTED_KEYS 100000
#define ALL_REPORTED_KEYS 400000

/* The keys that a round has reported, in the memory of its table's turn. */
typedef struct Reported
{
	HTAB *keys; /* changedsquash.c */
	int64 n;
	MemoryContextCallback on_free;
} Reported;

/* Those of all rounds that are under way. */
static int64 all_reported = 0;

/* Payloads as long as that cannot be sent (async.c); keys of functions never are. */
#define NOTIFY_LIMIT (BLCKSZ - NAMEDATALEN - 128)

/*
 * How far apart the times of concurrent transactions may be, and how far the clock may be set back
 * unnoticed; and how often all is read anyway.
 */
#define CLOCK_MARGIN (INT64CONST(10) * USECS_PER_SEC)
#define FULL_EVERY_MS (600 * 1000)

/*
 * If a search for a mark takes longer than this, because of deleted marks, the next rounds search
 * in a step on the table instead of the step that lists the tables, which all tables wait for.
 */
#define SLOW_US (INT64CONST(50) * 1000)

/*
 * The limit of all searches that listing the tables has made; beyond it, the next rounds do the
 * same.
 */
#define LIST_US (INT64CONST(250) * 1000)

/* How often the number of marks is reduced. */
#define SQUASH_EVERY_MS (60 * 1000)

/* The round of the table at hand; private to this process. */
static struct
{
	bool fresh; /* the next step is its first */
	bool full;	/* it reads all marks */
	bool settled;
	TimestampTz began; /* when it did */
	TimestampTz from;  /* marks made from here */
	TimestampTz upto;  /* to here */
	TimestampTz left;  /* first one that was left, or DT_NOEND */
	/* all transactions before this had ended when it read its first values */
	TransactionId xmin;
	Reported *reported; /* the keys of steps before */
} round_now;

/* Up to when the worker has seen all marks of a counter table. */
typedef struct Seen
{
	Oid counter;
	TimestampTz at;
	TimestampTz next;  /* what `at` becomes, */
	TransactionId xid; /* if this has committed */
	DcMoment full_due; /* when all are to be read again, */
	DcMoment squash_due;
	bool slow; /* looking for a mark took long, or was given up */
} Seen;

/* A new entry is all zeros: everything is to be read, and marks squashed, at once. */
static DcRelCached seen_cache = {
	.name = "dcounter seen marks",
	.keysize = sizeof(Oid),
	.size = sizeof(Seen),
};

/* Keys of a step. */
typedef struct Keys
{
	Datum *items;
	int n;
} Keys;

/* keys: their exact values, and when they changed */
static const DcStatement sql_read_changed = {
	.text = "SELECT u.key, sum(u.inc) - sum(u.dec), max(u.at) FROM ("
			"SELECT t.key, t.inc, t.dec, t.updated_at AS at FROM @totals AS t"
			" WHERE t.key = ANY ($1) UNION ALL"
			" SELECT s.key, s.inc, s.dec, s.updated_at FROM @shards AS s"
			" WHERE s.key = ANY ($1)) AS u GROUP BY u.key ORDER BY u.key COLLATE \"C\"",
	.argtypes = {TEXTARRAYOID},
	.columns = {DC_TEXT("key"), DC_COLUMN("inc", NUMERICOID), DC_TIME("updated_at")}};

static List *changedjob_list(void);
static void changedjob_start(MemoryContext cxt);
static void reported_free(void *arg);
static void reported_add(const Keys *keys);
static DcTableStep changedjob_step(Oid table, bool all_owners);
static bool changedjob_is_due(const DcCounterEvents *row);
static bool squash_is_due(const DcCounterEvents *row);
static bool has_marks(Oid counter);
static bool any_marks(Oid counter, TimestampTz from);
static void round_begin(Oid counter, bool all_owners);
static void round_end(Oid counter);
static bool marks_settled(Oid counter);
static bool take_marks(Oid counter, Keys *keys);
static bool is_covered(HeapTuple mark);
static Seen *seen_of(Oid counter);
static void keys_unique(Keys *keys);
static int changedjob_compare_keys(const void *a, const void *b);
static void changedjob_report(DcCounter *counter, const DcCounterEvents *row,
							  const Keys *keys);
static void report_key(text *topic, const char *channel, Datum key,
					   Numeric value, TimestampTz at);
static Jsonb *changedjob_make_payload(Datum key, Numeric value, TimestampTz at);

/*
 * changed_job reports changed keys; true if it has yielded.
 */
bool
changed_job(DcJobRun *run)
{
	static DcTableJob job = {.list = changedjob_list, .start = changedjob_start, .state = &round_now, .state_size = sizeof(round_now), .step = changedjob_step, .step_fed = changedjob_step};

	return table_job_run(&job, run);
}

/*
 * changedjob_list lists the tables whose next round is due, or whose marks should be fewer, if
 * they have some.
 */
static List *
changedjob_list(void)
{
	DcMoment began = moment_now();
	List *tables = NIL;
	List *rows;
	ListCell *lc;

	if (extension_is_fed() ||
		!ConditionalLockRelationOid(catalog_relation(EVENTS_TABLE), AccessShareLock) ||
		!ConditionalLockRelationOid(catalog_relation(MARKS_TABLE), AccessShareLock))
		return NIL;
	rows = events_read_all();
	foreach(lc, rows)
	{
		DcCounterEvents *row = lfirst(lc);

		if (!changedjob_is_due(row) && !squash_is_due(row))
			continue;
		seen_of(row->counter)->slow |= moment_age(began) > LIST_US;
		if (seen_of(row->counter)->slow || has_marks(row->counter))
			tables = lappend_oid(tables, row->counter);
	}
	return tables;
}

/*
 * changedjob_is_due and squash_is_due are asked for all tables in one step: nothing that an owner
 * has set may raise an error in it.
 */
static bool
changedjob_is_due(const DcCounterEvents *row)
{
	TimestampTz now = GetCurrentTimestamp();

	if (TIMESTAMP_IS_NOBEGIN(row->last_round))
		return true;
	/* a clock that was set back does not stop the events for longer than the margin */
	return row->last_round > now + CLOCK_MARGIN || now - row->last_round >= interval_to_us(&row->every);
}

/*
 * Return true if marks may have piled up before a round that is far
 * off. Without a worker, each call of dc_maintain() makes them fewer.
 */
static bool
squash_is_due(const DcCounterEvents *row)
{
	return interval_to_us(&row->every) > 2 * SQUASH_EVERY_MS * INT64CONST(1000) &&
		(!compat_is_background_worker() ||
		 moment_is_reached(seen_of(row->counter)->squash_due));
}

/*
 * changedjob_squash removes marks that the next round does not need, if it is time to.
 */
static DcTableStep
changedjob_squash(const DcCounterEvents *row)
{
	if (!squash_is_due(row))
		return TABLE_DONE;
	if (marks_squash(row->counter, seen_of(row->counter)->at))
		return TABLE_GOES_ON;
	seen_of(row->counter)->squash_due = moment_in(SQUASH_EVERY_MS);
	return TABLE_DONE;
}

/*
 * Return true if a counter table has marks that are visible. If there are
 * none, and none that this transaction has deleted, that is remembered.
 */
static bool
has_marks(Oid counter)
{
	TimestampTz now = GetCurrentTimestamp();
	Seen *seen = seen_of(counter);
	bool settled = marks_settled(counter);
	DcMoment began = moment_now();
	bool found;

	seen->slow = true; /* should it fail */
	found = any_marks(counter, seen->at);
	seen->slow = moment_age(began) > SLOW_US;
	if (!found && settled && !TransactionIdIsValid(GetTopTransactionIdIfAny()))
	{
		if (TIMESTAMP_IS_NOBEGIN(seen->at))
			seen->full_due = moment_in(FULL_EVERY_MS);
		seen->at = Max(seen->at, now - CLOCK_MARGIN);
	}
	return found;
}

/*
 * Return true if there is a mark made at or after a time.
 */
static bool
any_marks(Oid counter, TimestampTz from)
{
	DcCatScan scan;
	bool found;

	marks_scan(&scan, AccessShareLock, counter, from, DT_NOEND);
	found = cat_scan_next(&scan, ForwardScanDirection, NULL);
	cat_scan_end(&scan);
	return found;
}

/*
 * changedjob_start is called before the first step on a table.
 */
static void
changedjob_start(MemoryContext cxt)
{
	Reported *reported = MemoryContextAllocZero(cxt, sizeof(Reported));

	reported->keys = key_set_make(cxt);
	reported->on_free = (MemoryContextCallback){.func = reported_free, .arg = reported};
	MemoryContextRegisterResetCallback(cxt, &reported->on_free);
	memset(&round_now, 0, sizeof(round_now));
	round_now.reported = reported;
	round_now.fresh = true;
}

/*
 * reported_free is called when the turn of a table ends.
 */
static void
reported_free(void *arg)
{
	all_reported -= ((Reported *) arg)->n;
}

/*
 * reported_add remembers keys that the round has reported, as far as there is room for them.
 */
static void
reported_add(const Keys *keys)
{
	Reported *reported = round_now.reported;

	for (int i = 0; i < keys->n && reported->n < REPORTED_KEYS && all_reported < ALL_REPORTED_KEYS; i++)
	{
		if (key_set_has(reported->keys, keys->items[i], true))
			continue;
		reported->n++;
		all_reported++;
	}
}

/*
 * changedjob_step reports some keys of a counter table. Settings and marks of a table that
 * has vanished without the event trigger are removed; those of a table that is currently not a
 * counter table wait.
 */
static DcTableStep
changedjob_step(Oid table, bool all_owners)
{
	DcCounter *counter = compact_open(table, all_owners);
	DcCounterEvents row;
	Keys keys = {0};
	bool more;

	if (counter == NULL)
	{
		if (all_owners && get_rel_name(table) == NULL)
			changed_forget(table);
		return TABLE_LATER;
	}
	if (!events_lock(table, false) || !events_read(table, &row))
		return TABLE_DONE;
	if (round_now.fresh)
	{
		if (seen_of(table)->slow && !has_marks(table))
			return TABLE_DONE;
		if (!changedjob_is_due(&row)) /* or another session was faster */
			return changedjob_squash(&row);
		round_begin(table, all_owners);
	}
	more = take_marks(table, &keys);
	if (keys.n > 0)
	{
		row.last_round = GetCurrentTimestamp();
		events_write(&row);
		keys_unique(&keys);
		changedjob_report(counter, &row, &keys);
		reported_add(&keys);
	}
	if (more)
		return TABLE_GOES_ON;
	if (all_owners)
		round_end(table);
	return TABLE_DONE;
}

/*
 * round_begin decides which marks a round is about: those up to now, so that it does not go on
 * forever. It reports each key once, so if there are marks from before the clock was set back, it
 * ends without that, too.
 */
static void
round_begin(Oid counter, bool all_owners)
{
	round_now.fresh = false;
	round_now.began = GetCurrentTimestamp();
	round_now.upto = any_marks(counter, round_now.began + CLOCK_MARGIN) ? DT_NOEND : round_now.began;
	round_now.left = DT_NOEND;
	round_now.xmin = InvalidTransactionId;
	round_now.from = all_owners ? seen_of(counter)->at : DT_NOBEGIN;
	round_now.full = TIMESTAMP_IS_NOBEGIN(round_now.from);
	round_now.settled = all_owners && marks_settled(counter);
}

/*
 * round_end notes up to which time the worker need not read marks again, if this transaction
 * commits.
 */
static void
round_end(Oid counter)
{
	Seen *seen = seen_of(counter);

	if (round_now.full)
		seen->full_due = moment_in(FULL_EVERY_MS);
	if (!round_now.settled || !TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	seen->next = Min(round_now.left, round_now.began - CLOCK_MARGIN);
	seen->xid = GetTopTransactionId();
}

/*
 * Return true if no other transaction can have inserted marks of a counter table that are not
 * visible yet. Those of other tables, which any role may leave open or prepared, do not matter.
 */
static bool
marks_settled(Oid counter)
{
	LOCKTAG tag;
	int count;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, counter, EVENTS_LOCK_MARKS, EVENTS_LOCK_CLASS);
	pfree(GetLockConflicts(&tag, ExclusiveLock, &count));
	return count == 0;
}

/*
 * seen_of returns up to when the worker has seen the marks of a counter table.
 */
static Seen *
seen_of(Oid counter)
{
	Seen *seen = relcached_enter(&seen_cache, &counter);

	if (TransactionIdIsValid(seen->xid) &&
		!TransactionIdIsCurrentTransactionId(seen->xid))
	{
		if (TransactionIdDidCommit(seen->xid))
			seen->at = seen->next;
		seen->xid = InvalidTransactionId;
	}
	/* `at` was in the past by the margin when it was noted */
	if (moment_is_reached(seen->full_due) ||
		seen->at > GetCurrentTimestamp() - CLOCK_MARGIN)
		seen->at = DT_NOBEGIN;
	return seen;
}

/*
 * take_marks deletes the next marks of the round, and adds their keys; false if
 * there are no more.
 */
static bool
take_marks(Oid counter, Keys *keys)
{
	DcCatScan scan;
	bool more = true;
	int deleted = 0;

	keys->items = palloc(STEP_MARKS * sizeof(Datum));
	marks_scan(&scan, RowExclusiveLock, counter, round_now.from, round_now.upto);
	while (deleted < STEP_MARKS && (more = cat_scan_next(&scan, ForwardScanDirection, NULL)))
	{
		Datum at = tuple_datum(scan.rel, scan.tuple, MARK_AT, TIMESTAMPTZOID);
		Datum key = tuple_datum(scan.rel, scan.tuple, MARK_KEY, TEXTOID);

		if (!key_set_has(round_now.reported->keys, key, false))
			keys->items[keys->n++] = PointerGetDatum(PG_DETOAST_DATUM_COPY(key));
		else if (!is_covered(scan.tuple))
		{
			round_now.left = Min(round_now.left, DatumGetTimestampTz(at));
			continue;
		}
		deleted++;
		round_now.from = DatumGetTimestampTz(at);
		cat_scan_delete(&scan);
	}
	cat_scan_end(&scan);
	CommandCounterIncrement();
	return more;
}

/*
 * Return true if this round has reported the key, with a value that is newer than the mark.
 */
static bool
is_covered(HeapTuple mark)
{
	return TransactionIdIsValid(round_now.xmin) &&
		TransactionIdPrecedes(HeapTupleHeaderGetXmin(mark->t_data),
							  round_now.xmin);
}

/*
 * keys_unique sorts keys, and leaves one of each.
 */
static void
keys_unique(Keys *keys)
{
	int n = 1;

	qsort(keys->items, keys->n, sizeof(Datum), changedjob_compare_keys);
	for (int i = 1; i < keys->n; i++)
	{
		if (changedjob_compare_keys(&keys->items[i], &keys->items[n - 1]) != 0)
			keys->items[n++] = keys->items[i];
	}
	keys->n = n;
}

/*
 * Compare two keys, text datums, for qsort().
 */
static int
changedjob_compare_keys(const void *a, const void *b)
{
	DcKey left;
	DcKey right;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	key_from_text(*(const Datum *) a, &left);
	key_from_text(*(const Datum *) b, &right);
	return key_compare(&left, &right);
}

/*
 * changedjob_report reads the values of keys, as the owner of the table, and queues their
 * events. The rows come in the order of the keys; a key without a row is gone.
 */
static void
changedjob_report(DcCounter *counter, const DcCounterEvents *row, const Keys *keys)
{
	text *topic = cstring_to_text(get_rel_name(counter->relid));
	char *channel = row->channel ? text_to_cstring(row->channel) : NULL;
	Datum array = PointerGetDatum(construct_array(keys->items, keys->n, TEXTOID,
												  -1, false, TYPALIGN_INT));
	DcSqlSession session;
	uint64 nrows;
	uint64 next = 0;

	PushActiveSnapshot(GetLatestSnapshot());
	if (!TransactionIdIsValid(round_now.xmin))
		round_now.xmin = GetActiveSnapshot()->xmin;
	sql_begin(&session, counter);
	nrows = sql_read(&session, &sql_read_changed, &array);
	for (int i = 0; i < keys->n; i++)
	{
		Numeric value = NULL;
		TimestampTz at = 0;
		Datum key = next < nrows ? rows_datum(&session.rows, next, 1) : (Datum) 0;

		if (next < nrows && changedjob_compare_keys(&key, &keys->items[i]) == 0)
		{
			value = DatumGetNumeric(rows_datum(&session.rows, next, 2));
			at = DatumGetTimestampTz(rows_datum(&session.rows, next, 3));
			next++;
		}
		report_key(topic, channel, keys->items[i], value, at);
	}
	if (next != nrows)
		elog(ERROR, "unexpected counter key");
	sql_end(&session);
	PopActiveSnapshot();
}

/*
 * report_key queues the event of a key, and the notification.
 */
static void
report_key(text *topic, const char *channel, Datum key, Numeric value,
		   TimestampTz at)
{
	DcEvent event = {0};
	Jsonb *payload = changedjob_make_payload(key, value, at);

	event_id(&event.id);
	event.topic = topic;
	event.key = DatumGetTextPP(key);
	event.type = cstring_to_text("counter.changed");
	event.payload = (struct varlena *) payload;
	outbox_append(&event, "dc_maintain()");
	if (channel != NULL)
	{
		char *message = JsonbToCString(NULL, &payload->root, VARSIZE(payload));

		if (strlen(message) < NOTIFY_LIMIT)
			Async_Notify(channel, message);
	}
}

/*
 * changedjob_make_payload makes {"key": ..., "value": ..., "updated_at": ...}; the last two
 * are null if the key is gone.
 */
static Jsonb *
changedjob_make_payload(Datum key, Numeric value, TimestampTz at)
{
	DcJsonWriter writer;

	json_begin(&writer);
	json_add_text(&writer, "key", DatumGetTextPP(key));
	if (value != NULL)
	{
		json_add_numeric(&writer, "value", value);
		json_add_time(&writer, "updated_at", at);
	}
	else
	{
		json_add_null(&writer, "value");
		json_add_null(&writer, "updated_at");
	}
	return json_end(&writer);
}
