/*
 * table.c
 *		Altering, dropping and adopting counter tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A counter table is two ordinary tables of the caller's, made with plain DDL in the caller's
 * name, and a row in the catalog that ties them together. The contents of the catalog row can
 * be found again from the tables alone: the shard table is named after the table of totals
 * (dc_adopt).
 */
#include "postgres.h"

#include "access/table.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/hooks.h"
#include "base/interval.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/table/access.h"
#include "core/table/catalog.h"
#include "core/table/distribution.h"
#include "core/table/layout.h"
#include "core/table/ownercode.h"
#include "core/table/protect.h"
#include "core/table/storage.h"
#include "core/table/table.h"

PG_FUNCTION_INFO_V1(dc_alter);
PG_FUNCTION_INFO_V1(dc_drop);
PG_FUNCTION_INFO_V1(dc_adopt);

/* us */
#define MIN_FLUSH_INTERVAL INT64CONST(1000)
#define MAX_FLUSH_INTERVAL USECS_PER_DAY
#define MIN_OP_RETENTION USECS_PER_MINUTE
#define MAX_OP_RETENTION (36525 * USECS_PER_DAY)
#define MIN_IDLE INT64CONST(1000)
#define MAX_IDLE (36525 * USECS_PER_DAY)

static void check_bufferable(const DcCounter *counter);
static void check_samplable(const DcCounter *counter);
static void check_expirable(const DcCounter *counter);
static void prevent_sampled_buffer(const DcCounterRow *row);
static void replace_shards(Oid relid);
static void table_check_table(Oid relid, const DcShape *shape);

/*
 * dc_alter(counter regclass, shard_by text, max_shards int, events interval, notify text, mode
 * text, flush_interval interval, durability text, op_retention interval, totals text, on_drift
 * text, sample int, trend interval, idle interval) -> void. NULL keeps a setting. Other sessions
 * see the change in their next transaction.
 *
 * Changing the mode waits for transactions that write to the table, and keeps other sessions from
 * it until the end of this one: so all increments of one transaction go the same way, and none is
 * in memory when the mode is exact again. It does so before events begin, too: a commit that writes
 * totals itself, as there were no events, notifies of no key. The same goes for a trend, which
 * compaction feeds.
 */
Datum
dc_alter(PG_FUNCTION_ARGS)
{
	bool events = !PG_ARGISNULL(3) && interval_to_us(PG_GETARG_INTERVAL_P(3)) != 0;
	bool wait = events || !PG_ARGISNULL(5) || !PG_ARGISNULL(12);
	DcCounter *counter = counter_open_as_owner(fcinfo, "dc_alter()",
											   wait ? ShareRowExclusiveLock : ShareUpdateExclusiveLock);
	DcCounterRow row = counter->row;

	if (!PG_ARGISNULL(1))
		row.shard_by = shard_by_from_text(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	if (!PG_ARGISNULL(2))
		row.max_shards = max_shards_arg(fcinfo, 2);
	buffer_args(fcinfo, 5, &row);
	op_retention_arg(fcinfo, 8, &row);
	if (!PG_ARGISNULL(9))
		row.totals = totals_from_text(text_to_cstring(PG_GETARG_TEXT_PP(9)));
	if (row.totals == DC_TOTALS_DIRECT && counter_is_replicated(counter))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("totals of \"%s\" cannot be direct: it is replicated between regions",
						get_rel_name(counter->relid)),
				 errdetail("Amounts in the totals must have been published.")));
	if (!PG_ARGISNULL(11))
	{
		sample_arg(fcinfo, 11, &row);
		if (row.sample > 1)
			check_samplable(counter);
	}
	if (row.sample > 1)
		prevent_sampled_buffer(&row);
	if (row.mode == DC_MODE_BUFFERED && !counter_is_buffered(counter))
	{
		check_bufferable(counter);
		ownercode_prevent_buffered(&row);
	}
	if (!PG_ARGISNULL(3) || !PG_ARGISNULL(4))
		outbox_hooks->alter(row.counter,
							PG_ARGISNULL(3) ? NULL : PG_GETARG_INTERVAL_P(3),
							PG_ARGISNULL(4) ? NULL : PG_GETARG_TEXT_PP(4));
	if (!PG_ARGISNULL(10))
		bound_hooks->alter(row.counter, text_to_cstring(PG_GETARG_TEXT_PP(10)));
	if (!PG_ARGISNULL(12))
		trend_hooks->alter(counter, &row, trend_hooks->half_life_arg(fcinfo, 12));
	if (PG_NARGS() > 13 && !PG_ARGISNULL(13))
	{
		idle_arg(fcinfo, 13, &row);
		if (row.idle > 0)
			check_expirable(counter);
	}
	if (row.mode != counter->row.mode)
	{
		counter_hooks->apply_early(); /* increments of this transaction go the way they began */
		if (counter_is_buffered(counter) && buffer_hooks != NULL)
			buffer_hooks->write_down(counter);
	}
	if (buffer_hooks != NULL)
		buffer_hooks->altered(counter, row.flush_interval);
	catalog_update(&row); /* also invalidates the caches of all sessions */
	PG_RETURN_VOID();
}

/*
 * buffer_args reads the three settings of buffered mode, from argument argno on;
 * NULL keeps a setting.
 */
void
buffer_args(FunctionCallInfo fcinfo, int argno, DcCounterRow *row)
{
	if (!PG_ARGISNULL(argno))
		row->mode = mode_from_text(text_to_cstring(PG_GETARG_TEXT_PP(argno)));
	if (!PG_ARGISNULL(argno + 1))
	{
		row->flush_interval = interval_to_duration(PG_GETARG_INTERVAL_P(argno + 1), "flush_interval");
		if (row->flush_interval < MIN_FLUSH_INTERVAL ||
			row->flush_interval > MAX_FLUSH_INTERVAL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("flush_interval must be between 1 millisecond and 1 day")));
	}
	if (!PG_ARGISNULL(argno + 2))
		row->durability = durability_from_text(text_to_cstring(PG_GETARG_TEXT_PP(argno + 2)));
	if (!PG_ARGISNULL(argno) && row->mode == DC_MODE_BUFFERED && buffer_hooks == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("buffered counters need shared memory"),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
}

/*
 * op_retention_arg reads the setting op_retention; NULL keeps it.
 */
void
op_retention_arg(FunctionCallInfo fcinfo, int argno, DcCounterRow *row)
{
	if (PG_ARGISNULL(argno))
		return;
	row->op_retention = interval_to_duration(PG_GETARG_INTERVAL_P(argno), "op_retention");
	if (row->op_retention < MIN_OP_RETENTION ||
		row->op_retention > MAX_OP_RETENTION)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("op_retention must be between 1 minute and 36525 days")));
}

/*
 * sample_arg reads the setting sample; NULL keeps it.
 */
void
sample_arg(FunctionCallInfo fcinfo, int argno, DcCounterRow *row)
{
	if (PG_ARGISNULL(argno))
		return;
	row->sample = PG_GETARG_INT32(argno);
	if (row->sample < 1 || row->sample > DC_MAX_SAMPLE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample must be between 1 and %d", DC_MAX_SAMPLE)));
	row->sample_max = Max(row->sample_max, row->sample);
	if (row->sample > 1)
		prevent_sampled_buffer(row);
}

/*
 * prevent_sampled_buffer raises an error for a table that would be both sampled and buffered: in
 * memory an increment costs next to nothing, so rounding would only make it inexact.
 */
static void
prevent_sampled_buffer(const DcCounterRow *row)
{
	if (row->mode == DC_MODE_BUFFERED)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a buffered counter table cannot be sampled"),
				 errdetail("Increments in memory write no rows anyway.")));
}

/*
 * check_samplable raises an error if the increments of a table must be exact. Other regions would
 * not know of an error.
 */
static void
check_samplable(const DcCounter *counter)
{
	const char *why = NULL;

	if (counter_is_stock(counter))
		why = _("It is a stock.");
	else if (OidIsValid(counter->row.ledger))
		why = _("It is a ledger.");
	else if (counter->bound)
		why = _("It is bound to a source.");
	else if (counter_is_replicated(counter))
		why = _("It is replicated between regions.");
	else if (once_hooks->tables(counter->relid, NIL) != NIL)
		why = _("It has ops of dc_incr_once().");
	else if (unread_hooks->is_watched(counter->relid))
		why = _("It has unread tables.");
	if (why != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be sampled", get_rel_name(counter->relid)),
				 errdetail_internal("%s", why)));
}

/*
 * idle_arg reads after what time keys expire; 0 for never, NULL keeps it.
 */
void
idle_arg(FunctionCallInfo fcinfo, int argno, DcCounterRow *row)
{
	if (PG_ARGISNULL(argno))
		return;
	row->idle = interval_to_duration(PG_GETARG_INTERVAL_P(argno), "idle");
	if (row->idle != 0 && (row->idle < MIN_IDLE || row->idle > MAX_IDLE))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("idle must be between 1 millisecond and 36525 days, or 0")));
}

/*
 * idle_refused returns why keys of a table must not expire, or NULL. Of all of these a key stands
 * for something that is elsewhere, too, or there is a setting for it already.
 */
const char *
idle_refused(const DcCounter *counter)
{
	if (counter_is_stock(counter))
		return _("It is a stock.");
	if (OidIsValid(counter->row.ledger))
		return _("It is a ledger.");
	if (counter->bound)
		return _("It is bound to a source.");
	if (counter_is_replicated(counter))
		return _("It is replicated between regions.");
	if (unread_hooks->is_watched(counter->relid))
		return _("It has unread tables.");
	if (window_hooks->is_slot(counter->relid))
		return _("It is a part of a windowed counter, which has a retention of its own.");
	if (counter->fed)
		return _("It is fed by a subscription.");
	if (counter->foreign || counter->distributed)
		return elsewhere_detail(counter);
	if (get_rel_relkind(counter->relid) != RELKIND_RELATION)
		return _("It is partitioned.");
	return NULL;
}

/*
 * check_expirable raises 0A000 if keys of a table must not expire.
 */
static void
check_expirable(const DcCounter *counter)
{
	const char *why = idle_refused(counter);

	if (why != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("keys of \"%s\" cannot expire", get_rel_name(counter->relid)),
				 errdetail_internal("%s", why)));
}

/*
 * check_bufferable raises an error if a table cannot be buffered: a stock needs a
 * decision now, a ledger is exact, and rows on other servers cannot be undone together
 * with amounts in memory.
 */
static void
check_bufferable(const DcCounter *counter)
{
	if (counter_is_stock(counter) || counter_is_ledger(counter) || counter->foreign || counter->bound)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be buffered", get_rel_name(counter->relid)),
				 counter->foreign
					 ? errdetail_internal("%s", elsewhere_detail(counter))
					 : counter->bound			 ? errdetail("It is bound to a source.")
					 : counter_is_stock(counter) ? errdetail("It is a stock.")
												 : errdetail("It is a ledger.")));
}

/*
 * dc_drop(counter regclass) -> void: drops both tables and the settings, as a
 * plain DROP TABLE does by way of the event trigger.
 */
Datum
dc_drop(PG_FUNCTION_ARGS)
{
	DcCounter *counter = counter_open_as_owner(fcinfo, "dc_drop()",
											   AccessExclusiveLock);
	Oid relid = counter->relid;
	Oid shards = counter->row.shards;
	Oid holds = counter->row.holds;
	Oid regions = counter->row.regions;
	Oid sets = counter->row.sets;
	Oid grants = counter->row.grants;
	Oid wants = counter->row.wants;
	Oid trends = counter->row.trends;

	region_hooks->prevent_drop(counter);
	counter_hooks->apply_early(); /* while it is a counter table (ddl.c) */
	counter_forget(relid);		  /* so that the event trigger has nothing to do */
	table_drop(relid, false);
	table_drop(shards, false);
	table_drop(holds, false);
	table_drop(regions, false);
	table_drop(sets, false);
	table_drop(grants, false);
	table_drop(wants, false);
	table_drop(trends, false);
	PG_RETURN_VOID();
}

/*
 * table_drop drops a table or a view, if it is there.
 */
void
table_drop(Oid relid, bool cascade)
{
	char kind = get_rel_relkind(relid);
	char *name;

	if (kind == '\0')
		return;
	name = relation_sql_name(relid);
	run_ddl(psprintf("DROP %s %s%s", kind == RELKIND_FOREIGN_TABLE ? "FOREIGN TABLE" : kind == RELKIND_VIEW ? "VIEW"
																											: "TABLE",
					 name, cascade ? " CASCADE" : ""));
	run_ddl_done(get_rel_name(relid) == NULL, name);
}

/*
 * dc_adopt(counter regclass) -> void: registers a counter table that exists but is not in the
 * catalog, as after restoring one schema or re-creating the extension. The shard table is the one
 * of the same schema that is named after it; if there is none, an empty one is created. Settings
 * start at their defaults. Errors: 42809 when the tables do not have the layout of a counter table,
 * 42710 when it is registered already.
 */
Datum
dc_adopt(PG_FUNCTION_ARGS)
{
	DcCounterRow row;

	catalog_row_defaults(&row);
	row.counter = counter_arg(fcinfo);
	prevent_write("dc_adopt()");
	ledger_hooks->check_adoptable(row.counter);
	replace_shards(row.counter);
	table_adopt(&row, get_func_namespace(fcinfo->flinfo->fn_oid));
	PG_RETURN_VOID();
}

/*
 * Create an empty shard table for plain totals that have none, as after DROP TABLE. Other
 * tables are left as they are: table_adopt() says what they lack. So are the totals of a stock:
 * its units were in the shard table, so no unit of its totals could be taken.
 */
static void
replace_shards(Oid relid)
{
	char *shards;
	DcCounterRow other;
	DcTableLayout layout;
	DcShapeProblem problem;
	Relation rel;
	bool fits;

	lock_own_table(relid, ShareUpdateExclusiveLock);
	shards = psprintf("%s%s", get_rel_name(relid), DC_SHARD_SUFFIX);
	if (OidIsValid(get_relname_relid(shards, get_rel_namespace(relid))) || strlen(shards) >= NAMEDATALEN ||
		OidIsValid(sibling_find(relid, DC_HOLD_SUFFIX)) || protect_keeps_rows(relid) ||
		get_rel_relkind(relid) != RELKIND_RELATION || catalog_read(relid, &other))
		return;
	rel = table_open_present(relid, NoLock);
	fits = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT &&
		shape_fits(rel, layout_shape(DC_TABLE_TOTALS, false), &layout, &problem);
	table_close(rel, NoLock);
	if (!fits)
		return;
	create_shards(get_namespace_name(get_rel_namespace(relid)), shards, false, 0, "dc_adopt()");
	ereport(NOTICE,
			(errmsg("shard table \"%s\" does not exist, creating an empty one", shards),
			 errdetail("Increments that were not in the totals yet are lost.")));
}

/*
 * table_adopt registers a counter table with the settings in row, and completes the row. Tables
 * of regions are adopted only if it is given the schema of the functions for users.
 */
void
table_adopt(DcCounterRow *row, Oid functions)
{
	DcCounterRow other;
	char *shards;
	char *problem;

	lock_own_table(row->counter, ShareUpdateExclusiveLock);
	shards = psprintf("%s%s", get_rel_name(row->counter), DC_SHARD_SUFFIX);
	row->shards = get_relname_relid(shards, get_rel_namespace(row->counter));
	if (!OidIsValid(row->shards))
		adopt_error(get_rel_name(row->counter),
					psprintf(_("There is no shard table \"%s\" in the same schema."), shards));
	lock_own_table(row->shards, ShareUpdateExclusiveLock);
	if (catalog_read(row->counter, &other) ||
		catalog_read_by_shards(row->shards, &other))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is already a counter table",
						get_rel_name(row->counter))));
	if (get_attnum(row->shards, "units") != InvalidAttrNumber) /* the shard table of a stock */
		stock_hooks->find_holds(row);
	table_check_table(row->counter, layout_shape(DC_TABLE_TOTALS, false));
	table_check_table(row->shards, layout_shape(DC_TABLE_SHARDS, OidIsValid(row->holds)));
	if (OidIsValid(row->holds))
		table_check_table(row->holds, stock_hooks->holds_shape);
	problem = storage_problem(row);
	if (problem != NULL)
		adopt_error(get_rel_name(row->counter), problem);
	if (OidIsValid(functions))
		region_hooks->adopt(row, functions);
	catalog_insert(row);
	protect_create(row);
	once_hooks->adopted(counter_lookup(row->counter));
}

/*
 * adopt_error raises 42809 for a table that cannot be adopted.
 */
void
adopt_error(const char *name, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot adopt \"%s\" as a counter table", name),
			 errdetail_internal("%s", detail)));
}

/*
 * max_shards_arg returns argument argno, a setting.
 */
int
max_shards_arg(FunctionCallInfo fcinfo, int argno)
{
	int max_shards;

	arg_not_null(fcinfo, argno, "max_shards");
	max_shards = PG_GETARG_INT32(argno);
	if (max_shards < 1 || max_shards > DC_MAX_SHARDS_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_shards must be between 1 and %d",
						DC_MAX_SHARDS_LIMIT)));
	return max_shards;
}

/*
 * lock_own_table locks a relation against DDL, if the caller owns it.
 */
void
lock_own_table(Oid relid, LOCKMODE mode)
{
	/* before the lock, so that it cannot be used to disturb other sessions ... */
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		prevent_not_owner(relid);
	LockRelationOid(relid, mode);
	/* ... and again, as it may have changed hands while we waited */
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		relation_missing_error(relid);
	prevent_not_owner(relid);
}

/*
 * table_check_table checks that a relation can serve as one of a counter's tables.
 */
static void
table_check_table(Oid relid, const DcShape *shape)
{
	Relation rel = table_open_present(relid, NoLock);
	DcShapeProblem problem;
	DcTableLayout layout;

	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		adopt_error(RelationGetRelationName(rel), _("It is not a permanent table."));
	if (!shape_fits(rel, shape, &layout, &problem))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot adopt \"%s\" as a counter table", RelationGetRelationName(rel)),
				 errdetail_internal("%s", problem.detail),
				 problem.hint != NULL ? errhint("%s", problem.hint) : 0));
	table_close(rel, NoLock);
}
