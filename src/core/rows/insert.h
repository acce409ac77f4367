/*
 * insert.h
 *		Inserting into tables that have nothing but indexes (see insert.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_INSERT_H
#define DC_INSERT_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/relcache.h"

/* The indexes of a table, open to insert. */
typedef struct DcIndexes
{
	int n;
	Relation *rels;
	IndexInfo **infos;
} DcIndexes;

extern const char *write_problem(Relation rel, bool alone);
extern void indexes_open(DcIndexes *indexes, Relation rel);
extern void indexes_try_insert(const DcIndexes *indexes, Relation rel, Relation key,
							   TupleTableSlot **slots, int n, bool *taken);
extern void indexes_insert(const DcIndexes *indexes, Relation rel, Relation but,
						   TupleTableSlot **slots, int n);
extern void indexes_insert_version(const DcIndexes *indexes, Relation rel, TupleTableSlot *slot);
extern void indexes_close(DcIndexes *indexes);

#endif /* DC_INSERT_H */
