/*
 * outboxjob.c
 *		The job that keeps the ring turning: rotation, truncation, cut-offs.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A partition other than the current one is truncated when its last event is older
 * than dcounter.outbox_keep, and every consumer has passed it. A consumer that
 * has not, but is further behind than its max_retention allows, does not count; it
 * is cut off in the same transaction, or in one before, and gets an error at its next fetch.
 *
 * Each consumer or member that is changed takes a lock until the end of the step, and the lock
 * table is shared by the whole server. So a step changes some of them, and the next one continues.
 *
 * A consumer's position is taken as it is committed. An ack that was committed
 * without waiting for the disk comes before the truncation in the WAL, so no crash
 * can undo the one and not the other.
 *
 * While a subscription feeds the extension's tables, the ring is the publisher's.
 *
 * The age of the ring and of events comes from rows, and so from the wall clock, as it must mean
 * the same after a restart. When the clock is set forward, they count as that much older, and are
 * removed, or cut a consumer off, that much earlier. When it is set back, a partition that has
 * become the current one in the future is rotated at once; and events are at least as old as the
 * time for which this process has known them.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/job.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/partition.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "events/outbox/outbox.h"
#include "events/outbox/ring.h"

/* How long a step moves consumers past events of others, in ms; the next one continues. */
#define ADVANCE_MS 500

/* How many members a step moves, or a few more, and how many consumers it cuts off. */
#define ADVANCE_LOCKS 500
#define CUT_OFF_LOCKS 500

typedef struct OutboxStep
{
	bool all_owners;
	bool more; /* out: the next step has something to do at once */
} OutboxStep;

/* The content of a partition. */
typedef struct Content
{
	int64 last;			 /* number of the last event, 0: none */
	TimestampTz written; /* when it was, or 0 */
	int64 bytes;
} Content;

static void outbox_step(void *arg);
static Oid outbox_owner(void);
static void advance_consumers(void);
static int compare_needs(const ListCell *a, const ListCell *b);
static void outboxjob_look(Content *content);
static void outboxjob_rotate(const Content *current);
static bool truncate_old(Content *content, int current);
static bool truncate_passed(int number, Content *content, List *needs, int *locks);
static List *outboxjob_blockers(List *needs, int64 last);
static int64 events_age(int number, const Content *content);
static bool outboxjob_is_old(TimestampTz since);
static bool may_cut_off(const DcConsumerNeed *need, const Content *content,
						TimestampTz written);
static int64 bytes_needed(const DcConsumerNeed *need, const Content *content);

/*
 * outbox_job runs the job, in one transaction as a rule; true if it has yielded.
 */
bool
outbox_job(DcJobRun *run)
{
	static DcSharedStep shared = {0};
	OutboxStep step = {.all_owners = run->all_owners};

	do
	{
		step.more = false;
		if (!shared_step_run(&shared, run, outbox_step, &step))
			return false;
	} while (step.more && !job_is_late(run));
	return step.more;
}

/*
 * Return true if there are events, or consumers of them, or could be.
 */
bool
outbox_is_needed(void)
{
	bool busy = false;

	for (int i = 0; i < OUTBOX_PARTITIONS; i++)
	{
		Oid partition = outbox_partition(i);
		Relation rel;
		BlockNumber blocks;

		if (!ConditionalLockRelationOid(partition, AccessShareLock))
			return true;
		rel = try_relation_open(partition, NoLock);
		blocks = rel != NULL ? RelationGetNumberOfBlocks(rel) : 0;
		if (rel != NULL)
			relation_close(rel, NoLock);
		if (blocks > 0)
			return true;
	}
	return consumer_hooks->needs(&busy) != NIL || busy;
}

/*
 * outbox_step does one round, as the owner of the extension's tables. Other roles that call
 * dc_maintain() do not run it.
 */
static void
outbox_step(void *arg)
{
	OutboxStep *step = arg;
	Oid owner = outbox_owner();
	Content content[OUTBOX_PARTITIONS];
	DcRunAs state;
	int current;

	if (extension_is_fed() || (!step->all_owners && !has_privs_of_role(GetUserId(), owner)))
		return;
	if (step->all_owners)
		table_jobs_know_owner(owner);
	runas_begin(&state, owner);
	advance_consumers();
	step->more = consumer_hooks->cleanup();
	outboxjob_look(content);
	current = outbox_current(NULL);
	step->more |= truncate_old(content, current);
	outboxjob_rotate(&content[current]);
	runas_end(&state);
}

/*
 * Return the owner of the outbox, without whose privileges nobody may run the job's steps.
 */
static Oid
outbox_owner(void)
{
	Relation rel = table_open_present(catalog_relation(OUTBOX_TABLE), AccessShareLock);
	Oid owner = rel->rd_rel->relowner;

	table_close(rel, NoLock);
	return owner;
}

/*
 * advance_consumers moves consumers of some topics past the events of others, beginning after the
 * last consumer of the previous step.
 */
static void
advance_consumers(void)
{
	static int32 last = 0;
	bool busy;
	List *needs = consumer_hooks->needs(&busy);
	DcMoment end = moment_in(ADVANCE_MS); /* from here on, as the list may be long */
	int n = list_length(needs);
	int first = 0;
	int locks = 0;

	list_sort(needs, compare_needs);
	while (first < n && ((DcConsumerNeed *) list_nth(needs, first))->id <= last)
		first++;
	for (int i = 0; i < n && locks < ADVANCE_LOCKS && !moment_is_reached(end); i++)
	{
		const DcConsumerNeed *need = list_nth(needs, (first + i) % n);

		CHECK_FOR_INTERRUPTS();
		last = need->id;
		if (need->filtered)
			locks += consumer_hooks->advance(need->id);
	}
}

/*
 * Compare two consumers' needs by the consumers' ids, for list_sort().
 */
static int
compare_needs(const ListCell *a, const ListCell *b)
{
	return ((DcConsumerNeed *) lfirst(a))->id - ((DcConsumerNeed *) lfirst(b))->id;
}

/*
 * Read how large each partition is, and the number and time of its last event.
 */
static void
outboxjob_look(Content *content)
{
	for (int i = 0; i < OUTBOX_PARTITIONS; i++)
	{
		Relation rel = table_open_present(outbox_partition(i), AccessShareLock);

		content[i].bytes = (int64) RelationGetNumberOfBlocks(rel) * BLCKSZ;
		content[i].last = 0;
		content[i].written = 0;
		if (content[i].bytes > 0)
			content[i].last = ring_edge_event(rel, BackwardScanDirection, &content[i].written);
		table_close(rel, AccessShareLock);
	}
}

/*
 * outboxjob_rotate rotates when the current partition is old or large enough.
 */
static void
outboxjob_rotate(const Content *current)
{
	TimestampTz since;

	(void) outbox_current(&since);
	if (current->bytes > 0 &&
		(outboxjob_is_old(since) ||
		 current->bytes / (1024 * 1024) >= dc_outbox_rotate_size))
		(void) ring_rotate();
}

/*
 * Return true if the current partition has been that for dcounter.outbox_rotate_age, or since a
 * time in the future, because the clock was set back.
 */
static bool
outboxjob_is_old(TimestampTz since)
{
	int64 age = GetCurrentTimestamp() - since;

	return age < 0 || age >= dc_outbox_rotate_age * USECS_PER_SEC;
}

/*
 * truncate_old truncates the partitions that are old enough, and that no consumer needs; true
 * if there are more consumers to cut off. Positions are read only if there is such a partition, and
 * then again: consumers have gone on since they were moved.
 */
static bool
truncate_old(Content *content, int current)
{
	bool known = false;
	bool busy = false;
	bool more = false;
	int locks = 0;
	List *needs = NIL;

	for (int i = 0; i < OUTBOX_PARTITIONS && !busy && !more; i++)
	{
		if (i == current || content[i].bytes == 0 ||
			events_age(i, &content[i]) < dc_outbox_keep * USECS_PER_SEC)
			continue;
		if (!known)
			needs = consumer_hooks->needs(&busy);
		known = true;
		if (!busy)
			more = truncate_passed(i, content, needs, &locks);
	}
	return more;
}

/*
 * truncate_passed truncates a partition if no consumer needs it; true if there are too many
 * consumers to cut off. Consumers that are cut off already do not count in the next step.
 */
static bool
truncate_passed(int number, Content *content, List *needs, int *locks)
{
	TimestampTz written = content[number].written;
	int64 last = content[number].last;
	List *behind = outboxjob_blockers(needs, last);
	ListCell *lc;

	foreach(lc, behind)
	{
		if (!may_cut_off(lfirst(lc), content, written))
			return false;
	}
	last = ring_lock_to_truncate(number);
	if (last != content[number].last)
	{
		/* in use, or written to since */
		if (last >= 0)
			ring_unlock(number);
		return false;
	}
	foreach(lc, behind)
	{
		bool more = *locks >= CUT_OFF_LOCKS;

		CHECK_FOR_INTERRUPTS();
		if (more || !consumer_hooks->cut_off(((DcConsumerNeed *) lfirst(lc))->id, last))
		{
			ring_unlock(number);
			return more;
		}
		(*locks)++;
	}
	partition_empty(outbox_partition(number));
	return false;
}

/*
 * events_age returns how long ago the last event of a partition was written, as far as that is
 * known.
 */
static int64
events_age(int number, const Content *content)
{
	static struct
	{
		Oid partition;
		int64 last;
		DcMoment seen;
	} known[OUTBOX_PARTITIONS];

	if (known[number].partition != outbox_partition(number) ||
		known[number].last != content->last)
	{
		known[number].partition = outbox_partition(number);
		known[number].last = content->last;
		known[number].seen = moment_now();
	}
	return Max(GetCurrentTimestamp() - content->written, moment_age(known[number].seen));
}

/*
 * outboxjob_blockers returns the consumers that have not passed an event.
 */
static List *
outboxjob_blockers(List *needs, int64 last)
{
	List *behind = NIL;
	ListCell *lc;

	foreach(lc, needs)
	{
		if (((DcConsumerNeed *) lfirst(lc))->passed < last)
			behind = lappend(behind, lfirst(lc));
	}
	return behind;
}

/*
 * Return true if a consumer is so far behind that it is no longer
 * waited for.
 */
static bool
may_cut_off(const DcConsumerNeed *need, const Content *content,
			TimestampTz written)
{
	return (need->max_age > 0 && GetCurrentTimestamp() - written > need->max_age) ||
		(need->max_size > 0 && bytes_needed(need, content) > need->max_size);
}

/*
 * Return the bytes of the partitions with events that the consumer has not passed.
 */
static int64
bytes_needed(const DcConsumerNeed *need, const Content *content)
{
	int64 bytes = 0;

	for (int i = 0; i < OUTBOX_PARTITIONS; i++)
	{
		if (content[i].last > need->passed)
			bytes += content[i].bytes;
	}
	return bytes;
}
