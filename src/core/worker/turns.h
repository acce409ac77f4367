/*
 * turns.h
 *		Sharing the workers between databases (see turns.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_TURNS_H
#define DC_TURNS_H

#include "core/worker/slots.h"

/* The next actions of the launcher. */
typedef struct DcTurns
{
	int start[DC_MAX_DATABASES]; /* slots to start a worker for, */
	int nstart;
	int nwaiting;		/* databases for which there is none, */
	bool short_of_room; /* because other background workers need the postmaster's slots */
	DcMoment next;		/* when to look again at the latest */
} DcTurns;

/* For the launcher, under the lock of the slots. */
extern void turns_plan(DcTurns *turns, int room);
extern bool turns_is_wanted(const DcWorkerSlot *slot);
extern bool database_has_worker(void);
extern bool slot_has_worker(const DcWorkerSlot *slot);

/* For the launcher, without it. */
extern int turns_room(int own);

/* For a worker. */
extern void turn_enter(DcWorkerSlot *slot);
extern void turn_stay(void);
extern void turn_note_pass(void);
extern bool turn_is_over(void);
extern bool turn_is_for_nothing(void);
extern void turn_leave(void);
extern void turn_end(DcWorkerSlot *slot);

#endif /* DC_TURNS_H */
