/*
 * catalog.h
 *		The catalog dcounter.counter, and the backend's cache of it.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CATALOG_H
#define DC_CATALOG_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "base/catrow.h"
#include "core/table/shape.h"

#define DC_SHARD_SUFFIX "_shard"
#define DC_HOLD_SUFFIX "_hold"
#define DC_REGION_SUFFIX "_region"
#define DC_SET_SUFFIX "_set"
#define DC_GRANT_SUFFIX "_grant"
#define DC_WANT_SUFFIX "_want"
#define DC_TREND_SUFFIX "_trend"

/* Which of a key's shard rows a transaction tries first. */
typedef enum DcShardBy
{
	DC_SHARD_BY_RANDOM,
	DC_SHARD_BY_BACKEND,
	DC_SHARD_BY_HASH
} DcShardBy;

/* Where increments go when they are committed, and when that is durable. */
typedef enum DcMode
{
	DC_MODE_EXACT,
	DC_MODE_BUFFERED
} DcMode;

typedef enum DcDurability
{
	DC_DURABILITY_ASYNC,
	DC_DURABILITY_SYNC
} DcDurability;

/* Whether a commit may write rows of totals (directtotals.c), or only compaction. */
typedef enum DcTotals
{
	DC_TOTALS_DIRECT,
	DC_TOTALS_COMPACTED
} DcTotals;

#define DC_FLUSH_INTERVAL_DEFAULT (INT64CONST(1000) * 1000) /* us */

#define DC_OP_RETENTION_DEFAULT (7 * USECS_PER_DAY)

#define DC_MAX_SHARDS_DEFAULT 64
#define DC_MAX_SHARDS_LIMIT 4096

#define DC_MAX_SAMPLE 65536

/* Kinds of tables that rows of other regions come to. */
#define DC_REGION_TABLES 4

/* A row of dcounter.counter. */
typedef struct DcCounterRow
{
	Oid counter; /* the table of totals */
	Oid shards;	 /* its shard table */
	DcShardBy shard_by;
	int max_shards;
	Oid holds; /* the table of holds if it is a stock, or InvalidOid */
	DcMode mode;
	int64 flush_interval;	  /* us; of buffered mode, */
	DcDurability durability;  /* as is this */
	int64 op_retention;		  /* us; of dc_incr_once() and ledgers; 0: they are kept forever */
	Oid ledger;				  /* the ledger that it belongs to, or InvalidOid */
	DcTotals totals;		  /* how increments get there */
	Oid regions;			  /* the amounts of each region if it is replicated, or InvalidOid; */
	Oid sets;				  /* and what it was set to */
	Oid grants;				  /* units that regions have given to each other, if it is a stock that is replicated, or InvalidOid; */
	Oid wants;				  /* what they ask for; */
	int64 rights_epoch;		  /* and under which number this database has its units (below zero: they are shut); if it is a counter
							   * that is replicated, the least epoch for what a key begins to count here */
	int sample;				  /* increments become multiples of it by random rounding; 1: they do not */
	int sample_max;			  /* the largest that it ever was, which errors depend on */
	Oid trends;				  /* the table of decayed weights (room trend), or InvalidOid; */
	int64 half_life;		  /* and in how many us these halve; 0 if there is none */
	int64 idle;				  /* us after which a key that is not written is deleted (keyexpiry.c); 0: never */
	TransactionId changed_by; /* the transaction that has written this row */
} DcCounterRow;

/* Columns of the two tables that the code works with. */
typedef enum DcColumnId
{
	DC_COL_KEY,
	DC_COL_SHARD, /* of the shard table only */
	DC_COL_INC,
	DC_COL_DEC,
	DC_COL_UPDATED_AT,
	DC_COL_UNITS, /* of a stock's shard table only */
	DC_COL_VALUE, /* of the table of totals only, if it has it */
	DC_NUM_COLUMNS
} DcColumnId;

/*
 * The cache entry of a counter table. Entries are never moved or
 * freed; an invalidated one is filled again by the next look-up.
 */
typedef struct DcCounter
{
	Oid relid; /* hash key: the table of totals */
	bool valid;
	uint32 generation; /* changes with each refill */
	DcCounterRow row;
	Oid owner;				  /* owns both tables */
	bool rls;				  /* row-level security is on for either table */
	bool foreign;			  /* some rows live behind a foreign table, or */
	bool distributed;		  /* or are distributed by Citus (distribution.c), */
	bool misplaced;			  /* distributed in a way in which it cannot be used */
	bool local_shards;		  /* distributed by a coordinator that has shards itself */
	bool events;			  /* changes of keys are listened to (hooks.h) */
	bool bound;				  /* bound to a source, which it counts (hooks.h) */
	bool fed;				  /* fed by a subscription (subscription.c) */
	bool held;				  /* or writers have to wait (hooks.h) */
	int nforeign;			  /* one foreign table per server in use, */
	Oid *foreign_leaves;	  /* in TopMemoryContext */
	int nmembers;			  /* all partitions of both tables, */
	Oid *members;			  /* in TopMemoryContext */
	TransactionId altered_by; /* the newest transaction that has altered one of its tables, or rewritten it */
	uint32 layout_generation; /* of what follows; see layout.c */
	bool direct_read;		  /* may be read without SQL */
	bool plain_shards;		  /* a shard row needs its tuple and one index entry written, and nothing else; */
	bool direct_write;		  /* shard rows may be written without SQL, also by an old snapshot, */
	bool direct_totals;		  /* and so may rows of totals, at commit */
	bool sql_totals;		  /* or may with SQL, of a table that is distributed */
	bool plain_totals;		  /* an insertion there needs index entries only */
	bool totals_deferred;	  /* a trigger on the table of totals is deferred, */
	bool shards_deferred;	  /* or on the shard table */
	DcTableLayout totals;
	DcTableLayout shards;
	uint32 holds_generation; /* of what follows, the same for a stock */
	DcTableLayout holds;
	uint32 region_generations[DC_REGION_TABLES]; /* the same for the tables of a replicated one (region/region.h) */
	DcTableLayout region_layouts[DC_REGION_TABLES];
	uint32 rights_open;		 /* when the units of a stock were last found to be its own */
	uint32 trend_generation; /* the same for decayed weights, */
	bool trend_fits;		 /* and whether their table can be written to */
	/*
	 * a sampled table to which writes were allowed (access.c): for this generation, roles, and
	 * user
	 */
	uint32 writer_generation;
	uint32 writer_roles;
	Oid writer;
	int stats_entry;		  /* where its statistics are; */
	uint32 stats_generation;  /* see stats.c */
	int buffer_table;		  /* where its increments are kept in memory; */
	uint32 buffer_generation; /* see buffer.h */
} DcCounter;

/*
 * Return true if a counter table has a floor of zero.
 */
static inline bool
counter_is_stock(const DcCounter *counter)
{
	return OidIsValid(counter->row.holds);
}

/*
 * Return true if a counter table has the balances of a ledger.
 */
static inline bool
counter_is_ledger(const DcCounter *counter)
{
	return counter->row.ledger == counter->relid;
}

/*
 * Return true if a stock holds the limits of a ledger: the amounts that its accounts may still
 * post.
 */
static inline bool
counter_is_limit(const DcCounter *counter)
{
	return OidIsValid(counter->row.ledger) && !counter_is_ledger(counter);
}

/*
 * Return true if other regions count as well.
 */
static inline bool
counter_is_replicated(const DcCounter *counter)
{
	return OidIsValid(counter->row.regions);
}

/*
 * Return true if it is a stock whose units are divided among several regions.
 */
static inline bool
counter_has_rights(const DcCounter *counter)
{
	return OidIsValid(counter->row.grants);
}

/*
 * Return true if increments are rounded at random (core/counter/sample.h).
 */
static inline bool
counter_is_sampled(const DcCounter *counter)
{
	return counter->row.sample > 1;
}

/*
 * Return true if compaction keeps decayed weights of its keys (room trend).
 */
static inline bool
counter_has_trend(const DcCounter *counter)
{
	return OidIsValid(counter->row.trends);
}

/*
 * Return true if increments are kept in memory for a while.
 */
static inline bool
counter_is_buffered(const DcCounter *counter)
{
	return counter->row.mode == DC_MODE_BUFFERED;
}

extern bool catalog_read(Oid counter, DcCounterRow *row);
extern bool catalog_read_by_shards(Oid shards, DcCounterRow *row);
extern bool catalog_read_by_holds(Oid holds, DcCounterRow *row);
extern bool catalog_read_by_regions(Oid regions, DcCounterRow *row);
extern bool catalog_read_by_sets(Oid sets, DcCounterRow *row);
extern bool catalog_read_by_grants(Oid grants, DcCounterRow *row);
extern bool catalog_read_by_wants(Oid wants, DcCounterRow *row);
extern bool catalog_read_by_trends(Oid trends, DcCounterRow *row);
extern bool catalog_lock_at_once(void);
extern bool catalog_is_leaving(void);
extern List *catalog_read_all(void);
extern List *catalog_read_replicated(void);
extern bool catalog_has_rows(void);
extern void catalog_insert(const DcCounterRow *row);
extern bool catalog_update(const DcCounterRow *row);
extern bool catalog_delete(Oid counter);
extern DcShardBy shard_by_from_text(const char *value);
extern DcMode mode_from_text(const char *value);
extern DcDurability durability_from_text(const char *value);
extern DcTotals totals_from_text(const char *value);
extern const char *totals_to_text(DcTotals totals);
extern void catalog_row_defaults(DcCounterRow *row);

extern char *relation_sql_name(Oid relid);
extern bool relation_has_foreign_part(Oid relid);

extern void counter_cache_init(void);
extern void counter_forget(Oid counter);
extern void counter_changed(const DcCounter *counter, const Datum *keys, int nkeys);
extern bool counter_exists(Oid relid);
extern DcCounter *counter_find(Oid relid);
extern DcCounter *counter_lookup(Oid relid);

#endif /* DC_CATALOG_H */
