/*
 * guc.h
 *		The extension's settings, all named dcounter.*.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_GUC_H
#define DC_GUC_H

extern int dc_pending_memory; /* kB of pending deltas kept per transaction */
extern bool dc_worker;		  /* do the launcher's workers run? */
extern int dc_max_workers;	  /* databases that have one at a time */
extern char *dc_worker_role;  /* the role that they connect as; "" for a superuser */
extern bool dc_worker_runs_owner_code;
extern bool dc_prepare_events;
extern int dc_max_events;
extern int dc_compact_interval; /* ms from one compaction to the next */
extern int dc_compact_batch;	/* shard rows that one transaction compacts */
extern int dc_cache_size;		/* kB of cached values that answer reads */
extern int dc_worker_load;		/* percent of the time that a long run may use */
extern int dc_log_min_duration; /* ms from which a job's run is logged; -1: never */
extern int dc_expire_interval;
extern int dc_events_interval;		/* ms from one look for changed keys to the next */
extern int dc_hold_retention;		/* s */
extern int dc_rights_interval;		/* ms from one look at what regions ask for to the next */
extern int dc_rights_low;			/* number of units below which a region asks for more; 0: never */
extern int dc_region_beat_interval; /* ms from one beat of a region to the next, if nothing is published */
extern int dc_region_handshake;		/* ms after a start in which other regions can confirm it */
extern int dc_op_interval;			/* ms from one look at the age of ops to the next */
extern int dc_outbox_interval;		/* ms */
extern int dc_window_interval;		/* ms from one look at the age of buckets to the next */
extern int dc_outbox_rotate_age;	/* s */
extern int dc_outbox_rotate_size;	/* MB */
extern int dc_outbox_keep;			/* s */
extern int dc_verify_rate;			/* rows a second; 0: not at all */
extern int dc_verify_max_rows;		/* of a key */
extern bool dc_async_ack;			/* acknowledgements do not wait for the disk */
extern int dc_buffer_size;			/* kB; set at start only, */
extern int dc_stats_size;			/* as is this, */
extern int dc_limit_size;			/* and this, */
extern int dc_presence_size;		/* and this */
extern int dc_presence_interval;	/* ms from one turn of the wheel to the next */
extern int dc_hot_key_alarm;		/* writes a second of a key; 0: none */
extern int dc_throttle_max_keys;	/* of a role's ad hoc limits */
extern int dc_distinct_interval;	/* ms from one folding of distinct tables to the next */
extern int dc_distinct_cache;		/* kB of sketches that a session remembers */

extern void guc_init(void);


#endif /* DC_GUC_H */
