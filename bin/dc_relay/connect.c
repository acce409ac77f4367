/*
 * connect.c
 *		Making a connection to one of the hosts that the DSN names.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Only the look-up of names blocks. libpq would try several hosts by itself. But in non-blocking
 * mode it leaves timeouts to its caller, which cannot make it go on to the next host. So each host
 * is tried on its own, in the order of the DSN, and a host that fails in any way is followed by the
 * next. With target_session_attrs=prefer-standby there are two rounds, as in libpq.
 */
#include "bin/dc_relay/relay.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_TIMEOUT 60 /* seconds for each host, unless connect_timeout is set */

/* The servers to ask, from the DSN, the environment and the service file */
typedef struct Hosts
{
	PQconninfoOption *settings;
	const char *names; /* lists with commas, or NULL */
	const char *addresses;
	const char *ports;
	const char *attributes;
	int timeout; /* seconds */
	int count;	 /* 1: leave host and port to libpq */
	int first;	 /* where to begin */
} Hosts;

/* Settings of an attempt that replace those of the DSN; NULL or "": as there */
typedef struct Target
{
	char *name;
	char *address;
	char *port;
	const char *attributes;
} Target;

static void hosts_read(Hosts *hosts, const Options *options);
static const char *relay_connect_setting(const Hosts *hosts, const char *name);
static int count_hosts(const Hosts *hosts);
static int relay_connect_count_items(const char *list);
static bool empty_item(const char *list);
static Outcome relay_connect_try_all(const Options *options, const Hosts *hosts, const char *attributes, bool first_time, PGconn **connection, bool *may_come);
static Outcome try_one(const Options *options, const Target *target, int seconds, PGconn **connection, bool *silent);
static PGconn *relay_connect_start(const Options *options, const Target *target);
static Outcome relay_connect_finish(PGconn *connection, int64_t deadline);
static bool starting_up(const Options *options, const Target *target);

/*
 * connect_server tries all hosts once. OUTCOME_LOST: not this time. The first time,
 * any failure except that of a server that is starting up ends the program, since wrong parameters
 * do not become right.
 */
Outcome
connect_server(const Options *options, bool first_time, PGconn **connection)
{
	Hosts hosts;
	Outcome outcome;
	bool may_come = false;

	hosts_read(&hosts, options);
	if (hosts.count > 1 && hosts.attributes != NULL && strcmp(hosts.attributes, "prefer-standby") == 0)
	{
		outcome = relay_connect_try_all(options, &hosts, "standby", first_time, connection, &may_come);
		if (outcome == OUTCOME_LOST)
			outcome = relay_connect_try_all(options, &hosts, "any", first_time, connection, &may_come);
	}
	else
		outcome = relay_connect_try_all(options, &hosts, NULL, first_time, connection, &may_come);
	PQconninfoFree(hosts.settings);

	/* the reason has been printed */
	if (outcome == OUTCOME_LOST && first_time && !may_come)
		exit(EXIT_FAILURE);
	return outcome;
}

/*
 * hosts_read asks libpq for the settings that it would use. A connection with an invalid sslmode is
 * never begun, but knows all its settings.
 */
static void
hosts_read(Hosts *hosts, const Options *options)
{
	const char *const keywords[] = {"dbname", "sslmode", NULL};
	const char *const values[] = {options->dsn, "not to be connected", NULL};
	PGconn *probe = PQconnectStartParams(keywords, values, 1);
	const char *text;

	hosts->settings = PQconninfo(probe);
	PQfinish(probe);
	hosts->names = relay_connect_setting(hosts, "host");
	hosts->addresses = relay_connect_setting(hosts, "hostaddr");
	hosts->ports = relay_connect_setting(hosts, "port");
	hosts->attributes = relay_connect_setting(hosts, "target_session_attrs");
	text = relay_connect_setting(hosts, "connect_timeout");
	hosts->timeout = text == NULL ? 0 : atoi(text);
	if (hosts->timeout <= 0)
		hosts->timeout = CONNECT_TIMEOUT;
	hosts->count = count_hosts(hosts);
	text = relay_connect_setting(hosts, "load_balance_hosts");
	hosts->first = 0;
	if (text != NULL && strcmp(text, "random") == 0)
		hosts->first = (int) ((now_ms() + getpid()) % hosts->count);
}

/*
 * relay_connect_setting returns a setting; NULL also for one that is empty, or that this libpq does
 * not have.
 */
static const char *
relay_connect_setting(const Hosts *hosts, const char *name)
{
	for (PQconninfoOption *option = hosts->settings; option != NULL && option->keyword != NULL; option++)
	{
		if (strcmp(option->keyword, name) == 0 && option->val != NULL && option->val[0] != '\0')
			return option->val;
	}
	return NULL;
}

/*
 * count_hosts returns the number of hosts. It returns 1 as well for lists that do not match, about
 * which libpq complains, and for lists with an empty item: no value can be set that means the
 * default.
 */
static int
count_hosts(const Hosts *hosts)
{
	int count = relay_connect_count_items(hosts->addresses != NULL ? hosts->addresses : hosts->names);
	int names = relay_connect_count_items(hosts->names);
	int ports = relay_connect_count_items(hosts->ports);

	if ((names > 0 && names != count) || (ports > 1 && ports != count))
		return 1;
	if (empty_item(hosts->names) || empty_item(hosts->addresses) || empty_item(hosts->ports))
		return 1;
	return count > 1 ? count : 1;
}

/*
 * Return the number of items in a list that is separated by commas; 0 for NULL.
 */
static int
relay_connect_count_items(const char *list)
{
	int count = 1;

	if (list == NULL)
		return 0;
	while ((list = strchr(list, ',')) != NULL)
	{
		list++;
		count++;
	}
	return count;
}

/*
 * Return true if an item of the list is empty. Then the list is left to libpq, which has defaults
 * for such items.
 */
static bool
empty_item(const char *list)
{
	size_t length;

	if (list == NULL)
		return false;
	length = strlen(list);
	return list[0] == ',' || list[length - 1] == ',' || strstr(list, ",,") != NULL;
}

/*
 * relay_connect_item returns a copy of the nth item, from 0. A single item is for all hosts.
 */
static char *
relay_connect_item(const char *list, int n)
{
	char *copy;

	if (list == NULL)
		return NULL;
	if (strchr(list, ',') != NULL)
	{
		while (n-- > 0)
			list = strchr(list, ',') + 1;
	}
	copy = strndup(list, strcspn(list, ","));
	if (copy == NULL)
		fail("out of memory");
	return copy;
}

/*
 * relay_connect_try_all tries one host after the other. The first time, it finds out whether a host
 * that failed may soon be available.
 */
static Outcome
relay_connect_try_all(const Options *options, const Hosts *hosts, const char *attributes, bool first_time, PGconn **connection, bool *may_come)
{
	Outcome outcome = OUTCOME_LOST;

	for (int i = 0; i < hosts->count && outcome == OUTCOME_LOST; i++)
	{
		int n = (hosts->first + i) % hosts->count;
		Target target = {.attributes = attributes};
		bool silent = false;

		if (hosts->count > 1)
		{
			target.name = relay_connect_item(hosts->names, n);
			target.address = relay_connect_item(hosts->addresses, n);
			target.port = relay_connect_item(hosts->ports, n);
		}
		outcome = try_one(options, &target, hosts->timeout, connection, &silent);
		if (outcome == OUTCOME_LOST && first_time && !silent && starting_up(options, &target))
			*may_come = true;
		free(target.name);
		free(target.address);
		free(target.port);
	}
	return outcome;
}

/*
 * try_one tries one host, and prints what went wrong.
 */
static Outcome
try_one(const Options *options, const Target *target, int seconds, PGconn **connection, bool *silent)
{
	int64_t deadline = now_ms() + INT64_C(1000) * seconds;
	PGconn *one = relay_connect_start(options, target);
	Outcome outcome;

	if (one == NULL)
		fail("out of memory");
	outcome = relay_connect_finish(one, deadline);
	if (outcome == OUTCOME_OK)
	{
		*connection = one;
		return OUTCOME_OK;
	}
	if (outcome == OUTCOME_LOST)
	{
		*silent = PQstatus(one) != CONNECTION_BAD;
		if (*silent)
			say("the server at \"%s\", port %s does not answer", PQhost(one), PQport(one));
		else
			say("%s", PQerrorMessage(one));
	}
	PQfinish(one);
	return outcome;
}

/*
 * relay_connect_start begins to connect. A later parameter wins, and "dbname" stands for the whole
 * DSN.
 */
static PGconn *
relay_connect_start(const Options *options, const Target *target)
{
	const char *const keywords[] = {"fallback_application_name", "keepalives_idle", "keepalives_interval",
									"dbname", "client_encoding", "host", "hostaddr", "port", "target_session_attrs", NULL};
	const char *const values[] = {"dc_relay", "30", "10",
								  options->dsn, "UTF8", target->name, target->address, target->port, target->attributes, NULL};

	return PQconnectStartParams(keywords, values, 1);
}

/*
 * Bring a connection to its end: made, failed or timed out, or interrupted by a signal to stop.
 */
static Outcome
relay_connect_finish(PGconn *connection, int64_t deadline)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	while (PQstatus(connection) != CONNECTION_BAD)
	{
		short events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT;

		if (stopping)
			return OUTCOME_STOPPED;
		if (wait_for(PQsocket(connection), events, deadline) == 0)
		{
			if (now_ms() < deadline)
				continue;
			return OUTCOME_LOST;
		}
		status = PQconnectPoll(connection);
		if (status == PGRES_POLLING_OK)
			return OUTCOME_OK;
		if (status == PGRES_POLLING_FAILED)
			break;
	}
	return OUTCOME_LOST;
}

/*
 * Return true if a server is not ready yet, or was so before and cannot be reached just now: it may
 * be restarted while it starts.
 */
static bool
starting_up(const Options *options, const Target *target)
{
	const char *const keywords[] = {"dbname", "connect_timeout", "host", "hostaddr", "port", "target_session_attrs", NULL};
	const char *const values[] = {options->dsn, "5", target->name, target->address, target->port, target->attributes, NULL};

	static bool seen;
	PGPing state = PQpingParams(keywords, values, 1);

	if (state == PQPING_REJECT)
		seen = true;
	return seen && (state == PQPING_REJECT || state == PQPING_NO_RESPONSE);
}
