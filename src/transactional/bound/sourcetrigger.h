/*
 * sourcetrigger.h
 *		The triggers on a source (see sourcetriggerddl.c and sourcetrigger.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCETRIGGER_H
#define DC_SOURCETRIGGER_H

#include "transactional/bound/sourceexpr.h"

#define SOURCE_TRIGGER_ROW "dcounter_source_row"
#define SOURCE_TRIGGER_UPDATE "dcounter_source_update"
#define SOURCE_TRIGGER_TRUNCATE "dcounter_source_truncate"
#define SOURCE_ROW_FUNCTION "source_row"
#define SOURCE_TRUNCATE_FUNCTION "source_truncate"

/* sourcetriggerddl.c */
extern void source_triggers_make(Oid source);
extern bool source_triggers_being_made(Oid relid);
extern bool source_triggers_being_enabled(void);
extern void source_triggers_adapt(Oid source);
extern void source_truncate_triggers(Oid relid, bool always);
extern void source_truncate_triggers_drop(Oid relid);
extern bool source_triggers_fire(const List *members, bool replicated, Snapshot snapshot);
extern bool source_trigger_is_name(const char *name);

/* sourcecache.c: a binding, ready to count the rows of one relation */
typedef struct DcBound
{
	DcSourceRow row;
	DcSourceEval *eval;
	DcCounter *counter;		  /* of a transaction that has locked it: */
	LocalTransactionId lxid;  /* this one, */
	SubTransactionId subxact; /* in this subtransaction */
} DcBound;

typedef struct DcBoundList
{
	MemoryContext cxt;
	int n;
	DcBound *bound;
} DcBoundList;

/* sourcetruncate.c: rows were subtracted that are not truncated yet */
extern bool source_any_emptied;
extern void source_check_emptied(Relation rel);

extern const DcBoundList *source_bindings(Relation rel);
extern void source_check_owners(Oid source, Oid counter);
extern void bound_add(DcBound *bound, const DcCounted *counted, int sign);

#endif /* DC_SOURCETRIGGER_H */
