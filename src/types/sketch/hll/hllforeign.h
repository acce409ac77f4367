/*
 * hllforeign.h
 *		HyperLogLogs of other systems (see hllredis.c and hllpostgresql.c).
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Functions that read one take bytes that are not trusted. They return a state, or NULL,
 * and then set *wrong to what is wrong with the bytes. Functions that write one return
 * new memory.
 */
#ifndef DC_HLLFOREIGN_H
#define DC_HLLFOREIGN_H

#include "types/sketch/hll/hll.h"

#define HLL_REDIS_PRECISION 14
#define HLL_POSTGRESQL_MAX_PRECISION 17

extern HllState *hll_from_redis(const uint8_t *data, size_t len, const char **wrong);
extern uint8_t *hll_to_redis(const HllState *state, size_t *len);
extern HllState *hll_from_postgresql(const uint8_t *data, size_t len, const char **wrong);
extern uint8_t *hll_to_postgresql(const HllState *state, size_t *len);

#endif /* DC_HLLFOREIGN_H */
