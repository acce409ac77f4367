/*
 * optime.h
 *		Ids that carry the time at which they were created (see optime.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OPTIME_H
#define DC_OPTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DcIdKind
{
	ID_OPAQUE,
	ID_UUIDV7,
	ID_ULID
} DcIdKind;

extern DcIdKind id_time(const char *id, size_t len, int64_t *ms);

#endif /* DC_OPTIME_H */
