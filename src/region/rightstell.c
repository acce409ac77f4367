/*
 * rightstell.c
 *		Reporting to other regions how many units of each key are here.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * When a region is permanently lost, another one can take over the units that it had at its last
 * report (stockregions.c). The reports are in the rows of wants. Sessions and the job "rights"
 * write those of keys that somebody asks for. Units of other keys would be lost with their region.
 * So the job writes a row for each key that has units here, and rewrites it, after UNITS_AGE, when
 * there are more or fewer.
 *
 * A report is the number at a time, and never too low as of that time: units leave for another
 * region in the transaction that reports how many are left, and sales only lower the number. It may
 * be too high by the units sold since. That is why taking them over needs an operator who accepts
 * that.
 *
 * The job looks at KEYS_PER_ROUND keys in a round, in the order of the keys, and continues from
 * there in the next one: so a stock of very many keys does not keep others waiting, and is reported
 * in as many rounds as it needs. The job rests when it has gone over all keys and nothing was to be
 * reported, until somebody changes the stock.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/guc.h"
#include "region/rights.h"

#define KEYS_PER_ROUND 500

/* us: how old a report of the units here may be */
#define UNITS_AGE (INT64CONST(10) * 1000 * 1000)

/* The work that a key needs. */
enum
{
	TOLD,
	TO_TELL,
	TO_TELL_LATER
};

/*
 * this region, how many units there should be at least, a stamp, a key, whether it is the first
 * one: the next keys, with rows of wants or units; to be reported if there is no row, or fewer are
 * here and on their way than there should be, or another number than in the row
 */
static const DcStatement sql_tell_keys = {
	.text = "SELECT k.key, CASE WHEN w.key IS NULL THEN CASE WHEN u.units > 0 THEN 1 ELSE 0 END"
			" WHEN $2 > u.units AND $2 > u.units + greatest(w.wanted::numeric + w.low - greatest("
			"(SELECT coalesce(sum(g.units), 0) FROM @grants AS g WHERE g.key = k.key AND g.to_region = $1 AND g.to_epoch = w.epoch)"
			" - w.granted, 0), 0) THEN 1"
			" WHEN w.units <> u.units THEN CASE WHEN w.hlc < $3 THEN 1 ELSE 2 END ELSE 0 END::int8"
			" FROM (SELECT b.key FROM ((SELECT DISTINCT s.key FROM @shards AS s WHERE s.key >= $4 AND ($5 OR s.key > $4) ORDER BY s.key LIMIT 500)"
			" UNION (SELECT o.key FROM @wants AS o WHERE o.region = $1 AND o.key >= $4 AND ($5 OR o.key > $4) ORDER BY o.key LIMIT 500)) AS b"
			" ORDER BY b.key LIMIT 500) AS k"
			" LEFT JOIN @wants AS w ON w.key = k.key AND w.region = $1"
			" CROSS JOIN LATERAL (SELECT least(coalesce(sum(s.units), 0), 9223372036854775807) FROM @shards AS s WHERE s.key = k.key) AS u(units)"
			" ORDER BY k.key",
	.argtypes = {TEXTOID, INT8OID, INT8OID, TEXTOID, BOOLOID},
	.columns = {DC_TEXT("key"), DC_BIGINT("what")},
	.of = DC_OF_MORE + 1};

/* How far the keys of a stock are checked. */
typedef struct DcTelling
{
	Oid stock;	 /* hash key */
	char *after; /* a key, in TopMemoryContext; NULL: at the beginning */
	bool again;	 /* since then something was, or is, to be reported */
} DcTelling;

/*
 * Stocks (DcTelling) that are gone over, in TopMemoryContext. Those that are dropped in the
 * meantime go when there are many (tellings_forget).
 */
static HTAB *tellings = NULL;

#define MANY_TELLINGS 1000

static DcTelling *telling_of(Oid stock);
static void tellings_forget(void);
static int keys_to_tell(DcCounter *counter, const DcIdentity *identity, const DcTelling *telling, DcKey *keys, int64 *whats);

/*
 * rights_tell reports the next keys of a stock, or all of them if it does not come back soon.
 * Returns true if no key has anything more to report.
 */
bool
rights_tell(DcCounter *counter, const DcIdentity *identity, bool all)
{
	Oid stock = counter->relid;
	DcTelling *telling = telling_of(stock);
	DcKey *keys = palloc(KEYS_PER_ROUND * sizeof(DcKey));
	int64 *whats = palloc(KEYS_PER_ROUND * sizeof(int64));
	bool done;
	int n;

	do
	{
		char *after = NULL;

		if (telling->after == NULL)
			telling->again = false;
		n = keys_to_tell(counter, identity, telling, keys, whats);
		for (int i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			telling->again |= whats[i] != TOLD;
			if (whats[i] == TO_TELL)
				(void) want_change(counter, &keys[i], (DcWantChange){0}, DT_NOBEGIN, false);
		}
		if (n == KEYS_PER_ROUND)
			after = MemoryContextStrdup(TopMemoryContext, TextDatumGetCString(key_text_datum(&keys[n - 1])));
		if (telling->after != NULL)
			pfree(telling->after);
		telling->after = after;
	} while (all && telling->after != NULL);
	if (telling->after != NULL)
		return false;
	done = !telling->again;
	(void) hash_search(tellings, &stock, HASH_REMOVE, NULL); /* the next round begins at the first key in any case */
	return done;
}

/*
 * Return what this process remembers of a stock from the last round; a new entry begins at the
 * first key.
 */
static DcTelling *
telling_of(Oid stock)
{
	DcTelling *telling;
	bool found;

	if (tellings == NULL)
	{
		HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(DcTelling), .hcxt = TopMemoryContext};

		tellings = hash_create("dcounter stocks that are told of", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	if (hash_get_num_entries(tellings) >= MANY_TELLINGS)
		tellings_forget();
	telling = hash_search(tellings, &stock, HASH_ENTER, &found);
	if (!found)
	{
		telling->after = NULL;
		telling->again = false;
	}
	return telling;
}

/*
 * Remove the entries of stocks that were dropped.
 */
static void
tellings_forget(void)
{
	HASH_SEQ_STATUS status;
	DcTelling *telling;

	hash_seq_init(&status, tellings);
	while ((telling = hash_seq_search(&status)) != NULL)
	{
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(telling->stock)))
			continue;
		if (telling->after != NULL)
			pfree(telling->after);
		(void) hash_search(tellings, &telling->stock, HASH_REMOVE, NULL);
	}
}

/*
 * Find the next keys to look at, at most KEYS_PER_ROUND of them, and return how many. whats[] says
 * of each whether it has to be reported, now or later, or nothing has changed.
 */
static int
keys_to_tell(DcCounter *counter, const DcIdentity *identity, const DcTelling *telling, DcKey *keys, int64 *whats)
{
	MemoryContext cxt = CurrentMemoryContext;
	Datum values[5];
	DcSqlSession session;
	int n;

	values[0] = CStringGetTextDatum(identity->region);
	values[1] = Int64GetDatum(dc_rights_low);
	values[2] = Int64GetDatum(want_stamp_at(GetCurrentTimestamp() - UNITS_AGE));
	values[3] = CStringGetTextDatum(telling->after != NULL ? telling->after : "");
	values[4] = BoolGetDatum(telling->after == NULL);
	rights_begin(&session, counter);
	n = (int) sql_run(&session, &sql_tell_keys, values);
	for (int i = 0; i < n; i++)
	{
		rights_key(rows_datum(&session.rows, i, 1), cxt, &keys[i]);
		whats[i] = rows_bigint(&session.rows, i, 2);
	}
	sql_end(&session);
	return n;
}
