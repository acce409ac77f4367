/*
 * rankbucket.h
 *		Buckets of values, by which ranks are counted (see rankbucket.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RANKBUCKET_H
#define DC_RANKBUCKET_H

#include <stdint.h>

/* Buckets have numbers below this. */
#define RANK_BUCKETS ((UINT32_C(1) << 20) + 1)

extern uint32_t rank_bucket_of(int64_t value);
extern int64_t rank_bucket_last(uint32_t bucket);

#endif /* DC_RANKBUCKET_H */
