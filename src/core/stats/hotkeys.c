/*
 * hotkeys.c
 *		The keys with the most writes, in bounded memory.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A Space-Saving summary (Metwally, Agrawal and El Abbadi, 2005). It has a place
 * for a fixed number of keys. A key that has a place adds its weight there; one
 * that has none takes the place of the key with the lowest count, and inherits
 * that count as its possible error. So, with W the sum of all weights,
 *
 *	- count - error <= true weight <= count, for each key that is listed;
 *	- each key of more than W / DC_HOT_KEYS is listed;
 *	- no error is above W / DC_HOT_KEYS.
 *
 * To forget the past, all counts are halved from time to time. That keeps the bounds, for
 * weights that are halved too, except for rounding.
 *
 * A decayed count is not a rate: it reflects writes that fade over several half-lives. So each
 * key that is listed has its writes of a window of time as well, and, frozen when that is over,
 * those of the window before. A key that got its place in the middle of a window has the writes
 * since then.
 *
 * A key is identified by a hash of 64 bits, so that long keys need not be kept
 * whole. Two keys of one hash would be shown as one.
 *
 * This file does not depend on the server; stats.c does the locking.
 */
#include "core/stats/hotkeys.h"

#include <string.h>

static uint64_t hotkeys_count(uint64_t a, uint64_t b);
static int hotkeys_lowest(const DcHotKeys *hot);

/*
 * hotkeys_add adds to the count of a key. A count stops at its type's maximum.
 */
void
hotkeys_add(DcHotKeys *hot, uint64_t hash, const char *data, uint32_t len,
			uint64_t weight)
{
	DcHotKey *key = NULL;

	for (int i = 0; i < hot->nkeys && key == NULL; i++)
	{
		if (hot->keys[i].hash == hash)
			key = &hot->keys[i];
	}
	if (key == NULL)
	{
		if (hot->nkeys < DC_HOT_KEYS)
		{
			key = &hot->keys[hot->nkeys++];
			key->count = 0;
		}
		else
			key = &hot->keys[hotkeys_lowest(hot)];
		key->error = key->count;
		key->window = key->last = 0;
		key->is_hot = false;
		key->hash = hash;
		key->len = (uint8_t) (len < DC_HOT_KEY_BYTES ? len : DC_HOT_KEY_BYTES);
		memcpy(key->data, data, key->len);
	}
	key->count = hotkeys_count(key->count, weight);
	key->window = hotkeys_count(key->window, weight);
}

/*
 * Return the sum of two counts, or the greatest count if that is less.
 */
static uint64_t
hotkeys_count(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/*
 * hotkeys_roll begins a new window, this many after the one that is open.
 */
void
hotkeys_roll(DcHotKeys *hot, uint64_t windows)
{
	for (int i = 0; i < hot->nkeys && windows > 0; i++)
	{
		hot->keys[i].last = windows == 1 ? hot->keys[i].window : 0;
		hot->keys[i].window = 0;
	}
}

/*
 * hotkeys_decay halves all counts this many times, and drops keys with nothing left, except
 * those that the alert has yet to report as no longer hot.
 */
void
hotkeys_decay(DcHotKeys *hot, uint64_t halvings)
{
	int kept = 0;

	for (int i = 0; i < hot->nkeys; i++)
	{
		DcHotKey *key = &hot->keys[i];

		key->count = halvings < 64 ? key->count >> halvings : 0;
		key->error = halvings < 64 ? key->error >> halvings : 0;
		if (key->count == 0 && !key->is_hot)
			continue;
		if (kept != i)
			hot->keys[kept] = *key;
		kept++;
	}
	hot->nkeys = kept;
}

/*
 * Return the index of the key with the lowest count.
 */
static int
hotkeys_lowest(const DcHotKeys *hot)
{
	int low = 0;

	for (int i = 1; i < hot->nkeys; i++)
	{
		if (hot->keys[i].count < hot->keys[low].count)
			low = i;
	}
	return low;
}
