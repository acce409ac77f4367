/*
 * presence_server.h
 *		What presences ask of the server, for a unit test: locks, a clock that the test sets, transactions, an
 *		outbox. There is one process; another one acts where the test says, as if it had been faster.
 */
#ifndef PRESENCE_SERVER_H
#define PRESENCE_SERVER_H

#include "postgres.h"

#include "base/job.h"
#include "nodes/pg_list.h"
#include "presence/presence.h"

/* Databases that there are. */
#define SERVER_DATABASE 1
#define SERVER_DROPPED 2

extern int64 server_now; /* us */

/* What is done by another process, before the lock so many places from now is taken. Only where this one
 * has none, but for turn_lock: so the other need not wait. NULL again when it was done. */
extern void (*server_other)(void);
extern int server_other_in;

/* The same for the lock on a presence that is told of; and whether it is free. */
extern void (*server_other_tells)(void);
extern bool server_tells_free;

extern sigjmp_buf *server_on_error; /* NULL: an error ends the test */

/* An event that is in the outbox, or will be if the transaction commits. */
typedef struct ServerEvent
{
	bool is_reset;
	int64 count;
	int64 joined;
	int64 left;
	int64 epoch;
	int64 version;
	int nest;
} ServerEvent;

extern ServerEvent server_events[];
extern int server_nevents;

extern void server_start(int kilobytes);
extern int server_locks_held(void);
extern bool server_run_job(void);
extern void server_savepoint(void);
extern void server_release(void);
extern void server_rollback_to(void);
extern void server_end(bool commits);
extern void server_rules(DcPresenceRow *rows, int n);

/* those of the C library */
#undef printf
#undef snprintf

#endif /* PRESENCE_SERVER_H */
