/*
 * sendbuffer.c
 *		A string that grows.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "bin/client/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory that one huge event needed is not kept for the small ones after it. */
#define KEEP (1024 * 1024)

/*
 * Make room for `more` bytes and one more, so that a string can always be ended. Exits if there is
 * no memory.
 */
static void
client_sendbuffer_make_room(Buffer *buffer, size_t more)
{
	size_t size = buffer->size < 1024 ? 1024 : buffer->size;
	char *data;

	if (buffer->size - buffer->length > more)
		return;
	if (more > SIZE_MAX / 4 || buffer->length > SIZE_MAX / 4)
		fail("out of memory");
	while (size - buffer->length <= more)
		size *= 2;
	data = realloc(buffer->data, size);
	if (data == NULL)
		fail("out of memory");
	buffer->data = data;
	buffer->size = size;
}

/*
 * Append bytes. They may have zeros among them; the buffer is not terminated.
 */
void
buffer_add(Buffer *buffer, const char *data, size_t length)
{
	client_sendbuffer_make_room(buffer, length);
	memcpy(buffer->data + buffer->length, data, length);
	buffer->length += length;
}

/*
 * Append a string without its terminating zero.
 */
void
buffer_add_string(Buffer *buffer, const char *string)
{
	buffer_add(buffer, string, strlen(string));
}

/*
 * buffer_printf appends formatted text, which must be short, such as numbers.
 */
void
buffer_printf(Buffer *buffer, const char *format, ...)
{
	char text[256];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length < 0 || (size_t) length >= sizeof(text))
		fail("text is too long for its format");
	buffer_add(buffer, text, (size_t) length);
}

/*
 * Empty the buffer. The memory of a large one is freed, so that one large event does not hold it
 * forever.
 */
void
buffer_reset(Buffer *buffer)
{
	buffer->length = 0;
	if (buffer->size > KEEP)
	{
		free(buffer->data);
		memset(buffer, 0, sizeof(*buffer));
	}
}

/*
 * Allocate memory, or exit.
 */
void *
get_memory(size_t size)
{
	void *memory = malloc(size);

	if (memory == NULL)
		fail("out of memory");
	return memory;
}
