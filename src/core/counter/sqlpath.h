/*
 * sqlpath.h
 *		The counter tables' SQL statements, and running them (see sqlpath.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SQLPATH_H
#define DC_SQLPATH_H

#include "base/rowread.h"
#include "base/runas.h"
#include "core/table/catalog.h"

#define SQL_MAX_ARGS 15

/* The tables that are kept open during a session; those of another room follow. */
typedef enum DcSqlTable
{
	DC_OF_TOTALS,
	DC_OF_SHARDS,
	DC_OF_HOLDS,
	DC_OF_MORE,
	DC_OF_TABLES = DC_OF_MORE + 6
} DcSqlTable;

/*
 * A statement, which is kept prepared for each counter table that it is run on. It
 * lives as long as the process: its address stands for it.
 */
typedef struct DcStatement
{
	/* with @totals, @shards and @holds for the tables, @units for a column, and words
	 * that the session knows (DcSqlSession.word) */
	const char *text;
	const char *distributed;				  /* the same for tables that Citus distributes, if it must be another; or NULL */
	Oid argtypes[SQL_MAX_ARGS];				  /* up to the first 0 */
	bool reads_all;							  /* it may scan whole tables */
	bool inserts_row;						  /* the key is that of the one row in its VALUES, so Citus needs no values to plan it */
	DcResultColumn columns[ROWS_MAX_COLUMNS]; /* of its result */
	int of;									  /* which table errors name */
} DcStatement;

/* Returns the meaning of a word of the session. */
typedef const char *(*DcSqlWord)(DcCounter *counter, const char *word);

/* A session of statements on one counter table, as its owner. */
typedef struct DcSqlSession
{
	DcCounter *counter;
	DcRunAs runas;
	DcSqlWord word;				   /* may be NULL */
	Relation tables[DC_OF_TABLES]; /* those that it uses; else NULL */
	DcRows rows;				   /* of the last statement */
} DcSqlSession;

extern void sql_forget(DcCounter *counter);
extern void sql_begin(DcSqlSession *session, DcCounter *counter);
extern void sql_keep_open(DcSqlSession *session, int place, Oid relid);
extern void sql_end(DcSqlSession *session);
extern uint64 sql_run(DcSqlSession *session, const DcStatement *statement,
					  Datum *values);
extern uint64 sql_run_nulls(DcSqlSession *session, const DcStatement *statement,
							Datum *values, const char *nulls);
extern uint64 sql_read(DcSqlSession *session, const DcStatement *statement,
					   Datum *values);
extern void sql_check_newer(DcSqlSession *session, const DcStatement *statement,
							Datum *values);

#endif /* DC_SQLPATH_H */
