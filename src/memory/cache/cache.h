/*
 * cache.h
 *		The read cache: values of counter keys in shared memory (see cache.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CACHE_H
#define DC_CACHE_H

#include "base/clock.h"
#include "base/key.h"
#include "base/map.h"
#include "core/table/catalog.h"

/* A key, as the cache knows it. */
typedef struct DcCacheKey
{
	DcMapKey map;
	uint64 table; /* cache_table() */
} DcCacheKey;

/* The outcome of asking for a value. */
typedef enum DcCacheState
{
	CACHE_FOUND,
	CACHE_CLAIMED, /* the caller has to compute it */
	CACHE_BUSY,	   /* another session is computing it */
	CACHE_FULL	   /* there is no room for it */
} DcCacheState;

/* cache.c */
extern void cache_init(void);
extern bool cache_enabled(void);
extern uint64 cache_table(const DcCounter *counter);
extern void cache_key_init(DcCacheKey *key, Oid counter, uint64 table,
						   const DcKey *counter_key);
extern bool cache_find(const DcCacheKey *key, DcMoment since, int64 *value);
extern DcCacheState cache_claim(const DcCacheKey *key, DcMoment since,
								int64 *value, DcMapEntry **claim,
								uint32 *evicted);
extern void cache_store(DcMapEntry *claim, uint64 table, int64 value,
						DcMoment at, bool fresh);
extern void cache_give_up(DcMapEntry *claim);
extern DcCacheState cache_wait(const DcCacheKey *key, DcMoment since, int64 *value);
extern uint32 cache_capacity(void);

/* Forgetting the keys of a counter table, or one key; these do not throw. */
extern void cache_forget_key(Oid database, Oid counter, const DcKey *key);
extern void cache_forget(Oid database, Oid counter);

/* cacheset.c */
extern void cache_set_init(void);
extern void cache_key_set(DcCounter *counter, const DcKey *key);

#endif /* DC_CACHE_H */
