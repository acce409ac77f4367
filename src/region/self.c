/*
 * self.c
 *		The row of dcounter.self, and marks on it.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The row is changed only under the exclusive lock on the identity (life.h). Apply workers, which
 * find out that this database is not the only one of its epoch, or has missed something, must not
 * wait for that lock, nor lose their finding: their transaction commits, and the rows that they
 * have read do not come again. So they insert rows into dcounter.self_mark, which are about an
 * epoch. Nobody changes these; a renewal removes them, except for those of transactions that have
 * not committed yet. Of the latter, only marks of missed rows matter: the epoch is another one by
 * then. Marks of copies are written under that lock, one for each peer.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/compat.h"
#include "base/xactrooms.h"
#include "region/life.h"

static const char *const state_names[] = {"active", "renew", "recopy"};

/*
 * The last result of region_self(), and the transaction that has asked, for rows that come by the
 * thousand.
 */
static LocalTransactionId known_in = InvalidLocalTransactionId;
static DcIdentity known;
static char known_region[MAX_REGION_BYTES + 1];

/* A row of dcounter.self_mark. */
typedef struct DcSelfMark
{
	int64 epoch;
	char *what;
	Datum peer; /* text, or 0 */
	TimestampTz at;
} DcSelfMark;

static void self_columns(DcCatRow *io, void *data);
static void self_mark_columns(DcCatRow *io, void *data);
static bool mark_is_of_peer(const DcSelfMark *mark, const char *peer);

const DcCatalog selves = {
	.table = "self",
	.pkey = "self_pkey",
	.nkeys = 1,
	.size = sizeof(DcSelfRow),
	.columns = self_columns,
};

static const DcCatalog marks_catalog = {
	.table = "self_mark",
	.size = sizeof(DcSelfMark),
	.columns = self_mark_columns,
};

/*
 * Read or write the columns of dcounter.self, in their order.
 */
static void
self_columns(DcCatRow *io, void *data)
{
	DcSelfRow *row = data;

	cat_string(io, &row->region);
	cat_int8(io, &row->epoch);
	cat_int8(io, &row->system_id);
	cat_int4(io, &row->timeline);
	cat_oid(io, &row->dboid);
	cat_time(io, &row->postmaster_start);
	row->state = cat_choice(io, row->state, state_names, lengthof(state_names));
	cat_datum(io, UUIDOID, &row->boot);
	cat_bool(io, &row->starting);
	cat_time(io, &row->begun_at);
}

/*
 * Read or write the columns of dcounter.self_mark, in their order.
 */
static void
self_mark_columns(DcCatRow *io, void *data)
{
	DcSelfMark *mark = data;

	cat_int8(io, &mark->epoch);
	cat_string(io, &mark->what);
	cat_datum(io, TEXTOID, &mark->peer);
	cat_time(io, &mark->at);
}

/*
 * self_read reads the row; false if this database is not in a region. A row that is being replaced
 * may be missed by one look (base/catrow.c).
 */
bool
self_read(DcSelfRow *row)
{
	List *rows = NIL;

	for (int i = 0; i < 2 && rows == NIL; i++)
		rows = cat_read_all(&selves, SnapshotSelf);
	if (rows == NIL)
		return false;
	*row = *(DcSelfRow *) linitial(rows);
	return true;
}

/*
 * Return the OID of dcounter.self.
 */
Oid
self_relation(void)
{
	return catalog_relation(selves.table);
}

/*
 * Insert the row of this database.
 */
void
self_insert(DcSelfRow *row)
{
	cat_insert(&selves, row);
}

/*
 * Update the row of this database, which must be there. What the transaction remembers of it is
 * forgotten.
 */
void
self_update(const DcSelfRow *row)
{
	if (!cat_update(&selves, row))
		elog(ERROR, "this database is no longer in a region");
	region_forget_self();
}

/*
 * Return true if a row was written in this database, and not in one of which it is a copy, or from
 * which it was restored or promoted. All of these may have published more under its epoch than this
 * database knows. A standby publishes nothing, so it counts as its primary.
 */
bool
self_is_here(const DcSelfRow *row)
{
	return row->system_id == (int64) GetSystemIdentifier() && row->dboid == MyDatabaseId &&
		(RecoveryInProgress() || row->timeline == (int32) GetWALInsertionTimeLine());
}

/*
 * Return true if this database has sealed the amounts from before this server was started. A crash
 * from which the server recovers by itself does not count as a start: it has the same data.
 */
bool
self_is_begun(const DcSelfRow *row)
{
	return self_is_here(row) && row->postmaster_start == PgStartTime;
}

/*
 * self_here sets the fields that say where a row was written: system, timeline, database and start
 * of the server.
 */
void
self_here(DcSelfRow *row)
{
	row->system_id = (int64) GetSystemIdentifier();
	row->timeline = (int32) GetWALInsertionTimeLine();
	row->dboid = MyDatabaseId;
	row->postmaster_start = PgStartTime;
	row->begun_at = GetCurrentTimestamp();
}

/*
 * self_new_boot returns a random uuid, of version 4.
 */
Datum
self_new_boot(void)
{
	pg_uuid_t *uuid = palloc(sizeof(pg_uuid_t));

	if (!pg_strong_random(uuid->data, UUID_LEN))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
	uuid->data[6] = (uuid->data[6] & 0x0f) | 0x40;
	uuid->data[8] = (uuid->data[8] & 0x3f) | 0x80;
	return UUIDPGetDatum(uuid);
}

/*
 * self_next_boot returns another boot of the series of one that was not confirmed (life.h): the
 * first half is the same.
 */
Datum
self_next_boot(Datum boot)
{
	Datum next = self_new_boot();

	memcpy(DatumGetUUIDP(next)->data, DatumGetUUIDP(boot)->data, UUID_LEN / 2);
	return next;
}

/*
 * Return true if two boots, as text, are of one series.
 */
bool
boots_are_of_series(const char *a, const char *b)
{
	return strncmp(a, b, BOOT_SERIES_LEN) == 0;
}

/*
 * self_marks reads the marks.
 */
void
self_marks(const DcSelfRow *row, DcSelfMarks *marks)
{
	ListCell *lc;

	*marks = (DcSelfMarks){.recopy_at = DT_NOBEGIN, .since = DT_NOBEGIN};
	foreach(lc, cat_read_all(&marks_catalog, SnapshotSelf))
	{
		const DcSelfMark *mark = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		/* rows that came while the epoch was taken were missed anyway */
		if (mark->epoch <= row->epoch && strcmp(mark->what, "recopy") == 0)
		{
			marks->recopy = true;
			marks->recopy_at = Max(marks->recopy_at, mark->at);
		}
		if (mark->epoch != row->epoch)
			continue;
		marks->renew |= strcmp(mark->what, "renew") == 0;
		marks->retired |= strcmp(mark->what, "retired") == 0;
		marks->alone |= strcmp(mark->what, "alone") == 0;
		if (strcmp(mark->what, "since") == 0)
			marks->since = mark->at;
	}
}

/*
 * self_mark adds a mark, unless there is an equivalent one.
 */
void
self_mark(int64 epoch, const char *what, TimestampTz at)
{
	DcSelfMark new = {epoch, unconstify(char *, what), (Datum) 0, at};
	TimestampTz copied_at = DT_NOBEGIN;
	bool found = false;
	TimestampTz found_at = DT_NOBEGIN;
	ListCell *lc;

	foreach(lc, cat_read_all(&marks_catalog, SnapshotSelf))
	{
		const DcSelfMark *mark = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (mark->epoch != epoch)
			continue;
		if (mark->peer != (Datum) 0)
			copied_at = Max(copied_at, mark->at);
		else if (strcmp(mark->what, what) == 0)
		{
			found = true;
			found_at = Max(found_at, mark->at);
		}
	}
	/* a mark that is older than a copy says nothing about rows missed since */
	if (found && found_at >= copied_at)
		return;
	cat_insert(&marks_catalog, &new);
}

/*
 * Mark that all that a peer had at a time was copied, in place of what was marked of an earlier
 * copy. The caller has the lock on the identity, exclusively.
 */
void
self_mark_copied(int64 epoch, const char *peer, TimestampTz at)
{
	char copied[] = "copied";
	DcSelfMark new = {epoch, copied, CStringGetTextDatum(peer), at};
	DcCatScan scan;
	DcSelfMark mark;

	cat_scan_begin(&scan, &marks_catalog, NULL, RowExclusiveLock, NULL, 0);
	while (cat_scan_next(&scan, ForwardScanDirection, &mark))
	{
		CHECK_FOR_INTERRUPTS();
		if (mark.epoch != epoch || !mark_is_of_peer(&mark, peer))
			continue;
		new.at = Max(new.at, mark.at);
		cat_scan_delete(&scan);
	}
	cat_scan_end(&scan);
	CommandCounterIncrement();
	cat_insert(&marks_catalog, &new);
}

/*
 * Return true if a mark is about a copy from a peer.
 */
static bool
mark_is_of_peer(const DcSelfMark *mark, const char *peer)
{
	return mark->peer != (Datum) 0 && strcmp(TextDatumGetCString(mark->peer), peer) == 0;
}

/*
 * self_copied_at returns since when this database has all that a peer had; DT_NOBEGIN: it was
 * not copied.
 */
TimestampTz
self_copied_at(int64 epoch, const char *peer)
{
	TimestampTz at = DT_NOBEGIN;
	ListCell *lc;

	foreach(lc, cat_read_all(&marks_catalog, SnapshotSelf))
	{
		const DcSelfMark *mark = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		if (mark->epoch == epoch && mark_is_of_peer(mark, peer))
			at = Max(at, mark->at);
	}
	return at;
}

/*
 * self_forget_marks removes the marks of copies, except for those made in the meantime; or all
 * marks of an epoch, and of earlier ones. The caller has the lock on the identity.
 */
void
self_forget_marks(int64 epoch, bool all)
{
	DcCatScan scan;
	DcSelfMark mark;

	cat_scan_begin(&scan, &marks_catalog, NULL, RowExclusiveLock, NULL, 0);
	while (cat_scan_next(&scan, ForwardScanDirection, &mark))
	{
		if (mark.epoch <= epoch && (all || mark.peer != (Datum) 0 || strcmp(mark.what, "recopy") == 0 || strcmp(mark.what, "since") == 0))
			cat_scan_delete(&scan);
	}
	cat_scan_end(&scan);
	CommandCounterIncrement();
}

/*
 * epoch_time returns when an epoch was taken.
 */
TimestampTz
epoch_time(int64 epoch)
{
	return (epoch >> EPOCH_RANDOM_BITS) - EPOCH_DIFF;
}

/*
 * Return true if this database must no longer publish under its epoch.
 */
bool
self_needs_renew(const DcSelfRow *row)
{
	DcSelfMarks marks;

	if (row->state == SELF_RENEW || !self_is_here(row))
		return true;
	self_marks(row, &marks);
	return marks.renew;
}

/*
 * region_self sets the region and the epoch of this database, even if it may not publish; false if
 * it has none. Within a transaction the answer stays the same.
 */
bool
region_self(DcIdentity *identity)
{
	LocalTransactionId xid = compat_local_xid();
	DcSelfRow row;

	if (known_in != xid || xid == InvalidLocalTransactionId)
	{
		known_in = InvalidLocalTransactionId;
		known_region[0] = '\0';
		if (self_read(&row))
		{
			strlcpy(known_region, row.region, sizeof(known_region));
			known = (DcIdentity){known_region, row.epoch};
		}
		xact_mark(DC_XACT_REGION); /* which forgets it */
		known_in = xid;
	}
	*identity = known;
	return known_region[0] != '\0';
}

/*
 * region_forget_self forgets what was read: it has changed.
 */
void
region_forget_self(void)
{
	known_in = InvalidLocalTransactionId;
}
