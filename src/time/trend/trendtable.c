/*
 * trendtable.c
 *		The table of a trend: making it, changing its half-life, and what it must look like.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * It is an ordinary table, made with plain DDL as the owner of the counter; even if the counter is
 * partitioned. The index on (epoch, weight) is for dc_trending(), which needs no sorting then; the
 * owner may drop it.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/hooks.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/table.h"
#include "time/trend/trend.h"

#define MIN_HALF_LIFE USECS_PER_SEC
#define MAX_HALF_LIFE (3653 * USECS_PER_DAY)

#define TREND_OPTIONS "fillfactor=80"
#define TREND_COLUMNS \
	"key pg_catalog.text COLLATE pg_catalog.\"C\" NOT NULL," \
	" weight pg_catalog.float8 NOT NULL," \
	" epoch pg_catalog.int8 NOT NULL," \
	" PRIMARY KEY (key)"

static const DcShape trend_shape = {
	.relkinds = "r",
	.nkeys = 1,
	.keys = {TREND_KEY},
	.ncolumns = TREND_NUM_COLUMNS,
	.columns = {[TREND_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[TREND_WEIGHT] = {"weight", FLOAT8OID},
				[TREND_EPOCH] = {"epoch", INT8OID}}};

static void trendtable_check_counter(const DcCounter *counter);
static const char *trendtable_problem_of(const DcCounter *counter, Relation rel);

/*
 * trend_half_life_arg returns the half-life in an argument; 0 for none.
 */
int64
trend_half_life_arg(FunctionCallInfo fcinfo, int argno)
{
	int64 half_life = PG_ARGISNULL(argno) ? 0 : interval_to_duration(PG_GETARG_INTERVAL_P(argno), "trend");

	if (half_life != 0 && (half_life < MIN_HALF_LIFE || half_life > MAX_HALF_LIFE))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trend must be between 1 second and 10 years, or 0 for none")));
	return half_life;
}

/*
 * trend_create creates the table of weights of a counter whose row has the half-life, as the
 * current user, who owns the counter.
 */
void
trend_create(DcCounterRow *row)
{
	row->trends = sibling_create(row->counter, DC_TREND_SUFFIX, TREND_COLUMNS, TREND_OPTIONS, true,
								 "weights of a trend; see dc_trending()");
	run_ddl(psprintf("CREATE INDEX ON %s (epoch, weight)", relation_sql_name(row->trends)));
}

/*
 * trend_alter gives a counter a first or another half-life, or none (0), which drops its table. The
 * counter is locked against writers and compaction. Scores stay what they are now.
 */
void
trend_alter(DcCounter *counter, DcCounterRow *row, int64 half_life)
{
	DcRunAs state;
	bool exists = OidIsValid(row->trends) && get_rel_name(row->trends) != NULL;

	if (exists && half_life == row->half_life)
		return;
	if (half_life == 0)
	{
		Oid trends = row->trends;

		row->trends = InvalidOid;
		row->half_life = 0;
		if (!exists)
			return;
		counter_hooks->apply_early();
		catalog_update(row); /* so that the event trigger has nothing to do */
		CommandCounterIncrement();
		table_drop(trends, false);
		return;
	}
	trendtable_check_counter(counter);
	counter_hooks->apply_early(); /* earlier increments finish the way they began */
	if (exists)
		trend_rescale(counter, half_life);
	row->half_life = half_life;
	if (exists)
		return;
	runas_begin(&state, counter->owner);
	trend_create(row);
	runas_end(&state);
}

/*
 * trendtable_check_counter raises an error for a counter table that can have no trend: 42809 for a
 * stock and for a ledger, whose compaction does not only move increments, and 0A000 for rows on
 * other servers, which are not committed together with the table of the trend.
 */
static void
trendtable_check_counter(const DcCounter *counter)
{
	const char *detail = NULL;

	if (counter_is_stock(counter))
		detail = _("It is a stock.");
	else if (OidIsValid(counter->row.ledger))
		detail = _("It is a ledger.");
	if (detail != NULL || counter->foreign)
		ereport(ERROR,
				(errcode(detail != NULL ? ERRCODE_WRONG_OBJECT_TYPE : ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" cannot have a trend", get_rel_name(counter->relid)),
				 errdetail_internal("%s", detail != NULL ? detail : elsewhere_detail(counter))));
}

/*
 * Return true if the table can be used; it is locked. If not, that is logged, or reported to the
 * caller that compacts, once for each change.
 */
bool
trend_fits(DcCounter *counter)
{
	const char *problem;
	uint32 generation;

	if (counter->valid && counter->trend_generation == counter->generation)
		return counter->trend_fits;
	if (!counter->valid)
		(void) counter_lookup(counter->relid); /* the same entry */
	if (!counter_has_trend(counter))
		return false;
	generation = counter->generation;
	problem = trend_problem(counter);
	counter->trend_fits = problem == NULL;
	counter->trend_generation = generation;
	if (problem != NULL)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the trend of counter table \"%s\" is not updated", get_rel_name(counter->relid)),
				 errdetail_internal("%s", problem),
				 errhint("Correct that, or remove the trend with dc_alter(..., trend => '0').")));
	return counter->trend_fits;
}

/*
 * trend_problem returns why the table cannot be used, as a sentence, or NULL. It is locked.
 */
const char *
trend_problem(const DcCounter *counter)
{
	Relation rel = try_table_open(counter->row.trends, NoLock);
	const char *problem;

	if (rel == NULL)
		return _("Its table no longer exists.");
	problem = trendtable_problem_of(counter, rel);
	table_close(rel, NoLock);
	return problem;
}

/*
 * trendtable_problem_of returns why a table cannot be used for a trend, as a sentence, or NULL.
 */
static const char *
trendtable_problem_of(const DcCounter *counter, Relation rel)
{
	DcTableLayout layout;
	DcShapeProblem problem = {0};

	if (rel->rd_rel->relowner != counter->owner)
		return psprintf(_("\"%s\" has another owner."), RelationGetRelationName(rel));
	if (rel->rd_rel->relrowsecurity)
		return psprintf(_("\"%s\" has row-level security."), RelationGetRelationName(rel));
	if (rel->rd_rel->relispartition || rel->rd_rel->relhassubclass)
		return psprintf(_("\"%s\" has become a partition or a parent of other tables."), RelationGetRelationName(rel));
	if (!shape_fits(rel, &trend_shape, &layout, &problem))
		return problem.detail;
	if (!layout.alone)
		return psprintf(_("\"%s\" has additional columns."), RelationGetRelationName(rel));
	return NULL;
}
