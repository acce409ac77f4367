/*
 * decay.h
 *		Forward decay: weights of events that are never rewritten (see decay.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DECAY_H
#define DC_DECAY_H

#include <stdbool.h>
#include <stdint.h>

/* The half-lives of an epoch. */
#define DECAY_EPOCH 512

/* Scores below 2 to this power are none. */
#define DECAY_LEAST (-40)

extern int64_t decay_epoch(int64_t at, int64_t half_life);
extern double decay_weight(double delta, int64_t at, int64_t half_life, int64_t epoch);
extern double decay_move(double weight, int64_t from, int64_t to);
extern bool decay_is_ahead(int64_t epoch, int64_t half_life, int64_t now);
extern double decay_score(double weight, int64_t epoch, int64_t half_life, int64_t now);

#endif /* DC_DECAY_H */
