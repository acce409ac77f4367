/*
 * ownercode.h
 *		Whether code of its owner can run when a table is read or written (see
 *		ownercode.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OWNERCODE_H
#define DC_OWNERCODE_H

#include "access/htup.h"
#include "nodes/nodes.h"
#include "storage/lock.h"
#include "utils/relcache.h"

#include "core/table/catalog.h"

/* The result of a search for the owner's code on the tables of a counter. */
typedef enum DcOwnerCode
{
	DC_CODE_NONE,  /* no such code can run */
	DC_CODE_FOUND, /* it can */
	DC_CODE_LOCKED /* a table could not be looked at */
} DcOwnerCode;

/* ownercode.c */
extern DcOwnerCode ownercode_look(const DcCounterRow *row, LOCKMODE mode, bool wait,
								  const char **reason);
extern bool ownercode_may_read(const DcCounter *counter);
extern DcOwnerCode ownercode_begin(Oid counter, const char **reason);
extern bool ownercode_is_known(Oid counter);
extern void ownercode_lock_member(Oid relid);
extern void ownercode_prevent_buffered(const DcCounterRow *row);
extern void ownercode_log(Oid counter, const char *reason);

/* ownercoderel.c */
extern char *ownercode_of_relation(Relation rel);
extern bool ownercode_index_is_harmless(HeapTuple tuple, Oid am);
extern bool is_trusted_object(Oid classid, Oid oid);

/* ownercodeexpr.c */
extern void ownercode_expressions_begin(void);
extern bool ownercode_in_stored(const char *stored);
extern bool ownercode_in_condition(const char *stored, Size *bytes);
extern bool ownercode_in_expression(Node *expression);

/* ownercodeguard.c */
extern void ownercode_guard_init(void);
extern bool ownercode_guard(bool on);

#endif /* DC_OWNERCODE_H */
