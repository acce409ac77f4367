/*
 * capture.c
 *		dcounter.outbox_capture(): the trigger that turns changes into events.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Everything that depends on the table and on the trigger's arguments is prepared once per session
 * (capturecache.c). For each row, only its values are appended (payload.c), and the event is passed
 * to the log of the transaction, or to the WAL.
 *
 * Any role may put the function on a table of its own, by CREATE TRIGGER, just as it may call
 * dc_publish(). So its arguments are not trusted.
 *
 * The events of a key are in the order in which its row was changed: a transaction that
 * changes a row holds its lock until the commit, and the commit gives the numbers. When
 * an update changes the key there is no such order between the old key and the
 * new one. So a consumer of the old key gets an event of its own: a `delete` under
 * the old key, followed by the `update` under the new one. A consumer that
 * upserts and deletes by key then has the right rows, in whatever order it works on
 * the two keys.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "replication/worker_internal.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/args.h"
#include "base/compat.h"
#include "events/outbox/capture.h"
#include "events/outbox/outbox.h"
#include "events/outbox/payload.h"

PG_FUNCTION_INFO_V1(outbox_capture);

#define CAPTURE_NAME "outbox_capture()"

static void capture_check_call(FunctionCallInfo fcinfo);
static bool row_is_applied(const TriggerData *data);
static void capture_update(DcCapture *capture, const TriggerData *data, bool applied);
static bool capture_same_key(const text *a, const text *b);
static text *row_key(DcCapture *capture, Relation rel, TupleTableSlot *row);
static struct varlena *capture_payload(DcCapture *capture, const char *op,
									   TupleTableSlot *new, TupleTableSlot *old);
static void capture_add_row(DcJsonWriter *writer, const char *name, DcCapture *capture, TupleTableSlot *row);
static struct varlena *capture_moved(const char *member, const text *key);
static void write_event(const DcCapture *capture, const char *type, text *key,
						struct varlena *payload, struct varlena *headers, bool applied);

/*
 * outbox_capture() -> trigger, AFTER INSERT, UPDATE or DELETE FOR EACH ROW, or
 * AFTER TRUNCATE. Arguments: topic, sink, key columns, columns; see capture.h.
 *
 * Errors: 39P01 if it is another kind of trigger, 22023 for other arguments, 42703
 * for columns that do not exist, 55000 if there is no key.
 */
Datum
outbox_capture(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	DcCapture *capture;
	TupleTableSlot *row;
	bool applied;

	capture_check_call(fcinfo);
	capture = capture_find(data);
	row = data->tg_trigslot;
	applied = row_is_applied(data);
	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
		write_event(capture, "insert", row_key(capture, data->tg_relation, row),
					capture_payload(capture, "insert", row, NULL), NULL, applied);
	else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		capture_update(capture, data, applied);
	else if (TRIGGER_FIRED_BY_DELETE(data->tg_event))
		write_event(capture, "delete", row_key(capture, data->tg_relation, row),
					capture_payload(capture, "delete", NULL, row), NULL, applied);
	else
		write_event(capture, "truncate", NULL,
					capture_payload(capture, "truncate", NULL, NULL), NULL, false);
	return PointerGetDatum(NULL);
}

/*
 * Check that the function is called as the kind of trigger that dc_outbox_attach() makes.
 */
static void
capture_check_call(FunctionCallInfo fcinfo)
{
	TriggerEvent event;

	trigger_check(fcinfo, CAPTURE_NAME);
	event = ((TriggerData *) fcinfo->context)->tg_event;
	if (!TRIGGER_FIRED_AFTER(event) ||
		(TRIGGER_FIRED_BY_TRUNCATE(event) ? TRIGGER_FIRED_FOR_ROW(event) : !TRIGGER_FIRED_FOR_ROW(event)))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s must be an AFTER trigger, FOR EACH ROW except for TRUNCATE", CAPTURE_NAME),
				 errhint("Use dc_outbox_attach().")));
}

/*
 * Return true if a row was written by the apply worker of a superuser's subscription itself: not by
 * code that the worker runs for a row, such as a trigger of the table's owner. The worker has no
 * executor, so the state of the statement that fired the trigger is in its memory of a message, or,
 * of a table that is copied, in that of the transaction. Deferred triggers are fired in that, too.
 */
static bool
row_is_applied(const TriggerData *data)
{
	MemoryContext message;

	if (!IsLogicalWorker() || MySubscription == NULL || data->tg_trigslot == NULL || data->tg_trigger->tgdeferrable ||
		!superuser_arg(MySubscription->owner))
		return false;
	message = MemoryContextGetParent(data->tg_trigslot->tts_mcxt);
	return message == TopTransactionContext || (ApplyContext != NULL && MemoryContextGetParent(message) == ApplyContext);
}

/*
 * Write the event of an update. If the key has changed, the old key gets a `delete` first, and
 * headers name the other key.
 */
static void
capture_update(DcCapture *capture, const TriggerData *data, bool applied)
{
	Relation rel = data->tg_relation;
	TupleTableSlot *old = data->tg_trigslot;
	TupleTableSlot *new = data->tg_newslot;
	text *old_key = row_key(capture, rel, old);
	text *new_key = row_key(capture, rel, new);
	struct varlena *headers = NULL;

	/* without a key there is nothing that a consumer could delete */
	if (old_key != NULL && !capture_same_key(old_key, new_key))
	{
		write_event(capture, "delete", old_key, capture_payload(capture, "delete", NULL, old),
					capture_moved("moved_to", new_key), applied);
		headers = capture_moved("moved_from", old_key);
	}
	write_event(capture, "update", new_key, capture_payload(capture, "update", new, old), headers, applied);
}

/*
 * Return true if both keys are NULL, or have the same bytes.
 */
static bool
capture_same_key(const text *a, const text *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/*
 * row_key returns the key of a row's events; NULL if the key column is NULL.
 */
static text *
row_key(DcCapture *capture, Relation rel, TupleTableSlot *row)
{
	Datum value = (Datum) 0;

	slot_getallattrs(row);
	if (capture->key_kind != KEY_NONE && capture->key_kind != KEY_SEVERAL)
	{
		if (row->tts_isnull[capture->key - 1])
			return NULL;
		value = row->tts_values[capture->key - 1];
		if (TupleDescAttr(RelationGetDescr(rel), capture->key - 1)->attlen == -1)
			check_length("key of an event", toast_raw_datum_size(value) - VARHDRSZ, 0, EVENT_MAX_KEY_VALUE);
	}
	switch (capture->key_kind)
	{
		case KEY_BYTES:
			return DatumGetTextPP(value);
		case KEY_CAST:
			return DatumGetTextPP(FunctionCall1(&capture->key_function, value));
		case KEY_OUTPUT:
			return cstring_to_text(OutputFunctionCall(&capture->key_function, value));
		case KEY_SEVERAL:
			return cstring_to_text(json_row_text(&capture->keys, row->tts_values,
												 row->tts_isnull));
		default:
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" no longer has the primary key that was the key of its events",
					RelationGetRelationName(rel)),
			 errhint("Call dc_outbox_detach(), then dc_outbox_attach() with key_columns.")));
	return NULL;
}

/*
 * capture_payload returns {"op", "new", "old", "table", "at"}, with null for a row that does not
 * exist.
 */
static struct varlena *
capture_payload(DcCapture *capture, const char *op, TupleTableSlot *new, TupleTableSlot *old)
{
	DcJsonWriter writer;

	json_begin(&writer);
	json_add_time(&writer, "at", GetCurrentTimestamp());
	json_add_string(&writer, "op", op, strlen(op));
	capture_add_row(&writer, "new", capture, new);
	capture_add_row(&writer, "old", capture, old);
	json_add_text(&writer, "table", capture->table);
	return (struct varlena *) json_end(&writer);
}

/*
 * Add a row to the object as the member `name`; null if there is no row.
 */
static void
capture_add_row(DcJsonWriter *writer, const char *name, DcCapture *capture, TupleTableSlot *row)
{
	if (row == NULL)
	{
		json_add_null(writer, name);
		return;
	}
	slot_getallattrs(row);
	json_add_row(writer, name, &capture->row, row->tts_values, row->tts_isnull);
}

/*
 * capture_moved returns headers with the key to which a row has moved, or from which it has come.
 */
static struct varlena *
capture_moved(const char *member, const text *key)
{
	DcJsonWriter writer;

	json_begin(&writer);
	json_add_text(&writer, member, key);
	return (struct varlena *) json_end(&writer);
}

/*
 * Write an event with a new id to the outbox, or to the WAL.
 */
static void
write_event(const DcCapture *capture, const char *type, text *key,
			struct varlena *payload, struct varlena *headers, bool applied)
{
	DcEvent event;

	event_id(&event.id);
	event.topic = capture->topic;
	event.key = key;
	event.type = cstring_to_text(type);
	event.payload = payload;
	event.headers = headers;
	if (capture->wal)
		wal_write(&event);
	else
		outbox_append_applied(&event, CAPTURE_NAME, applied);
}
