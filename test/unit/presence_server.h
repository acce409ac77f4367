/*
 * presence_server.h
 *		Further parts of the server that presences need: transactions, a job, an outbox.
 */
#ifndef PRESENCE_SERVER_H
#define PRESENCE_SERVER_H

#include "server.h"

#include "nodes/pg_list.h"

#include "base/job.h"
#include "memory/presence/presence.h"

/* Of another process (server.h), before the lock on a presence that is told of; and whether it is free. */
extern void (*server_other_tells)(void);
extern bool server_tells_free;

/* The job yields after each step. */
extern bool server_yields;

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
extern int server_updates; /* of rules */

extern void presence_server_start(int kilobytes);
extern bool server_run_job(void);
extern void server_savepoint(void);
extern void server_release(void);
extern void server_rollback_to(void);
extern void server_end(bool commits);
extern void server_rules(DcPresenceRow *rows, int n);

#endif /* PRESENCE_SERVER_H */
