/*
 * hotkeys.h
 *		The keys with the most writes, in bounded memory (see hotkeys.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_HOTKEYS_H
#define DC_HOTKEYS_H

#include <stdbool.h>
#include <stdint.h>

#define DC_HOT_KEYS 16
#define DC_HOT_KEY_BYTES 255

typedef struct DcHotKey
{
	uint64_t hash;	 /* of the whole key; identifies it */
	uint64_t count;	 /* of its writes, never too low */
	uint64_t error;	 /* by which `count` may be too high, at most */
	uint64_t window; /* of its writes, those of the window that is open, */
	uint64_t last;	 /* and of the one before; neither is ever too high */
	bool is_hot;	 /* the alert was raised */
	uint8_t len;
	char data[DC_HOT_KEY_BYTES]; /* the key's first bytes */
} DcHotKey;

typedef struct DcHotKeys
{
	int32_t nkeys;
	DcHotKey keys[DC_HOT_KEYS]; /* in no order */
} DcHotKeys;

extern void hotkeys_add(DcHotKeys *hot, uint64_t hash, const char *data,
						uint32_t len, uint64_t weight);
extern void hotkeys_decay(DcHotKeys *hot, uint64_t halvings);
extern void hotkeys_roll(DcHotKeys *hot, uint64_t windows);

#endif /* DC_HOTKEYS_H */
