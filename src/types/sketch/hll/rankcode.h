/*
 * rankcode.h
 *		Coding of registers in less than three bits each (see rankcode.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_RANKCODE_H
#define DC_SKETCH_RANKCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANK_VALUES 64 /* a rank is below */

extern void rankcode_count(const uint8_t *ranks, uint32_t n, uint32_t counts[RANK_VALUES]);
extern size_t rankcode_max_size(uint32_t n);
extern size_t rankcode_encode(const uint8_t *ranks, uint32_t n, uint8_t *out);
extern bool rankcode_decode(const uint8_t *data, size_t len, uint8_t *ranks,
							uint32_t n);
extern int rankcode_get(const uint8_t *data, size_t len, uint32_t n, uint32_t index);

#endif /* DC_SKETCH_RANKCODE_H */
