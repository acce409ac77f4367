/*
 * activity.h
 *		Noting the counter tables that may have work for the worker's jobs (see activity.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ACTIVITY_H
#define DC_ACTIVITY_H

#include "base/clock.h"

/*
 * Activity is noted for one counter table, by its OID, or under one of these for a whole database.
 */
#define DC_ACTIVITY_ANY ((Oid) 0)	 /* any of its counter tables */
#define DC_ACTIVITY_ALL ((Oid) 1)	 /* possibly all of them */
#define DC_ACTIVITY_THINGS ((Oid) 2) /* there is something new to look after */

extern void activity_init(void);
extern void activity_set_wake(void (*wake)(void));
extern bool activity_is_known(void);
extern void activity_note(Oid counter);
extern void activity_note_at_once(Oid what);
extern void activity_forget(void);
extern uint32 activity_collect(Oid database, Oid what);
extern bool activity_differs(Oid database, Oid what, uint32 collected);
extern DcMoment activity_since(Oid database, Oid what);

#endif /* DC_ACTIVITY_H */
