/*
 * hash.h
 *		The hash functions of the sketches (see hash.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_HASH_H
#define DC_SKETCH_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Kept in the sketches that hold hashes: sketches of two kinds never merge. */
typedef enum SketchHash
{
	SKETCH_HASH_REDIS = 1,	/* MurmurHash64A with Redis's seed */
	SKETCH_HASH_MURMUR3 = 2 /* low half of MurmurHash3_x64_128, seed 0 */
} SketchHash;

extern uint64_t hash_redis(const void *data, size_t len);
extern uint64_t hash_redis_decimal(int64_t number);
extern uint64_t hash_murmur3(const void *data, size_t len);

#endif /* DC_SKETCH_HASH_H */
