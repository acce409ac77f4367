/*
 * cacheget.c
 *		dc_get() and dc_get_many() with max_staleness: reads that may be answered
 *		from the cache.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A call first looks the keys up, without any lock on the table. Values that are missing
 * are computed as dc_get() does, under the table's lock, for all sessions that need them at
 * the same time (cache.c). max_staleness is about the moment of the call: the value
 * returned is that of this moment, or of one less than max_staleness before it, or later.
 *
 * Rights: the table is opened as for dc_get() when a session uses it for the first
 * time, and again whenever an invalidation of the table has come (GRANT, REVOKE and
 * all DDL send one), and when roles have changed. In between, the backend remembers that the role
 * was allowed to read it.
 *
 * These reads are exact, and neither use the cache nor add to it: a read
 *
 *	- under REPEATABLE READ and SERIALIZABLE: it has one snapshot for all;
 *	- in a transaction that has a transaction id: it may have changed anything;
 *	- of a key that this transaction has increments pending for;
 *	- of a table with foreign parts that this transaction has locked to write.
 *
 * A value that is stored was computed in a snapshot that was taken after the claim. That
 * is not possible during a parallel query: then the value is computed in the query's
 * snapshot, and not stored. Foreign parts differ: a remote transaction keeps its snapshot until
 * ours ends. So such a value is as old as our transaction, by the same clock (xactclock.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/roles.h"
#include "base/xactclock.h"
#include "core/counter/pending.h"
#include "core/counter/read.h"
#include "core/stats/stats.h"
#include "core/table/access.h"
#include "memory/cache/cache.h"

/*
 * How many keys a call looks at, computes and stores at a time: other sessions wait for the values
 * that it has claimed.
 */
#define SLICE 1000

PG_FUNCTION_INFO_V1(dc_get_cached);
PG_FUNCTION_INFO_V1(dc_get_many_cached);

/* Tables that were opened to read; a power of two. */
#define OPENED 64

typedef struct DcOpened
{
	DcCounter *counter; /* NULL: none */
	uint32 generation;
	uint32 roles; /* role_changes */
	Oid userid;
	uint64 table; /* cache_table() */
} DcOpened;

/* They point to entries of the cache of counters, which stay (countercache.c). */
static DcOpened opened[OPENED];

/* A key that is asked for. */
typedef struct DcWanted
{
	DcKey key;
	DcCacheKey cache_key;
	DcCacheState state;
	DcMapEntry *claim; /* if it is ours */
	int64 value;
} DcWanted;

/* A call. */
typedef struct DcAsked
{
	DcCounter *counter;
	uint64 table;
	bool shared;	/* the cache may be used */
	DcMoment since; /* younger values will do */
	DcWanted *wanted;
	int nwanted;
	uint32 evicted;
} DcAsked;

/* A session that computes does not wait for itself. */
static bool computing = false;

static DcAsked cacheget_ask(FunctionCallInfo fcinfo, const char *function);
static DcOpened *cacheget_open_to_read(FunctionCallInfo fcinfo, const char *function);
static DcOpened *reopen_to_read(FunctionCallInfo fcinfo, const char *function);
static bool may_share(DcCounter *counter);
static bool key_may_share(DcCounter *counter, const DcKey *key);
static int find_all(DcAsked *asked);
static void get_missing(FunctionCallInfo fcinfo, const char *function,
						DcAsked *asked, int missing);
static void get_slices(DcAsked *asked);
static void get_all_or_give_up(DcAsked *asked);
static void cacheget_get_all(DcAsked *asked);
static int claim_missing(DcAsked *asked);
static void cacheget_compute(DcAsked *asked, int count);
static void compute_many(DcAsked *asked, int count);
static void cacheget_give_up(int code, Datum arg);

/*
 * dc_get(counter regclass, key text|bigint|uuid, max_staleness interval) -> bigint
 */
Datum
dc_get_cached(PG_FUNCTION_ARGS)
{
	static const char function[] = "dc_get()";
	DcWanted wanted;
	DcAsked asked;

	key_arg(fcinfo, 1, &wanted.key);
	asked = cacheget_ask(fcinfo, function);
	asked.wanted = &wanted;
	asked.nwanted = 1;
	if (find_all(&asked) > 0)
		get_missing(fcinfo, function, &asked, 1);
	PG_RETURN_INT64(wanted.value);
}

/*
 * dc_get_many(counter regclass, keys text[]|bigint[]|uuid[], max_staleness interval)
 * -> setof (key text|bigint|uuid, value bigint)
 */
Datum
dc_get_many_cached(PG_FUNCTION_ARGS)
{
	static const char function[] = "dc_get_many()";
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	DcAsked asked = cacheget_ask(fcinfo, function);
	Datum *members;
	Datum *keys = key_array_arg(fcinfo, 1, &asked.nwanted, &members);
	int missing;

	InitMaterializedSRF(fcinfo, 0);
	asked.wanted = palloc_extended(Max(asked.nwanted, 1) * sizeof(DcWanted),
								   MCXT_ALLOC_HUGE);
	for (int i = 0; i < asked.nwanted; i++)
		key_from_text(keys[i], &asked.wanted[i].key);
	missing = find_all(&asked);
	if (missing > 0)
		get_missing(fcinfo, function, &asked, missing);
	for (int i = 0; i < asked.nwanted; i++)
	{
		Datum values[] = {members[i], Int64GetDatum(asked.wanted[i].value)};
		bool nulls[2] = {false};

		CHECK_FOR_INTERRUPTS();
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	PG_RETURN_NULL();
}

/*
 * cacheget_ask opens the counter table in argument 0 for a call that wants values of the age in
 * argument 2, max_staleness, at most.
 */
static DcAsked
cacheget_ask(FunctionCallInfo fcinfo, const char *function)
{
	DcAsked asked = {0};
	DcOpened *table;
	int64 staleness;

	arg_not_null(fcinfo, 2, "max_staleness");
	staleness = interval_to_duration(PG_GETARG_INTERVAL_P(2), "max_staleness");
	if (staleness < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_staleness must not be negative")));
	(void) counter_arg(fcinfo);
	if (!cache_enabled())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s with max_staleness needs shared memory", function),
				 errhint("Add dcounter to shared_preload_libraries and restart the server.")));
	table = cacheget_open_to_read(fcinfo, function);
	asked.counter = table->counter;
	asked.table = table->table;
	asked.shared = may_share(table->counter);
	asked.since = moment_after(moment_now(), -staleness);
	return asked;
}

/*
 * cacheget_open_to_read returns the counter table in argument 0, which the caller may read. If
 * that is remembered, it is not locked. A parallel worker, which must not read, remembers
 * no table.
 */
static DcOpened *
cacheget_open_to_read(FunctionCallInfo fcinfo, const char *function)
{
	Oid relid = PG_GETARG_OID(0);
	DcOpened *table = &opened[relid % OPENED];

	AcceptInvalidationMessages(); /* a REVOKE, say */
	if (table->counter != NULL && table->counter->relid == relid &&
		table->counter->valid &&
		table->counter->generation == table->generation &&
		table->roles == role_changes && table->userid == GetUserId())
		return table;
	return reopen_to_read(fcinfo, function);
}

/*
 * reopen_to_read locks the table and checks everything.
 */
static DcOpened *
reopen_to_read(FunctionCallInfo fcinfo, const char *function)
{
	DcOpened *table = &opened[PG_GETARG_OID(0) % OPENED];
	DcCounter *counter;

	table->counter = NULL;
	table->roles = role_changes;
	counter = counter_open_to_read(fcinfo, function);
	table->table = cache_table(counter);
	table->generation = counter->generation;
	table->userid = GetUserId();
	table->counter = counter;
	return table;
}

/*
 * Return true if this transaction may use the cache for a table.
 */
static bool
may_share(DcCounter *counter)
{
	if (IsolationUsesXactSnapshot() || computing ||
		TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return false;
	if (!counter->foreign)
		return true;
	/* a write to another server needs no transaction id here */
	if (compat_has_locked(counter->relid, RowExclusiveLock) ||
		compat_has_locked(counter->row.shards, RowExclusiveLock))
		return false;
	for (int i = 0; i < counter->nmembers; i++)
	{
		if (compat_has_locked(counter->members[i], RowExclusiveLock))
			return false;
	}
	return true;
}

/*
 * Return true if this transaction has no pending increments of a key.
 */
static bool
key_may_share(DcCounter *counter, const DcKey *key)
{
	int64 inc;
	int64 dec;

	if (counter->bound && bound_hooks->any_pending(counter->relid))
		return false;
	if (pending_is_empty())
		return true;
	pending_lookup(counter->relid, key, &inc, &dec);
	return inc == 0 && dec == 0;
}

/*
 * find_all looks all keys up, and returns how many were not found.
 */
static int
find_all(DcAsked *asked)
{
	int missing = 0;

	for (int i = 0; i < asked->nwanted; i++)
	{
		DcWanted *wanted = &asked->wanted[i];

		CHECK_FOR_INTERRUPTS();
		wanted->claim = NULL;
		wanted->state = CACHE_BUSY;
		if (asked->shared && key_may_share(asked->counter, &wanted->key))
		{
			cache_key_init(&wanted->cache_key, asked->counter->relid,
						   asked->table, &wanted->key);
			if (cache_find(&wanted->cache_key, asked->since, &wanted->value))
				wanted->state = CACHE_FOUND;
		}
		if (wanted->state != CACHE_FOUND)
			missing++;
	}
	if (asked->nwanted > missing)
		stats_count(asked->counter, DC_STATS_CACHE_HITS,
					asked->nwanted - missing);
	return missing;
}

/*
 * get_missing gets the values of the keys that are not marked as found.
 */
static void
get_missing(FunctionCallInfo fcinfo, const char *function, DcAsked *asked,
			int missing)
{
	DcMoment started = stats_clock();
	DcOpened *table = reopen_to_read(fcinfo, function);

	asked->counter = table->counter;
	asked->table = table->table; /* now looked up under the lock */
	asked->shared = asked->shared && !IsInParallelMode();
	for (int i = 0; i < asked->nwanted; i++)
	{
		DcWanted *wanted = &asked->wanted[i];

		CHECK_FOR_INTERRUPTS();
		if (wanted->state == CACHE_FOUND)
			continue;
		if (!asked->shared || !key_may_share(asked->counter, &wanted->key))
			wanted->state = CACHE_FULL;
		cache_key_init(&wanted->cache_key, asked->counter->relid, asked->table,
					   &wanted->key);
	}
	if (asked->shared)
		stats_count(asked->counter, DC_STATS_CACHE_MISSES, missing);
	get_slices(asked);
	stats_read(asked->counter, started);
	if (asked->evicted > 0)
		stats_count(asked->counter, DC_STATS_CACHE_EVICTIONS, asked->evicted);
}

/*
 * get_slices gets the values of some keys after the other, so that claims are held as long as these
 * take. Without the cache all are of one snapshot.
 */
static void
get_slices(DcAsked *asked)
{
	int slice = asked->shared ? SLICE : asked->nwanted;

	for (int first = 0; first < asked->nwanted; first += slice)
	{
		DcAsked part = *asked;

		part.wanted += first;
		part.nwanted = Min(slice, asked->nwanted - first);
		part.evicted = 0;
		get_all_or_give_up(&part);
		asked->evicted += part.evicted;
	}
}

/*
 * get_all_or_give_up is cacheget_get_all, and gives up this session's claims when that ends with an
 * error. A function of its own, since gcc does not know that variables of its caller outlive the
 * jump back.
 */
static void
get_all_or_give_up(DcAsked *asked)
{
	PG_ENSURE_ERROR_CLEANUP(cacheget_give_up, PointerGetDatum(asked));
	{
		cacheget_get_all(asked);
	}
	PG_END_ENSURE_ERROR_CLEANUP(cacheget_give_up, PointerGetDatum(asked));
}

/*
 * cacheget_get_all computes and stores the values that no other session is computing. Only then,
 * without claims, it waits for the other sessions.
 */
static void
cacheget_get_all(DcAsked *asked)
{
	for (;;)
	{
		int to_compute = claim_missing(asked);
		bool found_all = true;

		if (to_compute > 0)
			cacheget_compute(asked, to_compute);
		for (int i = 0; found_all && i < asked->nwanted; i++)
		{
			DcWanted *wanted = &asked->wanted[i];

			if (wanted->state == CACHE_BUSY)
			{
				wanted->state = cache_wait(&wanted->cache_key, asked->since, &wanted->value);
				found_all = wanted->state == CACHE_FOUND;
			}
		}
		if (found_all)
			break;
	}
}

/*
 * claim_missing claims the keys that no other session has claimed, and returns how many keys have
 * to be computed now.
 */
static int
claim_missing(DcAsked *asked)
{
	uint32 max_claims = Max(cache_capacity() / 4, 1);
	uint32 claims = 0;
	int count = 0;

	for (int i = 0; i < asked->nwanted; i++)
	{
		DcWanted *wanted = &asked->wanted[i];

		CHECK_FOR_INTERRUPTS();
		if (wanted->state == CACHE_BUSY && claims == max_claims)
			wanted->state = CACHE_FULL;
		if (wanted->state == CACHE_BUSY)
			wanted->state = cache_claim(&wanted->cache_key, asked->since,
										&wanted->value, &wanted->claim,
										&asked->evicted);
		if (wanted->state == CACHE_CLAIMED)
			claims++;
		if (wanted->state == CACHE_CLAIMED || wanted->state == CACHE_FULL)
			count++;
	}
	return count;
}

/*
 * cacheget_compute computes the values of the `count` keys that need it now, and stores those that
 * are claimed.
 */
static void
cacheget_compute(DcAsked *asked, int count)
{
	/* no remote snapshot is older than our transaction */
	DcMoment at = asked->counter->foreign ? xact_moment() : moment_now();

	computing = true;
	if (asked->shared)
		PushActiveSnapshot(GetLatestSnapshot());
	if (asked->nwanted == 1)
		asked->wanted->value = counter_value(asked->counter, &asked->wanted->key);
	else
		compute_many(asked, count);
	if (asked->shared)
		PopActiveSnapshot();
	computing = false;

	for (int i = 0; i < asked->nwanted; i++)
	{
		DcWanted *wanted = &asked->wanted[i];
		DcMapEntry *claim = wanted->claim;

		if (wanted->state == CACHE_CLAIMED)
		{
			wanted->claim = NULL;
			cache_store(claim, asked->table, wanted->value, at,
						!asked->counter->foreign);
		}
		if (wanted->state != CACHE_BUSY)
			wanted->state = CACHE_FOUND;
	}
}

/*
 * compute_many reads the values of many keys at once.
 */
static void
compute_many(DcAsked *asked, int count)
{
	Datum *keys = palloc_extended(count * sizeof(Datum), MCXT_ALLOC_HUGE);
	int64 *values = palloc_extended(count * sizeof(int64), MCXT_ALLOC_HUGE);
	int n = 0;

	for (int i = 0; i < asked->nwanted; i++)
	{
		DcWanted *wanted = &asked->wanted[i];

		CHECK_FOR_INTERRUPTS();
		if (wanted->state == CACHE_CLAIMED || wanted->state == CACHE_FULL)
			keys[n++] = key_text_datum(&wanted->key);
	}
	counter_values(asked->counter, keys, n, values);
	n = 0;
	for (int i = 0; i < asked->nwanted; i++)
	{
		DcWanted *wanted = &asked->wanted[i];

		if (wanted->state == CACHE_CLAIMED || wanted->state == CACHE_FULL)
			wanted->value = values[n++];
	}
}

/*
 * cacheget_give_up ends the claims of a call that has failed.
 */
static void
cacheget_give_up(int code, Datum arg)
{
	DcAsked *asked = (DcAsked *) DatumGetPointer(arg);

	computing = false;
	for (int i = 0; i < asked->nwanted; i++)
	{
		DcMapEntry *claim = asked->wanted[i].claim;

		asked->wanted[i].claim = NULL;
		if (claim != NULL)
			cache_give_up(claim);
	}
}
