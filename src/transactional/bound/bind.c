/*
 * bind.c
 *		dc_bind() and dc_unbind(): a counter table that is the count, or the sum, of a source.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Binding is one short transaction. It locks the source, its partitions and the counter tables
 * SHARE ROW EXCLUSIVE, so it waits for all transactions that have written to one of them,
 * prepared ones included. Later ones find the triggers, and the binding. From then on source
 * and counter change together: for each key, the difference of the two is the same in every
 * snapshot that shows the binding. A build (build.c) adds the initial difference.
 *
 * While it waits for the lock, other writers queue up behind it. So it waits no longer than
 * lock_timeout, and the error then names a session that holds the lock.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/hooks.h"
#include "base/job.h"
#include "base/relopen.h"
#include "base/rowread.h"
#include "base/runas.h"
#include "base/subxact.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/protect.h"
#include "core/table/subscription.h"
#include "core/table/table.h"
#include "transactional/bound/build.h"
#include "transactional/bound/mark.h"
#include "transactional/bound/refs.h"
#include "transactional/bound/sourceddl.h"
#include "transactional/bound/verify.h"

PG_FUNCTION_INFO_V1(dc_bind);
PG_FUNCTION_INFO_V1(dc_unbind);

/* The arguments of dc_bind(). */
enum
{
	ARG_COUNTER,
	ARG_SOURCE,
	ARG_KEY,
	ARG_VALUE,
	ARG_FILTER,
	ARG_DISTINCT_OF,
	ARG_BUILD,
	ARG_LOCK_TIMEOUT,
	ARG_REPLICATED,
	ARG_ON_DETACH,
	ARG_GROUP_BY /* not in 0.1.0 */
};

/*
 * Bytes of an expression. Those of all bindings are read by the worker, and by DDL of other roles.
 */
#define MAX_EXPRESSION (8 * 1024)

/* Bindings of one table whose expressions the worker reads, and evaluates when it writes a row. */
#define MAX_WORKER_BINDINGS 100

static void check_order(FunctionCallInfo fcinfo);
static char *text_or_null(FunctionCallInfo fcinfo, int n, const char *name);
static void lock_source(Oid source, int64 timeout);
static bool bind_lock_all(void *arg);
pg_noreturn static void locked_error(Oid source);
static void bind_check_source(Oid source, bool totals);
static void check_members(Oid source);
static void check_tree(Oid source);
static void bind_check_counter(const DcCounter *counter);
static void bind_dropped(Oid counter);
static List *bind_tables(Oid counter, List *tables);
static Oid bind_source(Oid counter);
static List *bind_counters(Oid relid, List *counters);
static Oid bind_code(Relation rel);

static const DcBoundHooks hooks = {
	.is_bound = source_is_bound,
	.alter = drift_alter,
	.dropped = bind_dropped,
	.tables = bind_tables,
	.source = bind_source,
	.counters = bind_counters,
	.code = bind_code,
	.write = refs_write_all,
	.any_pending = refs_any,
	.pending = refs_pending,
	.pending_each = refs_pending_values,
};

/*
 * bound_init sets the hooks and registers the jobs of this room; called when the library is
 * loaded.
 */
void
bound_init(bool preloading)
{
	bound_hooks = &hooks;
	source_ddl_init();
	refs_init();
	build_job_init();
	verify_init();
}

/*
 * dc_bind(counter regclass, source regclass, key text, value text, filter text, distinct_of text,
 * build text, lock_timeout interval, replicated boolean, on_detach text, group_by text) -> void
 *
 * Errors: 42501 if the caller does not own both, 42809 if the source is not an ordinary or
 * partitioned table of this server or the counter is a stock, a ledger or on other servers,
 * 0A000 if the counter is buffered, one of them is unlogged, the source has children that are
 * not partitions, or it is a partition of a source or has one, 42710 if the counter is bound
 * already, 55P03 if the lock cannot be obtained in time, and those of
 * source_expressions_check().
 */
Datum
dc_bind(PG_FUNCTION_ARGS)
{
	DcSourceRow row = {0};
	char *build;
	char *group_by;

	prevent_write("dc_bind()");
	arg_not_null(fcinfo, ARG_SOURCE, "source");
	arg_not_null(fcinfo, ARG_KEY, "key");
	arg_not_null(fcinfo, ARG_VALUE, "value");
	arg_not_null(fcinfo, ARG_BUILD, "build");
	arg_not_null(fcinfo, ARG_LOCK_TIMEOUT, "lock_timeout");
	arg_not_null(fcinfo, ARG_ON_DETACH, "on_detach");
	row.source = PG_GETARG_OID(ARG_SOURCE);
	row.key = text_or_null(fcinfo, ARG_KEY, "key");
	row.value = text_or_null(fcinfo, ARG_VALUE, "value");
	row.filter = text_or_null(fcinfo, ARG_FILTER, "filter");
	row.distinct_of = text_or_null(fcinfo, ARG_DISTINCT_OF, "distinct_of");
	group_by = PG_NARGS() > ARG_GROUP_BY ? text_or_null(fcinfo, ARG_GROUP_BY, "group_by") : NULL;
	row.replicated = bool_arg(fcinfo, ARG_REPLICATED, "replicated");
	row.on_detach = on_detach_from_text(text_to_cstring(PG_GETARG_TEXT_PP(ARG_ON_DETACH)));
	build = text_to_cstring(PG_GETARG_TEXT_PP(ARG_BUILD));
	row.build = build_from_text(build);

	check_order(fcinfo);
	row.counter = counter_arg(fcinfo);
	bind_make(&row, group_by, interval_to_duration(PG_GETARG_INTERVAL_P(ARG_LOCK_TIMEOUT), "lock_timeout"), false);
	PG_RETURN_VOID();
}

/*
 * bind_make creates a binding. The row has the arguments of dc_bind(), with what the key's sets
 * are, and timeout is in microseconds. With `totals` the source is a table of totals, and its ranks
 * are counted.
 */
void
bind_make(DcSourceRow *row, const char *group_by, int64 timeout, bool totals)
{
	DcSourceStateRow state = {0};
	DcCounter *counter;
	DcRunAs as;
	Relation source;

	bind_check_source(row->source, totals);
	lock_source(row->source, timeout);
	bind_check_source(row->source, totals);
	check_members(row->source);
	counter = counter_open_own(row->counter, ShareRowExclusiveLock);
	bind_check_counter(counter);

	source = table_open_present(row->source, NoLock);
	source_type_check(source);
	source_expressions_check(row, group_by, source);
	table_close(source, NoLock);
	if (row->distinct_of != NULL && row->on_detach == DC_DETACH_KEEP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("distinct values of detached partitions cannot be kept"),
				 errdetail("The remaining rows may have the same values."),
				 errhint("Use on_detach => 'subtract'.")));
	if (row->distinct_of != NULL)
	{
		runas_begin(&as, counter->owner); /* the owner of what is created */
		row->refs = refs_create(row->counter);
		runas_end(&as);
	}
	source_insert(row);
	check_tree(row->source);
	(void) bound_lock(row->counter, true);
	state.counter = row->counter;
	state.state = DC_SOURCE_BUILDING;
	state.epoch = drift_epoch(row->counter) + 1; /* differences noted before this binding do not count */
	state.drift_sum = DatumGetNumeric(DirectFunctionCall1(int8_numeric, Int64GetDatum(0)));
	source_state_store(&state);
	source_triggers_make(row->source);
	protect_create_bound(&counter_lookup(row->counter)->row);
	if (row->build == DC_BUILD_NOW)
		build_now(row);
	else if (row->build == DC_BUILD_WORKER && (job_has_worker == NULL || !job_has_worker()))
		ereport(NOTICE,
				(errmsg("\"%s\" is not built yet, because no worker runs in this database", get_rel_name(row->counter)),
				 errhint("Run CALL dc_build('%s').", relation_sql_name(row->counter))));
}

/*
 * check_order raises 42809 if the counter and its source have changed places.
 */
static void
check_order(FunctionCallInfo fcinfo)
{
	Oid counter = counter_arg(fcinfo);
	Oid source = PG_GETARG_OID(ARG_SOURCE);
	DcCounterRow row;

	if (get_rel_name(counter) == NULL || catalog_read(counter, &row) || !catalog_read(source, &row))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a counter table", get_rel_name(counter)),
			 errhint("The counter table comes first, and then its source: dc_bind('%s', '%s', ...).",
					 relation_sql_name(source), relation_sql_name(counter))));
}

/*
 * Return a text argument as a C string, or NULL if it is null; raise 22023 if it is empty,
 * 54000 if it is longer than MAX_EXPRESSION.
 */
static char *
text_or_null(FunctionCallInfo fcinfo, int n, const char *name)
{
	char *value;

	if (PG_ARGISNULL(n))
		return NULL;
	value = text_to_cstring(PG_GETARG_TEXT_PP(n));
	check_length(name, strlen(value), 1, MAX_EXPRESSION);
	return value;
}

/*
 * lock_source locks the source and its partitions; timeout is in microseconds, 0 waits without
 * limit.
 */
static void
lock_source(Oid source, int64 timeout)
{
	MemoryContext cxt = CurrentMemoryContext;
	int level = NewGUCNestLevel();
	volatile bool late = false;

	if (timeout < 0 || timeout > INT64CONST(1000) * PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("lock_timeout must be between zero and 24 days")));
	(void) set_config_option("lock_timeout", psprintf("%d", (int) ((timeout + 999) / 1000)), PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	PG_TRY();
	{
		(void) subxact_run(bind_lock_all, &source);
	}
	PG_CATCH();
	{
		ErrorData *error = error_caught(cxt);

		if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			ReThrowError(error);
		late = true;
	}
	PG_END_TRY();
	AtEOXact_GUC(false, level);
	if (late)
		locked_error(source);
}

/*
 * Lock the source (arg points to its OID) and its partitions SHARE ROW EXCLUSIVE. Runs in a
 * subtransaction, so that lock_source() can say who holds the lock if this fails.
 */
static bool
bind_lock_all(void *arg)
{
	Oid source = *(Oid *) arg;

	LockRelationOid(source, ShareRowExclusiveLock);
	if (get_rel_name(source) != NULL) /* else dropped while we waited */
		(void) relation_members(source, ShareRowExclusiveLock);
	return true;
}

/*
 * locked_error raises 55P03, naming one of the sessions that have locked the source or a
 * partition of it.
 */
static void
locked_error(Oid source)
{
	static const char sql[] =
		"SELECT CASE WHEN l.pid IS NOT NULL THEN pg_catalog.format('It is locked by process %s.', l.pid)"
		" ELSE pg_catalog.format('It is locked by prepared transaction %L.', p.gid) END"
		" FROM pg_catalog.pg_locks AS l"
		" JOIN pg_catalog.pg_database AS d ON d.oid = l.database AND d.datname = pg_catalog.current_database()"
		" LEFT JOIN pg_catalog.pg_locks AS t ON t.pid IS NULL AND t.locktype = 'transactionid'"
		" AND t.virtualtransaction = l.virtualtransaction"
		" LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction = t.transactionid"
		" WHERE l.granted AND l.locktype = 'relation' AND l.relation = ANY ($1)"
		" AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()"
		" AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') ORDER BY l.pid IS NULL DESC LIMIT 1";
	static const DcResultColumn columns[] = {DC_TEXT("detail"), {NULL}};
	Oid type = OIDARRAYOID;
	List *members = get_rel_name(source) != NULL ? relation_members(source, NoLock) : NIL;
	Datum *oids = palloc(list_length(members) * sizeof(Datum));
	MemoryContext cxt = CurrentMemoryContext;
	int level = search_path_pin();
	DcRows rows;
	Datum array;
	char *detail = "";

	for (int i = 0; i < list_length(members); i++)
		oids[i] = ObjectIdGetDatum(list_nth_oid(members, i));
	array = array_datum(oids, list_length(members), OIDOID);
	SPI_connect();
	if (SPI_execute_with_args(sql, 1, &type, &array, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_with_args failed");
	rows_take(&rows, columns, InvalidOid);
	if (rows.count > 0)
		detail = MemoryContextStrdup(cxt, TextDatumGetCString(rows_datum(&rows, 0, 1)));
	SPI_finish();
	AtEOXact_GUC(false, level);
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not lock \"%s\" within lock_timeout", get_rel_name(source)),
			 detail[0] != '\0' ? errdetail_internal("%s", detail) : 0,
			 errhint("Writers would have to wait in the meantime. Try again, with a longer lock_timeout if necessary.")));
}

/*
 * bind_check_source raises an error if the table cannot be a source; check_members() looks at
 * its partitions. With `totals` it is a table of totals, which otherwise it must not be.
 */
static void
bind_check_source(Oid source, bool totals)
{
	char *name = get_rel_name(source);
	char kind = get_rel_relkind(source);
	Oid schema = get_rel_namespace(source);
	DcCounterRow row;
	Oid root;
	DcMember member;

	if (name == NULL)
		relation_missing_error(source);
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not an ordinary or partitioned table", name)));
	if (source < FirstNormalObjectId || IsCatalogNamespace(schema) ||
		schema == get_namespace_oid(DC_SCHEMA, true))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a system table or a table of the extension", name)));
	prevent_not_owner(source);
	member = member_find(source, &row, &root);
	if (totals ? member != DC_MEMBER_TOTALS || root != source : member != DC_MEMBER_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" belongs to a counter table", name)));
}

/*
 * check_members checks the source and its partitions, which are locked.
 */
static void
check_members(Oid source)
{
	bool partitioned = get_rel_relkind(source) == RELKIND_PARTITIONED_TABLE;
	List *members = relation_members(source, NoLock);
	ListCell *lc;

	if (!partitioned && list_length(members) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" has tables that inherit from it", get_rel_name(source)),
				 errhint("Use partitions.")));
	foreach(lc, members)
	{
		Oid relid = lfirst_oid(lc);
		char persistence = get_rel_persistence(relid);

		if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" has a foreign partition", get_rel_name(source)),
					 errdetail("Rows can change on the other server without a trigger here.")));
		if (persistence == RELPERSISTENCE_TEMP)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is a temporary table", get_rel_name(relid))));
		if (persistence == RELPERSISTENCE_UNLOGGED)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("\"%s\" is unlogged", get_rel_name(relid)),
					 errdetail("A crash would empty it, but not the counter.")));
	}
}

/*
 * Raise an error if a partition of the source, or a table that it is a partition of, is a source,
 * too.
 */
static void
check_tree(Oid source)
{
	List *members = relation_members(source, NoLock);
	ListCell *lc;

	foreach(lc, source_lineage(source))
		source_parts_prevent(lfirst_oid(lc), members);
}

/*
 * bind_check_counter raises an error if the table cannot be a bound counter table.
 */
static void
bind_check_counter(const DcCounter *counter)
{
	char *name = get_rel_name(counter->relid);

	if (counter_is_stock(counter) || OidIsValid(counter->row.ledger) || counter->foreign)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be bound to a source", name),
				 counter->foreign				 ? errdetail_internal("%s", elsewhere_detail(counter))
					 : counter_is_stock(counter) ? errdetail("It is a stock.")
												 : errdetail("It belongs to a ledger.")));
	if (counter_is_buffered(counter))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" is buffered", name),
				 errdetail("Its increments appear after the commit of the rows that they count, not with it."),
				 errhint("Call dc_alter(..., mode => 'exact') first.")));
	if (get_rel_persistence(counter->relid) != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" is unlogged", name),
				 errdetail("A crash would empty it, but not the source.")));
	prevent_sampled(counter, "dc_bind()");
	prevent_idle(counter, "dc_bind()");
	prevent_fed(counter, "dc_bind()");
	prevent_replicated(counter, "dc_bind()");
	if (source_is_bound(counter->relid))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is already bound to a source", name),
				 errhint("Call dc_unbind() first.")));
}

/*
 * dc_unbind(counter regclass) -> void
 *
 * Errors: 42501 if the caller does not own the counter table, 55000 if it is not bound.
 */
Datum
dc_unbind(PG_FUNCTION_ARGS)
{
	prevent_write("dc_unbind()");
	bind_end(counter_arg(fcinfo));
	PG_RETURN_VOID();
}

/*
 * bind_end ends the binding of a counter table, as dc_unbind() does.
 */
void
bind_end(Oid relid)
{
	DcSourceRow row;
	Oid source;

	(void) counter_lookup(relid); /* "is not a counter table" comes first */
	prevent_not_owner(relid);
	if (!source_read(relid, &row))
		not_bound_error(relid);
	source = row.source;
	LockRelationOid(source, AccessExclusiveLock);
	if (get_rel_name(source) != NULL) /* else dropped while we waited */
		(void) relation_members(source, AccessExclusiveLock);
	(void) counter_open_own(relid, ShareRowExclusiveLock);
	if (!source_read(relid, &row) || row.source != source)
		not_bound_error(relid);
	counter_hooks->apply_early(); /* the counts of the transaction's own rows */
	bound_forget(&row, true, false);
}

/*
 * bind_dropped ends the binding of a table that is no longer a counter table. If its source cannot
 * be locked at once, the triggers stay, and count nothing.
 */
static void
bind_dropped(Oid counter)
{
	DcSourceRow row;

	marks_forget(counter);
	if (source_read(counter, &row))
		bound_forget(&row, source_lock_at_once(row.source), false);
}

/*
 * bind_tables adds the tables of a binding.
 */
static List *
bind_tables(Oid counter, List *tables)
{
	DcSourceRow row;

	if (!source_read(counter, &row))
		return tables;
	if (OidIsValid(row.refs))
		tables = lappend_oid(tables, row.refs);
	if (OidIsValid(row.carried))
		tables = lappend_oid(tables, row.carried);
	return tables;
}

/*
 * Return the source that a counter table is bound to, or InvalidOid.
 */
static Oid
bind_source(Oid counter)
{
	DcSourceRow row;

	return source_read(counter, &row) ? row.source : InvalidOid;
}

/*
 * bind_counters adds the counter tables that rows of a table, or of what it is a partition of, are
 * counted in: MAX_WORKER_BINDINGS and one more at most of each, as bind_code() refuses these.
 */
static List *
bind_counters(Oid relid, List *counters)
{
	ListCell *lc;

	foreach(lc, source_lineage(relid))
	{
		List *rows = source_rows_most(lfirst_oid(lc), MAX_WORKER_BINDINGS);
		ListCell *lc2;

		foreach(lc2, rows)
			counters = list_append_unique_oid(counters, ((DcSourceRow *) lfirst(lc2))->counter);
	}
	return counters;
}

/*
 * Return a counter table that rows of a table are counted in by expressions that the worker may not
 * evaluate, or by too many of them; InvalidOid if there is none. The caller has a lock on the table.
 */
static Oid
bind_code(Relation rel)
{
	ListCell *lc;

	foreach(lc, source_lineage(RelationGetRelid(rel)))
	{
		List *rows = source_rows_most(lfirst_oid(lc), MAX_WORKER_BINDINGS);
		ListCell *lc2;

		foreach(lc2, rows)
		{
			const DcSourceRow *row = lfirst(lc2);
			bool missing;

			CHECK_FOR_INTERRUPTS();
			if (list_length(rows) > MAX_WORKER_BINDINGS)
				return row->counter;
			/* a parallel query has no subtransactions: there, one that does not parse is an error */
			if (!IsInParallelMode() && !source_parses(row, rel, &missing))
				return row->counter;
			if (!source_is_harmless(row, rel)) /* a partition has all columns of its parents */
				return row->counter;
		}
	}
	return InvalidOid;
}
