/*
 * bufferinit.h
 *		The buffer room's interface to the rest of the extension.
 */
#ifndef DC_BUFFERINIT_H
#define DC_BUFFERINIT_H

#include "base/job.h"

extern void buffering_init(bool preloading);

/* For the worker: its job, when that is due, and being the flusher of this database. */
extern bool flush_job(DcJobRun *run);
extern DcMoment flush_due(void);
extern void flush_set_commit(const char *level);
extern void flush_enter(void);
extern void flush_leave(DcMoment until);

/* For the launcher: whether there is something to flush, or about to be. */
extern bool buffer_is_left(Oid database);

/* For launcher and worker: amounts of databases that are gone, or without the extension. */
extern void discard_lost(bool (*exists)(Oid database, void *arg), void *arg);

#endif /* DC_BUFFERINIT_H */
