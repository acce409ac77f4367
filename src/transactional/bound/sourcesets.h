/*
 * sourcesets.h
 *		The grouping sets of a binding (see sourcesets.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCESETS_H
#define DC_SOURCESETS_H

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "utils/relcache.h"

#define SOURCE_MAX_SETS 16
#define SOURCE_MAX_ELEMENTS 32

extern List *source_sets_analyse(List *key, List *group, bool distinct, Relation source);
extern List *source_sets_read(List *group, int nkeys);
extern void source_sets_append(StringInfo key, List *sets);
extern uint32 source_set_mask(const Const *set);

#endif /* DC_SOURCESETS_H */
