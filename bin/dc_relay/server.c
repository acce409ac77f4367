/*
 * server.c
 *		The queries that the relay sends to the server.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Nothing here blocks: a query is sent, and wait_for() waits for its answer or for
 * a signal. A fetch that waits for events is canceled as soon as the relay is told to stop. An
 * acknowledgement gets some time, since without it a batch that was delivered would come again.
 *
 * An acknowledgement is never repeated on another connection. After a crash the server may remember
 * an earlier assignment of keys to members, for which the same seq stands for more events than the
 * relay had. So after a lost connection the relay fetches again, and gets the events that the
 * server does not know to be done.
 */
#include "bin/dc_relay/relay.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACK_GRACE 5000	  /* ms for an acknowledgement when the relay is to stop */
#define CANCEL_GRACE 5000 /* ms for the server to obey */

/* Columns of the fetch query */
enum
{
	COLUMN_SEQ,
	COLUMN_ID,
	COLUMN_TOPIC,
	COLUMN_KEY,
	COLUMN_TYPE,
	COLUMN_PAYLOAD,
	COLUMN_HEADERS,
	COLUMN_CREATED_AT,
	COLUMN_ATTEMPT
};

/*
 * The relay's sessions have no timeouts, whatever is set for the role. The first statement is the
 * only one that could run into one, at each try: so it is one for which the server looks nothing
 * up.
 */
static const char end_timeout[] = "SET statement_timeout = 0";
static const char prepare_session[] =
	"SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),"
	" pg_catalog.set_config('idle_session_timeout', '0', false),"
	/* not every version has this one */
	" CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL"
	" THEN pg_catalog.set_config('transaction_timeout', '0', false) END";

/*
 * A session that waits for events should notice that the relay was killed, so that other
 * members get its keys. Not all platforms can do that, so an error is ignored.
 */
static const char check_client[] =
	"SELECT pg_catalog.set_config('client_connection_check_interval', '1000', false)";

static const char find_schema[] =
	"SELECT pg_catalog.quote_ident(n.nspname)"
	" FROM pg_catalog.pg_extension AS e"
	" JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace"
	" WHERE e.extname OPERATOR(pg_catalog.=) 'dcounter'";

static const char fetch_format[] =
	"SELECT seq, id, topic, key, type, payload, headers,"
	" (pg_catalog.extract('epoch', created_at) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8,"
	" attempt FROM %s.dc_fetch($1, $2, $3, $4)";

static const char nack_format[] = "SELECT %s.dc_nack($1, $2, $3, 'refused by what dc_relay delivers to', $4)";

static const char last_fetch[] = "SELECT dcounter.last_fetch()";

static const char ack_format[] = "SELECT %s.dc_ack($1, $2, $3)";

/* Type OIDs of parameters: looking up their names would take a query. */
#define TYPE_INT8 20
#define TYPE_INT4 23
#define TYPE_TEXT 25
#define TYPE_INTERVAL 1186

static PGconn *connection;
static bool connected_before;
static Buffer fetch_query;
static Buffer ack_query;
static Buffer nack_query;

static Outcome look_around(void);
static void relay_server_on_notice(void *arg, const char *message);
static Outcome relay_server_query(const char *sql, int n, const Oid *types, const char *const *values, int64_t grace, PGresult **result);
static Outcome relay_server_ask(const char *sql, int n, const Oid *types, const char *const *values, int64_t grace, PGresult **result);
static Outcome await_answer(int64_t grace);
static void relay_server_cancel(void);
static Outcome relay_server_judge(const PGresult *result);
static void set_query(Buffer *buffer, const char *format, const char *schema);
static Field relay_server_column(const PGresult *batch, int row, int column);

/*
 * server_connect makes the connection. OUTCOME_LOST: not this time.
 */
Outcome
server_connect(const Options *options)
{
	Outcome outcome = connect_server(options, !connected_before, &connection);

	if (outcome == OUTCOME_OK)
	{
		PQsetNoticeProcessor(connection, relay_server_on_notice, NULL);
		outcome = look_around();
	}
	if (outcome != OUTCOME_OK)
		server_close();
	else if (connected_before)
		say("connected again");
	else
		connected_before = true;
	return outcome;
}

/*
 * Close the connection, if there is one.
 */
void
server_close(void)
{
	PQfinish(connection);
	connection = NULL;
}

/*
 * Return the name of the database, as the connection has it.
 */
const char *
server_database(void)
{
	return PQdb(connection);
}

/*
 * look_around sets up the session, and finds the schema of the functions.
 */
static Outcome
look_around(void)
{
	PGresult *result;
	Outcome outcome;

	outcome = relay_server_ask(end_timeout, 0, NULL, NULL, 0, &result);
	PQclear(result);
	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = relay_server_query(prepare_session, 0, NULL, NULL, 0, &result);
	if (outcome != OUTCOME_OK)
		return outcome;
	PQclear(result);
	outcome = relay_server_ask(check_client, 0, NULL, NULL, 0, &result);
	PQclear(result);
	if (outcome != OUTCOME_OK)
		return outcome;
	outcome = relay_server_query(find_schema, 0, NULL, NULL, 0, &result);
	if (outcome != OUTCOME_OK)
		return outcome;
	if (PQntuples(result) == 0)
		fail("the extension dcounter is not installed in database \"%s\"", PQdb(connection));
	set_query(&fetch_query, fetch_format, PQgetvalue(result, 0, 0));
	set_query(&ack_query, ack_format, PQgetvalue(result, 0, 0));
	set_query(&nack_query, nack_format, PQgetvalue(result, 0, 0));
	PQclear(result);
	return OUTCOME_OK;
}

/*
 * Set a query to its text with the extension's schema, quoted, in place of %s.
 */
static void
set_query(Buffer *buffer, const char *format, const char *schema)
{
	const char *place = strstr(format, "%s");

	buffer_reset(buffer);
	buffer_add(buffer, format, (size_t) (place - format));
	buffer_add_string(buffer, schema);
	buffer_add(buffer, place + 2, strlen(place + 2) + 1);
}

/*
 * Print the server's notices to standard error.
 */
static void
relay_server_on_notice(void *arg, const char *message)
{
	(void) arg;
	say("%s", message);
}

/*
 * server_fetch gets the next batch, possibly empty. With OUTCOME_OK it is the
 * caller's to clear.
 */
Outcome
server_fetch(const Options *options, PGresult **batch)
{
	const Oid types[] = {TYPE_TEXT, TYPE_INT4, TYPE_INTERVAL, TYPE_TEXT};
	char max_events[32];
	char wait[64];
	const char *const values[] = {options->consumer, max_events, wait, options->member};

	snprintf(max_events, sizeof(max_events), "%d", options->batch);
	snprintf(wait, sizeof(wait), "%.3f seconds", options->wait);
	return relay_server_query(fetch_query.data, 4, types, values, 0, batch);
}

/*
 * server_ack confirms everything fetched up to seq.
 */
Outcome
server_ack(const Options *options, int64_t seq)
{
	const Oid types[] = {TYPE_TEXT, TYPE_INT8, TYPE_TEXT};
	char text[32];
	const char *const values[] = {options->consumer, text, options->member};
	PGresult *result;
	Outcome outcome;

	snprintf(text, sizeof(text), "%" PRId64, seq);
	outcome = relay_server_query(ack_query.data, 3, types, values, ACK_GRACE, &result);
	if (outcome == OUTCOME_OK)
		PQclear(result);
	return outcome;
}

/*
 * server_nack reports to the server that an event was not accepted, and when to deliver it again.
 * *dead: it will not come again.
 */
Outcome
server_nack(const Options *options, int64_t seq, double delay, bool *dead)
{
	const Oid types[] = {TYPE_TEXT, TYPE_INT8, TYPE_INTERVAL, TYPE_TEXT};
	char number[32];
	char interval[64];
	const char *const values[] = {options->consumer, number, interval, options->member};
	PGresult *result;
	Outcome outcome;

	snprintf(number, sizeof(number), "%" PRId64, seq);
	snprintf(interval, sizeof(interval), "%.3f seconds", delay);
	outcome = relay_server_query(nack_query.data, 4, types, values, ACK_GRACE, &result);
	if (outcome != OUTCOME_OK)
		return outcome;
	*dead = strcmp(PQgetvalue(result, 0, 0), "dead") == 0;
	PQclear(result);
	return OUTCOME_OK;
}

/*
 * server_last_fetch asks whether the last fetch, which was empty, has looked at all events.
 */
Outcome
server_last_fetch(FetchEnd *end)
{
	PGresult *result;
	Outcome outcome = relay_server_query(last_fetch, 0, NULL, NULL, 0, &result);

	if (outcome != OUTCOME_OK)
		return outcome;
	*end = strcmp(PQgetvalue(result, 0, 0), "stopped") == 0 ? FETCH_STOPPED
		: strcmp(PQgetvalue(result, 0, 0), "busy") == 0		? FETCH_BUSY
															: FETCH_COMPLETE;
	PQclear(result);
	return OUTCOME_OK;
}

/*
 * relay_server_query runs a query that returns rows. When the relay is told to stop, the query has
 * `grace` ms left.
 */
static Outcome
relay_server_query(const char *sql, int n, const Oid *types, const char *const *values, int64_t grace, PGresult **result)
{
	Outcome outcome = relay_server_ask(sql, n, types, values, grace, result);

	if (outcome == OUTCOME_OK)
		outcome = relay_server_judge(*result);
	if (outcome != OUTCOME_OK)
	{
		PQclear(*result);
		*result = NULL;
	}
	return outcome;
}

/*
 * relay_server_ask does the same, but does not look at the result, which may be an error.
 */
static Outcome
relay_server_ask(const char *sql, int n, const Oid *types, const char *const *values, int64_t grace, PGresult **result)
{
	Outcome outcome;
	PGresult *one;

	*result = NULL;
	PQsetnonblocking(connection, 1);
	if (!PQsendQueryParams(connection, sql, n, types, values, NULL, NULL, 0))
	{
		say("%s", PQerrorMessage(connection));
		return OUTCOME_LOST;
	}
	while ((outcome = await_answer(grace)) == OUTCOME_OK && (one = PQgetResult(connection)) != NULL)
	{
		/* an error in mid-result comes last, and counts */
		PQclear(*result);
		*result = one;
	}
	return outcome;
}

/*
 * await_answer returns when PQgetResult() has something to return at once.
 */
static Outcome
await_answer(int64_t grace)
{
	int64_t deadline = NO_DEADLINE;
	bool cancelled = false;

	for (;;)
	{
		int flush = PQflush(connection);

		if (flush < 0)
			break;
		if (flush == 0 && !PQisBusy(connection))
			return OUTCOME_OK;
		if (stopping && deadline == NO_DEADLINE)
			deadline = now_ms() + grace;
		if (deadline != NO_DEADLINE && now_ms() >= deadline)
		{
			if (cancelled)
				return OUTCOME_STOPPED;
			relay_server_cancel();
			cancelled = true;
			deadline = now_ms() + CANCEL_GRACE;
		}
		wait_for(PQsocket(connection), flush > 0 ? POLLIN | POLLOUT : POLLIN, deadline);
		if (!PQconsumeInput(connection))
			break;
	}
	say("%s", PQerrorMessage(connection));
	return OUTCOME_LOST;
}

/*
 * Ask the server to cancel the query that is running.
 */
static void
relay_server_cancel(void)
{
	PGcancel *request = PQgetCancel(connection);
	char message[256];

	/* If this fails, the relay still waits for CANCEL_GRACE. */
	PQcancel(request, message, sizeof(message));
	PQfreeCancel(request);
}

/*
 * relay_server_judge decides what an answer means for the relay. An error that will not go away by
 * itself ends the program.
 */
static Outcome
relay_server_judge(const PGresult *result)
{
	/* codes, and classes of codes, of errors that may go away; most depend on what others do */
	static const struct
	{
		const char *sqlstate;
		Outcome outcome;
	} meanings[] = {
		{"55000", OUTCOME_REFUSED},
		{"25006", OUTCOME_LOST}, /* read-only: perhaps another server is the primary now */
		{"08", OUTCOME_RETRY},
		{"40", OUTCOME_RETRY},
		{"53", OUTCOME_RETRY},
		{"55006", OUTCOME_RETRY},
		{"55P03", OUTCOME_RETRY},
		{"57014", OUTCOME_RETRY},
		{"57P", OUTCOME_RETRY},
		{"58", OUTCOME_RETRY},
	};
	const char *state;

	if (result == NULL)
		return OUTCOME_LOST;
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
		return OUTCOME_OK;
	state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	if (stopping && state != NULL && strcmp(state, "57014") == 0)
		return OUTCOME_STOPPED;
	say("%s", PQresultErrorMessage(result));
	if (PQstatus(connection) == CONNECTION_BAD || state == NULL)
		return OUTCOME_LOST;
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
	{
		if (strncmp(state, meanings[i].sqlstate, strlen(meanings[i].sqlstate)) == 0)
			return meanings[i].outcome;
	}
	exit(EXIT_FAILURE);
}

/*
 * Set the event from a row of the batch. Its fields point into the batch.
 */
void
batch_op(const PGresult *batch, int row, Event *event)
{
	event->seq = relay_server_column(batch, row, COLUMN_SEQ);
	event->id = relay_server_column(batch, row, COLUMN_ID);
	event->topic = relay_server_column(batch, row, COLUMN_TOPIC);
	event->key = relay_server_column(batch, row, COLUMN_KEY);
	event->type = relay_server_column(batch, row, COLUMN_TYPE);
	event->payload = relay_server_column(batch, row, COLUMN_PAYLOAD);
	event->headers = relay_server_column(batch, row, COLUMN_HEADERS);
	event->created_at = strtoll(PQgetvalue(batch, row, COLUMN_CREATED_AT), NULL, 10);
	event->attempt = relay_server_column(batch, row, COLUMN_ATTEMPT);
}

/*
 * Return a column of a row as a field; NULL has no data.
 */
static Field
relay_server_column(const PGresult *batch, int row, int column)
{
	if (PQgetisnull(batch, row, column))
		return (Field){.data = NULL};
	return (Field){.data = PQgetvalue(batch, row, column), .length = (size_t) PQgetlength(batch, row, column)};
}

/*
 * batch_seq returns the number of an event. The events of a batch are in the order of their
 * numbers, including those that come again.
 */
int64_t
batch_seq(const PGresult *batch, int row)
{
	return strtoll(PQgetvalue(batch, row, COLUMN_SEQ), NULL, 10);
}
