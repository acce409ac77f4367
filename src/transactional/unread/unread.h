/*
 * unread.h
 *		The messages that members have read of the keys of a counter table (see unread.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_UNREAD_H
#define DC_UNREAD_H

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

#include "core/table/catalog.h"

struct DcSums;

/* A row of dcounter.unread. */
typedef struct DcUnreadRow
{
	Oid unread;
	Oid counter; /* whose increments are read */
} DcUnreadRow;

enum
{
	SEEN_MEMBER,
	SEEN_KEY,
	SEEN_SEEN,
	SEEN_NUM_COLUMNS
};

/* What a session remembers of an unread table. Entries are never moved or freed. */
typedef struct DcUnread
{
	Oid relid; /* hash key */
	bool valid;
	DcUnreadRow row;
	Oid owner;
	bool rls;
	bool checked;  /* what follows is known */
	bool writable; /* nothing is on it but plain indexes */
	DcTableLayout layout;
} DcUnread;

/* An unread table, open for a call. */
typedef struct DcSeenRel
{
	DcUnread *unread;
	LOCKMODE mode;
	Relation heap;
	Relation index;
	struct TupleTableSlot *slot;	/* of reads, or NULL; */
	struct IndexScanDescData *scan; /* likewise, in the snapshot that was active at the first one */
} DcSeenRel;

/* The conditions for lowering a row whose number is too high (unreadseen.c). */
typedef enum DcSeenBack
{
	SEEN_BACK,		 /* yes: number and row are of one snapshot */
	SEEN_BACK_AGAIN, /* once the number was read again, after the row's writer had ended */
	SEEN_NOT_BACK	 /* no: the time of the number is unknown */
} DcSeenBack;

/* How a row is to change. */
typedef struct DcSeenChange
{
	int64 upto; /* to at least this number, */
	int64 all;	/* which is not more than this, the number of the key that was read; */
	int64 add;	/* or, if it is not 0, by this */
	DcSeenBack back;
	TransactionId writer; /* it wrote the row, and ended before the number was read; or invalid */
	bool late;			  /* at the end of the transaction, if there is anything to change */
} DcSeenChange;

/* unread.c */
extern void unread_init(void);

/* unreadopen.c */
extern DcUnread *unread_find(Oid relid);
extern DcUnread *unread_lookup(Oid relid);
extern DcCounter *seenrel_open(FunctionCallInfo fcinfo, const char *function, bool write, DcSeenRel *rel);
extern bool seenrel_open_again(Oid relid, DcSeenRel *rel);
extern bool seenrel_open_at(Oid relid, const DcCounter *counter, DcSeenRel *rel);
extern void seenrel_check(DcSeenRel *rel);
extern void seenrel_end_reads(DcSeenRel *rel);
extern void seenrel_close(DcSeenRel *rel);
extern void unread_check_shape(Relation heap);
extern void unread_check_counter(const DcCounter *counter, const char *function);

/* unreadrow.c */
extern bool unread_read(Oid relid, DcUnreadRow *row);
extern List *unread_read_of(Oid counter);
extern void unread_insert(const DcUnreadRow *row);
extern bool unread_delete(Oid relid);

/* unreadseen.c */
extern Datum seen_channel(void);
extern int64 seen_read(DcSeenRel *rel, Datum member, Datum key);
extern bool seen_any(DcSeenRel *rel, Datum member);
extern bool seen_write(DcSeenRel *rel, Datum member, Datum key, DcSeenChange *change);
extern void seen_write_now(DcSeenRel *rel, Datum member, Datum key, const DcSeenChange *change);
extern int64 seen_changed(const DcSeenChange *change, int64 old);

/* unreadlater.c */
extern void later_init(void);
extern void later_add(Oid relid, Datum member, Datum key, const DcSeenChange *change);
extern int64 later_apply(Oid relid, Datum member, Datum key, int64 seen);
extern bool later_any(Oid relid);
extern bool later_was_written(void);
extern void later_write(void);

/* unreadlost.c */
extern bool unread_is_watched(Oid counter);
extern List *unread_tables(Oid counter);
extern void unread_lost(DcCounter *counter, Datum key, const struct DcSums *sums);

/* unreadddl.c */
extern const struct DcDdlHook unread_ddl;

#endif /* DC_UNREAD_H */
