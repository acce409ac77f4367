/*
 * event.h
 *		Events: what has been applied, by the ids that its callers gave to it (see
 *		event.c).
 */
#ifndef DC_EVENT_H
#define DC_EVENT_H

#include "base/catalog.h"
#include "fmgr.h"

#define DC_EVENT_SUFFIX "_event"

/* Longest id in bytes: it must fit a btree entry. */
#define DC_MAX_EVENT_BYTES 1024

typedef struct DcEvent
{
	const char *id; /* not zero-terminated */
	uint32 id_len;	/* in bytes */
	Datum key;		/* text */
	int64 delta;
	int64 transfer_id; /* 0: none */
	int64 digest;	   /* of the arguments; 0: key and delta are all of them */
	TimestampTz at;	   /* 0: now */
} DcEvent;

/* What is known of an event. */
typedef enum DcEventStatus
{
	EVENT_APPLIED,
	EVENT_NOT_APPLIED,
	EVENT_UNKNOWN /* its record may be gone */
} DcEventStatus;

/* The events of a counter table, open for the statement. */
typedef struct DcEventLog DcEventLog;

extern void event_id_arg(FunctionCallInfo fcinfo, int argno, DcEvent *event);
extern void event_id_from_text(Datum value, DcEvent *event);
extern void event_check_same(const DcEvent *event, const DcEvent *found);

extern DcEventLog *events_open(DcCounter *counter);
extern void events_close(DcEventLog *log);
extern bool events_lookup(DcEventLog *log, DcEvent *event, DcEvent *found);
extern bool events_insert(DcEventLog *log, const DcEvent *event,
						  DcEvent *found);
extern DcEventStatus events_status(DcCounter *counter, DcEvent *event,
								   DcEvent *found);
extern void events_create(DcCounter *counter);
extern void events_wait_made(DcCounter *counter);
extern void events_adopt(DcCounter *counter);

#endif /* DC_EVENT_H */
