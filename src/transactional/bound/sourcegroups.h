/*
 * sourcegroups.h
 *		Sums of the rows of a source by the elements of their keys (see sourcegroups.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SOURCEGROUPS_H
#define DC_SOURCEGROUPS_H

#include "transactional/bound/sourceexpr.h"

/* Called for a key and a sum of it, perhaps several times for a key; returns false to stop. */
typedef bool (*DcGroupVisit)(void *arg, const DcKey *key, int64 sum);

typedef struct DcSourceGroups DcSourceGroups;

extern DcSourceGroups *source_groups_begin(const DcSourceRow *row, Relation source, int64 kilobytes, DcGroupVisit visit, void *arg);
extern bool source_groups_add(DcSourceGroups *groups, DcSourceEval *eval, TupleTableSlot *slot);
extern bool source_groups_finish(DcSourceGroups *groups);
extern void source_groups_end(DcSourceGroups *groups);

#endif /* DC_SOURCEGROUPS_H */
