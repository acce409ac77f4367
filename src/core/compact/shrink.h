/*
 * shrink.h
 *		Giving back the space of a shard table that is nearly empty (see shrink.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SHRINK_H
#define DC_SHRINK_H

#include "core/table/catalog.h"

extern bool shrink_is_due(DcCounter *counter);
extern void shrink_shards(DcCounter *counter);

#endif /* DC_SHRINK_H */
