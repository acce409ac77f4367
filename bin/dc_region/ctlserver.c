/*
 * ctlserver.c
 *		The connections to the regions, and queries.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Errors of a server are printed without the statement, which may have a password: only message,
 * detail and hint.
 */
#include "bin/dc_region/ctl.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_TIMEOUT "10" /* seconds, unless the conninfo says otherwise */
#define TELL_FIRST 3000		 /* ms until a wait prints what it waits for, */
#define TELL_AGAIN 15000	 /* and prints it again */
#define LOOK_AGAIN 200		 /* ms */
#define LOCK_TIMEOUT 60000	 /* ms that another call of dc_region may take to end */

static void connect_one(Region *region);
static PGresult *wait_for_result(Region *region);
static void ctlserver_cancel(PGconn *connection);
static void check_connection(const Region *region);
static void server_error(const Region *region, const PGresult *result) __attribute__((noreturn));
static void ctlserver_on_notice(void *region, const PGresult *result);

/*
 * mesh_connect connects to all regions. If one is not reached, region->why says why.
 */
void
mesh_connect(void)
{
	each_region(region)
		connect_one(region);
}

/*
 * connect_one sets up a session. Names are not looked up in schemas of users. A statement is
 * canceled if this program ends.
 */
static void
connect_one(Region *region)
{
	const char *const keywords[] = {"fallback_application_name", "connect_timeout", "dbname", "client_encoding", NULL};
	const char *const values[] = {program, CONNECT_TIMEOUT, region->conninfo, "UTF8", NULL};
	static const char *const settings[] = {
		"SET search_path = ''", "SET statement_timeout = 0", "SET lock_timeout = 0", "SET default_transaction_read_only = off",
		"SET default_transaction_isolation = 'read committed'",
		"SELECT set_config(name, '2s', false) FROM pg_settings WHERE name = 'client_connection_check_interval' AND version() ~ 'linux'"};

	region->connection = PQconnectdbParams(keywords, values, 1);
	if (region->connection == NULL)
		fail("out of memory");
	if (PQstatus(region->connection) != CONNECTION_OK)
	{
		region->why = PQerrorMessage(region->connection);
		return;
	}
	PQsetNoticeReceiver(region->connection, ctlserver_on_notice, region);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		PQclear(ask(region, settings[i], 0, NULL));
}

/*
 * mesh_lock waits until no other dc_region changes anything in a region that is reached. A
 * statement of one that was killed continues until the server notices.
 */
void
mesh_lock(void)
{
	int64_t end = now_ms() + LOCK_TIMEOUT;

	each_region(region)
	{
		if (region->why != NULL)
			continue;
		while (!says(region, "SELECT pg_try_advisory_lock(hashtextextended('dc_region', 0))", 0, NULL, "t"))
		{
			if (stopping || now_ms() > end)
				give_up(STATUS_ERROR, "another dc_region is running in region \"%s\"", region->name);
			wait_for(-1, 0, now_ms() + LOOK_AGAIN);
		}
	}
}

/*
 * ask sends a query, with arguments that are text, and returns its rows; an error ends the program.
 */
PGresult *
ask(Region *region, const char *sql, int count, const char *const *arguments)
{
	PGresult *result;

	if (!PQsendQueryParams(region->connection, sql, count, NULL, arguments, NULL, NULL, 0))
		check_connection(region);
	result = wait_for_result(region);
	if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
		server_error(region, result);
	return result;
}

/*
 * ask_of_counter sends a query about one counter, and returns its rows. If its owner has made that
 * impossible, the other counters must not suffer: then it returns NULL, and something is left to
 * do. For the same reason, it may take at most `part` quarters of the time.
 */
PGresult *
ask_of_counter(Region *region, const char *sql, const char *counter, int part)
{
	PGresult *result;

	PQclear(ask(region, "SET lock_timeout = '5s'", 0, NULL));
	PQclear(ask(region, text("SET statement_timeout = '%ds'", options.timeout == 0 ? 0 : options.timeout * part / 4 + 1), 0, NULL));
	if (!PQsendQuery(region->connection, sql))
		check_connection(region);
	result = wait_for_result(region);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

		if (message == NULL || PQstatus(region->connection) != CONNECTION_OK)
			server_error(region, result);
		left_to_do("%s: counter %s is skipped: %s", region->name, counter, message);
		PQclear(result);
		result = NULL;
	}
	PQclear(ask(region, "SET lock_timeout = 0", 0, NULL));
	PQclear(ask(region, "SET statement_timeout = 0", 0, NULL));
	return result;
}

/*
 * run sends a statement, and returns its result; an error ends the program, except for one SQLSTATE
 * that the caller expects (NULL: none).
 */
PGresult *
run(Region *region, const char *sql, const char *sqlstate)
{
	PGresult *result;
	const char *state;

	if (!PQsendQuery(region->connection, sql))
		check_connection(region);
	result = wait_for_result(region);
	state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK &&
		(sqlstate == NULL || state == NULL || strcmp(state, sqlstate) != 0))
		server_error(region, result);
	return result;
}

/*
 * answer returns the only value of a query; NULL if there is none.
 */
const char *
answer(Region *region, const char *sql, int count, const char *const *arguments)
{
	PGresult *result = ask(region, sql, count, arguments);

	return PQntuples(result) == 0 || PQgetisnull(result, 0, 0) ? NULL : PQgetvalue(result, 0, 0);
}

/*
 * wait_for_result returns the last result of the statement that was sent.
 */
static PGresult *
wait_for_result(Region *region)
{
	Patience patience;
	PGresult *last = NULL;
	PGresult *next;

	patience_begin(&patience);
	patience.told = patience.began;
	for (;;)
	{
		while (PQisBusy(region->connection))
		{
			int64_t end = patience.end == NO_DEADLINE || patience.end > now_ms() + LOOK_AGAIN ? now_ms() + LOOK_AGAIN : patience.end;

			if (stopping || (patience.end != NO_DEADLINE && now_ms() >= patience.end))
			{
				ctlserver_cancel(region->connection);
				give_up(stopping ? STATUS_ERROR : STATUS_TIMEOUT, "%s: %s", region->name, stopping ? "stopped" : "a statement took too long");
			}
			if (wait_for(PQsocket(region->connection), POLLIN, end) != 0 && !PQconsumeInput(region->connection))
				check_connection(region);
			if (now_ms() - patience.told > TELL_AGAIN)
			{
				say("%s is still busy, after %d s", region->name, (int) ((now_ms() - patience.began) / 1000));
				patience.told = now_ms();
			}
		}
		next = PQgetResult(region->connection);
		if (next == NULL)
			break;
		PQclear(last);
		last = next;
	}
	if (last == NULL)
		check_connection(region);
	return last;
}

/*
 * Ask the server to cancel the statement that is running.
 */
static void
ctlserver_cancel(PGconn *connection)
{
	PGcancel *request = PQgetCancel(connection);
	char reason[256];

	if (request != NULL)
		(void) PQcancel(request, reason, sizeof(reason));
	PQfreeCancel(request);
}

/*
 * Exit with what libpq says about the connection.
 */
static void
check_connection(const Region *region)
{
	give_up(STATUS_ERROR, "%s: %s", region->name, PQerrorMessage(region->connection));
}

/*
 * Exit with the message, detail and hint of a server's error, without the statement.
 */
static void
server_error(const Region *region, const PGresult *result)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	if (message == NULL)
		check_connection(region);
	if (detail != NULL)
		message = text("%s\n%s: detail: %s", message, region->name, detail);
	if (hint != NULL)
		message = text("%s\n%s: hint: %s", message, region->name, hint);
	give_up(STATUS_ERROR, "%s: %s: %s", region->name, state != NULL ? state : "error", message);
}

/*
 * ctlserver_on_notice prints warnings, but not notices.
 */
static void
ctlserver_on_notice(void *region, const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (severity != NULL && message != NULL && strcmp(severity, "WARNING") == 0)
		say("%s: warning: %s", ((Region *) region)->name, message);
}

/*
 * says returns true if a query returns this value. Its result is freed, so it can be called in a
 * loop.
 */
bool
says(Region *region, const char *sql, int count, const char *const *arguments, const char *expected)
{
	PGresult *result = ask(region, sql, count, arguments);
	bool same = PQntuples(result) > 0 && strcmp(PQgetvalue(result, 0, 0), expected) == 0;

	PQclear(result);
	return same;
}

/*
 * quoted returns a string as a literal of SQL.
 */
const char *
quoted(const char *literal)
{
	Buffer result = {0};
	bool escaped = strchr(literal, '\\') != NULL;

	buffer_add_string(&result, escaped ? "E'" : "'");
	for (const char *at = literal; *at != '\0'; at++)
	{
		if (*at == '\'' || *at == '\\')
			buffer_add(&result, at, 1);
		buffer_add(&result, at, 1);
	}
	buffer_add(&result, "'", 2); /* and its end */
	return result.data;
}

/*
 * field returns a value of a result; "" for NULL.
 */
const char *
field(const PGresult *result, int row, const char *column)
{
	int number = PQfnumber(result, column);

	if (number < 0)
		fail("there is no column \"%s\"", column);
	return PQgetvalue(result, row, number);
}

/*
 * Return true if a column of type boolean is true; NULL is not.
 */
bool
is_true(const PGresult *result, int row, const char *column)
{
	return strcmp(field(result, row, column), "t") == 0;
}

/*
 * Begin to wait, with the deadline of --timeout, if it is not 0. Messages come after TELL_FIRST,
 * then every TELL_AGAIN milliseconds.
 */
void
patience_begin(Patience *patience)
{
	patience->began = now_ms();
	patience->told = patience->began + TELL_FIRST - TELL_AGAIN;
	patience->end = options.timeout == 0 ? NO_DEADLINE : patience->began + INT64_C(1000) * options.timeout;
}

/*
 * patience_next pauses. It prints now and then what for, and ends the program when that has taken
 * too long.
 */
void
patience_next(Patience *patience, const char *format, ...)
{
	int64_t next = now_ms() + LOOK_AGAIN;
	bool over = patience->end != NO_DEADLINE && now_ms() >= patience->end;
	va_list args;

	if (over || now_ms() - patience->told > TELL_AGAIN)
	{
		fflush(stdout);
		va_start(args, format);
		say_args(format, args);
		va_end(args);
		patience->told = now_ms();
	}
	if (over)
		give_up(STATUS_TIMEOUT, "timed out after %d s; run it again to continue", options.timeout);
	while (!stopping && now_ms() < next)
		wait_for(-1, 0, next);
	if (stopping)
		give_up(STATUS_ERROR, "stopped; run it again to continue");
}

/*
 * same_server returns true for two databases of one server. Within one, CREATE SUBSCRIPTION waits
 * forever if it makes its slot.
 */
bool
same_server(const Region *one, const Region *other)
{
	return one->why == NULL && other->why == NULL && strcmp(one->state.server, other->state.server) == 0;
}
