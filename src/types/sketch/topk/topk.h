/*
 * topk.h
 *		The heaviest items of a stream (see topk.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_TOPK_H
#define DC_SKETCH_TOPK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types/sketch/topk/topkformat.h"

#define TOPK_MIN_DEFAULT 64 /* counters, if none are asked for */
#define TOPK_PER_K 10		/* and this many for each of the k */

typedef struct TopkState TopkState;

extern void topk_set_secret(uint64_t secret);
extern int32_t topk_default_counters(int32_t k);

extern TopkState *topk_new(int32_t k, int32_t counters);
extern TopkState *topk_load(const TopkList *list);
extern void topk_free(TopkState *state);
extern int32_t topk_k(const TopkState *state);
extern int32_t topk_counters(const TopkState *state);
extern bool topk_add(TopkState *state, const char *data, size_t len,
					 int64_t weight);
extern bool topk_merge(TopkState *state, const TopkList *other);
extern void topk_list(const TopkState *state, TopkList *list);

#endif /* DC_SKETCH_TOPK_H */
