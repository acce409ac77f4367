/*
 * guard.h
 *		The guard of a ledger's tables (see guard.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_GUARD_H
#define DC_GUARD_H

#include "utils/relcache.h"

/* Its function, and the trigger that a partition does not get from its parent. */
#define LEDGER_GUARD_FUNCTION "on_ledger_change"
#define GUARD_TRUNCATE "dcounter_guard_truncate"

extern void guard_create(const char *table);
extern void guard_create_rows(const char *table);
extern void guard_create_truncate(const char *table);
extern void guard_check(Oid unguarded);
extern bool guard_is_on(Relation rel);
extern bool guard_keeps_rows(Relation rel);
extern Oid guard_function(void);

#endif /* DC_GUARD_H */
