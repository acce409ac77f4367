/*
 * server.h
 *		A server for unit tests of what is in shared memory: locks, a clock that the test sets, errors. There is one
 *		process; another one acts where the test says, as if it had been faster.
 */
#ifndef UNIT_SERVER_H
#define UNIT_SERVER_H

#include "postgres.h"

#include <setjmp.h>

#include "storage/lwlock.h"

#define SERVER_DATABASE 1
#define SERVER_ANOTHER 2
extern Oid server_dropped; /* a database that there is no more */

extern int64 server_now; /* us */
extern int server_tick;	 /* us that pass each time somebody looks */

/* An action of another process, run before the lock at the given distance from now is taken. It runs only where this
 * process holds no lock except perhaps server_outer, so that the other need not wait. It is NULL again when it was run. */
extern void (*server_other)(void);
extern int server_other_in;
extern LWLock *server_outer;

extern sigjmp_buf *server_on_error; /* NULL: an error ends the test */

extern void server_start(void);
extern int server_locks_held(void);

/* those of the C library */
#undef printf
#undef snprintf

#endif /* UNIT_SERVER_H */
