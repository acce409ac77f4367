/*
 * entrymonth.c
 *		Entries by month.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The table of entries may be partitioned by range of `at`, with a partition for each month of
 * UTC. They are known by their bounds, not by their names, so an owner may attach others, such
 * as one for a year.
 *
 * A job makes this month's and the next two (ledgerjob.c). A transaction that posts makes its
 * month if that is missing. Both make a table like the parent and attach it, which
 * needs SHARE UPDATE EXCLUSIVE only on the parent: other transactions continue to post. With that
 * lock they check again whether the month is still missing. So of two transactions that need the
 * same month, one makes it and the other waits for the first.
 *
 * A session remembers the partition of the last entry, with its bounds, until a
 * relcache invalidation of it or of its parent comes (ledger.c). The parent is locked, so
 * a partition is not detached while its month is being posted to.
 *
 * With a default partition nothing is ever missing, and no month is created.
 *
 * Months are wall time, as `at` is: the clock when an entry is posted decides, even if it was
 * set.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_partitioned_table.h"
#include "nodes/parsenodes.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "pgtime.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/guard.h"
#include "core/table/partition.h"
#include "core/table/table.h"
#include "transactional/ledger/detach.h"
#include "transactional/ledger/entrymonth.h"
#include "transactional/ledger/ledgershape.h"

/* Months to keep ready: this one and the next two. */
#define MONTHS_AHEAD 3

/* Look-ups that invalidations may undo before entries are inserted by SQL. */
#define MAX_TRIES 16

/* A partition; without bounds if it is the default one. */
typedef struct DcMonth
{
	Oid relid;
	TimestampTz from;
	TimestampTz to;
} DcMonth;

static void month_make(const char *schema, const char *entries, TimestampTz at);
static TimestampTz bound_time(PartitionBoundInfo bounds, int i);
static void month_ensure(DcLedger *ledger, TimestampTz at);
static bool month_remember(DcLedger *ledger, const DcMonth *month);

/*
 * Return true if a table of entries is partitioned by range of `at` alone.
 * RelationGetPartitionKey() would evaluate constants in expressions, and so run functions of an
 * owner as the current user. A key that passes has no expressions.
 */
bool
month_is_key(Relation entries)
{
	HeapTuple tuple;
	Form_pg_partitioned_table form;
	bool is;

	if (entries->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return false;
	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(RelationGetRelid(entries)));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for partition key of %u", RelationGetRelid(entries));
	form = (Form_pg_partitioned_table) GETSTRUCT(tuple);
	is = form->partstrat == PARTITION_STRATEGY_RANGE && form->partnatts == 1 &&
		form->partattrs.values[0] == get_attnum(RelationGetRelid(entries), "at");
	ReleaseSysCache(tuple);
	return is;
}

/*
 * month_start returns when the month of a time begins, or a later month.
 */
static TimestampTz
month_start(TimestampTz at, int later)
{
	struct pg_tm tm;
	fsec_t fsec;
	TimestampTz start;

	if (timestamp2tm(at, NULL, &tm, &fsec, NULL, NULL) != 0)
		goto out_of_range;
	tm.tm_mon += later;
	tm.tm_year += (tm.tm_mon - 1) / MONTHS_PER_YEAR;
	tm.tm_mon = (tm.tm_mon - 1) % MONTHS_PER_YEAR + 1;
	tm.tm_mday = 1;
	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	if (tm2timestamp(&tm, 0, NULL, &start) == 0)
		return start;
out_of_range:
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("timestamp out of range")));
}

/*
 * month_label returns the end of the name of a month's partition.
 */
static char *
month_label(TimestampTz start)
{
	struct pg_tm tm;
	fsec_t fsec;

	(void) timestamp2tm(start, NULL, &tm, &fsec, NULL, NULL);
	return psprintf("_%04d_%02d", tm.tm_year, tm.tm_mon);
}

/*
 * bound_literal returns a time as a literal that means the same in all time zones.
 */
static char *
bound_literal(TimestampTz at)
{
	struct pg_tm tm;
	fsec_t fsec;

	(void) timestamp2tm(at, NULL, &tm, &fsec, NULL, NULL);
	return psprintf("'%04d-%02d-01 00:00:00+00'", tm.tm_year, tm.tm_mon);
}

/*
 * months_create makes the first months, as the current user.
 */
void
months_create(const char *schema, const char *entries)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < MONTHS_AHEAD; i++)
		month_make(schema, entries, month_start(now, i));
}

/*
 * month_make makes the partition of a month. The guard's triggers for rows are cloned
 * when it is attached, the one for TRUNCATE is not.
 */
static void
month_make(const char *schema, const char *entries, TimestampTz at)
{
	TimestampTz start = month_start(at, 0);
	char *name = sibling_name(entries, month_label(start));

	partition_attach(schema, entries, name,
					 "INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED"
					 " INCLUDING STORAGE INCLUDING COMPRESSION",
					 "WITH (fillfactor=100)",
					 psprintf("FROM (%s) TO (%s)", bound_literal(start),
							  bound_literal(month_start(start, 1))));
	comment_table(schema, name, DC_ENTRY_COMMENT);
	guard_create_truncate(quote_qualified_identifier(schema, name));
}

/*
 * month_find finds the partition of a time; false if there is none.
 */
static bool
month_find(Oid entries, TimestampTz at, DcMonth *month)
{
	Relation rel = table_open_present(entries, NoLock);
	PartitionDesc desc = RelationGetPartitionDesc(rel, true);
	PartitionBoundInfo bounds = desc->boundinfo;
	bool found = false;

	/* indexes[i] is the partition up to the bound i, from the one before */
	for (int i = 1; desc->nparts > 0 && i < bounds->ndatums && !found; i++)
	{
		month->from = bound_time(bounds, i - 1);
		month->to = bound_time(bounds, i);
		found = bounds->indexes[i] >= 0 && month->from <= at && at < month->to;
		if (found)
			month->relid = desc->oids[bounds->indexes[i]];
	}
	if (!found && desc->nparts > 0 && partition_bound_has_default(bounds))
	{
		found = true;
		month->relid = desc->oids[bounds->default_index];
		month->from = month->to = at;
	}
	table_close(rel, NoLock);
	return found;
}

/*
 * Return a bound of a range partition as a time; infinite for MINVALUE and MAXVALUE.
 */
static TimestampTz
bound_time(PartitionBoundInfo bounds, int i)
{
	switch (bounds->kind[i][0])
	{
		case PARTITION_RANGE_DATUM_MINVALUE:
			return DT_NOBEGIN;
		case PARTITION_RANGE_DATUM_MAXVALUE:
			return DT_NOEND;
		default:
			return DatumGetTimestampTz(bounds->datums[i][0]);
	}
}

/*
 * months_until lists the partitions (OIDs) that end by a time, and when the last of
 * them ends. Raises an error if there is a default partition.
 */
List *
months_until(Relation entries, TimestampTz until, TimestampTz *end)
{
	PartitionDesc desc = RelationGetPartitionDesc(entries, true);
	PartitionBoundInfo bounds = desc->boundinfo;
	List *months = NIL;

	if (desc->nparts == 0)
		return NIL;
	if (partition_bound_has_default(bounds))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" has a default partition", RelationGetRelationName(entries)),
				 errdetail("Entries of any time may be in it.")));
	for (int i = 1; i < bounds->ndatums; i++)
	{
		TimestampTz to = bound_time(bounds, i);

		if (bounds->indexes[i] < 0 || to > until)
			continue;
		months = lappend_oid(months, desc->oids[bounds->indexes[i]]);
		*end = to;
	}
	return months;
}

/*
 * months_ahead makes this month and the next ones, unless another transaction is making
 * one, or is about to alter the table of entries.
 */
void
months_ahead(DcLedger *ledger)
{
	Oid entries = ledger->row.entries;
	TimestampTz now = GetCurrentTimestamp();
	DcMonth month;

	if (!ledger->by_month)
		return;
	for (int i = 0; i < MONTHS_AHEAD; i++)
	{
		TimestampTz at = i == 0 ? now : month_start(now, i);

		if (month_find(entries, at, &month))
			continue;
		if (!turn_begin(entries))
			return;
		month_ensure(ledger, at);
	}
}

/*
 * month_ensure makes the month of a time, as the owner, unless it is there.
 */
static void
month_ensure(DcLedger *ledger, TimestampTz at)
{
	Oid entries = ledger->row.entries;
	TimestampTz before;
	DcRunAs state;
	DcMonth month;

	LockRelationOid(entries, ShareUpdateExclusiveLock);
	if (month_find(entries, at, &month))
		return;
	if (openings_before(ledger, SnapshotSelf, &before) && at < before)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the entries of %s were detached", timestamptz_to_str(at)),
				 errhint("Is the clock of the server right?")));
	runas_begin(&state, ledger->counter->owner);
	month_make(get_namespace_name(get_rel_namespace(entries)), get_rel_name(entries), at);
	runas_end(&state);
}

/*
 * month_table makes sure that a time has its partition. Returns that, locked, if entries
 * can be inserted into it without SQL, else InvalidOid.
 */
Oid
month_table(DcLedger *ledger, TimestampTz at)
{
	for (int tries = 0; tries < MAX_TRIES; tries++)
	{
		Oid leaf = ledger->leaf;
		DcMonth month;

		if (OidIsValid(leaf) && at >= ledger->leaf_from && at < ledger->leaf_to)
		{
			if (!ledger->leaf_direct)
				return InvalidOid;
			LockRelationOid(leaf, RowExclusiveLock);
			if (ledger->leaf == leaf)
				return leaf;
		}
		else if (!month_find(ledger->row.entries, at, &month))
			month_ensure(ledger, at);
		else if (!month_remember(ledger, &month))
			return InvalidOid;
	}
	return InvalidOid;
}

/*
 * month_remember looks at a partition; false if it is the default one. An invalidation
 * that comes in the meantime is not lost.
 */
static bool
month_remember(DcLedger *ledger, const DcMonth *month)
{
	DcTableLayout layout;
	Relation rel;

	if (month->from == month->to)
		return false;
	rel = table_open_present(month->relid, RowExclusiveLock);
	shape_check(rel, &entry_shape, &layout);
	guard_check(guard_is_on(rel) ? InvalidOid : RelationGetRelid(rel));
	ledger->leaf = month->relid;
	ledger->leaf_from = month->from;
	ledger->leaf_to = month->to;
	ledger->leaf_direct = ledger->parent_direct && entries_are_plain(rel, &layout);
	table_close(rel, NoLock);
	return true;
}
