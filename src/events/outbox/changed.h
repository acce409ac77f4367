/*
 * changed.h
 *		Changes of counter tables' keys that are to become events (see changed.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CHANGED_H
#define DC_CHANGED_H

#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "base/catrow.h"

#define EVENTS_TABLE "counter_events"
#define MARKS_TABLE "changed_key"

/* The lock of a counter table's marks (base/lockclass.h) */
#define EVENTS_LOCK_MARKS 1

/* Columns of dcounter.changed_key */
enum
{
	MARK_COUNTER = 1,
	MARK_AT,
	MARK_KEY,
	MARK_NUM_COLUMNS = MARK_KEY
};

/* A row of dcounter.counter_events. */
typedef struct DcCounterEvents
{
	Oid counter;
	Interval every;			/* at most one event for each key in this time */
	text *channel;			/* to notify; or NULL */
	TimestampTz last_round; /* DT_NOBEGIN: never */
} DcCounterEvents;

extern void changed_init(void);
extern bool events_read(Oid counter, DcCounterEvents *row);
extern List *events_read_all(void);
extern void events_write(const DcCounterEvents *row);
extern bool events_lock(Oid counter, bool wait);
extern void changed_forget(Oid counter);
extern void marks_scan(DcCatScan *scan, LOCKMODE mode, Oid counter, TimestampTz from, TimestampTz upto);

/* changedsquash.c */
extern bool marks_squash(Oid counter, TimestampTz from);
extern HTAB *key_set_make(MemoryContext cxt);
extern bool key_set_has(HTAB *set, Datum key, bool add);

#endif /* DC_CHANGED_H */
