/*
 * relopen.h
 *		Tables that may have gone (see relopen.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RELOPEN_H
#define DC_RELOPEN_H

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

extern Relation table_open_present(Oid relid, LOCKMODE mode);
/*
 * A counter of more tables and partitions takes too long to be opened as part of other work, or
 * step by step.
 */
#define DC_MANY_MEMBERS 2000

extern List *relation_members(Oid relid, LOCKMODE mode);
extern List *relation_parents(Oid relid);
extern List *relation_ancestors(Oid relid);
extern Oid relation_of_type(Oid relid);
extern List *relation_members_most(Oid relid, LOCKMODE mode, int most);
extern List *relation_children(Oid relid, LOCKMODE mode);
extern Oid relation_partition_parent(Oid relid);
extern bool relation_lacks_indexes(Oid relid);
extern bool indexes_lock_at_once(Oid relid);
extern bool relation_size_at_once(Oid relid, int64 *size);

#endif /* DC_RELOPEN_H */
