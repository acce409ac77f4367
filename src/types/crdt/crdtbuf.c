/*
 * crdtbuf.c
 *		Bytes that are being written; what all types' checks have in common.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "types/crdt/crdt.h"

#include <string.h>

/*
 * crdt_buf_reserve makes room for some more bytes. It at least doubles the buffer, so
 * that writing is linear.
 */
void
crdt_buf_reserve(CrdtBuf *buf, size_t more)
{
	size_t size;
	uint8_t *data;

	if (buf->size - buf->len >= more)
		return;
	size = buf->size < 64 ? 64 : buf->size * 2;
	if (size < buf->len + more)
		size = buf->len + more;
	data = sketch_alloc(size);
	if (buf->len > 0)
		memcpy(data, buf->data, buf->len);
	if (buf->data != NULL)
		sketch_free(buf->data);
	buf->data = data;
	buf->size = size;
}

/*
 * Free a buffer's bytes, and leave it empty.
 */
void
crdt_buf_free(CrdtBuf *buf)
{
	if (buf->data != NULL)
		sketch_free(buf->data);
	*buf = (CrdtBuf){NULL, 0, 0};
}

/*
 * Append bytes to a buffer. `data` may be NULL if len is 0.
 */
void
crdt_put_bytes(CrdtBuf *buf, const void *data, size_t len)
{
	if (len == 0)
		return;
	crdt_buf_reserve(buf, len);
	memcpy(buf->data + buf->len, data, len);
	buf->len += len;
}

/*
 * Append a string: its length as a varint, then its bytes.
 */
void
crdt_put_string(CrdtBuf *buf, CrdtString string)
{
	crdt_put_number(buf, (int64_t) string.len);
	crdt_put_bytes(buf, string.data, string.len);
}

/*
 * crdt_check tells what is wrong with bytes as a type's value, or NULL. They are
 * not trusted.
 */
const char *
crdt_check(const CrdtType *type, CrdtBytes state, CrdtValid valid)
{
	if (state.len == 0)
		return "A value must not be empty.";
	if (state.len > CRDT_MAX_SIZE)
		return "A value must not be larger than 10 MB.";
	if (state.data[0] >> 4 != type->kind)
		return "The first byte belongs to another type.";
	if (state.data[0] != CRDT_HEADER(type->kind))
		return "The version is unknown.";
	return type->check(state, valid);
}

/*
 * crdt_node_wrong tells what is wrong with a node's name, or NULL. Control characters
 * would make states unreadable; every server encoding has ASCII's in these bytes.
 */
const char *
crdt_node_wrong(CrdtString node)
{
	if (node.len == 0)
		return "A node's name must not be empty.";
	if (node.len > CRDT_MAX_NODE)
		return "A node's name must not be longer than 64 bytes.";
	for (size_t i = 0; i < node.len; i++)
	{
		uint8_t byte = (uint8_t) node.data[i];

		if (byte < 0x20 || byte == 0x7f)
			return "A node's name must not contain control characters.";
	}
	return NULL;
}
