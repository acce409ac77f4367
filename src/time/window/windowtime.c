/*
 * windowtime.c
 *		Buckets, levels and the ring: arithmetic, and the keys of rows.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A bucket is known by its number, counted from BUCKET_ORIGIN in widths of its level. A turn is a
 * number of consecutive buckets, the span; turn t of level l lies in slot t mod WINDOW_SLOTS of
 * that level's ring. That never changes, so no lookup of a bucket's place is needed: writers with
 * old knowledge and readers with old snapshots find the same slot.
 *
 * A key in a slot is the user's, a byte 0x01, and 8 digits of the bucket's number. All rows of
 * a key are side by side in the primary key, in the order of time. The suffix has a fixed
 * length, so two keys of a user never have the same key in a slot. But the range of one may contain
 * longer ones, which slot_key_split() distinguishes.
 */
#include "postgres.h"

#include "time/window/windowtime.h"

static int64 windowtime_floor_div(int64 a, int64 b);

/*
 * Divide and round down; C rounds towards zero. b must be positive.
 */
static int64
windowtime_floor_div(int64 a, int64 b)
{
	int64 q = a / b;

	return a % b < 0 ? q - 1 : q;
}

/*
 * Return the turn of a bucket's number.
 */
int64
bucket_turn(const DcLevels *levels, int level, int64 bucket)
{
	return windowtime_floor_div(bucket, levels->spans[level]);
}

/*
 * Return the turn of the bucket that has the time.
 */
int64
time_turn(const DcLevels *levels, int level, TimestampTz at)
{
	return bucket_turn(levels, level, bucket_of(at, levels->widths[level]));
}

/*
 * window_turn_slot returns the number of the slot of a turn.
 */
int
window_turn_slot(int level, int64 turn)
{
	int64 place = turn % WINDOW_SLOTS;

	return level * WINDOW_SLOTS + (int) (place < 0 ? place + WINDOW_SLOTS : place);
}

/*
 * window_turn_end returns the end of a turn, which is the start of the next.
 */
TimestampTz
window_turn_end(const DcLevels *levels, int level, int64 turn)
{
	return bucket_start((turn + 1) * levels->spans[level], levels->widths[level]);
}

/*
 * level_of returns the level to which increments of a time go, or -1 if it is too old for all.
 */
int
level_of(const DcLevels *levels, TimestampTz at)
{
	for (int l = 0; l < levels->n; l++)
	{
		if (at >= levels->floors[l])
			return l;
	}
	return -1;
}

/*
 * Return the width of the bucket in which a time is shown.
 */
int64
shown_width(const DcLevels *levels, TimestampTz at)
{
	return levels->widths[Max(level_of(levels, at), 0)];
}

/*
 * Return the start of the bucket in which a time is shown.
 */
TimestampTz
shown_start(const DcLevels *levels, TimestampTz at)
{
	int64 width = shown_width(levels, at);

	return bucket_start(bucket_of(at, width), width);
}

/*
 * levels_place computes the spans, and sets the floors of a new window. A turn is long enough
 * that those that are kept, the one that is being written and the next one fit into the ring, and
 * ends where a bucket of the next level does.
 */
void
levels_place(DcLevels *levels, TimestampTz now)
{
	for (int l = 0; l < levels->n; l++)
	{
		int64 width = levels->widths[l];
		int64 ratio = l + 1 < levels->n ? levels->widths[l + 1] / width : 1;
		int64 buckets = (levels->keeps[l] + width - 1) / width;
		int64 span = (buckets + WINDOW_SLOTS - 3) / (WINDOW_SLOTS - 2);

		levels->spans[l] = (span + ratio - 1) / ratio * ratio;
	}
	levels_set_floors(levels, now);
	for (int l = 0; l < levels->n; l++)
	{
		levels->gone[l] = levels->floors[l];
		levels->advanced[l] = 0;
	}
}

/*
 * Set the floors to where a time puts them, whatever rows there are.
 */
void
levels_set_floors(DcLevels *levels, TimestampTz now)
{
	for (int l = 0; l < levels->n; l++)
	{
		levels->floors[l] = window_turn_end(levels, l, time_turn(levels, l, now - levels->keeps[l]) - 1);
		levels->floors[l] = Max(levels->floors[l], BUCKET_ORIGIN);
	}
}

/*
 * Raise the floors before a level above a row of that level, which ends at a time: it is read only
 * for times below them.
 */
void
levels_raise_floors(DcLevels *levels, int level, TimestampTz end)
{
	for (int l = level - 1; l >= 0; l--)
	{
		levels->floors[l] = Max(levels->floors[l], window_turn_end(levels, l, time_turn(levels, l, end - 1)));
		end = levels->floors[l];
	}
}

/*
 * slot_key_make makes the key of a bucket.
 */
void
slot_key_make(const DcKey *key, int64 bucket, DcSlotKey *result)
{
	memcpy(result->bytes, key->data, key->len);
	bucket_put(result->bytes + key->len, bucket);
	result->key.data = result->bytes;
	result->key.len = key->len + BUCKET_SUFFIX_BYTES;
}

/*
 * slot_key_bound makes a bound of a range of buckets: the key of one, or a key that comes after
 * all of them.
 */
void
slot_key_bound(const DcKey *key, int64 bucket, DcSlotKey *result)
{
	slot_key_make(key, Min(Max(bucket, 0), BUCKET_MAX), result);
	if (bucket > BUCKET_MAX)
		result->bytes[key->len + 1] = 'g';
}

/*
 * slot_key_split splits a key of a slot into the user's key and the bucket; false if it has another
 * form.
 */
bool
slot_key_split(const DcKey *whole, DcKey *key, int64 *bucket)
{
	if (!bucket_get(whole->data, whole->len, bucket))
		return false;
	key->data = whole->data;
	key->len = whole->len - BUCKET_SUFFIX_BYTES;
	return true;
}
