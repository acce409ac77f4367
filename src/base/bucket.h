/*
 * bucket.h
 *		Buckets of time, and the keys of their rows (see bucket.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_BUCKET_H
#define DC_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

/* A separator, and the number in hexadecimal. */
#define BUCKET_SUFFIX_BYTES 9
#define BUCKET_SEPARATOR '\001'
#define BUCKET_MAX INT64_C(0xFFFFFFFF)

/* One second, and the first Monday after PostgreSQL's own epoch, both in us. */
#define BUCKET_MIN_WIDTH INT64_C(1000000)
#define BUCKET_ORIGIN (INT64_C(2) * 86400 * 1000000)

extern int64_t bucket_of(int64_t at, int64_t width);
extern int64_t bucket_start(int64_t bucket, int64_t width);
extern int64_t bucket_horizon(int64_t now, int64_t newest, int64_t width, int64_t keep);
extern void bucket_put(char *suffix, int64_t bucket);
extern bool bucket_get(const char *key, uint32_t len, int64_t *bucket);

#endif /* DC_BUCKET_H */
