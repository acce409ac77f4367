/*
 * outbox.h
 *		Writing events, and reading them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Writing (log.c, eventwrite.c): an event is kept in the transaction's memory, and
 * written when it commits. Reading (reader.c): all events up to the horizon
 * (registry.c) are settled: committed or rolled back.
 */
#ifndef DC_OUTBOX_H
#define DC_OUTBOX_H

#include "fmgr.h"
#include "utils/uuid.h"

#include "base/catrow.h"
#include "base/clock.h"
#include "base/job.h"

/* Columns of dcounter.outbox */
enum
{
	OUTBOX_SEQ = 1,
	OUTBOX_CREATED_AT,
	OUTBOX_ID,
	OUTBOX_TOPIC,
	OUTBOX_KEY,
	OUTBOX_TYPE,
	OUTBOX_PAYLOAD,
	OUTBOX_HEADERS,
	OUTBOX_NUM_COLUMNS = OUTBOX_HEADERS
};

#define OUTBOX_PARTITIONS 8

/* Names in schema dcounter, for catalog_relation(). */
#define OUTBOX_TABLE "outbox"
#define OUTBOX_SEQUENCE "outbox_seq"
#define OUTBOX_RING "outbox_ring"

/* An event to be written. Pointers to varlenas; those that may be NULL say so. */
typedef struct DcEvent
{
	pg_uuid_t id; /* set by event_id() */
	text *topic;
	text *key; /* or NULL */
	text *type;
	struct varlena *payload; /* jsonb, or NULL */
	struct varlena *headers; /* jsonb, or NULL */
} DcEvent;

/* An event that was read; valid until the next one is. Nothing is detoasted. */
typedef struct DcStoredEvent
{
	int64 seq;
	Datum values[OUTBOX_NUM_COLUMNS]; /* [OUTBOX_KEY - 1], ... */
	bool isnull[OUTBOX_NUM_COLUMNS];
} DcStoredEvent;

/* The transaction that holds delivery back, if one does. */
typedef struct DcHolder
{
	bool held;
	int pid;		   /* 0: a prepared transaction */
	TransactionId xid; /* of a prepared transaction */
} DcHolder;

typedef struct DcReader DcReader;

/* log.c, eventwrite.c */
extern void outbox_init(bool preloading);
extern void outbox_xact_init(void);
extern void event_id(pg_uuid_t *id);
extern void outbox_append(const DcEvent *event, const char *function);
extern void outbox_append_applied(const DcEvent *event, const char *function, bool applied);

/* Limit of payload and headers as jsonb. */
#define EVENT_MAX_JSON_BYTES (16 * 1024 * 1024)

/* Limit of the values that a key of an event is made of, as they are in memory. */
#define EVENT_MAX_KEY_VALUE (64 * 1024)

/* eventsize.c */
extern void event_check_sizes(const DcEvent *event);

/* changedjob.c, outboxjob.c */
extern bool changed_job(DcJobRun *run);
extern bool outbox_job(DcJobRun *run);
extern bool outbox_is_needed(void);

/* registry.c */
extern int64 outbox_horizon(DcHolder *holder);
extern int64 outbox_last_seq(void);

/* reader.c: events with after < seq <= upto, in the order of seq */
extern DcReader *reader_begin(int64 after, int64 upto);
extern bool reader_next(DcReader *reader, DcStoredEvent *event);
extern void reader_end(DcReader *reader);

/* wait.c */
extern void outbox_wait_begin(void);
extern bool outbox_wait(DcMoment until);
extern void outbox_wait_end(void);

/* ring.c */
extern Oid outbox_partition(int number);
extern int outbox_current(TimestampTz *since);

#endif /* DC_OUTBOX_H */
