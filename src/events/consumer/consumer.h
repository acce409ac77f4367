/*
 * consumer.h
 *		Consumers of the outbox, and their members.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CONSUMER_H
#define DC_CONSUMER_H

#include "access/htup.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "storage/itemptr.h"
#include "utils/array.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "base/compat.h"
#include "base/hooks.h"
#include "events/outbox/outbox.h"

/* Numbers in the tags of locks, for members' names; these are no member's. */
#define CONSUMER_LOCK_SETTINGS 0
#define CONSUMER_LOCK_SELF 1	/* of the consumer itself, which has no name */
#define CONSUMER_LOCK_JOINING 2 /* shared by sessions that wait to become members */

#define LANES 64
#define ALL_LANES PG_UINT64_MAX

/* Longest name of a consumer or member, in bytes. */
#define CONSUMER_NAME_MAX 63

/* Events that a fetch hands out again, at most. */
#define RETRIES_MAX 100

/* A row of dcounter.consumer. */
typedef struct DcConsumer
{
	ItemPointerData tid; /* where it is */
	int32 id;
	char *name;
	Oid owner;
	List *readers;	   /* Oid */
	bool filtered;	   /* there are topics, also in a row that was read without them */
	ArrayType *topics; /* NULL: all */
	Datum *topic_list; /* its elements, texts */
	int ntopics;
	int64 lease; /* us */
	int32 max_attempts;
	bool skip;		/* a nacked event does not hold up its key */
	int64 max_age;	/* us, 0: none */
	int64 max_size; /* bytes, 0: none */
	int64 cut_off;	/* 0: it is not */
	int64 revived;	/* grows when events are made due without the members' rows */
	TimestampTz created_at;
	Datum lease_setting; /* interval */
	Datum age_setting;	 /* interval, or 0 for none */
} DcConsumer;

/*
 * How often the events after the previous step, up to and including `seq`, were handed out
 * (attempts.c).
 */
typedef struct DcAttempts
{
	int64 upto;
	int64 attempts; /* 2 at least */
} DcAttempts;

#define ATTEMPTS_MAX 16

/* The newest row of a member in dcounter.consumer_member. */
typedef struct DcMember
{
	ItemPointerData tid; /* where it is; invalid: not stored yet */
	int32 consumer;
	char name[CONSUMER_NAME_MAX + 1]; /* "": the consumer itself */
	int64 version;
	uint64 lanes;
	int64 positions[LANES];			   /* of its lanes: everything up to here is done */
	int64 fetched;					   /* how far the last fetch has looked; 0: none to ack */
	int64 delivered;				   /* the last event handed out */
	int nattempts;					   /* how often those handed out have been, */
	DcAttempts attempts[ATTEMPTS_MAX]; /* if more than once; the others came once */
	bool skip;						   /* the consumer's, at the time of the last fetch */
	int nretries;
	int64 retries[RETRIES_MAX]; /* handed out from the table of retries */
	TimestampTz lease_until;	/* wall time, as all sessions see it; member.c */
	TimestampTz retry_due;		/* no retry of its lanes is due before; 0: there is none */
	int64 retry_first;			/* none that is not dead has a lower seq */
	int64 retry_last;			/* none, dead ones included, has a higher seq */
	int64 revived;				/* the consumer's, when these were found */
} DcMember;

/*
 * Lanes that a fetch moves between its own row and other members' rows. The rows stay locked, and
 * change in memory only, until the fetch knows whether it has events to return (member.c).
 */
typedef struct DcTrade
{
	List *others;	/* DcMember *: the rows that change besides its own */
	DcMember *self; /* of these, that of the consumer itself; NULL: it does not change */
	uint64 keep;	/* lanes that the fetch has in the end, if it has them now */
	bool chosen;	/* it has come to an event */
} DcTrade;

/*
 * Return true if a lane is in a set of lanes.
 */
static inline bool
lanes_have(uint64 lanes, int lane)
{
	return (lanes >> lane & 1) != 0;
}

/*
 * Return true if two texts, which are not compressed or stored elsewhere, have
 * the same bytes.
 */
static inline bool
same_text(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/* consumerrow.c */
extern DcConsumer *consumer_read(const char *name);
extern DcConsumer *consumer_read_by_id(int32 id);
extern List *consumer_list(Snapshot snapshot);
extern void consumer_insert(DcConsumer *consumer);
extern void consumer_update(DcConsumer *consumer);
extern void consumer_delete(DcConsumer *consumer);
extern bool consumer_has_lost_roles(const DcConsumer *consumer);
extern bool consumer_wants(const DcConsumer *consumer, const text *topic);
extern void consumer_set_topics(DcConsumer *consumer, ArrayType *topics);
extern int64 interval_setting_us(Datum value, const char *what);

/* consumeraccess.c */
extern char *consumer_name_arg(FunctionCallInfo fcinfo, int n, const char *what);
extern char *member_arg(FunctionCallInfo fcinfo, int n);
pg_noreturn extern void consumer_is_missing(const char *name);
extern bool consumer_may_read(const DcConsumer *consumer);
extern DcConsumer *consumer_open_to_read(const char *name);
extern DcConsumer *consumer_read_again(const DcConsumer *consumer);
extern DcConsumer *consumer_open_to_change(FunctionCallInfo fcinfo, const char *function);
extern bool consumer_lock_settings(int32 id, bool wait);
extern bool positions_lock(bool shared, bool wait);
extern void positions_unlock(void);
extern int64 duration_arg_us(Datum value, const char *what);
extern void consumer_check_writable(const char *function);

/* consumerposition.c */
extern void positions_begin(void);
extern void positions_end(int64 position);
extern bool positions_held(int64 *lowest);
extern int64 position_from_text(const char *start);
extern int64 position_from_int8(int64 seq);

/* consumerneeds.c */
extern void consumer_init(void);

/* statconsumers.c */
extern bool stat_may_see(const DcConsumer *consumer);

/* memberrow.c */
extern bool member_lock(int32 consumer, const char *name, bool wait, bool *held_before);
extern void member_unlock(int32 consumer, const char *name);
extern void member_lock_joining(int32 consumer);
extern int member_count_joining(int32 consumer);
extern bool member_read(int32 consumer, const char *name, DcMember *member);
extern bool member_try_open(int32 consumer, const char *name, DcMember *member);
extern List *member_read_all(int32 consumer, Snapshot snapshot);
extern void member_new(DcMember *member, int32 consumer, const char *name);
extern void member_write(DcMember *member);
extern void member_delete(DcMember *member);
extern int64 member_acked(const DcMember *member);
extern bool member_has_outstanding(const DcMember *member);
extern void member_advance(DcMember *member, int64 done);
extern int lane_of(const text *key);

/* attempts.c */
extern int32 member_attempts(const DcMember *me, int64 seq);
extern void member_hand_out(DcMember *me, int64 last);
extern void member_take_attempts(DcMember *to, const DcMember *from);

/* member.c */
extern void trade_begin(DcTrade *trade);
extern bool trade_keeps(DcTrade *trade, int lane);
extern void trade_store(DcTrade *trade, DcMember *me);
extern void trade_forget(DcTrade *trade);
extern void member_share(DcConsumer *consumer, DcMember *me, DcTrade *trade, DcMoment *look_again);
extern bool member_cut_lease(int32 consumer, const char *name, int64 lease);
extern const DcMember *member_take_all(DcConsumer *consumer, DcMember *self, DcTrade *trade);
extern List *members_lock_all(int32 consumer);
extern int event_lane(const DcStoredEvent *event);
extern text *event_key(const DcStoredEvent *event);
extern Size event_put(ReturnSetInfo *result, const DcStoredEvent *event, int attempt);
extern bool event_is_wanted(const DcConsumer *consumer, const DcStoredEvent *event);
extern bool event_is_of(const DcConsumer *consumer, const DcMember *me, const DcStoredEvent *event);

/* consumerxact.c */
extern void consumer_xact_init(void);
extern void consumer_xact_enter(void);
extern void consumer_xact_leave(void);
extern void consumer_wake_at_commit(void);

#endif /* DC_CONSUMER_H */
