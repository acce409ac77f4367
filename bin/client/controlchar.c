/*
 * controlchar.c
 *		Characters that a terminal obeys instead of showing them.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Any user that may write events chooses keys and other text, which also appear in some messages of
 * the server. They could clear a screen, hide lines, or type answers in the terminal of a user that
 * looks at the output. Such characters are the C0 controls, DEL, the C1 controls, which in UTF-8
 * have two bytes, and the characters that change the direction of text. Bytes that are not UTF-8
 * count as well, since some terminals take them for C1.
 */
#include "bin/client/client.h"

static size_t utf8_length(const unsigned char *data, size_t left);

/*
 * control_at returns the length of the control character at the beginning of
 * some text, and which one it is; 0 if there is none.
 */
size_t
control_at(const char *text, size_t left, unsigned int *code)
{
	const unsigned char *data = (const unsigned char *) text;

	*code = data[0];
	if (data[0] < ' ' || data[0] == 0x7F)
		return 1;
	if (data[0] < 0x80 || left < 2)
		return 0;
	*code = (data[0] & 0x1F) << 6 | (data[1] & 0x3F);
	if (data[0] == 0xC2 && data[1] >= 0x80 && data[1] <= 0x9F)
		return 2;
	if (data[0] != 0xE2 || left < 3)
		return 0;
	*code = (data[0] & 0x0F) << 12 | (data[1] & 0x3F) << 6 | (data[2] & 0x3F);
	if ((*code >= 0x202A && *code <= 0x202E) || (*code >= 0x2066 && *code <= 0x2069))
		return 3;
	return 0;
}

/*
 * add_visible adds text for a terminal or a log. Newlines and tabs stay; each byte of
 * another control character is written as \x and its value.
 */
void
add_visible(Buffer *buffer, const char *text, size_t length)
{
	size_t done = 0;
	size_t i = 0;

	while (i < length)
	{
		unsigned int code;
		size_t hidden = control_at(text + i, length - i, &code);
		size_t valid = utf8_length((const unsigned char *) text + i, length - i);

		if (hidden == 0 && valid == 0)
			hidden = 1;
		if (text[i] == '\n' || text[i] == '\t')
			hidden = 0;
		if (text[i] == '\r' && i + 1 < length && text[i + 1] == '\n')
			hidden = 0;
		if (hidden == 0)
		{
			i += valid;
			continue;
		}
		buffer_add(buffer, text + done, i - done);
		for (size_t end = i + hidden; i < end; i++)
			buffer_printf(buffer, "\\x%02x", (unsigned char) text[i]);
		done = i;
	}
	buffer_add(buffer, text + done, length - done);
}

/*
 * utf8_length returns the length of the character at the beginning of some bytes, 0 if
 * they are not UTF-8.
 */
static size_t
utf8_length(const unsigned char *data, size_t left)
{
	unsigned char first = data[0];
	unsigned char least = 0x80; /* what the second byte may be: no long forms, no */
	unsigned char most = 0xBF;	/* surrogates, nothing above U+10FFFF */
	size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2
		: first < 0xF0								? 3
													: 4;

	if (first < 0x80)
		return 1;
	if (first < 0xC2 || first > 0xF4 || left < length)
		return 0;
	if (first == 0xE0)
		least = 0xA0;
	else if (first == 0xED)
		most = 0x9F;
	else if (first == 0xF0)
		least = 0x90;
	else if (first == 0xF4)
		most = 0x8F;
	if (data[1] < least || data[1] > most)
		return 0;
	for (size_t i = 2; i < length; i++)
	{
		if ((data[i] & 0xC0) != 0x80)
			return 0;
	}
	return length;
}
