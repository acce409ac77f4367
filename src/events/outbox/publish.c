/*
 * publish.c
 *		dc_publish(): the application's own events.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "fmgr.h"

#include "base/args.h"
#include "base/compat.h"
#include "base/key.h"
#include "events/outbox/outbox.h"

PG_FUNCTION_INFO_V1(dc_publish);

static text *text_arg(FunctionCallInfo fcinfo, int n, const char *name);

/*
 * dc_publish(topic text, key text, type text, payload jsonb, headers jsonb) -> uuid,
 * the event's id. It is delivered if, and only if, the transaction commits.
 * payload may be NULL (a tombstone), and headers.
 *
 * Errors: 22004 and 22023 for arguments that are NULL or empty, 25006 in a read-only transaction
 * and on a standby.
 */
Datum
dc_publish(PG_FUNCTION_ARGS)
{
	pg_uuid_t *id = palloc(sizeof(pg_uuid_t));
	DcEvent event;

	event.topic = text_arg(fcinfo, 0, "topic");
	event.key = DatumGetTextPP(key_text_arg(fcinfo, 1, "key"));
	event.type = text_arg(fcinfo, 2, "type");
	event.payload = PG_ARGISNULL(3) ? NULL : PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(3));
	event.headers = PG_ARGISNULL(4) ? NULL : PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(4));
	event_id(&event.id);
	outbox_append(&event, "dc_publish()");
	*id = event.id;
	PG_RETURN_UUID_P(id);
}

/*
 * Return an argument; an error if it is NULL or empty.
 */
static text *
text_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	text *value;

	arg_not_null(fcinfo, n, name);
	value = PG_GETARG_TEXT_PP(n);
	check_length(name, VARSIZE_ANY_EXHDR(value), 1, MaxAllocSize);
	return value;
}
