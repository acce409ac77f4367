/*
 * tabledue.h
 *		Choosing the tables that a job of the worker must visit (see tabledue.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_TABLEDUE_H
#define DC_TABLEDUE_H

#include "utils/hsearch.h"

#include "core/table/catalog.h"

/* State of a counter table in a job of this worker. */
typedef struct DcTableDue
{
	Oid table;
	DcMoment at;   /* when to look at it in any case; DC_LONG_AGO: each time */
	DcMoment work; /* when there is something to do, as far as it is known */
	int64 pause;   /* us; 0: there was something to do the last time */
	uint32 seen;   /* activity.c */
	bool changed;  /* by DDL, for example */
	bool left;	   /* it was left to its owner */
	uint32 listed; /* the reading of the catalog that has it */
} DcTableDue;

/* State of all counter tables in a job of this worker. */
typedef struct DcDue
{
	HTAB *tables;	 /* DcTableDue */
	uint32 all_seen; /* activity.c, of all tables */
	uint32 reading;	 /* of the catalog, which it has used last */
	int left;		 /* of those that are not due, those that are left to their owners */
	struct DcDue *next;
} DcDue;

extern bool due_list_known(void);
extern void due_list_read(void);
extern Oid due_owner(Oid table);
extern bool due_knows(const DcDue *due, Oid table);
extern List *due_tables(DcDue *due, bool (*wants)(const DcCounterRow *row));
extern void due_begin(DcDue *due, Oid table);
extern void due_again(DcDue *due, Oid table, DcMoment at);
extern void due_idle(DcDue *due, Oid table, DcMoment until, bool left);
extern DcMoment due_next(const DcDue *due);
extern void due_all(void);

#endif /* DC_TABLEDUE_H */
