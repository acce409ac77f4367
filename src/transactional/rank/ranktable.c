/*
 * ranktable.c
 *		The table of buckets: dc_rank_create(), dc_rank_drop(), dcounter.rank_bucket(), DDL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * How many keys have values of a bucket (rankbucket.c) is the count of another table's rows: the
 * table of buckets is a counter table that is bound to the table of totals (transactional/bound),
 * with the number of the bucket as its key, at three levels by grouping sets. The guarantees of
 * bindings are sufficient for correct ranks. There is no catalog of ranks: a binding is one if its
 * source is a table of totals, which dc_bind() refuses, or, as the catalog row may be gone when
 * that is dropped, if its key calls rank_bucket(), which dc_bind() refuses as well.
 *
 * The table of buckets follows the table of totals: its name, schema, owner and end.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/subscription.h"
#include "core/table/table.h"
#include "transactional/bound/sourceddl.h"
#include "transactional/rank/rank.h"
#include "transactional/rank/rankbucket.h"

PG_FUNCTION_INFO_V1(dc_rank_create);
PG_FUNCTION_INFO_V1(dc_rank_drop);
PG_FUNCTION_INFO_V1(rank_bucket);

/* What the stored key of a binding for ranks begins with. */
#define RANK_KEY_BEGINS "dcounter.rank_bucket("

#define RANK_KEY \
	RANK_KEY_BEGINS "value, 12) AS a, " RANK_KEY_BEGINS "value, 6) AS b, " RANK_KEY_BEGINS "value, 0) AS c"
#define RANK_SETS "GROUPING SETS ((a), (b), (c))"

static void rank_check_counter(const DcCounter *counter);
static bool has_value_index(Oid relid);
static bool rank_is(const DcSourceRow *row);
static void rank_dropped(const DcDdl *ddl);
static void rank_altered(const DcDdl *ddl);

static const DcDdlHook rank_ddl = {rank_dropped, rank_altered, NULL};

/*
 * rank_init registers what this room does around DDL; called when the library is loaded, after
 * bound_init(): drops go through the rooms backwards, so the bindings of a dropped table are still
 * there.
 */
void
rank_init(void)
{
	ddl_hook_add(&rank_ddl);
}

/*
 * dc_rank_create(counter regclass, build text, lock_timeout interval) -> regclass, the table of
 * buckets
 *
 * Errors: 42501 if the caller does not own the counter table, 42809 for a stock, a ledger, and
 * tables of other servers, 0A000 if it is replicated or fed by a subscription, 55000 if it has no
 * index on value, 42710 if it has ranks already, 42P07 if the name of the table is taken, and those
 * of dc_bind().
 */
Datum
dc_rank_create(PG_FUNCTION_ARGS)
{
	DcSourceRow row = {0};
	DcCounterRow settings;
	DcCounter *counter;
	DcRunAs as;
	RangeVar *name;
	int64 timeout;

	arg_not_null(fcinfo, 1, "build");
	arg_not_null(fcinfo, 2, "lock_timeout");
	row.build = build_from_text(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	timeout = interval_to_duration(PG_GETARG_INTERVAL_P(2), "lock_timeout");
	counter = counter_open_as_owner(fcinfo, "dc_rank_create()", AccessShareLock);
	rank_check_counter(counter);

	catalog_row_defaults(&settings);
	name = makeRangeVar(get_namespace_name(get_rel_namespace(counter->relid)),
						sibling_name(get_rel_name(counter->relid), DC_RANK_SUFFIX), -1);
	runas_begin(&as, counter->owner);
	row.counter = table_create(name, settings, false, 0, "dc_rank_create()");
	runas_end(&as);
	run_ddl_done(relation_owner(row.counter) == counter->owner, name->relname);
	row.source = counter->relid;
	row.key = RANK_KEY;
	row.value = "1";
	bind_make(&row, RANK_SETS, timeout, true);
	PG_RETURN_OID(row.counter);
}

/*
 * rank_check_counter raises an error for a counter table that cannot have ranks.
 */
static void
rank_check_counter(const DcCounter *counter)
{
	char *name = get_rel_name(counter->relid);
	DcSourceRow row;

	prevent_replicated(counter, "dc_rank_create()");
	prevent_fed(counter, "dc_rank_create()");
	if (counter_is_stock(counter) || OidIsValid(counter->row.ledger) || counter->foreign)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot have ranks", name),
				 counter->foreign				 ? errdetail_internal("%s", elsewhere_detail(counter))
					 : counter_is_stock(counter) ? errdetail("It is a stock.")
												 : errdetail("It belongs to a ledger.")));
	if (source_read(counter->relid, &row) && rank_is(&row))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot have ranks", name),
				 errdetail("It counts those of \"%s\".", get_rel_name(row.source))));
	if (OidIsValid(rank_table(counter->relid)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" has ranks already", name)));
	if (!has_value_index(counter->relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" has no index on value", name),
				 errhint("CREATE INDEX ON %s (value DESC, key).", relation_sql_name(counter->relid))));
}

/*
 * Return true if a table has a B-tree that finds all of its rows by value.
 */
static bool
has_value_index(Oid relid)
{
	Relation rel = table_open_present(relid, NoLock);
	AttrNumber value = get_attnum(relid, "value");
	ListCell *lc;
	bool found = false;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		found |= index->rd_index->indisvalid && index->rd_rel->relam == BTREE_AM_OID && value != InvalidAttrNumber &&
			index->rd_index->indkey.values[0] == value &&
			heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL); /* reading it would evaluate it */
		index_close(index, AccessShareLock);
	}
	table_close(rel, NoLock);
	return found;
}

/*
 * dc_rank_drop(counter regclass) -> void: drops the table of buckets.
 *
 * Errors: 42501 if the caller does not own the counter table, 55000 if it has no ranks.
 */
Datum
dc_rank_drop(PG_FUNCTION_ARGS)
{
	Oid counter = counter_arg(fcinfo);
	Oid buckets;

	prevent_write("dc_rank_drop()");
	(void) counter_lookup(counter);
	prevent_not_owner(counter);
	buckets = rank_table(counter);
	if (!OidIsValid(buckets))
		rank_missing_error(counter);
	bind_end(buckets);
	table_drop(buckets, false);
	PG_RETURN_VOID();
}

/*
 * Raise 55000: a counter table has no ranks.
 */
void
rank_missing_error(Oid counter)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" has no ranks", get_rel_name(counter)),
			 errhint("Its owner calls dc_rank_create('%s').", relation_sql_name(counter))));
}

/*
 * dcounter.rank_bucket(value bigint, shift int) -> int, for keys of buckets: the number of the
 * bucket of a value, without so many bits
 *
 * Errors: 22023 if shift is out of range.
 */
Datum
rank_bucket(PG_FUNCTION_ARGS)
{
	int32 shift = PG_GETARG_INT32(1);

	if (shift < 0 || shift > RANK_LEVEL_BITS * RANK_LEVELS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shift must be between 0 and %d", RANK_LEVEL_BITS * RANK_LEVELS)));
	PG_RETURN_INT32(RANK_KEY_BASE + (int32) (rank_bucket_of(PG_GETARG_INT64(0)) >> shift));
}

/*
 * rank_table returns the table of buckets of a counter table, or InvalidOid.
 */
Oid
rank_table(Oid counter)
{
	ListCell *lc;

	foreach(lc, source_rows_of(counter))
	{
		if (rank_is(lfirst(lc)))
			return ((DcSourceRow *) lfirst(lc))->counter;
	}
	return InvalidOid;
}

/*
 * Return true if a binding is one that dc_rank_create() has made.
 */
static bool
rank_is(const DcSourceRow *row)
{
	return strncmp(row->key, RANK_KEY_BEGINS, strlen(RANK_KEY_BEGINS)) == 0;
}

/*
 * Drop the tables of buckets of tables that a command has dropped.
 */
static void
rank_dropped(const DcDdl *ddl)
{
	ListCell *lc;

	foreach(lc, ddl->relations)
	{
		ListCell *lc2;

		foreach(lc2, source_rows_of(lfirst_oid(lc)))
		{
			const DcSourceRow *row = lfirst(lc2);

			if (!rank_is(row))
				continue;
			bound_forget(row, false, ddl_cascades(ddl));
			sibling_drop(row->counter, ddl);
		}
	}
}

/*
 * Repeat a command on a table of totals on its table of buckets.
 */
static void
rank_altered(const DcDdl *ddl)
{
	siblings_follow(ddl, rank_table, DC_RANK_SUFFIX);
}
