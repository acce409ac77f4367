/*
 * windowmove.c
 *		The mover: floors rise, rows go to the next level, slots are emptied.
 *
 * All of this is done under the window's lock, and in steps, each a transaction:
 *
 *	1. window_advance raises a floor. From its commit on, writers count in the next level.
 *	2. window_move takes a batch of rows of a turn below the floor out of the slot's totals (rows that are locked are
 *	   passed over; what is in shard rows, compaction brings to the totals) and adds the amounts to the
 *	   next level as pending deltas, which the same transaction writes when it commits, without waiting for
 *	   a row. It is the owner who does so (counter/sqlpath.h), and no code of the owner's runs in the worker.
 *	3. When no row is left, window_finish notes that in a claim of its own. When all snapshots show that note, they
 *	   show all moves: then the slot is truncated, if it is empty still under an exclusive lock, and `gone` is raised
 *	   for those who find an older snapshot nevertheless. The lock is taken if it can be had at once.
 *
 * Amounts that would make a row of the next level leave bigint stay where they are; readers add up in 128
 * bits, and the others go on. The slot is not truncated before its rows have gone the way of their age: once they are
 * older than the last level keeps, they are deleted one by one.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "base/args.h"
#include "base/errors.h"
#include "base/guc.h"
#include "base/relopen.h"
#include "base/runas.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "counter/read.h"
#include "counter/sqlpath.h"
#include "counter/write.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "table/access.h"
#include "table/ownercode.h"
#include "table/partition.h"
#include "table/protect.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "window/window.h"

/* after key, number of the bucket that stays, limit: rows that are not locked */
static const DcStatement sql_move_lock = {
	.text = "SELECT t.key, t.inc, t.dec FROM @totals AS t"
			" WHERE t.key > $1 AND right(t.key, 8) < $2 COLLATE \"C\" ORDER BY t.key"
			" LIMIT $3 FOR UPDATE SKIP LOCKED",
	.argtypes = {TEXTOID, TEXTOID, INT8OID},
	.columns = {DC_TEXT("key"), DC_BIGINT("inc"), DC_BIGINT("dec")}};

/* keys */
static const DcStatement sql_move_delete = {
	.text = "DELETE FROM @totals AS t WHERE t.key = ANY ($1)",
	.argtypes = {TEXTARRAYOID}};

/* number of the bucket that stays */
static const DcStatement sql_move_left = {
	.text = "SELECT (SELECT count(*) FROM (SELECT FROM @totals AS t WHERE right(t.key, 8) < $1 COLLATE \"C\" LIMIT 1) AS a)"
			" + (SELECT count(*) FROM (SELECT FROM @shards AS s WHERE right(s.key, 8) < $1 COLLATE \"C\" LIMIT 1) AS b)",
	.argtypes = {TEXTOID},
	.reads_all = true,
	.columns = {DC_BIGINT("rows")}};

/* A row that is to be moved. */
typedef struct DcMovedRow
{
	Datum key;
	int64 inc;
	int64 dec;
	int level; /* it goes to, or -1: it is too old for all */
	int64 turn;
	DcCounter *counter; /* NULL: it stays */
	DcSlotKey *target;
} DcMovedRow;

static bool has_claim(const List *claims, int level, int64 turn);
static Datum floor_digits(const DcWindow *window, int level);
static bool find_target(DcWindow *window, const DcWindowMove *move, DcMovedRow *row, bool in_worker);
static DcCounter *open_slot(DcWindow *window, int number, bool in_worker);
static void drop_misfits(DcMovedRow *rows, int n);
static int target_compare(const void *a, const void *b);
static void check_target(DcMovedRow **rows, int n);
static int64 write_rows(DcSqlSession *session, DcWindow *window, DcMovedRow *rows, int n);
static bool has_rows(DcWindow *window, DcCounter *counter, int level);
static bool is_shared(const DcWindow *window, const DcWindowMove *move);
static bool seen_by_all(DcCounter *counter, TransactionId xid);
static bool truncate_slot(DcWindow *window, DcCounter *counter, int level);

/*
 * window_advance raises the floor of a level by a turn, or over turns that have no rows, if their time is up; false if
 * there is nothing to do. A turn that has rows goes only if none has gone in the last half of a turn's time, unless
 * `at_once`: when the clock is far ahead for a while, that is all that can be lost.
 */
bool
window_advance(DcWindowRow *row, const List *claims, TimestampTz now, bool at_once)
{
	DcLevels *levels = &row->levels;
	bool changed = false;

	for (int l = 0; l < levels->n; l++)
	{
		int64 length = levels->spans[l] * levels->widths[l];
		int64 turn = time_turn(levels, l, levels->floors[l]);
		int64 last = time_turn(levels, l, now - levels->keeps[l]) - 1;
		bool rows = false;

		/* not past the floor of the level before, from which rows come */
		if (l > 0)
			last = Min(last, time_turn(levels, l, levels->floors[l - 1]) - 1);
		for (; turn <= last; turn++)
		{
			if (has_claim(claims, l, turn))
			{
				if (!at_once &&
					(rows || (levels->advanced[l] <= now && now - levels->advanced[l] < length / 2)))
					break;
				rows = true;
			}
			else if (!has_claim(claims, l, -1) && turn < last - 2 * WINDOW_SLOTS)
				turn = last - 2 * WINDOW_SLOTS; /* a long time without any */
			levels->floors[l] = window_turn_end(levels, l, turn);
			changed = true;
		}
		if (rows)
			levels->advanced[l] = now;
	}
	return changed;
}

/*
 * has_claim tells whether a turn may have rows; of a turn below zero, whether any has.
 */
static bool
has_claim(const List *claims, int level, int64 turn)
{
	ListCell *lc;

	foreach(lc, claims)
	{
		const DcWindowClaim *claim = lfirst(lc);

		if (claim->level == level && (claim->turn == turn || turn < 0))
			return true;
	}
	return false;
}

/*
 * window_move moves the next batch of a turn, and returns the number of rows.
 */
int64
window_move(DcWindow *window, DcWindowMove *move, bool in_worker)
{
	int number = window_turn_slot(move->level, move->turn);
	DcCounter *counter = open_slot(window, number, in_worker);
	DcSqlSession session;
	DcMovedRow *rows;
	Datum values[3];
	int64 moved = 0;
	int n;

	if (counter == NULL)
	{
		move->done = move->kept = true;
		return 0;
	}
	values[0] = PointerGetDatum(cstring_to_text_with_len(move->after->data, move->after->len));
	values[1] = floor_digits(window, move->level);
	values[2] = Int64GetDatum(dc_compact_batch);
	sql_begin(&session, counter);
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
	if (n > 0)
	{
		DcKey last;

		key_from_text(rows[n - 1].key, &last);
		resetStringInfo(move->after);
		appendBinaryStringInfo(move->after, last.data, last.len);
	}
	drop_misfits(rows, n);
	moved = write_rows(&session, window, rows, n);
	move->kept |= moved < n;
	move->done = n < dc_compact_batch;
	sql_end(&session);
	return moved;
}

/*
 * floor_digits returns the first bucket that stays in a level, as in its keys.
 */
static Datum
floor_digits(const DcWindow *window, int level)
{
	const DcLevels *levels = &window->row.levels;
	int64 bucket = bucket_of(levels->floors[level], levels->widths[level]);

	return CStringGetTextDatum(psprintf("%08x", (uint32) Min(Max(bucket, 0), BUCKET_MAX)));
}

/*
 * find_target finds where a row goes. False if it has to stay.
 */
static bool
find_target(DcWindow *window, const DcWindowMove *move, DcMovedRow *row, bool in_worker)
{
	const DcLevels *levels = &window->row.levels;
	DcKey whole;
	DcKey key;
	int64 bucket;
	int64 target;

	key_from_text(row->key, &whole);
	if (!slot_key_split(&whole, &key, &bucket))
		return false; /* somebody else's */
	row->level = level_of(levels, bucket_start(bucket, levels->widths[move->level]));
	if (row->level < 0)
		return true;
	if (row->level <= move->level)
		return false;
	target = bucket_of(bucket_start(bucket, levels->widths[move->level]), levels->widths[row->level]);
	row->turn = bucket_turn(levels, row->level, target);
	row->counter = open_slot(window, window_turn_slot(row->level, row->turn), in_worker);
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
 * open_slot opens a counter table without waiting; NULL if it is in use by DDL, or cannot be worked on.
 */
static DcCounter *
open_slot(DcWindow *window, int number, bool in_worker)
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
 * drop_misfits lets rows stay that would make the sum of their key in the next level leave bigint. Rows that go to one
 * row there need not follow each other: between two buckets of a key may be those of longer keys (bucket.c).
 */
static void
drop_misfits(DcMovedRow *rows, int n)
{
	DcMovedRow **moved = palloc(Max(n, 1) * sizeof(DcMovedRow *));
	int nmoved = 0;

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
		check_target(moved + first, end - first);
	}
	pfree(moved);
}

/*
 * target_compare is for the rows of one target beside each other, in the order in which they were read.
 */
static int
target_compare(const void *a, const void *b)
{
	const DcMovedRow *left = *(DcMovedRow *const *) a;
	const DcMovedRow *right = *(DcMovedRow *const *) b;
	int result;

	if (left->counter->relid != right->counter->relid)
		return left->counter->relid < right->counter->relid ? -1 : 1;
	result = key_compare(&left->target->key, &right->target->key);
	return result != 0 ? result : (left > right) - (left < right);
}

/*
 * check_target lets those stay, of the rows that go to one row, that do not fit in there.
 */
static void
check_target(DcMovedRow **rows, int n)
{
	Datum key = key_text_datum(&rows[0]->target->key);
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
			rows[i]->counter = NULL;
	}
}

/*
 * write_rows deletes the rows here, and adds their amounts there. Returns how many they are.
 */
static int64
write_rows(DcSqlSession *session, DcWindow *window, DcMovedRow *rows, int n)
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
 * window_finish does the next thing about a turn that has no rows left, or whose rows are not kept any more. False if
 * there is nothing that can be done now.
 */
bool
window_finish(DcWindow *window, const DcWindowMove *move, bool in_worker)
{
	int level = move->level;
	bool last = level == window->row.levels.n - 1;
	int number = window_turn_slot(level, move->turn);
	DcCounter *counter = open_slot(window, number, in_worker);
	bool shared = is_shared(window, move);
	DcCounterRow row;

	if (counter == NULL || (last && shared))
		return false;
	if (!last)
	{
		if (has_rows(window, counter, level))
		{
			if (move->emptied)
				window_claims_delete(window->relid, level, move->turn, true);
			return false;
		}
		if (!move->emptied)
		{
			window_claim_insert(window->relid, level, move->turn, true);
			return true;
		}
		if (!seen_by_all(counter, move->noted_by))
			return false;
	}
	if (!counter_lock_at_once(window->slots[number], AccessExclusiveLock, &row))
		return false;
	counter = counter_open_at_once(window->slots[number], AccessExclusiveLock);
	if (counter == NULL || (!last && has_rows(window, counter, level)) || is_shared(window, move) != shared)
		return false;
	if (!shared)
		(void) truncate_slot(window, counter, level);
	window_claims_delete(window->relid, level, move->turn, false);
	return true;
}

/*
 * has_rows tells whether a slot has rows below the floor that are committed, in either table.
 */
static bool
has_rows(DcWindow *window, DcCounter *counter, int level)
{
	Datum value = floor_digits(window, level);
	DcSqlSession session;
	bool found;

	PushActiveSnapshot(GetLatestSnapshot());
	sql_begin(&session, counter);
	(void) sql_read(&session, &sql_move_left, &value);
	found = rows_bigint(&session.rows, 0, 1) > 0;
	sql_end(&session);
	PopActiveSnapshot();
	return found;
}

/*
 * is_shared tells whether the slot of a turn may have rows of another turn that are not to go with it.
 */
static bool
is_shared(const DcWindow *window, const DcWindowMove *move)
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
 * seen_by_all tells whether every snapshot that may read a table shows what a transaction has done.
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
 * truncate_slot truncates both tables, which are locked, and says so in the window's row.
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
	row.levels.gone[level] = row.levels.floors[level];
	(void) window_row_update(&row);
	runas_begin(&state, window->owner);
	partition_empty(totals);
	partition_empty(shards);
	runas_end(&state);
	return true;
}
