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
 * A level is even if the next one has the same unit: its turns then end where buckets of the next one
 * do, and so do its floors. Days do not have the same number of hours, nor months the same number of
 * days. There a floor is the start of a bucket of the next level, and may be within a turn. Rows of
 * that turn below the floor stay in their slot until the floor has passed the turn, and are shown in
 * the wider bucket meanwhile, as all rows below a floor.
 *
 * A key in a slot is the user's, a byte 0x01, and 8 digits of the bucket's number. All rows of
 * a key are side by side in the primary key, in the order of time. The suffix has a fixed
 * length, so two keys of a user never have the same key in a slot. But the range of one may contain
 * longer ones, which slot_key_split() distinguishes.
 */
#include "postgres.h"

#include "time/window/windowtime.h"

static int64 windowtime_floor_div(int64 a, int64 b);
static int64 kept_buckets(const DcLevels *levels, int level);
static bool is_even(const DcLevels *levels, int level);
static int64 longest_ratio(const DcLevels *levels, int level);
static const char *nesting_mismatch(const DcLevels *levels, int level);
static int64 duration_about(const DcLevels *levels, int level);

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
 * level_bucket returns the number of the bucket of a level that a time is in.
 */
int64
level_bucket(const DcLevels *levels, int level, TimestampTz at)
{
	if (levels->units[level] == DC_UNIT_TIME)
		return bucket_of(at, levels->widths[level]);
	return calendar_bucket(at, levels->units[level], levels->widths[level], levels->zone);
}

/*
 * level_start returns when a bucket of a level begins.
 */
TimestampTz
level_start(const DcLevels *levels, int level, int64 bucket)
{
	if (levels->units[level] == DC_UNIT_TIME)
		return bucket_start(bucket, levels->widths[level]);
	return calendar_start(bucket, levels->units[level], levels->widths[level], levels->zone);
}

/*
 * level_end returns when a bucket of a level ends, which is when the next one begins.
 */
TimestampTz
level_end(const DcLevels *levels, int level, int64 bucket)
{
	return level_start(levels, level, bucket + 1);
}

/*
 * level_since returns the time since which a level keeps increments.
 */
TimestampTz
level_since(const DcLevels *levels, int level, TimestampTz now)
{
	if (levels->units[level] == DC_UNIT_TIME)
		return now - levels->keeps[level];
	return level_start(levels, level, level_bucket(levels, level, now) - kept_buckets(levels, level));
}

/*
 * Return for how many buckets a level keeps increments.
 */
static int64
kept_buckets(const DcLevels *levels, int level)
{
	return (levels->keeps[level] + levels->widths[level] - 1) / levels->widths[level];
}

/*
 * levels_keep returns true if a time is not too old for all levels at a time. No month is shorter
 * than 28 days, and no day in a row of them by more than two days together.
 */
bool
levels_keep(const DcLevels *levels, TimestampTz at, TimestampTz now)
{
	int last = levels->n - 1;
	int64 days = levels->keeps[last];

	if (levels->units[last] == DC_UNIT_MONTH)
		days *= SHORTEST_MONTH;
	if (levels->units[last] != DC_UNIT_TIME && at >= now - (days - 2) * USECS_PER_DAY)
		return true;
	return at >= level_since(levels, last, now);
}

/*
 * Return true if all buckets of the next level have the same number of those of this one, or there
 * is no next level. In that case turns end where buckets of the next level do.
 */
static bool
is_even(const DcLevels *levels, int level)
{
	return level + 1 >= levels->n || levels->units[level] == levels->units[level + 1];
}

/*
 * level_border returns the last time up to `at`, or the first one from `at` on, that can be the
 * floor of a level: where a bucket of the next one begins. For the end of a turn of an even level,
 * that is itself.
 */
TimestampTz
level_border(const DcLevels *levels, int level, TimestampTz at, bool after)
{
	TimestampTz border;
	int64 bucket;

	if (is_even(levels, level))
		return at;
	bucket = level_bucket(levels, level + 1, at);
	border = level_start(levels, level + 1, bucket);
	return after && border < at ? level_end(levels, level + 1, bucket) : border;
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
	return bucket_turn(levels, level, level_bucket(levels, level, at));
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
	return level_start(levels, level, (turn + 1) * levels->spans[level]);
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
 * Return the start of the bucket in which a time is shown.
 */
TimestampTz
shown_start(const DcLevels *levels, TimestampTz at)
{
	int level = Max(level_of(levels, at), 0);

	return level_start(levels, level, level_bucket(levels, level, at));
}

/*
 * Return the end of the bucket in which a time is shown.
 */
TimestampTz
shown_end(const DcLevels *levels, TimestampTz at)
{
	int level = Max(level_of(levels, at), 0);

	return level_end(levels, level, level_bucket(levels, level, at));
}

/*
 * level_room returns for how many buckets the ring of a level has room: two turns are for the one
 * that is being written and the next one, and a third one, in a level that is not even, for the
 * part of a turn from the floor to the end of the turn.
 */
int64
level_room(const DcLevels *levels, int level)
{
	return levels->spans[level] * (WINDOW_SLOTS - (is_even(levels, level) ? 2 : 3));
}

/*
 * Return how many buckets the longest bucket of the next level has at most.
 */
static int64
longest_ratio(const DcLevels *levels, int level)
{
	int64 width = levels->widths[level];
	int64 days;

	if (level + 1 >= levels->n)
		return 1;
	days = levels->widths[level + 1];
	if (is_even(levels, level))
		return days / width;
	if (levels->units[level + 1] == DC_UNIT_MONTH)
		days *= LONGEST_MONTH;
	if (levels->units[level] == DC_UNIT_DAY)
		return days;
	return (days * USECS_PER_DAY + USECS_PER_HOUR + width - 1) / width; /* clocks are set back once in it */
}

/*
 * levels_place computes the spans, and sets the floors of a new window. A turn is long enough that
 * those that are kept, the one that is being written and the next one fit into the ring, and has at
 * least the buckets of one of the next level. In an even level it ends where such a bucket does.
 */
void
levels_place(DcLevels *levels, TimestampTz now)
{
	for (int l = 0; l < levels->n; l++)
	{
		int64 ratio = longest_ratio(levels, l);
		int64 slots;

		levels->spans[l] = 1;
		slots = level_room(levels, l);
		levels->spans[l] = Max((kept_buckets(levels, l) + slots - 1) / slots, ratio);
		if (is_even(levels, l))
			levels->spans[l] = (levels->spans[l] + ratio - 1) / ratio * ratio;
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
		TimestampTz end = window_turn_end(levels, l, time_turn(levels, l, level_since(levels, l, now)) - 1);

		levels->floors[l] = Max(level_border(levels, l, end, false), level_start(levels, l, 0));
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
		TimestampTz turn_end = window_turn_end(levels, l, time_turn(levels, l, end - 1));

		levels->floors[l] = Max(levels->floors[l], level_border(levels, l, turn_end, true));
		end = levels->floors[l];
	}
}

/*
 * level_nearest returns the start of a bucket that is nearest to a time: where that bucket begins
 * by the rules of the zone that hold now, if the time is where it began by others.
 */
TimestampTz
level_nearest(const DcLevels *levels, int level, TimestampTz at)
{
	return level_start(levels, level, level_bucket(levels, level, at + USECS_PER_DAY / 2));
}

/*
 * levels_settle moves the floors to where the buckets begin now that began there when the floors
 * were written.
 */
void
levels_settle(DcLevels *levels)
{
	for (int l = 0; l < levels->n && levels->zone != NULL; l++)
	{
		int next = Min(l + 1, levels->n - 1);

		if (levels->units[next] != DC_UNIT_TIME)
			levels->floors[l] = Max(level_nearest(levels, next, levels->floors[l]), level_start(levels, l, 0));
	}
}

/*
 * levels_mismatch returns why the widths and times of levels do not match, or NULL if they do.
 */
const char *
levels_mismatch(const DcLevels *levels)
{
	for (int l = 0; l < levels->n; l++)
	{
		const char *mismatch = l > 0 ? nesting_mismatch(levels, l) : NULL;

		if (levels->keeps[l] < levels->widths[l])
			return _("A bucket is longer than it is kept for.");
		if (kept_buckets(levels, l) > BUCKET_MAX / 4)
			return _("There are too many buckets.");
		if (mismatch != NULL)
			return mismatch;
		if (l > 0 && duration_about(levels, l) <= duration_about(levels, l - 1))
			return _("Each level must be kept for longer than the level before.");
	}
	return NULL;
}

/*
 * Return why the buckets of the level before do not fit into those of a level, or NULL.
 */
static const char *
nesting_mismatch(const DcLevels *levels, int level)
{
	DcUnit unit = levels->units[level - 1];
	DcUnit next = levels->units[level];
	int64 width = levels->widths[level - 1];

	if (unit > next || (unit == next && (levels->widths[level] <= width || levels->widths[level] % width != 0)))
		return _("The buckets of each level must be a multiple of those of the level before.");
	if (unit == next)
		return NULL;
	if (unit == DC_UNIT_DAY)
		return width == 1 ? NULL : _("Buckets of several days do not fit into months.");
	if (USECS_PER_DAY % width != 0 || !calendar_offsets_fit(width, levels->zone))
		return _("The local days of the time zone do not always begin where a bucket of the level before does.");
	return NULL;
}

/*
 * Return for how long a level keeps increments, in microseconds, with months of average length.
 */
static int64
duration_about(const DcLevels *levels, int level)
{
	static const int64 lengths[] = {1, USECS_PER_DAY, (int64) (DAYS_PER_YEAR / MONTHS_PER_YEAR * USECS_PER_DAY)};

	return levels->keeps[level] * lengths[levels->units[level]];
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
