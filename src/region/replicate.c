/*
 * replicate.c
 *		dc_replicate(), dc_unreplicate(): a counter that several databases count in.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * From then on only compaction writes its rows of totals, since it publishes the same amounts.
 * dc_replicate() locks the tables against writers for a moment. Later transactions notice the
 * change when they open them.
 *
 * Existing amounts can only become this region's own if no other region has them: the caller has to
 * say so (seed). They are those of the totals, and those in remote shard rows of a counter that was
 * replicated before; other shard rows are published when they are compacted.
 *
 * While a subscription brings rows to a table of regions, the table cannot be dropped: the
 * subscription would stop forever. The table must be taken out of the other regions' publications
 * before, and their subscribers must have been refreshed.
 */
#include "postgres.h"

#include "access/twophase.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/guc.h"
#include "base/hooks.h"
#include "base/runas.h"
#include "core/counter/apply.h"
#include "core/counter/sqlpath.h"
#include "core/counter/units.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/protect.h"
#include "core/table/subscription.h"
#include "core/table/table.h"
#include "core/table/tablejob.h"
#include "region/life.h"
#include "region/link.h"
#include "region/rights.h"
#include "region/sets.h"
#include "transactional/rank/rank.h"

PG_FUNCTION_INFO_V1(dc_replicate);
PG_FUNCTION_INFO_V1(dc_unreplicate);

/* The amounts that exist: 0 none, 1 some, 2 negative ones. */
static const DcStatement sql_replicated_amounts = {
	.text = "SELECT CASE WHEN EXISTS (SELECT FROM (SELECT t.key, t.inc, t.dec FROM @totals AS t"
			" UNION ALL SELECT s.key, s.inc, s.dec FROM @shards AS s WHERE s.shard < 0) AS u"
			" GROUP BY u.key HAVING sum(u.inc) < 0 OR sum(u.dec) < 0) THEN 2::int8"
			" WHEN EXISTS (SELECT FROM @totals AS t WHERE t.inc <> 0 OR t.dec <> 0)"
			" OR EXISTS (SELECT FROM @shards AS s WHERE s.inc <> 0 OR s.dec <> 0) THEN 1::int8 ELSE 0::int8 END",
	.reads_all = true,
	.columns = {DC_BIGINT("amounts")}};

/* region, epoch */
static const DcStatement sql_seed = {
	.text = "INSERT INTO @regions AS r (key, region, epoch, inc, dec, updated_at)"
			" SELECT u.key, $1, $2, sum(u.inc)::int8, sum(u.dec)::int8, max(u.updated_at)"
			" FROM (SELECT t.key, t.inc, t.dec, t.updated_at FROM @totals AS t"
			" UNION ALL SELECT s.key, s.inc, s.dec, s.updated_at FROM @shards AS s WHERE s.shard < 0) AS u"
			" GROUP BY u.key HAVING sum(u.inc) <> 0 OR sum(u.dec) <> 0 ORDER BY u.key",
	.argtypes = {TEXTOID, INT8OID},
	.reads_all = true,
	.of = DC_OF_MORE};

static const DcStatement sql_units = {
	.text = "SELECT count(*) FROM (SELECT FROM @shards AS s WHERE s.units > 0 LIMIT 1) AS u",
	.reads_all = true,
	.columns = {DC_BIGINT("count")},
	.of = DC_OF_SHARDS};

static void check_kind(Oid relid);
/* Tables and indexes of a replicated counter, about. */
#define LOCKS_OF_COUNTER 12

static void prevent_very_many_replicated(const DcCounter *counter);
static void replicate_check_counter(const DcCounter *counter);
static void take_amounts(DcCounter *counter, const DcIdentity *identity, bool seed);
static void replicate_adopt(DcCounterRow *row, Oid functions);
static void replicate_stock(DcCounter *counter, const DcIdentity *identity, bool seed);
pg_noreturn static void has_amounts_error(const DcCounter *counter);
static const char *replicate_word(DcCounter *counter, const char *word);
static void check_not_fed(Oid relid);

static const DcRegionHooks hooks = {
	.ready = region_ready,
	.publish = region_publish,
	.written = region_written,
	.prevent_drop = region_prevent_drop,
	.lock = region_lock,
	.set_begin = region_set_begin,
	.set = region_set,
	.node = region_node,
	.check_rights = rights_identity_check,
	.await_rights = rights_await,
	.adopt = replicate_adopt,
	.is_held = boot_is_held,
	.await_begun = boot_await,
	.await = region_await,
};

/*
 * region_init is called when the library is loaded.
 */
void
region_init(bool preloading)
{
	if (preloading)
		link_errors_init();
	region_hooks = &hooks;
	region_ddl_init();
	job_register((DcJob){.name = "regions", .run = region_job, .due = region_job_due, .is_needed = region_job_is_needed});
	job_register((DcJob){.name = "rights", .interval = &dc_rights_interval, .run = rights_job});
}

/*
 * dc_replicate(counter regclass, seed boolean) -> void
 *
 * Errors: 42501 if the caller does not own it, 42710 if it is replicated, 0A000 for a counter table
 * that cannot be, 55000 if it has amounts without seed, or the database is in no region, 42P07 if a
 * table has the name of one to be made, 42622 if the name leaves no room for theirs.
 */
Datum
dc_replicate(PG_FUNCTION_ARGS)
{
	bool seed = bool_arg(fcinfo, 1, "seed");
	DcIdentity identity;
	DcCounter *counter;
	DcCounterRow row;

	check_kind(counter_arg(fcinfo));
	counter = counter_open_as_owner(fcinfo, "dc_replicate()", ShareRowExclusiveLock);
	replicate_check_counter(counter);
	region_check_role();
	region_identity_needed(&identity);
	apply_early();
	if (counter_is_buffered(counter) && buffer_hooks != NULL)
		buffer_hooks->write_down(counter);
	counter = counter_lookup(counter->relid);
	if (counter_is_stock(counter))
	{
		replicate_stock(counter, &identity, seed);
		PG_RETURN_VOID();
	}
	row = counter->row;
	region_tables_create(counter, &row, get_func_namespace(fcinfo->flinfo->fn_oid));
	row.totals = DC_TOTALS_COMPACTED;
	catalog_update(&row);
	counter = counter_lookup(row.counter);
	take_amounts(counter, &identity, seed);
	protect_create_replicated(&row);
	counter_publish(&row, identity.region);
	PG_RETURN_VOID();
}

/*
 * replicate_stock replicates a stock. Its units are this region's from now on.
 */
static void
replicate_stock(DcCounter *counter, const DcIdentity *identity, bool seed)
{
	DcCounterRow row = counter->row;
	DcSqlSession session;

	units_check(counter);
	sql_begin(&session, counter);
	(void) sql_run(&session, &sql_units, NULL);
	if (rows_bigint(&session.rows, 0, 1) > 0 && !seed)
		has_amounts_error(counter);
	sql_end(&session);
	rights_tables_create(counter, &row);
	catalog_update(&row);
	protect_create_replicated(&row);
	counter_publish(&row, identity->region);
}

/*
 * check_kind raises 0A000 for a relation that is not a counter table, or is a part of something
 * else.
 */
static void
check_kind(Oid relid)
{
	const char *detail = NULL;

	if (window_hooks->is_window(relid) || window_hooks->is_slot(relid))
		detail = _("Windowed counters are of one database.");
	else if (distinct_hooks->is_distinct(relid))
		detail = _("Distinct tables are of one database.");
	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" cannot be replicated between regions", get_rel_name(relid)),
				 errdetail_internal("%s", detail)));
}

/*
 * Raise 54000 if an owner replicates very many counters. A renewal locks the tables of all stocks,
 * and dc_region_renew() those of all counters, in one transaction: one owner must not fill the lock
 * table. The owner of the database may.
 */
static void
prevent_very_many_replicated(const DcCounter *counter)
{
	int64 most = (int64) max_locks_per_xact * (MaxBackends + max_prepared_xacts) / 2 / LOCKS_OF_COUNTER;
	int64 n = 0;
	ListCell *lc;

	foreach(lc, catalog_read_all())
	{
		const DcCounterRow *row = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		n += (OidIsValid(row->regions) || OidIsValid(row->grants)) && relation_owner(row->counter) == counter->owner;
	}
	if (n >= most && !table_is_trusted(counter->relid))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the owner of \"%s\" has " INT64_FORMAT " replicated counters", get_rel_name(counter->relid), n),
				 errdetail("All of them must be locked at once when this database takes a new epoch."),
				 errhint("You might need to increase max_locks_per_transaction.")));
}

/*
 * replicate_check_counter raises 0A000 for a counter table that cannot be replicated.
 */
static void
replicate_check_counter(const DcCounter *counter)
{
	const char *detail = NULL;

	if (counter_is_replicated(counter) || counter_has_rights(counter))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is already replicated", get_rel_name(counter->relid))));
	prevent_fed(counter, "dc_replicate()");
	prevent_very_many_replicated(counter);
	if (OidIsValid(counter->row.ledger))
		detail = _("It belongs to a ledger, whose transfers must be decided in one place.");
	else if (counter->bound)
		detail = _("It is bound to a source.");
	else if (OidIsValid(rank_table(counter->relid)))
		detail = _("It has ranks, and changes from other regions do not fire the triggers that count them.");
	else if (unread_hooks->is_watched(counter->relid))
		detail = _("It has an unread table, which is of one database.");
	else if (counter->row.idle > 0)
		detail = _("Its keys expire, which other regions would not know.");
	else if (counter->row.sample_max > 1)
		detail = _("It is sampled, or was, and other regions would not know of the error.");
	else if (counter->foreign)
		detail = elsewhere_detail(counter);
	else if (OidIsValid(get_extension_oid("citus", true)))
		detail = _("Citus is installed, which may distribute it.");
	else if (get_rel_persistence(counter->relid) != RELPERSISTENCE_PERMANENT ||
			 get_rel_persistence(counter->row.shards) != RELPERSISTENCE_PERMANENT)
		detail = _("It is unlogged. A crash would empty it, and not the other regions.");
	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" cannot be replicated between regions", get_rel_name(counter->relid)),
				 errdetail_internal("%s", detail)));
}

/*
 * take_amounts makes the amounts in the totals this region's own, or raises 55000 if that was not
 * requested.
 */
static void
take_amounts(DcCounter *counter, const DcIdentity *identity, bool seed)
{
	DcSqlSession session;
	Datum values[2];
	int64 amounts;

	sql_begin(&session, counter);
	session.word = replicate_word;
	sql_keep_open(&session, DC_OF_MORE, counter->row.regions);
	(void) sql_run(&session, &sql_replicated_amounts, NULL);
	amounts = rows_bigint(&session.rows, 0, 1);
	if (amounts > 0 && !seed)
		has_amounts_error(counter);
	if (amounts == 2)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" has negative amounts", get_rel_name(counter->relid)),
				 errdetail("inc and dec of a key can only grow from zero.")));
	values[0] = CStringGetTextDatum(identity->region);
	values[1] = Int64GetDatum(identity->epoch);
	if (amounts > 0)
		(void) sql_run(&session, &sql_seed, values);
	sql_end(&session);
}

/*
 * Raise the error that the counter has amounts, which may be another region's (55000).
 */
static void
has_amounts_error(const DcCounter *counter)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" already has amounts", get_rel_name(counter->relid)),
			 errhint("If no other region has them, use seed => true: they become this region's.")));
}

/*
 * replicate_word puts the further tables into statements.
 */
static const char *
replicate_word(DcCounter *counter, const char *word)
{
	if (strcmp(word, "regions") != 0)
		elog(ERROR, "unrecognized word: %s", word);
	return relation_sql_name(counter->row.regions);
}

/*
 * dc_unreplicate(counter regclass) -> void: makes a counter table local to this database again. Its
 * values remain.
 *
 * Errors: 42501, 55000 if it is not replicated, or a subscription still feeds its tables.
 */
Datum
dc_unreplicate(PG_FUNCTION_ARGS)
{
	DcCounter *counter = counter_open_as_owner(fcinfo, "dc_unreplicate()", ShareRowExclusiveLock);
	DcCounterRow row = counter->row;
	const Oid tables[] = {row.regions, row.sets, row.grants, row.wants};

	if (!counter_is_replicated(counter) && !counter_has_rights(counter))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not replicated", get_rel_name(counter->relid))));
	for (int i = 0; i < lengthof(tables); i++)
	{
		if (OidIsValid(tables[i]))
			check_not_fed(tables[i]);
	}
	row.regions = row.sets = row.grants = row.wants = InvalidOid;
	catalog_update(&row);
	for (int i = 0; i < lengthof(tables); i++)
		table_drop(tables[i], false);
	PG_RETURN_VOID();
}

/*
 * check_not_fed raises 55000 if a subscription brings rows to a table.
 */
static void
check_not_fed(Oid relid)
{
	char *names = table_fed_by(relid);

	if (names != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is fed by a subscription", get_rel_name(relid)),
				 errdetail("Without the table, subscription \"%s\" would stop and could not continue.", names),
				 errhint("In the other regions, remove it from the publications dcounter_own and dcounter_all. Then use ALTER SUBSCRIPTION ... REFRESH PUBLICATION here.")));
}

/*
 * replicate_adopt finds the tables of a counter table that is being adopted.
 */
static void
replicate_adopt(DcCounterRow *row, Oid functions)
{
	if (OidIsValid(row->holds))
		rights_tables_adopt(row, functions);
	else
		region_tables_adopt(row, functions);
}
