/*
 * sqlpath.c
 *		Running the counter tables' SQL statements (sqltext.c).
 *
 * They serve every kind of table that SQL can write: partitioned, foreign,
 * distributed. They run as the owner of the tables (runas.c). The plans are generic,
 * and made with scans of whole tables disabled: a plan made while a shard table is
 * empty must still be right when it is not.
 *
 * Plans are kept for each counter table and replaced when its cache entry was
 * refilled (new names, new owner, new columns), and when the server has invalidated them: it
 * would look the names up again, and who owns the schema could have put another table under
 * them by renaming schemas, which tells nobody else. A replaced plan may be in use
 * further up the stack, by a trigger on the table, so it is freed by the next
 * transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "base/compat.h"
#include "base/relcached.h"
#include "base/errors.h"
#include "counter/sqlpath.h"
#include "counter/sqltext.h"
#include "table/access.h"
#include "table/layout.h"
#include "table/ownstatement.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#define MAX_STATEMENTS (DC_NUM_STATEMENTS + SQL_MAX_MORE)

/* The statements of another room. */
static const DcStatementText *more_texts = NULL;
static DcSqlWord more_word = NULL;

/* The plans of one counter table. */
typedef struct DcPlans
{
	Oid counter;	   /* hash key */
	uint32 generation; /* of the cache entry that they were made for */
	SPIPlanPtr plans[MAX_STATEMENTS];
	bool planned[MAX_STATEMENTS]; /* has a generic plan */
	bool kept;					  /* may have plans at all */
} DcPlans;

/* Entries (DcPlans) are never removed; plans of theirs are retired. */
static DcRelCached plan_cache = {
	.name = "dcounter plans",
	.keysize = sizeof(Oid),
	.size = sizeof(DcPlans),
};

/* Tables that plans are kept for, and how many at most. */
static int tables_kept = 0;

#define MAX_TABLES_KEPT 100

/* Plans that were replaced, to be freed by a later transaction. */
static List *retired_plans = NIL;
static LocalTransactionId retired_in = InvalidLocalTransactionId;

static DcPlans *plans_get(DcCounter *counter);
static SPIPlanPtr plan_prepare(DcCounter *counter, DcStatement statement);
static void plans_retire_all(void);
static void plans_retire(DcPlans *plans);
static void plan_retire(DcPlans *plans, int statement);
static void plan_settings(void);
static uint64 sql_execute(DcSqlSession *session, DcStatement statement,
						  Datum *values, const char *nulls, bool read_only);
static const DcStatementText *statement_text(DcStatement statement);
static void append_word(StringInfo sql, DcCounter *counter, const char *word, List **tables);
static void check_tables(SPIPlanPtr plan, const List *tables);

/*
 * sql_extend adds the statements of another room: their numbers begin with
 * DC_NUM_STATEMENTS. Called once.
 */
void
sql_extend(const DcStatementText *texts, int count, DcSqlWord word)
{
	if (count > SQL_MAX_MORE)
		elog(ERROR, "too many statements: %d", count);
	more_texts = texts;
	more_word = word;
}

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
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	runas_begin(&session->runas, counter->owner);
	sql_keep_open(session, DC_OF_TOTALS, counter->relid);
	sql_keep_open(session, DC_OF_SHARDS, counter->row.shards);
	sql_keep_open(session, DC_OF_HOLDS, counter->row.holds);
}

/*
 * sql_keep_open keeps a table open for the session. Locks keep others from altering it,
 * but not code of its owner that a statement of ours runs: what is open in a session, the
 * server does not let that session alter or drop. So a table stays as it was
 * between two statements. No lock is taken, and a table that is not locked, as the holds
 * when only rows of the stock are concerned, is left alone: others may drop it.
 */
void
sql_keep_open(DcSqlSession *session, int place, Oid relid)
{
	if (OidIsValid(relid) && compat_has_locked(relid, AccessShareLock))
		session->tables[place] = RelationIdGetRelation(relid); /* NULL: was dropped */
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
sql_run(DcSqlSession *session, DcStatement statement, Datum *values)
{
	return sql_execute(session, statement, values, NULL, false);
}

/*
 * sql_run_nulls is the same, with a character for each parameter: 'n' if it is
 * null.
 */
uint64
sql_run_nulls(DcSqlSession *session, DcStatement statement, Datum *values,
			  const char *nulls)
{
	return sql_execute(session, statement, values, nulls, false);
}

/*
 * sql_read executes a query in the caller's snapshot, and returns the number of
 * rows. What this transaction itself has written counts in full, also if the
 * running statement wrote it.
 */
uint64
sql_read(DcSqlSession *session, DcStatement statement, Datum *values)
{
	uint64 rows;

	read_snapshot_push();
	rows = sql_execute(session, statement, values, NULL, true);
	PopActiveSnapshot();
	return rows;
}

/*
 * sql_check_newer raises 40001 if a query finds rows that this transaction's snapshot is
 * too old for: "there are none" would not be true. Called when it sees none.
 */
void
sql_check_newer(DcSqlSession *session, DcStatement statement, Datum *values)
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

static uint64
sql_execute(DcSqlSession *session, DcStatement statement, Datum *values,
			const char *nulls, bool read_only)
{
	const DcStatementText *text = statement_text(statement);
	DcPlans *plans = plans_get(session->counter);
	Relation table = session->tables[text->of];
	SPIPlanPtr plan;
	int level = NewGUCNestLevel();
	int result;

	if (plans->plans[statement] != NULL && !SPI_plan_is_valid(plans->plans[statement]))
		plan_retire(plans, statement);
	if (plans->plans[statement] == NULL)
		plans->plans[statement] = plan_prepare(session->counter, statement);
	plan = plans->plans[statement];
	if ((!plans->planned[statement] || !SPI_plan_is_valid(plan)) &&
		!text->reads_all)
		plan_settings();
	result = read_only ? SPI_execute_plan(plan, values, nulls, true, 0)
					   : own_statement_run(plan, values, nulls);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan failed: %s",
			 SPI_result_code_string(result));
	plans->planned[statement] = (plans->plans[statement] == plan);
	AtEOXact_GUC(false, level);
	rows_take(&session->rows, text->columns,
			  table != NULL ? RelationGetRelid(table) : session->counter->relid);
	return session->rows.count;
}

/*
 * plan_settings steers the planner while it makes a generic plan, which is when
 * a plan is run for the first time or after an invalidation.
 */
static void
plan_settings(void)
{
	static const char *const off[] = {
		"enable_seqscan", "enable_hashjoin", "enable_mergejoin",
		/* the cost of disabled nodes would set off the compiler */
		"jit"};

	for (int i = 0; i < lengthof(off); i++)
		set_config_option(off[i], "off", PGC_USERSET, PGC_S_SESSION,
						  GUC_ACTION_SAVE, true, 0, false);
}

/*
 * plans_get returns the plans of a counter table, emptied if its cache entry
 * has changed, and frees what an earlier transaction retired.
 */
static DcPlans *
plans_get(DcCounter *counter)
{
	DcPlans *plans;

	if (retired_plans != NIL && retired_in != compat_local_xid())
	{
		ListCell *lc;

		foreach(lc, retired_plans)
			SPI_freeplan((SPIPlanPtr) lfirst(lc));
		list_free(retired_plans);
		retired_plans = NIL;
	}

	plans = relcached_enter(&plan_cache, &counter->relid);
	if (!plans->kept && tables_kept >= MAX_TABLES_KEPT)
		plans_retire_all();
	if (plans->generation != counter->generation)
		plans_retire(plans); /* of a new one nothing */
	if (!plans->kept)
		tables_kept++;
	plans->kept = true;
	plans->generation = counter->generation;
	return plans;
}

/*
 * plans_retire_all gives back the memory of all plans: a session that works on
 * many tables would keep too much.
 */
static void
plans_retire_all(void)
{
	HASH_SEQ_STATUS status;
	DcPlans *plans;

	hash_seq_init(&status, plan_cache.hash);
	while ((plans = hash_seq_search(&status)) != NULL)
	{
		if (plans->kept)
			plans_retire(plans);
		plans->kept = false;
	}
	tables_kept = 0;
}

/*
 * sql_forget makes the next statements of a counter table have new plans, since what
 * their words stand for has changed.
 */
void
sql_forget(DcCounter *counter)
{
	DcPlans *plans = relcached_find(&plan_cache, &counter->relid);

	if (plans != NULL)
		plans_retire(plans);
}

static void
plans_retire(DcPlans *plans)
{
	for (int i = 0; i < MAX_STATEMENTS; i++)
		plan_retire(plans, i);
}

/*
 * plan_retire puts a plan aside, if there is one.
 */
static void
plan_retire(DcPlans *plans, int statement)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	if (plans->plans[statement] != NULL)
		retired_plans = lappend(retired_plans, plans->plans[statement]);
	plans->plans[statement] = NULL;
	plans->planned[statement] = false;
	retired_in = compat_local_xid();
	MemoryContextSwitchTo(old);
}

/*
 * plan_prepare puts the tables' names into a statement and prepares it.
 */
static SPIPlanPtr
plan_prepare(DcCounter *counter, DcStatement statement)
{
	const DcStatementText *text = statement_text(statement);
	StringInfoData sql;
	List *tables = NIL;
	SPIPlanPtr plan;
	int nargs = 0;

	initStringInfo(&sql);
	for (const char *p = text->text; *p != '\0'; p++)
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
		append_word(&sql, counter, word, &tables);
	}
	while (nargs < SQL_MAX_ARGS && OidIsValid(text->argtypes[nargs]))
		nargs++;

	plan = SPI_prepare_cursor(sql.data, nargs, (Oid *) text->argtypes,
							  CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s",
			 sql.data, SPI_result_code_string(SPI_result));
	check_tables(plan, tables);
	SPI_keepplan(plan);
	pfree(sql.data);
	return plan;
}

/*
 * check_tables raises 55000 if names that were put into a statement stood for other tables
 * by the time when it was parsed.
 */
static void
check_tables(SPIPlanPtr plan, const List *tables)
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

static const DcStatementText *
statement_text(DcStatement statement)
{
	return statement < DC_NUM_STATEMENTS ? &sql_texts[statement] : &more_texts[statement - DC_NUM_STATEMENTS];
}

/*
 * append_word appends what a word after @ stands for, and notes the table.
 */
static void
append_word(StringInfo sql, DcCounter *counter, const char *word, List **tables)
{
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
	else
		value = more_word(counter, word);
	appendStringInfoString(sql, value);
}
