/*
 * capture.h
 *		The trigger that writes events, and its arguments.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CAPTURE_H
#define DC_CAPTURE_H

#include "access/attnum.h"
#include "access/tupdesc.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

#include "core/table/ddlhooks.h"
#include "events/outbox/outbox.h"
#include "events/outbox/payload.h"

/* The trigger's arguments */
enum
{
	CAPTURE_TOPIC,
	CAPTURE_SINK,
	CAPTURE_KEY_COLUMNS,
	CAPTURE_COLUMNS,
	CAPTURE_NUM_ARGS
};

#define SINK_TABLE "table"
#define SINK_WAL "wal"

/* How the key column's value becomes text. */
typedef enum DcKeyKind
{
	KEY_NONE,	 /* the key column was dropped */
	KEY_BYTES,	 /* those of a varlena */
	KEY_CAST,	 /* by the cast to text */
	KEY_OUTPUT,	 /* by the output function */
	KEY_SEVERAL, /* a JSON array */
} DcKeyKind;

/* A trigger, as a session remembers it; see capturecache.c. */
typedef struct DcCapture
{
	MemoryContext cxt;
	text *topic;
	bool wal;
	text *table; /* the one that was attached */
	DcJsonRow row;
	DcKeyKind key_kind;
	AttrNumber key;
	FmgrInfo key_function;
	DcJsonRow keys; /* of KEY_SEVERAL */
} DcCapture;

/* capturecache.c */
struct TriggerData;
extern DcCapture *capture_find(struct TriggerData *data);
extern List *capture_columns(const char *arg, bool *valid);
extern bool capture_to_wal(const char *sink);
extern AttrNumber *primary_key_columns(Relation rel, int *n);
extern AttrNumber column_number(TupleDesc desc, const char *name);

/* captureddl.c */
extern const DcDdlHook capture_ddl;

/* attach.c */
#define CAPTURE_FUNCTION "outbox_capture"
extern Oid capture_function(bool missing_ok);

/* walsink.c */
extern void wal_write(const DcEvent *event);

#endif /* DC_CAPTURE_H */
