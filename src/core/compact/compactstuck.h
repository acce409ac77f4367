/*
 * compactstuck.h
 *		Keys that compaction cannot move (see compactstuck.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_COMPACTSTUCK_H
#define DC_COMPACTSTUCK_H

#include "base/clock.h"

extern bool stuck_note(Oid table, Datum key);
extern Datum stuck_to_leave_out(Oid table);
extern bool stuck_is_left_out(Oid table, Datum key);
extern int stuck_swept(Oid table, DcMoment started);

#endif /* DC_COMPACTSTUCK_H */
