/*
 * partition.h
 *		Rotating partitions (see partition.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_PARTITION_H
#define DC_PARTITION_H

#include "datatype/timestamp.h"

extern bool turn_begin(Oid parent);
extern bool writers_have_ended(Oid parent, TransactionId change, TimestampTz at);
extern void writers_wait(Oid parent);
extern bool partition_lock_at_once(Oid partition);
extern void partition_empty(Oid partition);
extern void partition_attach(const char *schema, const char *parent, const char *name,
							 const char *like, const char *options, const char *bound);

#endif /* DC_PARTITION_H */
