/*
 * sharedhints.h
 *		The places of the shard rows of hot keys, for all sessions (see sharedhints.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SHAREDHINTS_H
#define DC_SHAREDHINTS_H

#include "core/rows/hints.h"

/* Rows of a key that shared memory can tell of. */
#define DC_MAX_SHARED_HINTS 64

extern void shared_hints_init(void);
extern void shared_hint_put(const DcDeltaKey *key, int32 shard, ItemPointer root);
extern void shared_hint_remove(const DcDeltaKey *key, int32 shard);
extern bool shared_hint_find(const DcDeltaKey *key, int32 shard, ItemPointer root);
extern int shared_hints_read(const DcDeltaKey *key, DcHint *hints);
extern DcHintList *shared_hints_learn(const DcDeltaKey *key);

#endif /* DC_SHAREDHINTS_H */
