/*
 * hooks.h
 *		Functions by which rooms call rooms below them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A room includes only rooms above it (test/lint.sh has the order). A function of a room
 * below is called by way of one of these structures. The room below sets the pointer, once,
 * when the library is loaded. Until then the pointer is NULL. It stays NULL if the room needs
 * shared memory and there is none. A structure has all of its functions.
 *
 * Rooms also register things that several rooms have: jobs (job.h), statements
 * (core/counter/sqlpath.h), areas of shared memory (shmem.h), functions around utility
 * statements (utility.h).
 */
#ifndef DC_HOOKS_H
#define DC_HOOKS_H

#include "nodes/pg_list.h"

#include "base/clock.h"

struct DcBatch;
struct DcCounter;
struct DcCounterRow;
struct DcDelta;
struct DcDeltaKey;
struct DcKey;
struct DcShape;
struct DcSqlSession;
struct DcSums;
struct FunctionCallInfoBaseData;
struct RangeVar;
struct RelationData;

/* Set by counter_xact_init(). */
typedef struct DcCounterHooks
{
	/* write what this transaction has not written yet, in the current subtransaction */
	void (*apply_early)(void);
} DcCounterHooks;

/* The effects of one commit on one counter table. */
typedef struct DcApplyStats
{
	uint64 increments; /* calls of dc_incr() and its relatives */
	uint64 keys;	   /* rows written */
	uint64 totals;	   /* of these, rows of totals; a stock has none */
	uint64 busy_skips; /* busy rows passed over */
	uint64 splits;	   /* rows inserted for a key that had others */
	uint64 waits;	   /* waits for another commit */
	uint64 early;	   /* writes before the commit, as memory was full */
	uint64 buffered;   /* of the increments, those that come from memory */
	uint64 full;	   /* writes to rows, as the buffer memory was full */
} DcApplyStats;

/* Set by stats_init(), if preloaded. See the functions of these names in stats/. */
typedef struct DcStatsHooks
{
	void (*attach)(struct DcCounter *counter);
	void (*dropped)(Oid counter);
	void (*read)(struct DcCounter *counter, DcMoment started);
	void (*applied)(struct DcCounter *counter, const DcApplyStats *stats);
	void (*hot_key)(struct DcCounter *counter, const char *data, uint32 len,
					uint64 increments);
	void (*compacted)(struct DcCounter *counter, int64 keys);
	void (*swept)(struct DcCounter *counter, DcMoment started, int64 overflowed);
} DcStatsHooks;

/* The amounts in memory for a key that is being read. */
typedef struct DcBuffered
{
	const struct DcKey *key;
	int64 inc;
	int64 dec;
	TimestampTz at; /* of the last change; DT_NOBEGIN: none */
} DcBuffered;

/* A larger amount of a key in one transaction goes to rows. */
#define DC_MAX_BUFFERED (INT64CONST(1) << 40)

/* Set by buffering_init(), if preloaded. */
typedef struct DcBufferHooks
{
	/* does a worker flush this database now? */
	bool (*flushes)(void);

	/*
	 * At PRE_COMMIT, as the last step: take over these deltas of a buffered table. False if
	 * they are to be written to the shard rows.
	 */
	bool (*reserve)(struct DcCounter *counter, struct DcDelta **deltas, int count);

	/* give back all that this transaction has handed over in this way */
	void (*give_back)(void);

	/*
	 * Read the amounts in memory, of some keys or of all, and make active a snapshot to
	 * read the rows in, which the caller pops: amounts and rows together have each
	 * increment once. False, without a snapshot, on a standby.
	 */
	bool (*read_keys)(struct DcCounter *counter, DcBuffered *keys, int count);
	bool (*read_all)(struct DcCounter *counter, struct DcSums *sums);

	/* has anything been in memory for the table since the server started? */
	bool (*was_buffered)(struct DcCounter *counter);

	/*
	 * dc_set() and its relatives have locked a key: rows must have what was
	 * committed before.
	 */
	void (*key_set)(struct DcCounter *counter, const struct DcKey *key);

	/* write all that is in memory for a table that is locked against writers */
	void (*write_down)(struct DcCounter *counter);

	/* the table of totals is being truncated */
	void (*truncated)(Oid counter);

	/* is a table left to its owner because its flush takes too long? */
	bool (*takes_too_long)(Oid counter);

	/* dc_alter() changes how long increments stay in memory */
	void (*altered)(struct DcCounter *counter, int64 flush_interval);
} DcBufferHooks;

/* Set by cache_init(), if preloaded. */
typedef struct DcCacheHooks
{
	/* how old the cached value of a key is, in us; false if there is none */
	bool (*age)(struct DcCounter *counter, const struct DcKey *key, int64 *age);

	/* dc_set() and its relatives have locked a key */
	void (*key_set)(struct DcCounter *counter, const struct DcKey *key);

	/* the keys of a table, or of all (InvalidOid) of a database, have changed or gone */
	void (*forget)(Oid database, Oid counter);
} DcCacheHooks;

/* Set by stock_init(). */
typedef struct DcStockHooks
{
	/* units of a key were added to its rows; no other session sees that yet */
	void (*units_added)(struct DcCounter *counter, const struct DcDeltaKey *key);

	/* the table of holds of a stock that is being created, and of one being adopted */
	Oid (*create_holds)(const struct RangeVar *stock, const char *maker);
	void (*find_holds)(struct DcCounterRow *row);
	const struct DcShape *holds_shape;

	/*
	 * call a function for each expired hold of some keys (text[]), or of all for 0, that has not
	 * been ended yet
	 */
	void (*expired_each)(struct DcCounter *counter, Datum keys, void (*each)(void *arg, Datum key, int64 units), void *arg);

	/* a key is about to be set: end its expired holds */
	void (*key_set)(struct DcCounter *counter, const struct DcKey *key);
} DcStockHooks;

/* Set by once_init(). */
typedef struct DcOnceHooks
{
	/* add the tables that belong to a counter table for its ops (OIDs) */
	List *(*tables)(Oid counter, List *tables);

	/* the counter table that one of these tables belongs to, or InvalidOid */
	Oid (*counter)(Oid relid);

	/* a counter table was adopted, perhaps with tables of ops */
	void (*adopted)(struct DcCounter *counter);
} DcOnceHooks;

/* Set by ledger_init(). */
typedef struct DcLedgerHooks
{
	/* add the tables of the ledger that a counter table belongs to (OIDs) */
	List *(*tables)(const struct DcCounterRow *row, List *tables);

	/* a table of totals was truncated; the current user is its owner */
	void (*emptied)(const struct DcCounterRow *row);

	/* raise an error for a table that, by its name, belongs to a ledger */
	void (*check_adoptable)(Oid relid);
} DcLedgerHooks;

/* Set by changed_init(). */
typedef struct DcOutboxHooks
{
	/* is a counter table listened to? DcCounter.events remembers it */
	bool (*wants)(Oid counter);

	/* this transaction has changed keys (text datums) of one that is */
	void (*changed)(Oid counter, const Datum *keys, int nkeys);

	/* dc_alter() with one of its settings; NULL keeps it */
	void (*alter)(Oid counter, const Interval *every, const text *channel);

	/* a table is no longer a counter table */
	void (*dropped)(Oid counter);
} DcOutboxHooks;

/* The needs of a consumer, which the retention job asks for. */
typedef struct DcConsumerNeed
{
	int32 id;
	char *name;
	int64 passed;	/* it needs no event up to here */
	int64 max_age;	/* us, 0: none */
	int64 max_size; /* bytes, 0: none */
	bool filtered;	/* it has topics, or members that share the keys */
} DcConsumerNeed;

/* Set by consumer_init(). consumerneeds.c has the first four. */
typedef struct DcConsumerHooks
{
	List *(*needs)(bool *busy);
	bool (*cut_off)(int32 id, int64 seq);

	/* how many members it has moved, whose locks are kept */
	int (*advance)(int32 id);

	/* is something left to be cleaned up? */
	bool (*cleanup)(void);

	/*
	 * the first event that a consumer needs, 0: none; and which consumer, if the user may know
	 * it
	 */
	int64 (*first_needed)(char **name);
} DcConsumerHooks;

/* Set by bound_init(). */
typedef struct DcBoundHooks
{
	/* is a counter table bound to a source? DcCounter.bound remembers it */
	bool (*is_bound)(Oid counter);

	/* dc_alter() with on_drift */
	void (*alter)(Oid counter, const char *on_drift);

	/* a table is no longer a counter table */
	void (*dropped)(Oid counter);

	/* add the tables that belong to a counter table because of its source (OIDs) */
	List *(*tables)(Oid counter, List *tables);

	/* the source that a counter table is bound to, or InvalidOid */
	Oid (*source)(Oid counter);

	/*
	 * what writing to a table also does: add the counter tables (OIDs) that its rows are counted
	 * in, and return one of them whose expressions the worker may not evaluate, or InvalidOid
	 */
	List *(*counters)(Oid relid, List *counters);
	Oid (*code)(struct RelationData *rel);

	/*
	 * Write what this transaction has not written yet of the reference counts of distinct
	 * values; that adds to its pending deltas. `committing`: before they are written to
	 * commit, or to prepare.
	 */
	void (*write)(bool committing);

	/*
	 * has this transaction unwritten changes of it, and how do they change a value, or (NULL)
	 * the sum of all?
	 */
	bool (*any_pending)(Oid counter);
	void (*pending)(Oid counter, const struct DcKey *key, int64 *inc, int64 *dec);

	/* call a function for each value that it changes so */
	void (*pending_each)(Oid counter, void (*each)(const struct DcKey *key, int64 change, void *arg), void *arg);
} DcBoundHooks;

/* A key of a replicated counter table that is being set, and the result. */
typedef struct DcRegionSetting
{
	int64 value; /* the new one */
	bool deleted;
	struct DcSums *own; /* of shard rows that were counted here, and are deleted */
	bool known;			/* the old value fits into a bigint, */
	int64 old;			/* and is this */
	int64 total_inc;	/* what the row of totals must have, */
	int64 total_dec;
	int64 inc; /* and how much more that is than it has now */
	int64 dec;
} DcRegionSetting;

/* Set by region_init(). */
typedef struct DcRegionHooks
{
	/*
	 * May amounts of a replicated counter table go to its totals now? It takes the locks
	 * that publish() needs, without waiting.
	 */
	bool (*ready)(struct DcCounter *counter);

	/*
	 * Add what the keys of a batch have counted here, and are not skipped, to the amounts
	 * of this region. A key whose row other transactions are writing is to be skipped.
	 */
	void (*publish)(struct DcCounter *counter, struct DcBatch *batch);

	/* the totals of a batch are written: remove those that deleted keys do not need */
	void (*written)(struct DcSqlSession *session, struct DcBatch *batch);

	/* dc_drop(): raise an error if the tables of a counter must stay */
	void (*prevent_drop)(const struct DcCounter *counter);

	/* dc_set() and its relatives: lock its further tables, before those of a counter table, ... */
	void (*lock)(struct DcCounter *counter);

	/* ... get ready to set keys, before a key is locked, ... */
	void (*set_begin)(struct DcCounter *counter);

	/* ... and set one; see regionset.c */
	void (*set)(struct DcSqlSession *session, const struct DcKey *key, DcRegionSetting *setting);

	/* the name of this database among its replicas, or NULL if it is in no region */
	const char *(*node)(void);

	/*
	 * Raise an error if the units of a stock, which is locked, may be those of another database by
	 * now. Before that is locked, await_rights() waits until this is known.
	 */
	void (*check_rights)(struct DcCounter *counter);
	void (*await_rights)(Oid stock, const char *function);

	/*
	 * a counter table is being adopted, perhaps with tables of regions; the functions for users are
	 * in a schema
	 */
	void (*adopt)(struct DcCounterRow *row, Oid functions);

	/*
	 * Must writers to a replicated counter wait after a start, or a promotion, of the server?
	 * DcCounter.held remembers it. Then this waits, and raises an error if it takes too long.
	 */
	bool (*is_held)(void);
	void (*await_begun)(void);

	/* in an explicit dc_compact(): wait until amounts may go to the totals, if they soon may */
	void (*await)(struct DcCounter *counter);
} DcRegionHooks;

/* Set by budget_init(). */
typedef struct DcBudgetHooks
{
	/* add the tables of the budget whose units are in a stock (OIDs) */
	List *(*tables)(Oid counter, List *tables);
} DcBudgetHooks;

/* Set by unread_init(). */
typedef struct DcUnreadHooks
{
	/* is a relation an unread table? */
	bool (*is_unread)(Oid relid);

	/* does a counter table have unread tables? */
	bool (*is_watched)(Oid counter);

	/* those that are its owner's (OIDs), for TRUNCATE */
	List *(*tables)(Oid counter);

	/*
	 * the increments of a key (a text datum) that went to these sums are not in its rows any more
	 */
	void (*lost)(struct DcCounter *counter, Datum key, const struct DcSums *sums);
} DcUnreadHooks;

/* Set by window_init(). */
typedef struct DcWindowHooks
{
	/* is a view a windowed counter? */
	bool (*is_window)(Oid relid);
	/* is a counter table one of a windowed counter? */
	bool (*is_slot)(Oid relid);
} DcWindowHooks;
/* Set by distinct_init(). */
typedef struct DcDistinctHooks
{
	/* is a relation a distinct table? */
	bool (*is_distinct)(Oid relid);

	/* write the items that this transaction has not written yet, in the current subtransaction */
	void (*write_early)(void);

	/* such a table was truncated, if it is one: empty its deltas */
	void (*truncated)(Oid relid);

	/*
	 * raise 55000 if rows of a table that belongs to this room are being deleted or updated
	 * directly
	 */
	void (*prevent_change)(Oid relid);
} DcDistinctHooks;
/* Set by trend_init(). */
typedef struct DcTrendHooks
{
	/* the half-life in an argument, in us; 0: none (an interval of zero, or NULL) */
	int64 (*half_life_arg)(struct FunctionCallInfoBaseData *fcinfo, int argno);

	/* make the table of a counter that is being created, with the half-life in its row */
	void (*create)(struct DcCounterRow *row);

	/* dc_alter() with another half-life; the counter table is locked against writers */
	void (*alter)(struct DcCounter *counter, struct DcCounterRow *row, int64 half_life);

	/* May amounts go to the totals now? It locks the table that write() needs, without waiting. */
	bool (*ready)(struct DcCounter *counter);

	/*
	 * lock the weights of the keys of a batch. A key whose row is locked by other transactions is
	 * to be skipped
	 */
	void (*lock)(struct DcSqlSession *session, struct DcBatch *batch);

	/* the totals of a batch are written: add to the weights of the keys that are not skipped */
	void (*write)(struct DcSqlSession *session, struct DcBatch *batch);

	/* a sweep has come to the end of the table */
	void (*swept)(struct DcCounter *counter);

	/* dc_set() and its relatives: lock the table, before a key is locked, ... */
	void (*set_begin)(struct DcCounter *counter);

	/* ... count the increments of shard rows that setting a key has deleted, ... */
	void (*set)(struct DcSqlSession *session, Datum key, const struct DcSums *shards);

	/* ... or forget a key that is deleted */
	void (*deleted)(struct DcSqlSession *session, Datum key);

	/*
	 * before keys are deleted by a job: lock their weights without waiting, leave out those that
	 * other transactions have locked, and return how many remain
	 */
	int (*lock_keys)(struct DcSqlSession *session, Datum *keys, int n);
} DcTrendHooks;

extern const DcCounterHooks *counter_hooks;
extern const DcStatsHooks *stats_hooks;
extern const DcBufferHooks *buffer_hooks;
extern const DcCacheHooks *cache_hooks;
extern const DcStockHooks *stock_hooks;
extern const DcOnceHooks *once_hooks;
extern const DcLedgerHooks *ledger_hooks;
extern const DcOutboxHooks *outbox_hooks;
extern const DcConsumerHooks *consumer_hooks;
extern const DcBoundHooks *bound_hooks;
extern const DcRegionHooks *region_hooks;
extern const DcBudgetHooks *budget_hooks;
extern const DcUnreadHooks *unread_hooks;
extern const DcWindowHooks *window_hooks;
extern const DcDistinctHooks *distinct_hooks;
extern const DcTrendHooks *trend_hooks;

/*
 * stats_clock returns the moment, or DC_LONG_AGO if there are no statistics.
 */
static inline DcMoment
stats_clock(void)
{
	return stats_hooks != NULL ? moment_now() : DC_LONG_AGO;
}

#endif /* DC_HOOKS_H */
