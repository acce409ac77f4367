/*
 * dc_topk.h
 *		Functions that the files of dc_topk share (see dc_topk.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_DC_TOPK_H
#define DC_SKETCH_DC_TOPK_H

#include "fmgr.h"

#include "types/sketch/item.h"
#include "types/sketch/topk/topk.h"

extern TopkState *topk_state_new(FunctionCallInfo fcinfo, int k_arg, int counters_arg);
extern TopkState *topk_state_load(const TopkList *list);
extern void topk_state_add(TopkState *state, const ItemBytes *item, int64 weight);
extern void topk_state_merge(TopkState *state, const TopkList *other);
extern bytea *topk_state_value(const TopkState *state);
extern void topk_item_text(ItemType *type, Datum value, ItemBytes *item);
extern void topk_value_decode(bytea *value, TopkList *list);
extern int64 dc_topk_total(Datum value);
extern void topk_weight_check(int64 weight);

#endif /* DC_SKETCH_DC_TOPK_H */
