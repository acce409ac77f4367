/*
 * sqlwrite.h
 *		Adding to shard rows by SQL (see sqlwrite.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SQLWRITE_H
#define DC_SQLWRITE_H

#include "core/counter/pending.h"
#include "core/counter/sqlpath.h"
#include "core/rows/direct.h"

/* key, inc, dec, at, own shard */
extern const DcStatement sql_insert_own;
/* key, own shard */
extern const DcStatement sql_delete_own;

extern int sql_add_shared(DcSqlSession *session, const DcDelta *delta,
						  uint64 seed, int32 own_shard);
extern void sql_add_distributed(DcSqlSession *session, const DcDelta *delta, DcShardChoice choice,
								bool shared, bool totals);
extern void sql_add_remote(DcSqlSession *session, const DcDelta *delta, int32 number);
extern void sql_add_blind(DcSqlSession *session, DcDelta **deltas, int count,
						  int32 own_shard, bool written);

#endif /* DC_SQLWRITE_H */
