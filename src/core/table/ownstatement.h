/*
 * ownstatement.h
 *		Distinguishing the extension's own statements from all others (see ownstatement.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OWNSTATEMENT_H
#define DC_OWNSTATEMENT_H

#include "executor/spi.h"
#include "fmgr.h"

extern void own_statement_init(void);

/* Running a statement of ours. */
extern int own_statement_run(SPIPlanPtr plan, Datum *values, const char *nulls);
extern void own_truncate(Oid relid, bool only);

/* For triggers: true if such a statement fires them. */
extern bool own_statement_fires(FunctionCallInfo fcinfo);
extern bool own_truncate_fires(Oid relid);

#endif /* DC_OWNSTATEMENT_H */
