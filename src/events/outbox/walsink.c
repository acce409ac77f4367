/*
 * walsink.c
 *		Events that are written only to the WAL.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The event is a transactional logical decoding message: a decoder sees it if, and
 * when, the transaction commits, in its place among the transaction's changes.
 * Savepoints are respected, as the message belongs to the subtransaction that has written it.
 * Nothing is stored in a table, so no consumer sees it.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/compat.h"
#include "events/outbox/capture.h"
#include "events/outbox/payload.h"

#define MESSAGE_PREFIX "dcounter.outbox"

/*
 * wal_write writes an event as a JSON object with the columns of dcounter.outbox,
 * except for seq.
 */
void
wal_write(const DcEvent *event)
{
	pg_uuid_t id = event->id;
	char *id_text = DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&id)));
	StringInfoData message;
	DcJsonWriter writer;
	Jsonb *object;

	PreventCommandIfReadOnly("outbox_capture()");
	json_begin(&writer);
	json_add_string(&writer, "id", id_text, strlen(id_text));
	json_add_text(&writer, "aggregatetype", event->topic);
	json_add_text(&writer, "aggregateid", event->key);
	json_add_text(&writer, "type", event->type);
	json_add_jsonb(&writer, "payload", (Jsonb *) event->payload);
	json_add_jsonb(&writer, "headers", (Jsonb *) event->headers);
	json_add_time(&writer, "created_at", GetCurrentTimestamp());
	object = json_end(&writer);
	initStringInfo(&message);
	JsonbToCString(&message, &object->root, VARSIZE(object));
	compat_log_message(MESSAGE_PREFIX, message.data, message.len);
}
