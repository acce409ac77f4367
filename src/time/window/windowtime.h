/*
 * windowtime.h
 *		Buckets, levels and the ring (see windowtime.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_WINDOWTIME_H
#define DC_WINDOWTIME_H

#include "datatype/timestamp.h"

#include "base/bucket.h"
#include "base/key.h"
#include "time/window/windowcalendar.h"

/* Slots of a level's ring, and levels. */
#define WINDOW_SLOTS 8
#define WINDOW_MAX_LEVELS 4

/* A key in a slot: that of the user, and the bucket. */
#define WINDOW_MAX_KEY_BYTES (DC_MAX_KEY_BYTES - BUCKET_SUFFIX_BYTES)

/*
 * The levels of a window, the fine one first. Widths, and times for which buckets are kept, are in
 * microseconds, days or months. Numbers of buckets count from the origin; other times are in
 * microseconds.
 */
typedef struct DcLevels
{
	int n;
	pg_tz *zone; /* of days and months; NULL if there are none, or the server does not know it */
	DcUnit units[WINDOW_MAX_LEVELS];
	int64 widths[WINDOW_MAX_LEVELS]; /* of a bucket, which lies in one of the next level as a whole */
	int64 keeps[WINDOW_MAX_LEVELS];
	int64 spans[WINDOW_MAX_LEVELS];	   /* buckets of a turn */
	int64 floors[WINDOW_MAX_LEVELS];   /* the time before which increments go to the next level */
	int64 gone[WINDOW_MAX_LEVELS];	   /* before which rows may have been truncated */
	int64 advanced[WINDOW_MAX_LEVELS]; /* when the floor was last raised past a turn with rows */
} DcLevels;

/* A key of a slot, with the bytes. */
typedef struct DcSlotKey
{
	DcKey key;
	char bytes[DC_MAX_KEY_BYTES];
} DcSlotKey;

extern int64 level_bucket(const DcLevels *levels, int level, TimestampTz at);
extern TimestampTz level_start(const DcLevels *levels, int level, int64 bucket);
extern TimestampTz level_end(const DcLevels *levels, int level, int64 bucket);
extern TimestampTz level_since(const DcLevels *levels, int level, TimestampTz now);
extern int level_of(const DcLevels *levels, TimestampTz at);
extern int64 level_room(const DcLevels *levels, int level);
extern TimestampTz level_border(const DcLevels *levels, int level, TimestampTz at, bool after);
extern int64 bucket_turn(const DcLevels *levels, int level, int64 bucket);
extern int window_turn_slot(int level, int64 turn);
extern TimestampTz window_turn_end(const DcLevels *levels, int level, int64 turn);
extern int64 time_turn(const DcLevels *levels, int level, TimestampTz at);
extern TimestampTz shown_start(const DcLevels *levels, TimestampTz at);
extern TimestampTz shown_end(const DcLevels *levels, TimestampTz at);
extern bool levels_keep(const DcLevels *levels, TimestampTz at, TimestampTz now);
extern const char *levels_mismatch(const DcLevels *levels);
extern void levels_place(DcLevels *levels, TimestampTz now);
extern void levels_set_floors(DcLevels *levels, TimestampTz now);
extern void levels_raise_floors(DcLevels *levels, int level, TimestampTz end);
extern TimestampTz level_nearest(const DcLevels *levels, int level, TimestampTz at);
extern void levels_settle(DcLevels *levels);

extern void slot_key_make(const DcKey *key, int64 bucket, DcSlotKey *result);
extern bool slot_key_split(const DcKey *whole, DcKey *key, int64 *bucket);
extern void slot_key_bound(const DcKey *key, int64 bucket, DcSlotKey *result);

#endif /* DC_WINDOWTIME_H */
