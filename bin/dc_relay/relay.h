/*
 * relay.h
 *		dc_relay: takes a consumer's events out of the database, and
 *		acknowledges those that have arrived.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A program of its own, not a part of the module: only libpq and POSIX.
 */
#ifndef DC_RELAY_H
#define DC_RELAY_H

#include "bin/client/client.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---------- options.c ---------- */

typedef enum Format
{
	FORMAT_JSON,
	FORMAT_DEBEZIUM,
	FORMAT_REDIS,
	FORMAT_KAFKA
} Format;

typedef struct Options
{
	const char *dsn; /* "" leaves everything to libpq */
	const char *consumer;
	const char *member;	 /* or NULL */
	const char *command; /* of --exec, or NULL: standard output */
	Format format;
	int batch;
	double wait; /* seconds */
	bool once;
} Options;

extern void options_parse(Options *options, int argc, char **argv);

/* ---------- format.c ---------- */

/* A column's text; data is NULL if the column is NULL */
typedef struct Field
{
	const char *data;
	size_t length;
} Field;

typedef struct Event
{
	Field seq;
	Field id;
	Field topic;
	Field key; /* or NULL */
	Field type;
	Field payload;		/* JSON on one line, or NULL */
	Field headers;		/* likewise */
	int64_t created_at; /* microseconds since 1970 */
	Field attempt;
} Event;

/* Where events come from, for the envelope */
typedef struct Source
{
	const char *consumer;
	const char *database;
} Source;

extern void format_event(Buffer *buffer, Format format, const Event *event, const Source *source);
extern void format_harmless(Buffer *buffer, const Event *event);

/* ---------- connect.c, server.c ---------- */

typedef enum Outcome
{
	OUTCOME_OK,
	OUTCOME_REFUSED, /* the relay has lost its lease */
	OUTCOME_RETRY,	 /* failed, may work later */
	OUTCOME_LOST,	 /* the connection is gone */
	OUTCOME_STOPPED
} Outcome;

/* How an empty fetch ended */
typedef enum FetchEnd
{
	FETCH_COMPLETE, /* nothing is left */
	FETCH_STOPPED,	/* the next one goes on */
	FETCH_BUSY		/* another session works for the consumer */
} FetchEnd;

extern Outcome connect_server(const Options *options, bool first_time, PGconn **connection);
extern Outcome server_connect(const Options *options);
extern void server_close(void);
extern const char *server_database(void);
extern Outcome server_fetch(const Options *options, PGresult **batch);
extern Outcome server_ack(const Options *options, int64_t seq);
extern Outcome server_nack(const Options *options, int64_t seq, double delay, bool *dead);
extern Outcome server_last_fetch(FetchEnd *end);
extern void batch_op(const PGresult *batch, int row, Event *event);
extern int64_t batch_seq(const PGresult *batch, int row);

/* ---------- pass.c, deliver.c, child.c ---------- */

typedef enum Delivery
{
	DELIVERED,
	NOT_DELIVERED, /* failed, and printed why */
	AT_FAULT,	   /* likewise, because of the events or one of them */
	ABANDONED	   /* told to stop first */
} Delivery;

/* Some events of a batch */
typedef struct Part
{
	const PGresult *batch;
	int first;
	int count;
	bool harmless; /* instead of them, a command that adds nothing */
} Part;

/* Writes a buffer; false: no more is wanted */
typedef bool (*WriteBuffer)(void *target, const Buffer *buffer);

extern Outcome pass_on(const Options *options, const PGresult *batch);
extern Delivery deliver(const Options *options, Part part);
extern void deliver_init(const Options *options);
extern bool write_part(const Options *options, Part part, WriteBuffer write_buffer, void *target);
extern Delivery child_deliver(const Options *options, Part part);

#endif /* DC_RELAY_H */
