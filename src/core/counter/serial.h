/*
 * serial.h
 *		Marks that SERIALIZABLE transactions leave for readers of a key (see
 *		serial.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SERIAL_H
#define DC_SERIAL_H

#include "core/counter/sqlpath.h"
#include "core/rows/directrel.h"

extern void serial_mark(DcDirectRel *rel, const DcDeltaKey *key);
extern void serial_mark_key(DcSqlSession *session, const DcKey *key);

#endif /* DC_SERIAL_H */
