/*
 * sourcesql.c
 *		The SQL that reads a source, and running it.
 *
 * A statement runs as the owner of the source, in a security-restricted operation and with settings pinned
 * that texts depend on, in the snapshot of source_read_begin(). What the planner evaluates of the owner's
 * (constants in the predicates of indexes) does so as the owner. A worker leaves a source with such code alone
 * (sourceexpr.c). Row-level security is passed over as foreign keys do: whoever may read all has been checked by
 * the caller.
 *
 * Of a partitioned source only the leaves that are locked are read: a partition that comes meanwhile is not part of the snapshot.
 *
 * The trigger evaluates the filter, the value and the key, in this order and as far as it needs (sourceexpr.c). The
 * planner would put conditions in the order of their costs, and an expression may fail on rows that a
 * condition before it leaves out. So conditions are one CASE, and the key is computed above it.
 *
 * Rows are grouped by the values that the key is made of, if equal ones have the same text, and the texts are made of
 * the groups. In SQL "g" has these values as k1, k2 and so on.
 */
#include "postgres.h"

#include "base/guc.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "base/subxact.h"
#include "bound/sourceexpr.h"
#include "bound/sourcesql.h"
#include "bound/sourcetrigger.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tstoreReceiver.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "table/ownercode.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/snapmgr.h"

/* What a row is tested for, in this order; see source_step(). */
#define STEP "dcounter.source_step(%s)"

/* A statement that is being run. */
typedef struct DcRunning
{
	const DcSourceRead *read;
	const char *sql;
	const List *tables; /* OIDs: those that it names */
	ParamListInfo params;
	DestReceiver *dest;
	bool by_index;
	bool parallel;
} DcRunning;

static bool has_steps(void);
static char *without_steps(const char *sql);
static bool run(void *running);
static Oid reader_of(const DcSourceRead *read);
static void set(const char *name, const char *value);
static void check_tables(const DcRunning *running, SPIPlanPtr plan);
static void select_row(StringInfo sql, const DcSourceRow *row, const DcSourceTexts *texts, bool items);
static void conditions(StringInfo sql, const DcSourceRow *row, const DcSourceTexts *texts, bool items);
static void condition(StringInfo sql, int *n, const char *text);
static bool is_grouped_by_values(const DcSourceTexts *texts);
static char *value_of_key(const DcSourceText *key);
static char *text_of_keys(const DcSourceTexts *texts);

/*
 * Return the source's sums by key, as a SELECT of key, n; or, with `items`, its rows by key and item, as one of key, item, n.
 */
char *
source_groups_sql(const DcSourceRead *read, bool items)
{
	Relation source = table_open_present(read->row.source, NoLock);
	DcSourceTexts texts;
	StringInfoData columns;
	StringInfoData groups;
	StringInfoData sql;
	int nkeys;

	source_texts(&read->row, source, &texts);
	table_close(source, NoLock);
	nkeys = is_grouped_by_values(&texts) ? list_length(texts.keys) : 1;
	initStringInfo(&columns);
	initStringInfo(&groups);
	for (int i = 1; i <= nkeys; i++)
	{
		appendStringInfo(&columns, "%sr.k%d", i > 1 ? ", " : "", i);
		appendStringInfo(&groups, "%sg.k%d", i > 1 ? ", " : "", i);
	}
	initStringInfo(&sql);
	appendStringInfo(&sql, nkeys > 1 ? "SELECT pg_catalog.jsonb_build_array(%s)::pg_catalog.text" : "SELECT %s::pg_catalog.text", groups.data);
	appendStringInfo(&sql, " AS key, %sg.n FROM (SELECT %s, %s%s AS n FROM (", items ? "g.item, " : "", columns.data,
					 items ? "r.item, " : "", items || source_counts_rows(&read->row) ? "count(*)" : "sum(r.v)");
	select_row(&sql, &read->row, &texts, items);
	appendStringInfo(&sql, " FROM %s AND ", source_from_sql(read));
	conditions(&sql, &read->row, &texts, items);
	/* OFFSET: conditions on the texts stay above */
	appendStringInfo(&sql, ") AS r GROUP BY %s%s OFFSET 0) AS g", columns.data, items ? ", r.item" : "");
	return sql.data;
}

/*
 * source_from_sql returns the source, in FROM and WHERE, as "s": the rows of the leaves that are known.
 */
char *
source_from_sql(const DcSourceRead *read)
{
	const char *name = relation_sql_name(read->row.source);
	StringInfoData sql;
	ListCell *lc;

	if (get_rel_relkind(read->row.source) != RELKIND_PARTITIONED_TABLE)
		return psprintf("ONLY %s AS s WHERE true", name);
	initStringInfo(&sql);
	foreach(lc, read->leaves)
		appendStringInfo(&sql, "%s%u", sql.len > 0 ? "," : "", lfirst_oid(lc));
	return psprintf("%s AS s WHERE s.tableoid = ANY ('{%s}'::pg_catalog.oid[])", name, sql.data);
}

static bool
is_grouped_by_values(const DcSourceTexts *texts)
{
	ListCell *lc;

	foreach(lc, texts->keys)
	{
		if (!((DcSourceText *) lfirst(lc))->exact)
			return false;
	}
	return true;
}

static void
select_row(StringInfo sql, const DcSourceRow *row, const DcSourceTexts *texts, bool items)
{
	appendStringInfoString(sql, "SELECT ");
	if (is_grouped_by_values(texts))
	{
		for (int i = 0; i < list_length(texts->keys); i++)
			appendStringInfo(sql, "%s%s AS k%d", i > 0 ? ", " : "", value_of_key(list_nth(texts->keys, i)), i + 1);
	}
	else
		appendStringInfo(sql, "%s AS k1", text_of_keys(texts));
	if (items)
		appendStringInfo(sql, ", (%s)::pg_catalog.text COLLATE pg_catalog.\"C\" AS item", row->distinct_of);
	else if (!source_counts_rows(row))
		appendStringInfo(sql, ", (%s)::pg_catalog.int8 AS v", row->value);
}

/*
 * value_of_key returns what rows are grouped by; texts by their bytes.
 */
static char *
value_of_key(const DcSourceText *key)
{
	return psprintf(key->collatable ? "(%s) COLLATE pg_catalog.\"C\"" : "(%s)", key->text);
}

static char *
text_of_keys(const DcSourceTexts *texts)
{
	StringInfoData nulls;
	StringInfoData keys;
	ListCell *lc;

	if (list_length(texts->keys) == 1)
		return psprintf("(%s)::pg_catalog.text COLLATE pg_catalog.\"C\"", ((DcSourceText *) linitial(texts->keys))->text);
	initStringInfo(&nulls);
	initStringInfo(&keys);
	foreach(lc, texts->keys)
	{
		const DcSourceText *key = lfirst(lc);

		appendStringInfo(&nulls, "%s(%s) IS NULL", nulls.len > 0 ? " OR " : "", key->text);
		appendStringInfo(&keys, "%s%s", keys.len > 0 ? ", " : "", key->text);
	}
	return psprintf("CASE WHEN %s THEN NULL ELSE pg_catalog.jsonb_build_array(%s)::pg_catalog.text END COLLATE pg_catalog.\"C\"",
					nulls.data, keys.data);
}

/*
 * conditions appends the condition on rows that count. A long text in a plain column is not read: it is an error, as it is for the
 * trigger.
 */
static void
conditions(StringInfo sql, const DcSourceRow *row, const DcSourceTexts *texts, bool items)
{
	int n = 0;
	ListCell *lc;

	condition(sql, &n, psprintf(STEP, "0"));
	if (row->filter != NULL)
		condition(sql, &n, row->filter);
	if (!items && !source_counts_rows(row))
		condition(sql, &n, psprintf("(%s) <> 0", row->value));
	foreach(lc, texts->keys)
	{
		const DcSourceText *key = lfirst(lc);

		if (key->column != NULL || list_length(texts->keys) > 1)
			condition(sql, &n, psprintf("(%s) IS NOT NULL", key->text));
		if (key->column != NULL && key->collatable)
			condition(sql, &n, psprintf(STEP, psprintf("pg_catalog.octet_length(%s) + 1", key->text)));
	}
	if (items && texts->item.column != NULL && texts->item.collatable)
		condition(sql, &n, psprintf(STEP, psprintf("pg_catalog.octet_length(%s) + 1", texts->item.text)));
	appendStringInfoString(sql, "true");
	for (int i = 0; i < n; i++)
		appendStringInfoString(sql, " END");
}

static void
condition(StringInfo sql, int *n, const char *text)
{
	appendStringInfo(sql, "CASE WHEN %s THEN ", text);
	(*n)++;
}

/*
 * Run a statement that reads the source, and return its result. It ends early if the step is late: return
 * NULL then, unless it ends by leaving out what is left. `tables` are all that it names. Without a limit of time it may take
 * several processes, as rows are not counted.
 */
Tuplestorestate *
source_sql_run(DcSourceRead *read, const char *sql, const List *tables, ParamListInfo params, DcSourceStep *step)
{
	Tuplestorestate *volatile result = tuplestore_begin_heap(false, false, maintenance_work_mem);
	DestReceiver *dest = CreateTuplestoreDestReceiver();
	MemoryContext cxt = CurrentMemoryContext;
	DcSourceStep *outer = source_step_set(step);
	bool limited = step->late.us != DC_LONG_AGO.us;
	DcRunning running = {read, limited && has_steps() ? sql : without_steps(sql), tables, params, dest, step->by_index, !limited};
	bool by_error = limited && !step->stops;

	SetTuplestoreDestReceiverParams(dest, result, cxt, false, NULL, NULL);
	PG_TRY();
	{
		if (by_error)
			(void) subxact_run(run, &running);
		else
			(void) run(&running);
		(void) source_step_set(outer);
	}
	PG_CATCH();
	{
		(void) source_step_set(outer);
		if (!by_error || !step->was_late)
			PG_RE_THROW();
		MemoryContextSwitchTo(cxt);
		FlushErrorState();
		tuplestore_end(result);
		result = NULL;
	}
	PG_END_TRY();
	return result;
}

/*
 * Return true if the worker may read a source, and turn on the guard: its expressions are harmless, and so is planning. Whose source
 * is a superuser's, or if dcounter.worker_runs_owner_code is on, anything may. *reason is what stands against it.
 */
bool
source_worker_may_read(const DcSourceRead *read, const char **reason)
{
	Oid owner = relation_owner(read->row.source);
	Relation source;
	ListCell *lc;

	*reason = NULL;
	if (!has_privs_of_role(relation_owner(read->counter_id), owner) &&
		!has_privs_of_role(owner, relation_owner(read->counter_id)))
		*reason = _("the source belongs to another role");
	if (*reason != NULL || dc_worker_runs_owner_code || superuser_arg(owner))
		return *reason == NULL;
	source = table_open_present(read->row.source, NoLock);
	if (!source_is_harmless(&read->row, source))
		*reason = _("an expression of its binding");
	table_close(source, NoLock);
	foreach(lc, read->members)
	{
		Relation rel = table_open_present(lfirst_oid(lc), NoLock);

		if (*reason == NULL)
			*reason = ownercode_of_planning(rel);
		table_close(rel, NoLock);
	}
	if (*reason == NULL)
		(void) ownercode_guard(true);
	return *reason == NULL;
}

/*
 * source_sql_slot makes a slot for rows of a result.
 */
TupleTableSlot *
source_sql_slot(int ncolumns, const Oid *types)
{
	TupleDesc desc = CreateTemplateTupleDesc(ncolumns);

	for (int i = 0; i < ncolumns; i++)
		TupleDescInitEntry(desc, i + 1, "column", types[i], -1, 0);
	return MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
}

/*
 * Return true if the extension has source_step(). In a database that is not updated yet it has not, and statements do without: only the
 * limit of all steps of the worker ends them.
 */
static bool
has_steps(void)
{
	Oid args[] = {INT4OID};

	return OidIsValid(LookupFuncName(list_make2(makeString(DC_SCHEMA), makeString("source_step")), lengthof(args), args, true));
}

static char *
without_steps(const char *sql)
{
	static const char call[] = "dcounter.source_step(";
	const char *found;
	StringInfoData result;

	initStringInfo(&result);
	for (; (found = strstr(sql, call)) != NULL; sql = found + strlen(call))
	{
		appendBinaryStringInfo(&result, sql, found - sql);
		appendStringInfoString(&result, "true OR 0 = (");
	}
	appendStringInfoString(&result, sql);
	return result.data;
}

static bool
run(void *arg)
{
	const DcRunning *running = arg;
	SPIExecuteOptions options = {.params = running->params, .read_only = true, .dest = running->dest};
	Oid types[SOURCE_MAX_PARAMS];
	int nparams = running->params->numParams;
	int context;
	DcRunAs as;
	SPIPlanPtr plan;
	Oid reader;

	for (int i = 0; i < nparams; i++)
		types[i] = running->params->params[i].ptype;
	SPI_connect();
	runas_begin(&as, reader_of(running->read));
	GetUserIdAndSecContext(&reader, &context);
	SetUserIdAndSecContext(reader, context | SECURITY_NOFORCE_RLS);
	(void) source_settings_pin();
	set("work_mem", psprintf("%d", maintenance_work_mem));
	set("hash_mem_multiplier", "1");
	set("constraint_exclusion", "off");
	set("jit", "off");
	if (running->by_index)
	{
		set("enable_seqscan", "off");
		set("enable_bitmapscan", "off");
		set("enable_sort", "off");
	}
	plan = SPI_prepare_cursor(running->sql, nparams, types, CURSOR_OPT_CUSTOM_PLAN | (running->parallel ? CURSOR_OPT_PARALLEL_OK : 0));
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s", running->sql, SPI_result_code_string(SPI_result));
	check_tables(running, plan);
	if (SPI_execute_plan_extended(plan, &options) < 0)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(SPI_result));
	check_tables(running, plan); /* it may have been parsed again */
	runas_end(&as);
	SPI_finish();
	return true;
}

/*
 * reader_of returns the role that reads both sides: the owner of one of them, who may act as the other's.
 */
static Oid
reader_of(const DcSourceRead *read)
{
	Oid owner = relation_owner(read->row.source);

	if (has_privs_of_role(relation_owner(read->counter_id), owner))
		return relation_owner(read->counter_id);
	source_check_owners(read->row.source, read->counter_id);
	return owner;
}

static void
set(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * check_tables raises 55000 if names stood for other tables: whoever owns a schema can rename it.
 */
static void
check_tables(const DcRunning *running, SPIPlanPtr plan)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	ListCell *lc;

	foreach(lc, running->tables)
	{
		if (!list_member_oid(source->relationOids, lfirst_oid(lc)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" was renamed while it was being used", get_rel_name(lfirst_oid(lc)))));
	}
}
