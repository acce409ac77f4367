/*
 * window.h
 *		Windowed counters: increments by bucket of time (see window.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_WINDOW_H
#define DC_WINDOW_H

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "storage/lockdefs.h"
#include "utils/acl.h"
#include "utils/snapshot.h"

#include "base/key.h"
#include "core/table/catalog.h"
#include "time/window/windowtime.h"

/* The treatment of an increment for a bucket that no longer takes any. */
typedef enum DcLate
{
	DC_LATE_ERROR,
	DC_LATE_DROP
} DcLate;

/* The number of the counter table that counts what was dropped. */
#define WINDOW_DROPPED (-1)

/* A row of dcounter.time_window. */
typedef struct DcWindowRow
{
	Oid windowed; /* the view by which the window is known */
	DcLate late;
	TimestampTz refuses; /* increments before this are refused, or 0; */
	TimestampTz sealed;	 /* before this, also none are in progress any longer, or 0 */
	DcLevels levels;
	char time_zone[TZ_STRLEN_MAX + 1]; /* of the levels, or empty */
	int64 version;					   /* raised by each change of values other than an increment */
	TransactionId changed_by;		   /* the transaction that has written this row */
} DcWindowRow;

/* A row of dcounter.window_slot. */
typedef struct DcWindowSlot
{
	Oid slot; /* a counter table */
	Oid windowed;
	int number; /* level * WINDOW_SLOTS + place in the ring, or WINDOW_DROPPED */
} DcWindowSlot;

/* A row of dcounter.window_claim: the slot of a turn may have increments of it. */
typedef struct DcWindowClaim
{
	Oid windowed;
	int level;
	int64 turn;
	bool emptied;		   /* instead: all of them have been moved, this transaction's included */
	TransactionId made_by; /* by this transaction */
} DcWindowClaim;

/* A window as a session remembers it. Entries are never moved or freed. */
typedef struct DcWindow
{
	Oid relid; /* hash key */
	bool valid;
	uint32 generation; /* changes with each refill */
	DcWindowRow row;
	Oid owner;
	Oid slots[WINDOW_MAX_LEVELS * WINDOW_SLOTS]; /* InvalidOid: it is gone */
	Oid dropped;
	int64 claimed[WINDOW_MAX_LEVELS * WINDOW_SLOTS]; /* a turn with a committed claim, or -1 */
	Oid checked;									 /* the role whose rights were checked, */
	AclMode rights;									 /* which it has, */
	uint32 roles;									 /* at this role_changes */
} DcWindow;

/* The sums of a bucket of a key. */
typedef void (*DcWindowVisit)(void *arg, int level, int64 bucket, int64 inc, int64 dec);

/* A window that is open to be read, in the active snapshot. */
typedef struct DcWindowReading
{
	DcWindow *window;
	DcWindowRow row; /* as the snapshot shows it */
	TimestampTz asked_from;
	TimestampTz asked_to;
	bool whole;		  /* with all of the buckets that contain these, */
	TimestampTz from; /* so this is what is read */
	TimestampTz to;
	int nslots;
	int slots[WINDOW_MAX_LEVELS * WINDOW_SLOTS]; /* numbers of those that matter */
} DcWindowReading;

/* Emptying the slot of a turn whose time is up, batch by batch. */
typedef struct DcWindowMove
{
	int level;
	int64 turn;
	bool emptied;			/* its rows have all been moved, by this transaction at the latest; */
	TransactionId noted_by; /* this transaction has noted that */
	StringInfo after;		/* the key of the last row that was looked at */
	StringInfo foreign;		/* that of one that no increment has written, or empty */
	bool done;				/* none follows, */
	bool kept;				/* but some had to stay, */
	bool misfits;			/* some of them as their amounts do not fit into the next level */
} DcWindowMove;

/* window.c */
extern void window_init(void);

/* windowrow.c */
extern bool window_row_read(Oid relid, DcWindowRow *row);
extern bool window_row_read_in(Oid relid, Snapshot snapshot, DcWindowRow *row);
extern void window_row_insert(const DcWindowRow *row);
extern bool window_row_update(const DcWindowRow *row);
extern bool window_row_delete(Oid relid);
extern bool windows_exist(void);
extern List *windows_first_slots(void);
extern List *window_slots_read(Oid relid);
extern bool window_slot_read(Oid slot, DcWindowSlot *row);
extern void window_slot_insert(const DcWindowSlot *row);
extern bool window_slot_delete(Oid slot);
extern List *window_claims_read(Oid relid);
extern void window_claim_insert(Oid relid, int level, int64 turn, bool emptied);
extern void window_claims_delete(Oid relid, int level, int64 turn, bool emptied_only);
extern void window_claims_delete_all(Oid relid);
extern const char *window_late_name(DcLate late);
extern DcLate window_late_from_text(const char *value);
extern const char *window_unit_name(DcUnit unit);
extern DcUnit window_unit_from_text(const char *name);

/* windowopen.c */
extern DcWindow *window_find(Oid relid);
extern DcWindow *window_lookup(Oid relid);
extern Oid window_arg(FunctionCallInfo fcinfo);
extern DcWindow *window_open(Oid relid, AclMode rights);
extern DcWindow *window_open_own(Oid relid);
extern void window_lock(Oid relid);
extern bool window_lock_at_once(Oid relid);
extern DcCounter *window_counter(DcWindow *window, Oid slot, LOCKMODE mode);
extern void window_check_counter(const DcCounter *counter);
pg_noreturn extern void window_slot_gone(const DcWindow *window);
extern bool window_is_whole(const DcWindow *window);

/* windowincr.c */
extern void window_claim(DcWindow *window, int level, int64 turn);

/* windowread.c */
extern TimestampTz window_span_start(const DcWindow *window, const Interval *span, TimestampTz until);
extern void window_read_begin(DcWindow *window, TimestampTz from, TimestampTz to, bool whole,
							  DcWindowReading *reading);
extern void window_read_key(DcWindowReading *reading, const DcKey *key, DcWindowVisit visit,
							void *arg);
extern void window_read_end(DcWindowReading *reading);

/* windowmove.c */
extern bool window_advance(DcWindowRow *row, const List *claims, TimestampTz now, bool at_once);
extern int64 window_move(DcWindow *window, DcWindowMove *move, bool in_worker);
extern bool window_finish(DcWindow *window, DcWindowMove *move, bool in_worker);
extern DcCounter *window_open_slot(DcWindow *window, int number, bool in_worker);

/* windowaside.c */
extern bool window_is_aside(DcWindow *window, const DcWindowMove *move);
extern void window_tell_foreign(DcWindow *window, const DcWindowMove *move, bool in_worker);

/* windowjob.c */
extern void window_job_init(void);

/* windowtable.c */
extern void window_settings_args(FunctionCallInfo fcinfo, DcWindowRow *row);
extern void window_insert(const DcWindowRow *row, const Oid *slots, Oid dropped);
extern char *window_slot_suffix(int number);
extern void window_create_view(const RangeVar *name, const DcWindowRow *row, const Oid *slots);

/* windowview.c */
extern Datum window_digits(int64 bucket);
extern int64 window_number(Datum digits);

/* windowddl.c */
extern const struct DcDdlHook window_ddl;

#endif /* DC_WINDOW_H */
