/*
 * flusher.h
 *		What launcher and worker need of the room that buffers amounts, which comes after theirs. It is in src/memory/buffer.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_FLUSHER_H
#define DC_FLUSHER_H

#include "base/job.h"

/* For the worker: its job, when that is due, and being the flusher of this database. */
extern bool flush_job(DcJobRun *run);
extern DcMoment flush_due(void);
extern void flush_set_commit(const char *level);
extern void flush_enter(void);
extern void flush_leave(DcMoment until);

/* For the launcher: is there something to flush, or will there be soon? */
extern bool buffer_is_left(Oid database);

/* For launcher and worker: amounts of databases that are gone, or without the extension. */
extern void discard_lost(bool (*exists)(Oid database, void *arg), void *arg);

#endif /* DC_FLUSHER_H */
