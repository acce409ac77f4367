/*
 * optime.c
 *		Ids that carry the time at which they were created.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 *	- UUIDv7 (RFC 9562) as text: 36 characters, the first 48 bits are milliseconds
 *	  since 1970, the version is 7 and the variant 10.
 *	- ULID: 26 characters of Crockford's base32, the first 10 are 48 bits of
 *	  milliseconds since 1970 (so the first one is not above 7).
 *
 * Letters may be of either case. Anything else is an id without a time. Knows
 * nothing of the server.
 */
#include "transactional/once/optime.h"

#define UUID_CHARS 36
#define ULID_CHARS 26
#define ULID_TIME_CHARS 10

static int optime_hex_digit(char c);
static int base32_digit(char c);
static bool uuidv7_time(const char *id, int64_t *ms);
static bool ulid_time(const char *id, int64_t *ms);

/*
 * id_time returns the kind of an id, and sets *ms to when it was created, if the id says so: in
 * milliseconds since 1970.
 */
DcIdKind
id_time(const char *id, size_t len, int64_t *ms)
{
	if (len == UUID_CHARS && uuidv7_time(id, ms))
		return ID_UUIDV7;
	if (len == ULID_CHARS && ulid_time(id, ms))
		return ID_ULID;
	return ID_OPAQUE;
}

/*
 * Return true if 36 characters are a UUIDv7, and set *ms to its time (milliseconds since 1970).
 */
static bool
uuidv7_time(const char *id, int64_t *ms)
{
	int64_t time = 0;
	int digits = 0;

	for (int i = 0; i < UUID_CHARS; i++)
	{
		int digit;

		if (i == 8 || i == 13 || i == 18 || i == 23)
		{
			if (id[i] != '-')
				return false;
			continue;
		}
		digit = optime_hex_digit(id[i]);
		if (digit < 0 || (i == 14 && digit != 7) || (i == 19 && (digit & 0xC) != 0x8))
			return false;
		if (digits++ < 12)
			time = time << 4 | digit;
	}
	*ms = time;
	return true;
}

/*
 * Return true if 26 characters are a ULID, and set *ms to its time (milliseconds since 1970).
 */
static bool
ulid_time(const char *id, int64_t *ms)
{
	int64_t time = 0;

	if (id[0] < '0' || id[0] > '7')
		return false;
	for (int i = 0; i < ULID_CHARS; i++)
	{
		int digit = base32_digit(id[i]);

		if (digit < 0)
			return false;
		if (i < ULID_TIME_CHARS)
			time = time << 5 | digit;
	}
	*ms = time;
	return true;
}

/*
 * Return the value of a hexadecimal digit of either case, -1 for another character.
 */
static int
optime_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * base32_digit returns the value of a digit: 0 to 9, and the letters except for I, L, O and U.
 */
static int
base32_digit(char c)
{
	static const char letters[] = "abcdefghjkmnpqrstvwxyz";

	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	for (int i = 0; letters[i] != '\0'; i++)
	{
		if (letters[i] == c)
			return i + 10;
	}
	return -1;
}
