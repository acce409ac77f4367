/*
 * sqlpath.c
 *		Running SQL statements on the tables of a counter.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The statements are defined where they are used. They serve every kind of table that SQL can
 * write: partitioned, foreign, distributed. They run as the owner of the tables (runas.c). The
 * plans are generic, and made with scans of whole tables disabled: a plan made while a shard table
 * is empty must still be right when it is not. Those for tables that Citus distributes are made for
 * each execution, as it needs the parameters (core/table/distribution.c), except for INSERTs of one
 * row, in which it finds the key when they run, unless the coordinator has shards itself; its
 * workers make their own.
 *
 * Plans are kept for each counter table. They are replaced when its cache entry was
 * refilled (new names, new owner, new columns), and when the server has invalidated them:
 * it would look the names up again, and the owner of the schema could have put another
 * table under them by renaming schemas, of which no message is sent. A replaced plan may
 * be in use further up the stack, by a trigger on the table, so it is freed by the next
 * transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/errors.h"
#include "core/counter/sqlpath.h"
#include "core/table/access.h"
#include "core/table/distribution.h"
#include "core/table/layout.h"
#include "core/table/ownstatement.h"

/* The plan of a statement for one counter table. */
typedef struct DcPlan
{
	struct
	{
		const DcStatement *statement;
		const DcCounter *counter;
	} key;
	uint32 generation; /* of the cache entry that it was made for */
	SPIPlanPtr plan;   /* NULL: none */
	bool planned;	   /* has a generic plan */
} DcPlan;

/* In TopMemoryContext. Entries are never removed; plans of theirs are retired. */
static HTAB *plan_cache = NULL;

/* Plans that are kept, and how many at most. */
static int plans_kept = 0;

#define MAX_PLANS_KEPT 1000

/* Plans that were replaced, to be freed by a later transaction. */
static List *retired_plans = NIL;
static LocalTransactionId retired_in = InvalidLocalTransactionId;

static DcPlan *plan_get(const DcStatement *statement, DcCounter *counter);
static SPIPlanPtr plan_prepare(DcSqlSession *session, const DcStatement *statement);
static void plans_retire(const DcCounter *counter);
static void plan_retire(DcPlan *plan);
static void sqlpath_free_retired(void);
static void plan_settings(void);
static void distributed_settings(bool read_only);
static uint64 sql_execute(DcSqlSession *session, const DcStatement *statement,
						  Datum *values, const char *nulls, bool read_only);
static void append_word(StringInfo sql, DcSqlSession *session, const char *word, List **tables);
static void sqlpath_check_tables(SPIPlanPtr plan, const List *tables);

/*
 * sql_begin connects to SPI and becomes the owner of the counter table. The tables have
 * their shape then, as code of the owner may have run since they were opened, and are
 * kept open until sql_end().
 */
void
sql_begin(DcSqlSession *session, DcCounter *counter)
{
	counter_layout(counter);
	memset(session, 0, sizeof(*session));
	session->counter = counter;
	SPI_connect();
	runas_begin(&session->runas, counter->owner);
	sql_keep_open(session, DC_OF_TOTALS, counter->relid);
	sql_keep_open(session, DC_OF_SHARDS, counter->row.shards);
	sql_keep_open(session, DC_OF_HOLDS, counter->row.holds);
}

/*
 * sql_keep_open keeps a table open for the session. Locks keep other sessions from altering it, but
 * not code of its owner that a statement of ours runs. That code is kept from it too, as the server
 * does not let a session alter or drop a table that it has open. So a table stays as it was between
 * two statements. No lock is taken. A table that is not locked (the holds, when only rows of the
 * stock are concerned) is not kept open: other sessions may drop it.
 */
void
sql_keep_open(DcSqlSession *session, int place, Oid relid)
{
	if (OidIsValid(relid) && compat_has_locked(relid, AccessShareLock))
	{
		session->tables[place] = RelationIdGetRelation(relid); /* NULL: was dropped */
		read_snapshot_note(relid);
	}
}

/*
 * sql_end undoes sql_begin. The rows of the results are gone afterwards.
 */
void
sql_end(DcSqlSession *session)
{
	for (int i = 0; i < DC_OF_TABLES; i++)
	{
		if (session->tables[i] != NULL)
			RelationClose(session->tables[i]);
	}
	runas_end(&session->runas);
	SPI_finish();
}

/*
 * sql_run executes a statement that may write, and returns the number of rows
 * processed, or of its result, which is in session->rows. Parameters are never null.
 */
uint64
sql_run(DcSqlSession *session, const DcStatement *statement, Datum *values)
{
	return sql_execute(session, statement, values, NULL, false);
}

/*
 * sql_run_nulls does the same, with a character for each parameter: 'n' if it is null.
 */
uint64
sql_run_nulls(DcSqlSession *session, const DcStatement *statement, Datum *values,
			  const char *nulls)
{
	return sql_execute(session, statement, values, nulls, false);
}

/*
 * sql_read executes a query in the caller's snapshot, and returns the number of rows. All that
 * this transaction has written itself counts, even if the running statement wrote it.
 */
uint64
sql_read(DcSqlSession *session, const DcStatement *statement, Datum *values)
{
	uint64 rows;

	read_snapshot_push();
	rows = sql_execute(session, statement, values, NULL, true);
	PopActiveSnapshot();
	return rows;
}

/*
 * sql_check_newer raises 40001 if a query finds rows for which this transaction's
 * snapshot is too old. Called when the transaction sees none: that would not be true.
 */
void
sql_check_newer(DcSqlSession *session, const DcStatement *statement, Datum *values)
{
	uint64 rows;

	if (!IsolationUsesXactSnapshot())
		return;
	PushActiveSnapshot(GetLatestSnapshot());
	rows = sql_read(session, statement, values);
	PopActiveSnapshot();
	if (rows > 0)
		serialization_error();
}

/*
 * Run a statement with its kept plan, which is created if there is none; NULL for nulls means no
 * parameter is null. Sets session->rows, whose columns are checked, and returns their number.
 */
static uint64
sql_execute(DcSqlSession *session, const DcStatement *statement, Datum *values,
			const char *nulls, bool read_only)
{
	DcPlan *kept = plan_get(statement, session->counter);
	Relation table = session->tables[statement->of];
	SPIPlanPtr plan;
	int level = NewGUCNestLevel();
	int result;

	if (kept->plan == NULL)
	{
		kept->plan = plan_prepare(session, statement);
		plans_kept++;
	}
	plan = kept->plan;
	if (session->counter->distributed)
		distributed_settings(read_only);
	else if ((!kept->planned || !SPI_plan_is_valid(plan)) && !statement->reads_all)
		plan_settings();
	result = read_only ? SPI_execute_plan(plan, values, nulls, true, 0)
					   : own_statement_run(plan, values, nulls);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan failed: %s",
			 SPI_result_code_string(result));
	kept->planned = (kept->plan == plan); /* false if it was replaced in the meantime */
	AtEOXact_GUC(false, level);
	rows_take(&session->rows, statement->columns,
			  table != NULL ? RelationGetRelid(table) : session->counter->relid);
	return session->rows.count;
}

/*
 * plan_settings steers the planner while it creates a generic plan, which is when a plan is run for
 * the first time or after an invalidation.
 */
static void
plan_settings(void)
{
	static const char *const off[] = {
		"enable_seqscan", "enable_hashjoin", "enable_mergejoin",
		/* the cost of disabled nodes would trigger JIT compilation */
		"jit"};

	for (int i = 0; i < lengthof(off); i++)
		set_config_option(off[i], "off", PGC_USERSET, PGC_S_SESSION,
						  GUC_ACTION_SAVE, true, 0, false);
}

/*
 * distributed_settings prepares for a statement on a table that Citus distributes. The user's
 * setting would have its plan made without the parameters, whatever the plan says of itself.
 */
static void
distributed_settings(bool read_only)
{
	if (!read_only)
		distribution_write();
	if (plan_cache_mode == PLAN_CACHE_MODE_FORCE_GENERIC_PLAN)
		set_config_option("plan_cache_mode", "auto", PGC_USERSET, PGC_S_SESSION,
						  GUC_ACTION_SAVE, true, 0, false);
}

/*
 * plan_get returns the entry of a statement and a counter table. Its plan is NULL if
 * there is none that may be used.
 */
static DcPlan *
plan_get(const DcStatement *statement, DcCounter *counter)
{
	DcPlan probe = {.key = {statement, counter}};
	DcPlan *kept;
	bool found;

	if (plan_cache == NULL)
	{
		HASHCTL ctl = {0};

		ctl.keysize = sizeof(probe.key);
		ctl.entrysize = sizeof(DcPlan);
		ctl.hcxt = TopMemoryContext;
		plan_cache = hash_create("dcounter plans", 128, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	sqlpath_free_retired();
	if (plans_kept >= MAX_PLANS_KEPT)
		plans_retire(NULL);
	kept = hash_search(plan_cache, &probe.key, HASH_ENTER, &found);
	if (!found)
		*kept = probe;
	else if (kept->plan != NULL &&
			 (kept->generation != counter->generation || !SPI_plan_is_valid(kept->plan)))
		plan_retire(kept);
	kept->generation = counter->generation;
	return kept;
}

/*
 * sqlpath_free_retired frees the plans that an earlier transaction has retired.
 */
static void
sqlpath_free_retired(void)
{
	ListCell *lc;

	if (retired_plans == NIL || retired_in == compat_local_xid())
		return;
	foreach(lc, retired_plans)
		SPI_freeplan((SPIPlanPtr) lfirst(lc));
	list_free(retired_plans);
	retired_plans = NIL;
}

/*
 * sql_forget makes the next statements of a counter table have new plans, since the
 * meaning of their words has changed.
 */
void
sql_forget(DcCounter *counter)
{
	if (plan_cache != NULL)
		plans_retire(counter);
}

/*
 * plans_retire puts aside the plans of a counter table, or all (NULL): a session that
 * works on many tables would keep too much.
 */
static void
plans_retire(const DcCounter *counter)
{
	HASH_SEQ_STATUS status;
	DcPlan *kept;

	hash_seq_init(&status, plan_cache);
	while ((kept = hash_seq_search(&status)) != NULL)
	{
		if (kept->plan != NULL && (counter == NULL || kept->key.counter == counter))
			plan_retire(kept);
	}
}

/*
 * Take a plan from its entry, and keep it until a later transaction frees it: it may be in use.
 */
static void
plan_retire(DcPlan *kept)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	retired_plans = lappend(retired_plans, kept->plan);
	kept->plan = NULL;
	kept->planned = false;
	plans_kept--;
	retired_in = compat_local_xid();
	MemoryContextSwitchTo(old);
}

/*
 * plan_prepare puts the tables' names into a statement and prepares it.
 */
static SPIPlanPtr
plan_prepare(DcSqlSession *session, const DcStatement *statement)
{
	bool distributed = session->counter->distributed;
	const char *text = distributed && statement->distributed != NULL ? statement->distributed : statement->text;
	StringInfoData sql;
	List *tables = NIL;
	SPIPlanPtr plan;
	int nargs = 0;

	initStringInfo(&sql);
	for (const char *p = text; *p != '\0'; p++)
	{
		char word[16];
		int len = 0;

		if (*p != '@')
		{
			appendStringInfoChar(&sql, *p);
			continue;
		}
		while (p[1] >= 'a' && p[1] <= 'z' && len < lengthof(word) - 1)
			word[len++] = *++p;
		word[len] = '\0';
		append_word(&sql, session, word, &tables);
	}
	while (nargs < SQL_MAX_ARGS && OidIsValid(statement->argtypes[nargs]))
		nargs++;

	plan = SPI_prepare_cursor(sql.data, nargs, (Oid *) statement->argtypes,
							  distributed && (!statement->inserts_row || session->counter->local_shards) ? CURSOR_OPT_CUSTOM_PLAN : CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s",
			 sql.data, SPI_result_code_string(SPI_result));
	sqlpath_check_tables(plan, tables);
	SPI_keepplan(plan);
	pfree(sql.data);
	return plan;
}

/*
 * sqlpath_check_tables raises 55000 if names that were put into a statement stood for other
 * tables when it was parsed.
 */
static void
sqlpath_check_tables(SPIPlanPtr plan, const List *tables)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	ListCell *lc;

	if (source->query_list == NIL)
		return; /* a rule has left nothing */
	foreach(lc, tables)
	{
		if (!list_member_oid(source->relationOids, lfirst_oid(lc)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" was renamed while it was being used",
							get_rel_name(lfirst_oid(lc)))));
	}
}

/*
 * append_word appends the meaning of a word after @, and notes the table.
 */
static void
append_word(StringInfo sql, DcSqlSession *session, const char *word, List **tables)
{
	DcCounter *counter = session->counter;
	const char *value;
	Oid table = InvalidOid;

	if (strcmp(word, "totals") == 0)
		table = counter->relid;
	else if (strcmp(word, "shards") == 0)
		table = counter->row.shards;
	else if (strcmp(word, "holds") == 0)
		table = counter->row.holds;
	if (OidIsValid(table))
	{
		value = relation_sql_name(table);
		*tables = list_append_unique_oid(*tables, table);
	}
	else if (strcmp(word, "units") == 0)
		value = counter_is_stock(counter) ? "units" : "shard::int8"; /* counters have no such column */
	else if (session->word != NULL)
	{
		value = session->word(counter, word);
		for (int i = DC_OF_MORE; i < DC_OF_TABLES; i++)
		{
			Relation rel = session->tables[i];

			if (rel != NULL && strcmp(value, relation_sql_name(RelationGetRelid(rel))) == 0)
				*tables = list_append_unique_oid(*tables, RelationGetRelid(rel));
		}
	}
	else
		elog(ERROR, "unrecognized word: %s", word);
	appendStringInfoString(sql, value);
}
