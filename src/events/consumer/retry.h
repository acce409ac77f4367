/*
 * retry.h
 *		Events that are delivered again, wait for others, or were given up.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RETRY_H
#define DC_RETRY_H

#include "events/consumer/consumer.h"

/* A row of dcounter.consumer_retry, in memory of its own. */
typedef struct DcRetry
{
	ItemPointerData tid; /* where it is; invalid: not stored yet */
	int32 consumer;
	int64 seq;
	int lane;
	int64 hash;			 /* of topic and key; 0: holds up no other event */
	TimestampTz due_at;	 /* wall time; 0: waits for another event, or is dead; DT_NOBEGIN: discarded */
	TimestampTz died_at; /* 0: it is not dead */
	int32 attempts;
	int32 spared; /* of these, how many do not count: they were taken back (nack.c) */
	text *topic;
	text *key;	  /* or NULL */
	text *reason; /* why it was not accepted, or NULL */
	DcStoredEvent event;
} DcRetry;

typedef struct DcRetries DcRetries;

/* retryrow.c */
extern DcRetry *retry_read(int32 consumer, int64 seq);
extern DcRetry *retry_first_of_key(int32 consumer, int64 hash, const text *topic, const text *key, int64 from);
extern DcRetry *retry_last_of_key(int32 consumer, int64 hash, const text *topic, const text *key, int64 from, int64 before);
extern List *retry_read_key(const DcRetry *first, int64 upto, int max);
extern List *retry_read_due(const DcMember *me, TimestampTz now, int64 upto, TimestampTz *first, TimestampTz *next);
extern List *retry_read_discarded(int32 consumer, int max);
extern List *retry_read_all(int32 consumer);
extern DcRetry *retry_make(int32 consumer, const DcStoredEvent *event, int64 hash);
extern void retry_count(int32 consumer, int64 *pending, int32 *attempts, int64 *dead);
extern void retry_write(DcRetry *retry);
extern void retry_delete(DcRetry *retry);
extern bool retry_is_discarded(const DcRetry *retry);
extern bool retry_same_key(const DcRetry *retry, const text *topic, const text *key);
extern int64 retry_hash(const DcConsumer *consumer, const text *topic, const text *key);

/* retrydead.c */
extern int retries_forget_discarded(int32 consumer);

/* retry.c */
extern DcRetries *retries_open(DcConsumer *consumer, DcMember *me, DcTrade *trade);
extern int retries_fetch(DcRetries *retries, int max, Size max_bytes, Size *bytes, ReturnSetInfo *result, DcMoment *look_again);
extern bool retries_keep_back(DcRetries *retries, const DcStoredEvent *event);
extern int retries_given(DcRetries *retries, int64 *seqs);
extern bool retries_wrote(DcRetries *retries);
extern bool retries_noted(DcRetries *retries);
extern void retries_ack(DcMember *me, int64 seq);
extern void retry_promote(DcMember *me, const DcRetry *gone);
extern void retry_park(DcConsumer *consumer, DcMember *me, const DcStoredEvent *event, int64 hash);
extern void retry_note(DcMember *me, const DcRetry *retry);
extern void retries_rehash(DcConsumer *consumer);

/* ack.c */
extern void open_to_ack(const char *name, const char *member, DcConsumer **consumer, DcMember *me);

#endif /* DC_RETRY_H */
