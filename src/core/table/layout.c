/*
 * layout.c
 *		What the tables of a counter must look like, and which of them can be accessed
 *		without SQL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The tables belong to users, and may be altered in any way at any time. All code that touches
 * their rows relies on their shape (shape.c), so each use of a counter table checks it again
 * when something has changed (counter_layout). That costs next to nothing when nothing has, so
 * the check is repeated wherever code of the owner may have run in between.
 *
 * The direct way (core/rows/direct.c, core/rows/scan.c) writes and reads heap tuples itself. It
 * leaves out the work of the executor for a table with triggers for INSERT or UPDATE, rules,
 * constraints, further columns or further indexes, so it is taken only for shard tables that
 * have none of these; all others go through SQL (sqlpath.c), which only costs speed. In
 * particular the direct way never runs code that a user has put on a table.
 *
 * Rows of totals may be written in the same way if more is true: directtotals.c.
 *
 * A table that looks local may be distributed by Citus: then all goes through SQL.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"

#include "base/relopen.h"
#include "core/table/extras.h"
#include "core/table/layout.h"

/* As create.c makes them. */
#define COMMON_COLUMNS \
	[DC_COL_KEY] = {"key", TEXTOID, C_COLLATION_OID}, \
	[DC_COL_INC] = {"inc", INT8OID}, \
	[DC_COL_DEC] = {"dec", INT8OID}, \
	[DC_COL_UPDATED_AT] = {"updated_at", TIMESTAMPTZOID}

/* Plain, partitioned, or on another server. */
#define COUNTER_KINDS "rpf"

static const DcShape totals_shape = {
	.relkinds = COUNTER_KINDS,
	.part = true, /* SQL writes to it then */
	.nkeys = 1,
	.keys = {DC_COL_KEY},
	.ncolumns = DC_NUM_COLUMNS,
	.columns = {COMMON_COLUMNS,
				[DC_COL_VALUE] = {"value", INT8OID, InvalidOid, SHAPE_GENERATED | SHAPE_NULLABLE | SHAPE_OPTIONAL}}};

static const DcShape shards_shape = {
	.relkinds = COUNTER_KINDS,
	.part = true, /* SQL writes to it then */
	.nkeys = 2,
	.keys = {DC_COL_KEY, DC_COL_SHARD},
	.ncolumns = DC_NUM_COLUMNS,
	.columns = {COMMON_COLUMNS,
				[DC_COL_SHARD] = {"shard", INT4OID}}};

static const DcShape stock_shards_shape = {
	.relkinds = COUNTER_KINDS,
	.part = true, /* SQL writes to it then */
	.nkeys = 2,
	.keys = {DC_COL_KEY, DC_COL_SHARD},
	.ncolumns = DC_NUM_COLUMNS,
	.columns = {COMMON_COLUMNS,
				[DC_COL_SHARD] = {"shard", INT4OID},
				[DC_COL_UNITS] = {"units", INT8OID}}};

static char *layout_fill(DcCounter *counter, DcShapeProblem *problem);
static bool layout_is_known(const DcCounter *counter);
static bool is_bare(Relation rel, const DcCounter *counter);
static bool has_own_indexes(Relation rel, const DcCounter *counter);

/*
 * layout_shape returns the shape of one of the tables of a counter.
 */
const DcShape *
layout_shape(DcCounterTable table, bool stock)
{
	if (table == DC_TABLE_TOTALS)
		return &totals_shape;
	return stock ? &stock_shards_shape : &shards_shape;
}

/*
 * counter_layout checks the tables of a counter and fills the layout fields of
 * its cache entry, once for each generation of it. The caller holds locks on both
 * tables. Raises 42809 when they do not have their shape any more.
 */
void
counter_layout(DcCounter *counter)
{
	DcShapeProblem problem;
	char *bad;

	if (layout_is_known(counter))
		return;
	if (!counter->valid)
		(void) counter_lookup(counter->relid); /* the same entry */
	bad = layout_fill(counter, &problem);
	if (bad != NULL)
		shape_error(bad, &problem);
}

/*
 * counter_has_layout does the same, but returns false instead of raising an error.
 */
bool
counter_has_layout(DcCounter *counter)
{
	DcShapeProblem problem;

	return layout_is_known(counter) || layout_fill(counter, &problem) == NULL;
}

/*
 * Return true if the tables have been checked, and no invalidation has
 * come since.
 */
static bool
layout_is_known(const DcCounter *counter)
{
	return counter->valid && counter->layout_generation == counter->generation;
}

/*
 * layout_fill does the work of counter_layout. Returns the name of a table that does
 * not have its shape, or NULL.
 */
static char *
layout_fill(DcCounter *counter, DcShapeProblem *problem)
{
	uint32 generation = counter->generation;
	bool stock = counter_is_stock(counter);
	const DcShape *shape = layout_shape(DC_TABLE_SHARDS, stock);
	Relation totals = table_open_present(counter->relid, NoLock);
	Relation shards = table_open_present(counter->row.shards, NoLock);
	char *bad = NULL;

	if (!shape_fits(totals, &totals_shape, &counter->totals, problem))
		bad = pstrdup(RelationGetRelationName(totals));
	else if (!shape_fits(shards, shape, &counter->shards, problem))
		bad = pstrdup(RelationGetRelationName(shards));
	else
	{
		bool direct = OidIsValid(counter->totals.index) &&
			OidIsValid(counter->shards.index) &&
			!counter->distributed;

		/* an index that is not for old snapshots is left to the planner */
		counter->direct_read = direct && !counter->totals.index_is_young &&
			!counter->shards.index_is_young;
		counter->plain_shards = direct && is_bare(shards, counter);
		/* takes from a stock look at the latest versions */
		counter->direct_write = counter->plain_shards && (stock || counter->direct_read);
		counter->plain_totals = direct && totals_row_problem(counter, totals) == NULL &&
			relation_extras(totals, EXTRA_INDEX) == 0;
		counter->direct_totals = counter->row.totals == DC_TOTALS_DIRECT &&
			totals_problem(counter, totals, shards) == NULL;
		counter->sql_totals = counter->direct_totals && counter->distributed;
		counter->direct_totals &= !counter->distributed;
		counter->totals_deferred = relation_extras(totals, EXTRA_DEFERRED) != 0;
		counter->shards_deferred = relation_extras(shards, EXTRA_DEFERRED) != 0;
		counter->layout_generation = generation;
	}
	table_close(totals, NoLock);
	table_close(shards, NoLock);
	return bad;
}

/*
 * counter_direct_open opens the table of totals or the shard table for access without SQL, and
 * makes sure that columns and index are where the layout says. The caller has asked whether it
 * may (direct_read, direct_write): a little later the answer may differ, as when an index is
 * being built, which does no harm. Only code of the owner, in this session, can have taken away
 * the index; then the error is 55000. As long as the table is open, this session cannot alter
 * it.
 */
Relation
counter_direct_open(DcCounter *counter, DcCounterTable table)
{
	bool totals = table == DC_TABLE_TOTALS;
	Relation rel = table_open_present(totals ? counter->relid : counter->row.shards, NoLock);

	counter_layout(counter);
	if (RelationGetRelid(rel) != (totals ? counter->relid : counter->row.shards) ||
		!OidIsValid(totals ? counter->totals.index : counter->shards.index))
		layout_altered_error(rel);
	return rel;
}

/*
 * layout_altered_error raises that error.
 */
void
layout_altered_error(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" was altered while it was being used",
					RelationGetRelationName(rel)),
			 errdetail("Code of its owner has done so.")));
}

/*
 * counter_check_deferred raises 55000 if a trigger on the shard table, or on the table of
 * totals, is deferred: writes as the owner cannot leave such work to the commit, where it would
 * be done as another role, so rows could not be inserted.
 */
void
counter_check_deferred(const DcCounter *counter, bool totals)
{
	Oid relid = totals ? counter->relid : counter->row.shards;
	const Trigger *trigger;
	Relation rel;

	if (!(totals ? counter->totals_deferred : counter->shards_deferred))
		return;
	rel = table_open_present(relid, NoLock);
	trigger = relation_trigger(rel, EXTRA_DEFERRED);
	if (trigger != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" cannot be written to, as its constraint \"%s\" is deferred",
						RelationGetRelationName(rel),
						OidIsValid(trigger->tgconstraint) ? get_constraint_name(trigger->tgconstraint)
														  : trigger->tgname),
				 errdetail("What the functions of a counter table write is checked at once, as the table's owner."),
				 errhint("Drop the constraint, and create it as NOT DEFERRABLE.")));
	table_close(rel, NoLock);
}

/*
 * Return true if writing to a shard table means writing the tuple and one index entry, and
 * nothing else: it has the columns that it needs and no others, and no extras.
 */
static bool
is_bare(Relation rel, const DcCounter *counter)
{
	return counter->shards.alone && relation_extras(rel, EXTRAS_OF_SHARDS) == 0 &&
		has_own_indexes(rel, counter);
}

/*
 * Return true if an index of one of the tables is of the one kind that
 * the direct way keeps.
 */
bool
layout_is_own_index(const DcCounter *counter, DcCounterTable table, Relation index)
{
	const DcShape *shape = layout_shape(table, counter_is_stock(counter));
	bool totals = table == DC_TABLE_TOTALS;

	return shape_is_key(index, shape, totals ? counter->totals.atts : counter->shards.atts) &&
		shape_is_plain_key(index, shape);
}

/*
 * Return true if all indexes of a shard table are of that kind: there are
 * two while the primary key is rebuilt without a lock.
 */
static bool
has_own_indexes(Relation rel, const DcCounter *counter)
{
	List *indexes = RelationGetIndexList(rel);
	ListCell *lc;
	bool own = true;

	foreach(lc, indexes)
	{
		Relation index = index_open(lfirst_oid(lc), AccessShareLock);

		own &= layout_is_own_index(counter, DC_TABLE_SHARDS, index);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return own;
}
