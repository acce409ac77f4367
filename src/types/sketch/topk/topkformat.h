/*
 * topkformat.h
 *		Lists of the heaviest items, and the bytes they are stored as (see
 *		topkformat.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SKETCH_TOPKFORMAT_H
#define DC_SKETCH_TOPKFORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPK_VERSION 1
#define TOPK_MAX_COUNTERS 1000000
#define TOPK_MAX_HEADER_BYTES 64 /* at most; all that is before the items */

/* An item that is listed: count - error <= true weight <= count. */
typedef struct TopkItem
{
	int64_t count;
	int64_t error;
	const char *data;
	uint32_t len;
	uint32_t place; /* in the state that it is from */
} TopkItem;

/* A sketch as a list of items, the heaviest first. */
typedef struct TopkList
{
	int32_t k;
	int32_t counters;
	int32_t n;
	int64_t total;
	int64_t floor; /* no item that is not listed weighs more */
	TopkItem *items;
} TopkList;

/* Where a reading of stored bytes is. */
typedef struct TopkReader
{
	const uint8_t *next;
	const uint8_t *end;
	int64_t count; /* of the item before */
} TopkReader;

extern int topk_compare(const TopkItem *a, const TopkItem *b);
extern int topk_compare_bytes(const TopkItem *a, const TopkItem *b);
extern void topk_sort(TopkItem *items, size_t n,
					  int (*compare)(const TopkItem *, const TopkItem *));
extern bool topk_has_share(int64_t weight, int64_t total, double share, bool must);

extern const char *topk_check(const uint8_t *data, size_t len);
extern bool topk_read(TopkReader *reader, const uint8_t *data, size_t len,
					  TopkList *header);
extern bool topk_read_item(TopkReader *reader, TopkItem *item);
extern bool topk_decode(const uint8_t *data, size_t len, TopkList *list);
extern size_t topk_encoded_size(const TopkList *list);
extern size_t topk_encode(const TopkList *list, uint8_t *out);

#endif /* DC_SKETCH_TOPKFORMAT_H */
