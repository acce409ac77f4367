/*
 * hlljoint.h
 *		Intersection and difference of two HyperLogLogs (see hlljoint.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_HLLJOINT_H
#define DC_HLLJOINT_H

#include "types/sketch/hll/hll.h"

/* An estimate and an interval that holds the true number. */
typedef struct HllInterval
{
	double lower;
	double estimate;
	double upper;
} HllInterval;

/* How many items two sets have alone and together. */
typedef struct HllJoint
{
	HllInterval only_a;
	HllInterval only_b;
	HllInterval both;
} HllJoint;

extern bool hll_joint(const HllState *a, const HllState *b, double confidence,
					  HllJoint *joint);

#endif /* DC_HLLJOINT_H */
