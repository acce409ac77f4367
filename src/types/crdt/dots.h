/*
 * dots.h
 *		Elements with the dots of their additions, and the context of all dots that
 *		were ever seen (see dots.c): observed-remove sets and multi-value registers.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DOTS_H
#define DC_DOTS_H

#include "types/crdt/crdt.h"

/* Dots first to last of a node, both included. The first dot of a node is 1. */
typedef struct DotsRange
{
	int64_t first;
	int64_t last;
} DotsRange;

/* Dots of a node: ranges in order, with gaps between them. */
typedef struct DotsNode
{
	CrdtString node;
	DotsRange *ranges;
	size_t n;
} DotsNode;

/* Dots that have been seen, by nodes in order. */
typedef struct DotsContext
{
	DotsNode *nodes;
	size_t n;
	DotsRange *ranges; /* where the nodes' ranges are */
	size_t nranges;
} DotsContext;

typedef struct Dot
{
	size_t node; /* its number in a context */
	int64_t counter;
} Dot;

typedef struct DotsElement
{
	CrdtString element;
	Dot *dots; /* in order of nodes and counters; at least one */
	size_t n;
	size_t size; /* of the array */
} DotsElement;

/* Goes through the elements of a state, in their order. */
typedef struct DotsReader
{
	DotsContext context;
	DotsElement current;
	const uint8_t *next;
	int64_t left;
} DotsReader;

/* A state that is being written: its context is known, elements are put in their order. */
typedef struct DotsWriter
{
	CrdtBuf elements;
	size_t n;
} DotsWriter;

extern void dots_empty(CrdtBuf *out, CrdtKind kind);
extern void dots_reader_open(DotsReader *reader, CrdtBytes state);
extern bool dots_reader_next(DotsReader *reader);
extern void dots_reader_close(DotsReader *reader);
extern void dots_put(DotsWriter *writer, CrdtString element, const Dot *dots, size_t n);
extern void dots_finish(DotsWriter *writer, CrdtBuf *out, CrdtKind kind,
						const DotsContext *context);
extern int64_t dots_count(CrdtBytes state);
extern bool dots_contains(CrdtBytes state, CrdtString element);
extern bool dots_add(CrdtBuf *out, CrdtBytes state, CrdtString element, CrdtString node);
extern void dots_remove(CrdtBuf *out, CrdtBytes state, CrdtString element);
extern bool dots_set(CrdtBuf *out, CrdtBytes state, CrdtString element, CrdtString node);
extern void dots_reset(CrdtBuf *out, CrdtBytes state);

/* Two states (see dotsmerge.c). */
extern void dots_merge(CrdtBuf *out, CrdtBytes a, CrdtBytes b);
extern void dots_delta(CrdtBuf *out, CrdtBytes after, CrdtBytes before);

/* Contexts (see dotscontext.c). */
extern const char *dots_context_check(const uint8_t **next, const uint8_t *end, CrdtValid valid);
extern void dots_context_read(DotsContext *context, const uint8_t **next);
extern void dots_context_put(CrdtBuf *out, const DotsContext *context);
extern void dots_context_free(DotsContext *context);
extern int dots_order(const void *a, const void *b);
extern bool dots_seen(const DotsContext *context, size_t node, int64_t counter);
extern void dots_context_union(DotsContext *result, const DotsContext *a, const DotsContext *b);
extern void dots_context_news(DotsContext *result, const DotsContext *after,
							  const DotsContext *before, Dot *more, size_t nmore);
extern bool dots_context_draw(DotsContext *result, const DotsContext *context,
							  CrdtString node, Dot *dot, size_t *numbers);
extern void dots_context_map(size_t *numbers, const DotsContext *from, const DotsContext *to);

/* What dots_context_map says of a node that is not there. */
#define DOTS_NO_NODE ((size_t) -1)

#endif /* DC_DOTS_H */
