/*
 * crdt.h
 *		What all mergeable types share: kinds, limits, and the interface of their
 *		algorithms, which do not depend on the server.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A value is a header byte (kind << 4 | version) and a body that is in one form only:
 * two states are equal if, and only if, their bytes are. doc/crdt-formats.md describes
 * each form byte by byte. Numbers are varints (types/sketch/bytes.h), strings are their
 * length and bytes; nodes and elements are in order of their bytes (crdt_compare()).
 *
 * Bytes from outside go through a type's check function, which reads nothing before it has seen
 * that it is there, and takes memory for no more than was there. All other functions trust a value
 * that has been checked once. They fail only for lack of memory, and where they say so.
 */
#ifndef DC_CRDT_H
#define DC_CRDT_H

#include "types/sketch/bytes.h"
#include "types/sketch/memory.h"

typedef enum CrdtKind
{
	CRDT_GCOUNTER = 1,
	CRDT_PNCOUNTER,
	CRDT_GSET,
	CRDT_ORSET,
	CRDT_LWW,
	CRDT_MVREG,
	CRDT_HLC,
	CRDT_VCLOCK
} CrdtKind;

#define CRDT_VERSION 1
#define CRDT_HEADER(kind) ((uint8_t) ((kind) << 4 | CRDT_VERSION))

/*
 * Bytes of a node's name, of an element or a register's value, and of a state. The last is such
 * that jsonb can hold any state's text form, which may be 24 times as large there: what was
 * dumped must be read again.
 */
#define CRDT_MAX_NODE 64
#define CRDT_MAX_ELEMENT (1024 * 1024)
#define CRDT_MAX_SIZE 10000000

/* A string: a view on somebody else's bytes. */
typedef struct CrdtString
{
	const char *data;
	size_t len;
} CrdtString;

/* A state: a view, too. */
typedef struct CrdtBytes
{
	const uint8_t *data;
	size_t len;
} CrdtBytes;

/* Bytes that are being written; free with crdt_buf_free(). */
typedef struct CrdtBuf
{
	uint8_t *data;
	size_t len;
	size_t size;
} CrdtBuf;

/* What a string in a state is. */
typedef enum CrdtStringKind
{
	CRDT_STRING_NODE,
	CRDT_STRING_TEXT, /* an element */
	CRDT_STRING_JSON  /* a register's value: the output of jsonb */
} CrdtStringKind;

/*
 * Return true if the server accepts a string as a value of its kind (encoding, JSON).
 * The check functions call it for each string; NULL allows everything.
 */
typedef bool (*CrdtValid)(CrdtString string, CrdtStringKind kind);

/* A mergeable type's algorithms. */
typedef struct CrdtType
{
	CrdtKind kind;
	const char *name; /* in SQL */
	/* what is wrong with the body, or NULL; for crdt_check(), which has seen the header */
	const char *(*check)(CrdtBytes state, CrdtValid valid);
	/* the least state that is not before either; out is empty */
	void (*merge)(CrdtBuf *out, CrdtBytes a, CrdtBytes b);
	/*
	 * the delta: merged into `before`, it gives merge(before, after); NULL if the type has no
	 * deltas
	 */
	void (*delta)(CrdtBuf *out, CrdtBytes after, CrdtBytes before);
} CrdtType;

extern const CrdtType crdt_gcounter;
extern const CrdtType crdt_pncounter;
extern const CrdtType crdt_vclock;
extern const CrdtType crdt_gset;
extern const CrdtType crdt_orset;
extern const CrdtType crdt_mvreg;
extern const CrdtType crdt_lww;
extern const CrdtType crdt_hlc;

extern const char *crdt_check(const CrdtType *type, CrdtBytes state, CrdtValid valid);
extern const char *crdt_node_wrong(CrdtString node);

/* Writing (see crdtbuf.c). */
extern void crdt_buf_reserve(CrdtBuf *buf, size_t more);
extern void crdt_buf_free(CrdtBuf *buf);
extern void crdt_put_bytes(CrdtBuf *buf, const void *data, size_t len);
extern void crdt_put_string(CrdtBuf *buf, CrdtString string);

static inline void
crdt_put_byte(CrdtBuf *buf, uint8_t byte)
{
	crdt_buf_reserve(buf, 1);
	buf->data[buf->len++] = byte;
}

static inline void
crdt_put_number(CrdtBuf *buf, int64_t number)
{
	crdt_buf_reserve(buf, 9);
	buf->len = bytes_put_varint(buf->data + buf->len, (uint64_t) number) - buf->data;
}

static inline CrdtBytes
crdt_bytes(const CrdtBuf *buf)
{
	return (CrdtBytes){buf->data, buf->len};
}

/* Reading what has been checked. */
static inline int64_t
crdt_get_number(const uint8_t **next)
{
	uint64_t bits = *(*next)++;

	if (bits < 0x80)
		return (int64_t) bits;
	bits &= 0x7f;
	for (int shift = 7;; shift += 7)
	{
		uint8_t byte = *(*next)++;

		bits |= (uint64_t) (byte & 0x7f) << shift;
		if (byte < 0x80)
			return (int64_t) bits;
	}
}

static inline CrdtString
crdt_get_string(const uint8_t **next)
{
	CrdtString string;

	string.len = (size_t) crdt_get_number(next);
	string.data = (const char *) *next;
	*next += string.len;
	return string;
}

/* Reading what has not: false if it is not there, or is longer than max. */
static inline bool
crdt_check_string(const uint8_t **next, const uint8_t *end, size_t max, CrdtString *string)
{
	int64_t len;

	if (!bytes_get_varint(next, end, &len) || (uint64_t) len > max || len > end - *next)
		return false;
	string->data = (const char *) *next;
	string->len = (size_t) len;
	*next += len;
	return true;
}

/* The order of nodes and elements: by bytes; a prefix comes first. */
static inline int
crdt_compare(CrdtString a, CrdtString b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = len == 0 ? 0 : memcmp(a.data, b.data, len);

	if (order != 0)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

static inline bool
crdt_same(CrdtBytes a, CrdtBytes b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

#endif /* DC_CRDT_H */
