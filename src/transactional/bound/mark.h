/*
 * mark.h
 *		Marks of a counter table: the values of all its keys at one moment (see mark.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_MARK_H
#define DC_MARK_H

#include "base/catrow.h"
#include "base/key.h"

/* Longest name of a mark in bytes: with the counter table and a key it must fit a btree entry. */
#define DC_MAX_MARK_BYTES 255

/* A row of dcounter.mark. */
typedef struct DcMark
{
	Oid counter;
	char *mark;
	TimestampTz at;
	int64 keys;
} DcMark;

/* A row of dcounter.mark_value: a key of a mark. */
typedef struct DcMarkValue
{
	Oid counter;
	char *mark;
	Datum key;	 /* text */
	int64 value; /* at the mark; 0 for a key that was not there */
	int64 exact; /* what it should have been, */
	bool noted;	 /* if that is known */
	ItemPointerData tid;
	TransactionId xmin;
} DcMarkValue;

/* Values that are being written. */
typedef struct DcMarkWriter DcMarkWriter;

/* markrow.c */
extern void mark_lock(Oid counter, const char *mark);
extern bool mark_find(Oid counter, const char *mark);
extern bool mark_find_in(Oid counter, const char *mark, Snapshot snapshot);
extern void mark_insert(const DcMark *mark);
extern int64 mark_delete(Oid counter, const char *mark);
extern void marks_forget(Oid counter);
extern bool mark_value_find(Oid counter, const char *mark, Datum key, DcMarkValue *value);
extern void mark_value_store(DcMarkValue *value);
extern DcMarkWriter *mark_writer_begin(Oid counter, const char *mark);
extern void mark_writer_add(DcMarkWriter *writer, Datum key, int64 value);
extern int64 mark_writer_end(DcMarkWriter *writer);

#endif /* DC_MARK_H */
