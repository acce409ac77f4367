/*
 * format.c
 *		Events as bytes.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * payload and headers come as the text of jsonb, where C0 controls are escaped. So text
 * that is printed here as part of a line stays on that line. JSON may escape any character.
 * So the formats that are JSON escape all control characters (controlchar.c), also
 * within payload and headers, where they can only be parts of strings. The other formats
 * take keys as they are; deliver.c makes them harmless for terminals.
 */
#include "bin/dc_relay/relay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define USECS_PER_SEC INT64_C(1000000)
#define TIME_SIZE 64

static void format_json(Buffer *buffer, const Event *event);
static void format_debezium(Buffer *buffer, const Event *event, const Source *source);
static void format_redis(Buffer *buffer, const Event *event);
static void format_kafka(Buffer *buffer, const Event *event);
static void add_number(Buffer *buffer, const char *name, const Field *field);
static void add_json(Buffer *buffer, const char *name, const Field *field);
static void add_string(Buffer *buffer, const char *name, const Field *field);
static void add_escaped(Buffer *buffer, const Field *field, bool in_string);
static void add_resp(Buffer *buffer, const Field *field);
static void add_resp_pair(Buffer *buffer, const char *name, const Field *value);
static void time_text(char *text, int64_t usecs, const char *zone);
static Field field_of(const char *string);

/*
 * Append an event to the buffer, in a format.
 */
void
format_event(Buffer *buffer, Format format, const Event *event, const Source *source)
{
	switch (format)
	{
		case FORMAT_JSON:
			format_json(buffer, event);
			break;
		case FORMAT_DEBEZIUM:
			format_debezium(buffer, event, source);
			break;
		case FORMAT_REDIS:
			format_redis(buffer, event);
			break;
		case FORMAT_KAFKA:
			format_kafka(buffer, event);
			break;
	}
}

/*
 * A line with the columns of dc_fetch. The time has the format of to_jsonb(), in UTC.
 */
static void
format_json(Buffer *buffer, const Event *event)
{
	char created_at[TIME_SIZE];

	time_text(created_at, event->created_at, "+00:00");
	add_number(buffer, "{\"seq\":", &event->seq);
	add_string(buffer, ",\"id\":", &event->id);
	add_string(buffer, ",\"topic\":", &event->topic);
	add_string(buffer, ",\"key\":", &event->key);
	add_string(buffer, ",\"type\":", &event->type);
	add_json(buffer, ",\"payload\":", &event->payload);
	add_json(buffer, ",\"headers\":", &event->headers);
	buffer_printf(buffer, ",\"created_at\":\"%s\"", created_at);
	add_number(buffer, ",\"attempt\":", &event->attempt);
	buffer_add_string(buffer, "}\n");
}

/*
 * Append the line that Debezium's PostgreSQL connector would write for the row of
 * dcounter.outbox if it captured that table, with JSON values and without schemas:
 * jsonb is a string, and timestamptz a string that ends in Z.
 */
static void
format_debezium(Buffer *buffer, const Event *event, const Source *source)
{
	char created_at[TIME_SIZE];
	Field name = field_of(source->consumer);
	Field database = field_of(source->database);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now); /* ts_ms is shown */
	time_text(created_at, event->created_at, "Z");
	add_number(buffer, "{\"before\":null,\"after\":{\"seq\":", &event->seq);
	buffer_printf(buffer, ",\"created_at\":\"%s\"", created_at);
	add_string(buffer, ",\"id\":", &event->id);
	add_string(buffer, ",\"aggregatetype\":", &event->topic);
	add_string(buffer, ",\"aggregateid\":", &event->key);
	add_string(buffer, ",\"type\":", &event->type);
	add_string(buffer, ",\"payload\":", &event->payload);
	add_string(buffer, ",\"headers\":", &event->headers);
	buffer_add_string(buffer, "},\"source\":{\"version\":\"" DCOUNTER_VERSION "\",\"connector\":\"dcounter\"");
	add_string(buffer, ",\"name\":", &name);
	buffer_printf(buffer, ",\"ts_ms\":%" PRId64 ",\"snapshot\":\"false\"", event->created_at / 1000);
	add_string(buffer, ",\"db\":", &database);
	buffer_add_string(buffer, ",\"sequence\":null,\"schema\":\"dcounter\",\"table\":\"outbox\",");
	buffer_add_string(buffer, "\"txId\":null,\"lsn\":null,\"xmin\":null},\"op\":\"c\",\"ts_ms\":");
	buffer_printf(buffer, "%" PRId64 "}\n", (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

/*
 * XADD topic * id ... seq ... [key ...] type ... [payload ...] [headers ...], in the
 * protocol of Redis, where each string has its length, and so may have any bytes.
 */
static void
format_redis(Buffer *buffer, const Event *event)
{
	Field xadd = field_of("XADD");
	Field star = field_of("*");
	int pairs = 3 + (event->key.data != NULL) + (event->payload.data != NULL) + (event->headers.data != NULL);

	buffer_printf(buffer, "*%d\r\n", 3 + 2 * pairs);
	add_resp(buffer, &xadd);
	add_resp(buffer, &event->topic);
	add_resp(buffer, &star);
	add_resp_pair(buffer, "id", &event->id);
	add_resp_pair(buffer, "seq", &event->seq);
	add_resp_pair(buffer, "key", &event->key);
	add_resp_pair(buffer, "type", &event->type);
	add_resp_pair(buffer, "payload", &event->payload);
	add_resp_pair(buffer, "headers", &event->headers);
}

/*
 * XADD with NOMKSTREAM, to a stream that does not exist: its name is the event's id. It
 * adds nothing, but to Redis it is a command that may (6.2 and later).
 */
void
format_harmless(Buffer *buffer, const Event *event)
{
	Field words[] = {field_of("XADD"), event->id, field_of("NOMKSTREAM"), field_of("*"), field_of("seq"), event->seq};
	size_t count = sizeof(words) / sizeof(words[0]);

	buffer_printf(buffer, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++)
		add_resp(buffer, &words[i]);
}

/*
 * key, tab, payload, newline, for kcat -K. Characters in the key that would end it
 * early are written as in COPY, and so is the backslash: different keys stay
 * different. An empty payload makes a tombstone with kcat -Z.
 */
static void
format_kafka(Buffer *buffer, const Event *event)
{
	for (size_t i = 0; i < event->key.length; i++)
	{
		char c = event->key.data[i];

		if (c == '\t')
			buffer_add_string(buffer, "\\t");
		else if (c == '\n')
			buffer_add_string(buffer, "\\n");
		else if (c == '\r')
			buffer_add_string(buffer, "\\r");
		else if (c == '\\')
			buffer_add_string(buffer, "\\\\");
		else
			buffer_add(buffer, &c, 1);
	}
	buffer_add(buffer, "\t", 1);
	if (event->payload.data != NULL)
		buffer_add(buffer, event->payload.data, event->payload.length);
	buffer_add(buffer, "\n", 1);
}

/* A member of an object: its name, with the characters around it, and a number */
static void
add_number(Buffer *buffer, const char *name, const Field *field)
{
	buffer_add_string(buffer, name);
	buffer_add(buffer, field->data, field->length);
}

/* Likewise, with JSON unchanged except for control characters */
static void
add_json(Buffer *buffer, const char *name, const Field *field)
{
	buffer_add_string(buffer, name);
	if (field->data == NULL)
		buffer_add_string(buffer, "null");
	else
		add_escaped(buffer, field, false);
}

/* Likewise, with a string */
static void
add_string(Buffer *buffer, const char *name, const Field *field)
{
	buffer_add_string(buffer, name);
	if (field->data == NULL)
	{
		buffer_add_string(buffer, "null");
		return;
	}
	buffer_add(buffer, "\"", 1);
	add_escaped(buffer, field, true);
	buffer_add(buffer, "\"", 1);
}

/*
 * add_escaped appends a field with control characters escaped, and, within a string, the characters
 * that JSON escapes.
 */
static void
add_escaped(Buffer *buffer, const Field *field, bool in_string)
{
	size_t done = 0;

	for (size_t i = 0; i < field->length; i++)
	{
		char c = field->data[i];
		unsigned int code;
		size_t length = control_at(field->data + i, field->length - i, &code);

		if (length == 0 && !(in_string && (c == '"' || c == '\\')))
			continue;
		buffer_add(buffer, field->data + done, i - done);
		if (length == 0)
			buffer_printf(buffer, "\\%c", c);
		else if (in_string && c == '\n')
			buffer_add_string(buffer, "\\n");
		else if (in_string && c == '\r')
			buffer_add_string(buffer, "\\r");
		else if (in_string && c == '\t')
			buffer_add_string(buffer, "\\t");
		else
			buffer_printf(buffer, "\\u%04x", code);
		i += length > 0 ? length - 1 : 0;
		done = i + 1;
	}
	buffer_add(buffer, field->data + done, field->length - done);
}

/* As a bulk string of Redis */
static void
add_resp(Buffer *buffer, const Field *field)
{
	buffer_printf(buffer, "$%zu\r\n", field->length);
	buffer_add(buffer, field->data, field->length);
	buffer_add(buffer, "\r\n", 2);
}

/* A name and its value; neither if the value is NULL */
static void
add_resp_pair(Buffer *buffer, const char *name, const Field *value)
{
	Field field = field_of(name);

	if (value->data == NULL)
		return;
	add_resp(buffer, &field);
	add_resp(buffer, value);
}

/*
 * Write a time, in microseconds since 1970, in ISO 8601 with `zone` at its end. `text` has
 * TIME_SIZE bytes.
 */
static void
time_text(char *text, int64_t usecs, const char *zone)
{
	int64_t part = usecs % USECS_PER_SEC;
	time_t seconds;
	struct tm parts;
	size_t length;

	if (part < 0)
		part += USECS_PER_SEC;
	seconds = (time_t) ((usecs - part) / USECS_PER_SEC);
	if (gmtime_r(&seconds, &parts) == NULL)
		memset(&parts, 0, sizeof(parts));
	length = strftime(text, TIME_SIZE - 16, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text + length, TIME_SIZE - length, ".%06d%s", (int) part, zone);
}

/*
 * Return a string as a field.
 */
static Field
field_of(const char *string)
{
	return (Field){.data = string, .length = strlen(string)};
}
