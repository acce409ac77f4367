/*
 * rank.h
 *		Ranks of the keys of a counter table (see rankread.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RANK_H
#define DC_RANK_H

#include "core/table/catalog.h"

#define DC_RANK_SUFFIX "_rank"

/* Levels of buckets, of which each has RANK_FAN of the next in one. */
#define RANK_LEVELS 3
#define RANK_LEVEL_BITS 6
#define RANK_FAN (UINT32_C(1) << RANK_LEVEL_BITS)

/*
 * Keys have numbers of one length, so they are in the order of these: this, and the number of the
 * bucket.
 */
#define RANK_KEY_BASE 10000000
#define RANK_KEY_DIGITS 8

/* ranktable.c */
extern void rank_init(void);
extern Oid rank_table(Oid counter);
pg_noreturn extern void rank_missing_error(Oid counter);

#endif /* DC_RANK_H */
