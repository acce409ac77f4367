/*
 * log.h
 *		The events of the current transaction (see log.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_LOG_H
#define DC_LOG_H

#include "access/htup.h"

extern void log_add(const char *data, uint32 len);
extern int64 log_count(void);
extern void log_rewind(void);
extern char *log_next(uint32 *len);
extern bool log_is_closed(void);
extern void log_close(void);
extern void log_forget(void);
extern void log_end_subxact(int level, bool commit);

#endif /* DC_LOG_H */
