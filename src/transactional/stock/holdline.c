/*
 * holdline.c
 *		Statements on a stock's table of holds, and the keys of the units in a row of it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A hold of one key has it in the columns key and qty. One of several has them in keys and qtys:
 * its key is the first of them, and its qty the sum. Tables that were created by 0.1 do not have
 * these two columns, so statements do not name them, but words that stand for them or for NULL:
 *
 *	@keys, @qtys	the two columns
 *	@nlines			of how many keys a hold has units
 *	@first			how many units a hold has of its first key
 *	@lines			a query of the keys of a hold and how many units it has of each
 *	@has			whether it has units of key $3
 *
 * A hold of several keys is found by its first key alone, as there is an index on that. So when it
 * has expired, the units of its first key count as available at once; those of the others do when
 * it is ended.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

#include "base/key.h"
#include "core/counter/sqlpath.h"
#include "transactional/stock/hold.h"
#include "transactional/stock/take.h"

/* Columns of holds_shape. */
#define HOLD_COLUMN_KEYS 9
#define HOLD_COLUMN_QTYS 10

/* More bytes than the largest array of a hold has, which is that of its keys. */
#define MAX_LINES_BYTES (HOLD_MAX_LINES * (DC_MAX_KEY_BYTES + MAXIMUM_ALIGNOF) + 1024)

static bool holds_have_lines(const DcCounter *counter);
static const char *hold_word(DcCounter *counter, const char *word);
static void lines_error(DcSqlSession *session);
static void check_few(DcSqlSession *session, Datum array);

/*
 * holds_begin is sql_begin() for statements on the table of holds. It locks the table and
 * checks it, each time, since code of the owner may have altered it.
 */
void
holds_begin(DcSqlSession *session, DcCounter *counter, LOCKMODE mode)
{
	LockRelationOid(counter->row.holds, mode);
	counter_holds_layout(counter);
	holds_session(session, counter);
}

/*
 * holds_session is the same for a table that is locked and was checked.
 */
void
holds_session(DcSqlSession *session, DcCounter *counter)
{
	sql_begin(session, counter);
	session->word = hold_word;
}

/*
 * Return true if the table of holds, which was checked, can have holds of several keys.
 */
static bool
holds_have_lines(const DcCounter *counter)
{
	return counter->holds.atts[HOLD_COLUMN_KEYS] != InvalidAttrNumber &&
		counter->holds.atts[HOLD_COLUMN_QTYS] != InvalidAttrNumber;
}

/*
 * holds_check_lines raises 42809 if it cannot.
 */
void
holds_check_lines(const DcCounter *counter)
{
	if (!holds_have_lines(counter))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("stock \"%s\" cannot have holds of several keys", get_rel_name(counter->relid)),
				 errdetail("Its table of holds was created by a version of dcounter that did not have them."),
				 errhint("Use ALTER TABLE %s ADD COLUMN keys text[] COLLATE \"C\", ADD COLUMN qtys bigint[].",
						 quote_qualified_identifier(get_namespace_name(get_rel_namespace(counter->row.holds)),
													get_rel_name(counter->row.holds)))));
}

/*
 * hold_word returns the meaning of a word in a statement on holds.
 */
static const char *
hold_word(DcCounter *counter, const char *word)
{
	static const struct
	{
		const char *word;
		const char *with; /* the two columns */
		const char *without;
	} meanings[] = {
		{"keys", "h.keys", "NULL::text[]"},
		{"qtys", "h.qtys", "NULL::int8[]"},
		{"nlines", "coalesce(cardinality(h.keys), 1)", "1"},
		{"first", "CASE WHEN h.keys IS NULL THEN h.qty ELSE h.qtys[1] END", "h.qty"},
		{"lines", "SELECT h.key, h.qty WHERE h.keys IS NULL UNION ALL SELECT * FROM unnest(h.keys, h.qtys)", "SELECT h.key, h.qty"},
		{"has", "(h.key = $3 OR $3 = ANY (h.keys))", "h.key = $3"},
	};

	for (int i = 0; i < lengthof(meanings); i++)
	{
		if (strcmp(word, meanings[i].word) == 0)
			return holds_have_lines(counter) ? meanings[i].with : meanings[i].without;
	}
	elog(ERROR, "unrecognized word: %s", word);
}

/*
 * Raise the error for a hold that was not made by dcounter.
 */
static void
lines_error(DcSqlSession *session)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not as dcounter created it", get_rel_name(session->counter->row.holds)),
			 errdetail("The keys and quantities of a hold do not match.")));
}

/*
 * Raise 42809 if an array of a hold has more elements than dcounter's own holds.
 */
static void
check_few(DcSqlSession *session, Datum array)
{
	ArrayType *elements;

	if (toast_raw_datum_size(array) > MAX_LINES_BYTES) /* before it is decompressed */
		lines_error(session);
	elements = DatumGetArrayTypeP(array);
	if (ArrayGetNItems(ARR_NDIM(elements), ARR_DIMS(elements)) > HOLD_MAX_LINES)
		lines_error(session);
}

/*
 * hold_lines returns what the hold in a row of the last result has, in the order of keys. The row
 * begins with the columns DC_HOLD_LINES. Raises 42809 if the row was made by hand, and is not like
 * that.
 */
DcCartLine *
hold_lines(DcSqlSession *session, uint64 row, int *count)
{
	bool no_keys;
	bool no_qtys;
	Datum keys = rows_nullable(&session->rows, row, 3, &no_keys);
	Datum qtys = rows_nullable(&session->rows, row, 4, &no_qtys);
	Datum *key_values;
	Datum *qty_values;
	bool *key_nulls;
	bool *qty_nulls;
	DcCartLine *lines;
	int nqtys = 0;
	bool sound;

	if (no_keys)
	{
		lines = palloc(sizeof(DcCartLine));
		*count = 1;
		key_from_text(datumCopy(rows_datum(&session->rows, row, 1), false, -1), &lines->key);
		lines->qty = rows_bigint(&session->rows, row, 2);
		return lines;
	}
	check_few(session, keys);
	if (!no_qtys)
		check_few(session, qtys);
	deconstruct_array(DatumGetArrayTypePCopy(keys), TEXTOID, -1, false, TYPALIGN_INT, &key_values, &key_nulls, count);
	if (!no_qtys)
		deconstruct_array(DatumGetArrayTypePCopy(qtys), INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
						  &qty_values, &qty_nulls, &nqtys);
	sound = *count > 1 && nqtys == *count;
	lines = palloc(Max(*count, 1) * sizeof(DcCartLine));
	for (int i = 0; sound && i < *count; i++)
	{
		sound = !key_nulls[i] && !qty_nulls[i];
		if (!sound)
			break;
		key_from_text(key_values[i], &lines[i].key);
		lines[i].qty = DatumGetInt64(qty_values[i]);
	}
	if (!sound)
		lines_error(session);
	return lines;
}

/*
 * hold_lines_give_back gives back what a hold has, when the transaction commits.
 */
void
hold_lines_give_back(DcCounter *counter, const DcCartLine *lines, int count)
{
	for (int i = 0; i < count; i++)
		stock_give_back(counter, &lines[i].key, lines[i].qty);
}
