/*
 * escrow.h
 *		Deciding which region gives how many units to which (see escrow.c). Knows nothing of the
 *		server.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ESCROW_H
#define DC_ESCROW_H

#include <stdbool.h>
#include <stdint.h>

/* A region's request for units of a key, as last written. */
typedef struct DcWant
{
	int64_t since;	  /* stamp of its oldest request; 0: none */
	int64_t wanted;	  /* units that it is short of, */
	int64_t low;	  /* and this many more, of units that others can spare */
	int64_t granted;  /* what it had been given in all, when this was written */
	int64_t kept;	  /* units that its waiting sessions want to take; */
	int64_t waits;	  /* stamp of the oldest of them, as far as it is known */
	int64_t asked;	  /* units that dc_want() has asked for, */
	int64_t asked_at; /* and its stamp */
} DcWant;

/* The facts that decide how it is written. */
typedef struct DcWantFacts
{
	int64_t units;	 /* of the key, here */
	int64_t granted; /* what has come in all */
	int64_t low;	 /* how many there should be at least */
	int64_t now;	 /* a new stamp */
} DcWantFacts;

/* A change of a request. */
typedef struct DcWantChange
{
	int64_t asks;  /* for more units; negative: withdraws its request */
	int64_t keeps; /* units that a session begins to wait for; negative: has waited for */
	int64_t since; /* its stamp; 0: no session */
	bool forgets;  /* no session is waiting */
	bool restarts; /* granted units are counted from zero, as under another epoch */
} DcWantChange;

/* A region's request, for the regions that may serve it. */
typedef struct DcRequest
{
	const char *region;
	int64_t epoch; /* to which units are given */
	bool own;	   /* of the one that serves */
	int64_t since; /* its stamp; requests are served in the order of stamps and names */
	int64_t need;  /* units that it still needs, */
	int64_t low;   /* and as many more that can be spared */
	int64_t keep;  /* if it is the own one: units that must stay for it */
	int64_t given; /* the result */
} DcRequest;

extern void escrow_want(DcWant *want, const DcWantFacts *facts, const DcWantChange *change);
extern void escrow_need(const DcWant *want, int64_t granted, int64_t *need, int64_t *low, int64_t *keep);
extern int64_t escrow_share(DcRequest *requests, int count, int64_t units, int64_t reserve);

#endif /* DC_ESCROW_H */
