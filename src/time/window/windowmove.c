/*
 * windowmove.c
 *		The mover: floors rise, rows go to the next level, slots are emptied.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * All of this is done under the window's lock, and in steps, each a transaction:
 *
 *	1. window_advance raises a floor. From its commit on, writers count in the next level.
 *	2. window_move takes a batch of rows of a turn below the floor out of the slot's totals (locked
 *	   rows are skipped; compaction brings shard rows to the totals) and adds the amounts to the
 *	   next level as pending deltas, which the same transaction writes when it commits, without
 *	   waiting for a row. That is done as the owner (core/counter/sqlpath.h), and no code of the
 *	   owner runs in the worker. A step reads no more than PAGE_ROWS, whether they are to be moved
 *	   or not.
 *	3. When no row is left, window_finish notes that in a claim of its own. When all snapshots show
 *	   that note, they show all moves: then the slot is truncated, if it is still empty under an
 *	   exclusive lock, and `gone` is raised for sessions that have an older snapshot nevertheless.
 *	   The lock is taken only if it is free.
 *
 * Amounts that would make a row of the next level leave bigint stay where they are; readers add up
 * in 128 bits, and other amounts are moved. The slot is not truncated until these rows are gone,
 * too: once they are older than the last level keeps, they are deleted one by one. One claim for each
 * slot is enough for that: when a later turn has the slot, the claim of the one before goes, or there
 * would be ever more of them.
 *
 * An owner may have put rows into a slot that no increment writes. Rows below the floor stay, and
 * keep the slot from being truncated; others are truncated with it, but by the worker only up to
 * PAGE_ROWS, as it has to read them all. A slot with more of either is put aside (windowaside.c).
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "core/counter/read.h"
#include "core/counter/sqlpath.h"
#include "core/counter/write.h"
#include "core/table/access.h"
#include "core/table/ownercode.h"
#include "core/table/partition.h"
#include "core/table/protect.h"
#include "time/window/window.h"

/* How many rows a step reads at most. */
#define PAGE_ROWS (INT64CONST(10) * dc_compact_batch)

/* after key, limit: the last key of the next rows, up to the limit, and how many there are */
static const DcStatement sql_move_page = {
	.text = "SELECT max(p.key), count(*) FROM (SELECT t.key FROM @totals AS t"
			" WHERE t.key > $1 ORDER BY t.key LIMIT $2) AS p",
	.argtypes = {TEXTOID, INT8OID},
	.columns = {DC_NULLABLE("key", TEXTOID), DC_BIGINT("rows")}};

/* after key, number of the bucket that stays, limit, up to key: rows that are not locked */
static const DcStatement sql_move_lock = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t"
			" WHERE t.key > $1 AND t.key <= $4 AND right(t.key, 8) < $2 COLLATE \"C\" ORDER BY t.key"
			" LIMIT $3 FOR UPDATE SKIP LOCKED",
	.argtypes = {TEXTOID, TEXTOID, INT8OID, TEXTOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* keys */
static const DcStatement sql_move_delete = {
	.text = "DELETE FROM @totals AS t WHERE t.key = ANY ($1)",
	.argtypes = {TEXTARRAYOID}};

/*
 * number of the bucket that stays, limit: how many rows are there, up to that, whether any is to
 * go, and one of the keys
 */
static const DcStatement sql_move_left = {
	.text = "SELECT count(*), count(*) FILTER (WHERE right(r.key, 8) < $1 COLLATE \"C\"), min(r.key) FROM"
			" ((SELECT t.key FROM @totals AS t LIMIT $2) UNION ALL (SELECT s.key FROM @shards AS s LIMIT $2)) AS r",
	.argtypes = {TEXTOID, INT8OID},
	.reads_all = true,
	.columns = {DC_BIGINT("rows"), DC_BIGINT("rows"), DC_NULLABLE("key", TEXTOID)}};

/* The rows that a slot has left. */
typedef enum DcLeft
{
	LEFT_NOTHING, /* that is below the floor */
	LEFT_ROWS,	  /* that are */
	LEFT_MANY	  /* too many for the worker to read on */
} DcLeft;

/* A row to move. */
typedef struct DcMovedRow
{
	Datum key;
	int64 inc;
	int64 dec;
	int level; /* the level it goes to, or -1: it is too old for all */
	int64 turn;
	DcCounter *counter; /* NULL: it stays, */
	bool foreign;		/* because no increment writes such a row */
	DcSlotKey *target;
} DcMovedRow;

static int64 first_claimed(const List *claims, int level, int64 turn, int64 last);
static bool next_page(DcSqlSession *session, const DcWindowMove *move, Datum *end);
static Datum floor_digits(const DcWindow *window, int level);
static bool find_target(DcWindow *window, const DcWindowMove *move, DcMovedRow *row, bool in_worker);
static bool drop_misfits(DcMovedRow *rows, int n);
static int target_compare(const void *a, const void *b);
static bool check_target(DcMovedRow **rows, int n);
static int64 windowmove_write_rows(DcSqlSession *session, DcWindow *window, DcMovedRow *rows, int n);
static void note_foreign(DcWindowMove *move, const DcMovedRow *rows, int n);
static void windowmove_set_key(StringInfo buf, Datum text);
static DcLeft rows_left(DcWindow *window, DcCounter *counter, DcWindowMove *move, bool in_worker);
static bool windowmove_is_shared(const DcWindow *window, const DcWindowMove *move);
static bool seen_by_all(DcCounter *counter, TransactionId xid);
static bool truncate_slot(DcWindow *window, DcCounter *counter, int level);

/*
 * Raise the floors of levels whose time is up; return false if there is nothing to do. Unless
 * `at_once`, a floor rises at most once in half of a turn's time, past one turn that has rows.
 * Turns without rows are passed over only if the clock has gone on evenly since the floor rose
 * before: a clock that is far ahead for a while costs one turn, and when it is right again all
 * increments are accepted as before. The claims are looked at rather than the turns: there may be
 * any number of turns between the floor and a given time.
 */
bool
window_advance(DcWindowRow *row, const List *claims, TimestampTz now, bool at_once)
{
	DcLevels *levels = &row->levels;
	bool changed = false;

	for (int l = 0; l < levels->n; l++)
	{
		int64 turn = time_turn(levels, l, levels->floors[l]);
		int64 length = window_turn_end(levels, l, turn) - window_turn_end(levels, l, turn - 1);
		int64 last = time_turn(levels, l, level_since(levels, l, now)) - 1;
		int64 since = now - levels->advanced[l];
		TimestampTz floor;

		/* not past the floor of the level before, from which rows come */
		if (l > 0)
			last = Min(last, time_turn(levels, l, levels->floors[l - 1]) - 1);
		if (turn > last || (!at_once && since >= 0 && since < length / 2))
			continue;
		if (at_once)
			turn = last;
		else if (since >= 0 && since < 2 * length)
			turn = first_claimed(claims, l, first_claimed(claims, l, turn, last) + 1, last) - 1;
		/* not past a turn that is kept */
		floor = Min(level_border(levels, l, window_turn_end(levels, l, Min(turn, last)), true),
					level_border(levels, l, window_turn_end(levels, l, last), false));
		if (floor <= levels->floors[l])
			continue;
		levels->floors[l] = floor;
		levels->advanced[l] = now;
		changed = true;
	}
	return changed;
}

/*
 * first_claimed returns the first turn from `turn` to `last` that may have rows, or last + 1.
 */
static int64
first_claimed(const List *claims, int level, int64 turn, int64 last)
{
	int64 first = last + 1;
	ListCell *lc;

	foreach(lc, claims)
	{
		const DcWindowClaim *claim = lfirst(lc);

		if (claim->level == level && claim->turn >= turn)
			first = Min(first, claim->turn);
	}
	return first;
}

/*
 * window_move moves the next batch of a turn, and returns the number of rows.
 */
int64
window_move(DcWindow *window, DcWindowMove *move, bool in_worker)
{
	int number = window_turn_slot(move->level, move->turn);
	DcCounter *counter = window_open_slot(window, number, in_worker);
	DcSqlSession session;
	DcMovedRow *rows;
	Datum values[4];
	int64 moved = 0;
	bool last;
	int n;

	if (counter == NULL)
	{
		move->done = move->kept = true;
		return 0;
	}
	sql_begin(&session, counter);
	last = !next_page(&session, move, &values[3]);
	values[0] = PointerGetDatum(cstring_to_text_with_len(move->after->data, move->after->len));
	values[1] = floor_digits(window, move->level);
	values[2] = Int64GetDatum(dc_compact_batch);
	n = (int) sql_run(&session, &sql_move_lock, values);
	rows = palloc0(Max(n, 1) * sizeof(DcMovedRow));
	for (int i = 0; i < n; i++)
	{
		DcMovedRow *row = &rows[i];

		row->key = rows_datum(&session.rows, i, 1);
		row->inc = rows_bigint(&session.rows, i, 2);
		row->dec = rows_bigint(&session.rows, i, 3);
		if (!find_target(window, move, row, in_worker))
			row->counter = NULL;
	}
	windowmove_set_key(move->after, n == dc_compact_batch ? rows[n - 1].key : values[3]);
	move->misfits |= drop_misfits(rows, n);
	moved = windowmove_write_rows(&session, window, rows, n);
	note_foreign(move, rows, n);
	move->kept |= moved < n;
	move->done = last && n < dc_compact_batch;
	sql_end(&session);
	return moved;
}

/*
 * next_page finds the end of the rows that a step looks at. False if none follow.
 */
static bool
next_page(DcSqlSession *session, const DcWindowMove *move, Datum *end)
{
	Datum values[2];
	bool isnull;

	values[0] = PointerGetDatum(cstring_to_text_with_len(move->after->data, move->after->len));
	values[1] = Int64GetDatum(PAGE_ROWS);
	(void) sql_run(session, &sql_move_page, values);
	*end = rows_nullable(&session->rows, 0, 1, &isnull);
	if (isnull)
		*end = values[0];
	return rows_bigint(&session->rows, 0, 2) == PAGE_ROWS;
}

/*
 * note_foreign remembers the first row that was written by hand.
 */
static void
note_foreign(DcWindowMove *move, const DcMovedRow *rows, int n)
{
	for (int i = 0; i < n && move->foreign->len == 0; i++)
	{
		if (rows[i].foreign)
			windowmove_set_key(move->foreign, rows[i].key);
	}
}

/*
 * Copy the bytes of a key to the buffer.
 */
static void
windowmove_set_key(StringInfo buf, Datum text)
{
	DcKey key;

	key_from_text(text, &key);
	resetStringInfo(buf);
	appendBinaryStringInfo(buf, key.data, key.len);
}

/*
 * floor_digits returns the first bucket that stays in a level, as in its keys.
 */
static Datum
floor_digits(const DcWindow *window, int level)
{
	const DcLevels *levels = &window->row.levels;

	return window_digits(level_bucket(levels, level, levels->floors[level]));
}

/*
 * find_target finds where a row goes. False if it has to stay.
 */
static bool
find_target(DcWindow *window, const DcWindowMove *move, DcMovedRow *row, bool in_worker)
{
	const DcLevels *levels = &window->row.levels;
	DcKey whole;
	TimestampTz start;
	DcKey key;
	int64 bucket;
	int64 target;

	key_from_text(row->key, &whole);
	row->foreign = !slot_key_split(&whole, &key, &bucket);
	if (row->foreign)
		return false;
	start = level_start(levels, move->level, bucket);
	row->level = level_of(levels, start);
	if (row->level < 0)
		return true;
	if (row->level <= move->level)
		return false;
	target = level_bucket(levels, row->level, start);
	row->turn = bucket_turn(levels, row->level, target);
	row->counter = window_open_slot(window, window_turn_slot(row->level, row->turn), in_worker);
	row->target = palloc(sizeof(DcSlotKey));
	slot_key_make(&key, target, row->target);
	if (row->inc < 0 || row->dec < 0) /* the owner has edited it */
	{
		int64 value;

		if (pg_sub_s64_overflow(row->inc, row->dec, &value) || value == PG_INT64_MIN)
			return false;
		row->inc = Max(value, 0);
		row->dec = Max(-value, 0);
	}
	return row->counter != NULL;
}

/*
 * window_open_slot opens a counter table without waiting; NULL if it is in use by DDL, or cannot be
 * worked on.
 */
DcCounter *
window_open_slot(DcWindow *window, int number, bool in_worker)
{
	Oid slot = window->slots[number];
	const char *reason;
	DcCounter *counter;

	if (!OidIsValid(slot) || (in_worker && ownercode_begin(slot, &reason) != DC_CODE_NONE))
		return NULL;
	counter = counter_open_at_once(slot, RowExclusiveLock);
	if (counter == NULL || counter->owner != window->owner || counter->fed || counter_is_stock(counter) ||
		OidIsValid(counter->row.ledger) || counter->bound || counter_is_replicated(counter) ||
		counter_is_buffered(counter))
		return NULL;
	return counter;
}

/*
 * drop_misfits leaves out rows that would make the sum of their key in the next level leave bigint,
 * and returns true if there are any. Rows that go to one row there need not be adjacent: between two
 * buckets of a key may be those of longer keys (bucket.c).
 */
static bool
drop_misfits(DcMovedRow *rows, int n)
{
	DcMovedRow **moved = palloc(Max(n, 1) * sizeof(DcMovedRow *));
	int nmoved = 0;
	bool any = false;

	for (int i = 0; i < n; i++)
	{
		if (rows[i].counter != NULL)
			moved[nmoved++] = &rows[i];
	}
	qsort(moved, nmoved, sizeof(DcMovedRow *), target_compare);
	for (int first = 0, end; first < nmoved; first = end)
	{
		end = first + 1;
		while (end < nmoved && moved[end]->counter == moved[first]->counter &&
			   key_compare(&moved[end]->target->key, &moved[first]->target->key) == 0)
			end++;
		any |= check_target(moved + first, end - first);
	}
	pfree(moved);
	return any;
}

/*
 * target_compare sorts rows by their targets, and those of one target in the order in which they
 * were read.
 */
static int
target_compare(const void *a, const void *b)
{
	const DcMovedRow *left = *(DcMovedRow *const *) a;
	const DcMovedRow *right = *(DcMovedRow *const *) b;
	int result;

	CHECK_FOR_INTERRUPTS(); /* of a long qsort() */
	if (left->counter->relid != right->counter->relid)
		return left->counter->relid < right->counter->relid ? -1 : 1;
	result = key_compare(&left->target->key, &right->target->key);
	return result != 0 ? result : (left > right) - (left < right);
}

/*
 * check_target leaves out, of the rows that go to one row, those that do not fit into it, and returns
 * true if there are any.
 */
static bool
check_target(DcMovedRow **rows, int n)
{
	Datum key = key_text_datum(&rows[0]->target->key);
	bool any = false;
	DcSums sums;

	for (int snapshots = counter_sums(rows[0]->counter, &key, 1, &sums); snapshots > 0; snapshots--)
		PopActiveSnapshot();
	for (int i = 0; i < n; i++)
	{
		DcSums with = sums;
		int64 ignored;

		sums_add(&with, rows[i]->inc, rows[i]->dec);
		if (sums_fit(with.inc, &ignored) && sums_fit(with.dec, &ignored))
			sums = with;
		else
		{
			rows[i]->counter = NULL;
			any = true;
		}
	}
	return any;
}

/*
 * windowmove_write_rows deletes the rows in this level, and adds their amounts to the next. Returns
 * how many rows that were.
 */
static int64
windowmove_write_rows(DcSqlSession *session, DcWindow *window, DcMovedRow *rows, int n)
{
	Datum *keys = palloc(Max(n, 1) * sizeof(Datum));
	int nkeys = 0;
	Datum array;

	for (int i = 0; i < n; i++)
	{
		if (rows[i].counter != NULL || rows[i].level < 0)
			keys[nkeys++] = rows[i].key;
	}
	if (nkeys == 0)
		return 0;
	array = array_datum(keys, nkeys, TEXTOID);
	if (sql_run(session, &sql_move_delete, &array) != nkeys)
		serialization_error();
	for (int i = 0; i < n; i++)
	{
		if (rows[i].counter == NULL)
			continue;
		if (window->claimed[window_turn_slot(rows[i].level, rows[i].turn)] != rows[i].turn)
			window_claim(window, rows[i].level, rows[i].turn);
		counter_add_amounts(rows[i].counter, &rows[i].target->key, DC_NO_HINT, rows[i].inc, rows[i].dec);
	}
	return nkeys;
}

/*
 * window_finish does the next thing about a turn that has no rows left, or whose rows are no longer
 * kept. False if nothing more can be done now.
 */
bool
window_finish(DcWindow *window, DcWindowMove *move, bool in_worker)
{
	int level = move->level;
	bool last = level == window->row.levels.n - 1;
	int number = window_turn_slot(level, move->turn);
	DcCounter *counter = window_open_slot(window, number, in_worker);
	bool shared = windowmove_is_shared(window, move);
	bool handed_on = false; /* to the claim of a later turn: nothing is truncated, so no snapshot matters */
	DcCounterRow row;

	if (counter == NULL || (last && shared))
		return false;
	if (!last)
	{
		DcLeft left = rows_left(window, counter, move, in_worker);

		/* the rest of a slot with a later turn is moved with that turn, at the latest */
		handed_on = left == LEFT_ROWS && shared && move->misfits;
		if (!handed_on && (left == LEFT_ROWS || (left == LEFT_MANY && !shared)))
		{
			if (move->emptied)
				window_claims_delete(window->relid, level, move->turn, true);
			return false;
		}
		if (!handed_on && !move->emptied)
		{
			window_claim_insert(window->relid, level, move->turn, true);
			return true;
		}
		if (!handed_on && !seen_by_all(counter, move->noted_by))
			return false;
	}
	if (!counter_lock_at_once(window->slots[number], AccessExclusiveLock, &row))
		return false;
	counter = counter_open_at_once(window->slots[number], AccessExclusiveLock);
	if (counter == NULL || windowmove_is_shared(window, move) != shared ||
		(!last && !shared && rows_left(window, counter, move, in_worker) != LEFT_NOTHING))
		return false;
	if (!shared)
		(void) truncate_slot(window, counter, level);
	window_claims_delete(window->relid, level, move->turn, false);
	return !handed_on;
}

/*
 * rows_left returns whether a slot has rows below the floor that are committed, in either table.
 * The worker reads only a limited number of rows of other turns. If there are more, and no claim
 * says why, one of them is remembered.
 */
static DcLeft
rows_left(DcWindow *window, DcCounter *counter, DcWindowMove *move, bool in_worker)
{
	Datum values[2] = {floor_digits(window, move->level), Int64GetDatum(in_worker ? PAGE_ROWS : PG_INT64_MAX)};
	DcLeft result = LEFT_NOTHING;
	DcSqlSession session;

	PushActiveSnapshot(GetLatestSnapshot());
	sql_begin(&session, counter);
	(void) sql_read(&session, &sql_move_left, values);
	if (rows_bigint(&session.rows, 0, 2) > 0)
		result = LEFT_ROWS;
	else if (in_worker && rows_bigint(&session.rows, 0, 1) >= PAGE_ROWS)
	{
		bool isnull;

		result = LEFT_MANY;
		if (!windowmove_is_shared(window, move))
			windowmove_set_key(move->foreign, rows_nullable(&session.rows, 0, 3, &isnull));
	}
	sql_end(&session);
	PopActiveSnapshot();
	return result;
}

/*
 * Return true if the slot of a turn may have rows of another turn that must not be truncated with
 * it.
 */
static bool
windowmove_is_shared(const DcWindow *window, const DcWindowMove *move)
{
	int level = move->level;
	List *claims = window_claims_read(window->relid);
	bool found = false;
	ListCell *lc;

	foreach(lc, claims)
	{
		const DcWindowClaim *claim = lfirst(lc);

		if (claim->level == level && claim->turn != move->turn &&
			window_turn_slot(level, claim->turn) == window_turn_slot(level, move->turn) &&
			(level < window->row.levels.n - 1 || window_turn_end(&window->row.levels, level, claim->turn) > window->row.levels.floors[level]))
			found = true;
	}
	list_free_deep(claims);
	return found;
}

/*
 * Return true if every snapshot that may read a table shows what a transaction has done.
 */
static bool
seen_by_all(DcCounter *counter, TransactionId xid)
{
	Relation rel = table_open_present(counter->relid, NoLock);
	bool seen = !TransactionIdIsNormal(xid) ||
		TransactionIdPrecedes(xid, GetOldestNonRemovableTransactionId(rel));

	table_close(rel, NoLock);
	return seen;
}

/*
 * truncate_slot truncates both tables, which are locked, and notes that in the window's row.
 */
static bool
truncate_slot(DcWindow *window, DcCounter *counter, int level)
{
	Oid relid = window->relid;
	Oid shards = counter->row.shards;
	Oid totals = counter->relid;
	DcWindowRow row;
	DcRunAs state;

	if (relation_is_empty(totals) && relation_is_empty(shards))
		return false;
	if (!window_row_read(relid, &row))
		return false;
	/* always a new value: a floor may be where it was at the last TRUNCATE, or lower */
	row.levels.gone[level] = Max(row.levels.floors[level], row.levels.gone[level] + 1);
	(void) window_row_update(&row);
	runas_begin(&state, window->owner);
	partition_empty(totals);
	partition_empty(shards);
	runas_end(&state);
	return true;
}
