/*
 * refswrite.c
 *		Reference counts of distinct values: the statements that change and read them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The table of counts is the owner's. All statements run as the owner, in a security-restricted
 * operation (sqlpath.c), and the values that come back are checked.
 *
 * A batch of changes is one upsert, which goes over them in their order (refs.c), waits for
 * other transactions that have changed the same row, and returns the resulting counts. What a
 * count was before follows from the change. The rows that came to 0 are deleted afterwards.
 * They are locked by then, so nothing is waited for, and none has changed since. A transaction
 * that has waited for such a row finds it gone, and inserts it again: INSERT ... ON CONFLICT
 * retries.
 *
 * The changes of the counters' values are added to the pending deltas when all rows of the
 * table are written, as pending deltas may be written then, which is done as another owner.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/activity.h"
#include "base/args.h"
#include "core/counter/sqlpath.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "transactional/bound/refs.h"
#include "transactional/bound/sourcetrigger.h"

#define DC_OF_REFS DC_OF_MORE

/* Counts that one statement changes. */
#define BATCH 1000

/* keys, items, changes */
static const DcStatement sql_add = {
	.text = "INSERT INTO @refs AS r (key, item, n)"
			" SELECT d.key, d.item, d.n FROM unnest($1, $2, $3) AS d(key, item, n)"
			" ON CONFLICT (key, item) DO UPDATE SET n = r.n + excluded.n"
			" RETURNING r.key, r.item, r.n",
	.argtypes = {TEXTARRAYOID, TEXTARRAYOID, INT8ARRAYOID},
	.columns = {DC_TEXT("key"), DC_TEXT("item"), DC_BIGINT("n")},
	.of = DC_OF_REFS};

/* keys, items */
static const DcStatement sql_delete_unused = {
	.text = "DELETE FROM @refs AS r USING unnest($1, $2) AS d(key, item)"
			" WHERE r.key = d.key AND r.item = d.item AND r.n = 0",
	.argtypes = {TEXTARRAYOID, TEXTARRAYOID},
	.of = DC_OF_REFS};

/* keys, items */
static const DcStatement sql_read_counts = {
	.text = "SELECT coalesce(r.n, 0) FROM unnest($1, $2) WITH ORDINALITY AS d(key, item, i)"
			" LEFT JOIN @refs AS r ON r.key = d.key AND r.item = d.item ORDER BY d.i",
	.argtypes = {TEXTARRAYOID, TEXTARRAYOID},
	.columns = {DC_BIGINT("n")},
	.of = DC_OF_REFS};

/* How the value of a key changes. */
typedef struct DcValueChange
{
	DcKey key;
	int64 change;
} DcValueChange;

static void write_counter(DcRef **refs, int count);
static void session_begin(DcSqlSession *session, DcCounter *counter, Oid refs);
static const char *refswrite_word(DcCounter *counter, const char *name);
static void add_batch(DcSqlSession *session, DcRef **refs, int count, DcValueChange *changes,
					  int *nchanges);
static void check_row(const DcSqlSession *session, uint64 row, const DcRef *ref);
static int64 effect_of(int64 before, int64 delta);
static void refswrite_note_change(DcValueChange *changes, int *nchanges, const DcRef *ref, int64 change);
static Datum *batch_values(DcRef **refs, int count);
static void error_context(void *arg);

/*
 * refs_write writes records, which are sorted and one for each item, and adds the changes of
 * values to the pending deltas.
 */
void
refs_write(DcRef **refs, int count)
{
	bool read_only = XactReadOnly;

	if (count == 0)
		return;
	/* at the end of a transaction rows of the last statement must be visible, ... */
	CommandCounterIncrement();
	/* ... there is no snapshot, and it may have been declared read-only since */
	PushActiveSnapshot(GetTransactionSnapshot());
	XactReadOnly = false;
	for (int start = 0, end; start < count; start = end)
	{
		for (end = start + 1; end < count && refs[end]->counter == refs[start]->counter; end++)
			;
		write_counter(refs + start, end - start);
	}
	XactReadOnly = read_only;
	PopActiveSnapshot();
}

/*
 * write_counter writes those of one counter table. One that was dropped in this transaction
 * took its counts with it, as does one that is not bound any more.
 */
static void
write_counter(DcRef **refs, int count)
{
	Oid relid = refs[0]->counter;
	ErrorContextCallback context;
	DcValueChange *changes;
	DcSourceRow row;
	DcCounter *counter;
	DcSqlSession session;
	int nchanges = 0;

	if (!counter_exists(relid) || !source_read(relid, &row) || row.refs != refs[0]->refs)
		return;
	context.callback = error_context;
	context.arg = get_rel_name(relid);
	context.previous = error_context_stack;
	error_context_stack = &context;

	changes = palloc_extended(count * sizeof(DcValueChange), MCXT_ALLOC_HUGE);
	counter = counter_lookup(relid);
	activity_note(relid);
	session_begin(&session, counter, row.refs);
	for (int i = 0; i < count; i += BATCH)
		add_batch(&session, refs + i, Min(BATCH, count - i), changes, &nchanges);
	sql_end(&session);
	for (int i = 0; i < nchanges; i++)
		counter_add_amounts(counter, &changes[i].key, DC_NO_HINT, Max(changes[i].change, 0),
							Max(-changes[i].change, 0));
	pfree(changes);
	error_context_stack = context.previous;
}

/*
 * session_begin becomes the owner of a counter table, whose table of counts has its shape.
 */
static void
session_begin(DcSqlSession *session, DcCounter *counter, Oid refs)
{
	AttrNumber atts[3];
	Relation rel;

	sql_begin(session, counter);
	session->word = refswrite_word;
	/* open, so that code of the owner cannot alter it in between two statements */
	rel = refs_open(refs, AccessShareLock, atts);
	sibling_check_owner(counter->relid, refs);
	sql_keep_open(session, DC_OF_REFS, refs);
	table_close(rel, NoLock);
}

/*
 * refswrite_word returns the SQL for a word in the text of a statement.
 */
static const char *
refswrite_word(DcCounter *counter, const char *name)
{
	DcSourceRow row;

	if (strcmp(name, "refs") != 0)
		elog(ERROR, "unrecognized word: %s", name);
	if (!source_read(counter->relid, &row) || !OidIsValid(row.refs))
		elog(ERROR, "counter table \"%s\" has no reference counts", get_rel_name(counter->relid));
	return relation_sql_name(row.refs);
}

/*
 * add_batch writes a batch, and notes how the values of its keys change.
 */
static void
add_batch(DcSqlSession *session, DcRef **refs, int count, DcValueChange *changes, int *nchanges)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter batch",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Datum *values = batch_values(refs, count);
	DcRef **unused = palloc(count * sizeof(DcRef *));
	int nunused = 0;

	CHECK_FOR_INTERRUPTS();
	if (sql_run(session, &sql_add, values) != count)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("reference counts of \"%s\" were not written",
						get_rel_name(session->counter->relid)),
				 errdetail("A trigger or rule prevented rows from being written.")));
	for (int i = 0; i < count; i++)
	{
		int64 n = rows_bigint(&session->rows, i, 3);

		check_row(session, i, refs[i]);
		refswrite_note_change(changes, nchanges, refs[i], effect_of(n - refs[i]->delta, refs[i]->delta));
		if (n == 0)
			unused[nunused++] = refs[i];
	}
	SPI_freetuptable(session->rows.result);
	if (nunused > 0)
		sql_run(session, &sql_delete_unused, batch_values(unused, nunused));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * check_row raises an error if a row that was written is not that of its record.
 */
static void
check_row(const DcSqlSession *session, uint64 row, const DcRef *ref)
{
	DcKey asked = ref_key(ref);
	DcKey found;

	key_from_text(rows_datum(&session->rows, row, 1), &found);
	if (key_compare(&asked, &found) == 0)
	{
		asked = ref_item(ref);
		key_from_text(rows_datum(&session->rows, row, 2), &found);
		if (key_compare(&asked, &found) == 0)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("reference counts of \"%s\" were written to other rows",
					get_rel_name(session->counter->relid)),
			 errdetail("A trigger changed the key or the item.")));
}

/*
 * effect_of returns how the value of a key changes with the count of an item. The count may be
 * anything that the owner has put there.
 */
static int64
effect_of(int64 before, int64 delta)
{
	int64 after = (int64) ((uint64) before + (uint64) delta);

	return (after > 0) - (before > 0);
}

/*
 * refswrite_note_change adds to the change of the value of a record's key. Records of a key follow
 * each other.
 */
static void
refswrite_note_change(DcValueChange *changes, int *nchanges, const DcRef *ref, int64 change)
{
	DcKey key = ref_key(ref);

	if (change == 0)
		return;
	if (*nchanges == 0 || key_compare(&changes[*nchanges - 1].key, &key) != 0)
		changes[(*nchanges)++] = (DcValueChange){.key = key};
	changes[*nchanges - 1].change += change;
}

/*
 * batch_values makes the parameters of a statement: keys, items, changes.
 */
static Datum *
batch_values(DcRef **refs, int count)
{
	Datum *values = palloc(3 * sizeof(Datum));
	Datum *keys = palloc(count * sizeof(Datum));
	Datum *items = palloc(count * sizeof(Datum));
	Datum *deltas = palloc(count * sizeof(Datum));

	for (int i = 0; i < count; i++)
	{
		DcKey key = ref_key(refs[i]);
		DcKey item = ref_item(refs[i]);

		keys[i] = key_text_datum(&key);
		items[i] = key_text_datum(&item);
		deltas[i] = Int64GetDatum(refs[i]->delta);
	}
	values[0] = array_datum(keys, count, TEXTOID);
	values[1] = array_datum(items, count, TEXTOID);
	values[2] = array_datum(deltas, count, INT8OID);
	return values;
}

/*
 * refs_effect calls a function with what records of one counter table, sorted and one for each
 * item, would do to values of the caller's snapshot.
 */
void
refs_effect(DcRef **refs, int count, DcRefEffect take, void *arg)
{
	DcCounter *counter = counter_lookup(refs[0]->counter);
	DcValueChange *changes = palloc_extended(count * sizeof(DcValueChange), MCXT_ALLOC_HUGE);
	DcSqlSession session;
	int nchanges = 0;

	session_begin(&session, counter, refs[0]->refs);
	for (int start = 0; start < count; start += BATCH)
	{
		int n = Min(BATCH, count - start);

		CHECK_FOR_INTERRUPTS();
		if (sql_read(&session, &sql_read_counts, batch_values(refs + start, n)) != n)
			elog(ERROR, "unexpected number of rows");
		for (int i = 0; i < n; i++)
			refswrite_note_change(changes, &nchanges, refs[start + i],
								  effect_of(rows_bigint(&session.rows, i, 1), refs[start + i]->delta));
		SPI_freetuptable(session.rows.result);
	}
	sql_end(&session);
	for (int i = 0; i < nchanges; i++)
		take(&changes[i].key, changes[i].change, arg);
	pfree(changes);
}

/*
 * Name the counter table in CONTEXT of errors.
 */
static void
error_context(void *arg)
{
	errcontext("writing reference counts of counter table \"%s\"", (char *) arg);
}
