/*
 * beatmerge.c
 *		The trigger for heartbeats that come from other regions; and finding out, from heartbeats and rows, that
 *		this database is not the only one of its epoch.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Of two heartbeats of an epoch the one with the greater number is kept. One of another series of boots (life.h) is taken only if
 * what is known of the series before is older than that one's first heartbeat: if two databases
 * count under one epoch, each keeps to the one that it has heard, and tells the others which one that is. Of the other one it keeps
 * the number, if that is greater: it has what was published until then, and a snapshot that begins with an earlier one lacks that.
 *
 * A heartbeat of the own epoch is not taken. If it, or what its sender has seen, has a number of this
 * series or a later one under another series, there is another database, or there was: this one must renew. So it must if it is
 * starting and its sender has heard of a later epoch of this region: then it was set back to before it took that.
 *
 * Heartbeats come without gaps. Where there is one, rows that went with it are missing as well (recopy). That is so for
 * updates alone: a row that is inserted is the first one, or one that is copied.
 *
 * Locks. The row that an update is about is locked by the caller. A row that is inserted may come by another
 * link at the same moment, so it is looked for under an advisory lock of its region and epoch; one that
 * is there is locked afterwards. Who updates takes no such lock, so no deadlock.
 *
 * That a region is retired is kept from either side, and cannot be undone, but by a later epoch. A database that has heard
 * less of a retired region than another one, as it came later, lacks what that one has counted (recopy). That goes by updates
 * alone, too: a copy may bring the heartbeats of others before those of the retired region, which come with it.
 *
 * A trigger function of any table: it raises an error if that is not dcounter.region.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/activity.h"
#include "base/compat.h"
#include "base/key.h"
#include "region/life.h"
#include "region/link.h"
#include "region/merge.h"
#include "region/series.h"

PG_FUNCTION_INFO_V1(merge_beat);

/* Of the year 2200: a renewal takes an epoch that is later than all that are known of the region. */
#define MAX_EPOCH (INT64CONST(7258118400000000) << 10)

static const char *beat_problem(const DcBeat *come);
static bool is_own(const DcBeat *come);
static HeapTuple merge_new_beat(Relation rel, HeapTuple tuple, DcBeat *come);
static HeapTuple merge_changed_beat(Relation rel, HeapTuple tuple, const DcBeat *have, const DcBeat *come);
static bool look_at_beat(const DcBeat *have, const DcBeat *come, bool copied);
static void look_at_own(const DcSelfRow *self, int64 epoch, int64 seq, const char *boot, TimestampTz retired_at);
static void look_at_earlier(const DcSelfRow *self, int64 epoch, int64 seq, const char *boot);
static void mark_renew(const DcSelfRow *self);
static void await_own_beat(void);
static bool beatmerge_better(const DcBeat *have, const DcBeat *come, bool copied, DcBeat *better);
static void look_at_retired(const DcSelfRow *self, const DcBeat *come, bool copied);
static void look_for_retired(const DcSelfRow *self, const DcBeat *come);

/*
 * merge_beat() -> trigger, BEFORE INSERT OR UPDATE FOR EACH ROW
 *
 * A row that no region would send is passed over (passedover.c).
 */
Datum
merge_beat(PG_FUNCTION_ARGS)
{
	TriggerData *data = merge_trigger_data(fcinfo, "merge_beat()");
	Relation rel = data->tg_relation;
	bool update = TRIGGER_FIRED_BY_UPDATE(data->tg_event);
	HeapTuple tuple = update ? data->tg_newtuple : data->tg_trigtuple;
	const char *problem;
	DcBeat have;
	DcBeat come;

	if (RelationGetRelid(rel) != beats_relation())
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s can only be a trigger of the extension's own table", "merge_beat()")));
	problem = beat_read_tuple(rel, tuple, &come) ? beat_problem(&come) : _("A column is null.");
	if (problem == NULL && update &&
		(!beat_read_tuple(rel, data->tg_trigtuple, &have) || strcmp(have.region, come.region) != 0 || have.epoch != come.epoch))
		problem = _("It is to become that of another region or epoch.");
	if (problem != NULL)
		return region_row_passed_over(rel, NULL, problem);
	return PointerGetDatum(update ? merge_changed_beat(rel, tuple, &have, &come) : merge_new_beat(rel, tuple, &come));
}

/*
 * beat_problem returns what is wrong with a heartbeat that would be in the way of others, or say that there is nothing to
 * wait for, as a sentence, or NULL.
 */
static const char *
beat_problem(const DcBeat *come)
{
	if (!region_name_is_valid(come->region))
		return _("The region has no name that is valid.");
	if (come->epoch <= 0 || come->epoch > MAX_EPOCH)
		return _("The epoch is out of range.");
	if (TIMESTAMP_NOT_FINITE(come->beat_at) || TIMESTAMP_NOT_FINITE(come->retired_at))
		return _("A time is out of range.");
	return NULL;
}

/*
 * Return true if a heartbeat is of the own epoch, whose row is written here alone, and may be locked for a
 * renewal.
 */
static bool
is_own(const DcBeat *come)
{
	DcSelfRow self;

	return self_read(&self) && strcmp(come->region, self.region) == 0 && come->epoch == self.epoch;
}

/*
 * Merge a heartbeat that comes as an insertion. Return the tuple if it is to be inserted; NULL if
 * it is of this database, is known already, or was merged here into the row that there is.
 */
static HeapTuple
merge_new_beat(Relation rel, HeapTuple tuple, DcBeat *come)
{
	uint32 hash = hash_bytes_uint32((uint32) (come->epoch >> 10)) ^
		hash_bytes((const unsigned char *) come->region, (int) strlen(come->region));
	ItemPointerData tid;
	DcBeat have;
	DcBeat result;

	if (is_own(come))
	{
		(void) look_at_beat(NULL, come, true);
		return NULL;
	}
	(void) advisory_lock(REGION_LOCK_CLASS, hash, HEARD_LOCK, ExclusiveLock, true);
	if (!beat_lock(come->region, come->epoch, &have, &tid))
	{
		activity_note(beats_relation());
		return look_at_beat(NULL, come, true) ? tuple : NULL;
	}
	if (look_at_beat(&have, come, true) && beatmerge_better(&have, come, true, &result))
		beat_store(&tid, &result);
	return NULL;
}

/*
 * Merge a heartbeat that comes as an update of a row, which the caller has locked. Return the new
 * version of the row, or NULL if it brings nothing new.
 */
static HeapTuple
merge_changed_beat(Relation rel, HeapTuple tuple, const DcBeat *have, const DcBeat *come)
{
	DcBeat result;

	if (!look_at_beat(have, come, false) || !beatmerge_better(have, come, false, &result))
		return NULL;
	return beat_form_tuple(rel, &result);
}

/*
 * look_at_beat looks at what a heartbeat says of the own epoch; false if the heartbeat is none to be taken.
 */
static bool
look_at_beat(const DcBeat *have, const DcBeat *come, bool copied)
{
	DcSelfRow self;
	DcSeen seen;

	if (!self_read(&self))
		return true; /* in no region: an onlooker */
	look_at_retired(&self, come, copied);
	if (strcmp(come->region, self.region) == 0 && come->epoch == self.epoch)
	{
		look_at_own(&self, come->epoch, come->seq, boot_text(come->boot), come->retired_at);
		return false;
	}
	if (strcmp(come->region, self.region) == 0 && come->epoch < self.epoch)
		look_at_own(&self, come->epoch, come->seq, boot_text(come->boot), 0);
	if (seen_get(come, self.region, &seen))
		look_at_own(&self, seen.epoch, seen.seq, seen.boot, seen.retired_at);
	if (strcmp(come->region, self.region) == 0 && have == NULL && come->epoch > self.epoch)
		ereport(LOG,
				(errmsg("another database counts in region \"%s\", too", self.region)));
	return true;
}

/*
 * Check what another region has heard of this one: if it has heard of another database of the same
 * epoch, or this one was set back, mark that this database must renew. Also note that it was
 * retired.
 */
static void
look_at_own(const DcSelfRow *self, int64 epoch, int64 seq, const char *boot, TimestampTz retired_at)
{
	ItemPointerData tid;
	DcSelfRow now;
	DcBeat own;

	if (epoch < self->epoch)
		look_at_earlier(self, epoch, seq, boot);
	/* a start that is of before a renewal: nobody who has heard of that confirms it */
	if (epoch > self->epoch && self->starting)
	{
		await_own_beat();
		if (self_read(&now) && now.epoch == self->epoch && now.starting)
			mark_renew(self);
	}
	if (epoch != self->epoch || !beat_find(self->region, epoch, &own, &tid))
		return;
	if (series_is_taken(seq, boots_are_of_series(boot, boot_text(own.boot)), own.first))
		await_own_beat();
	if (beat_find(self->region, epoch, &own, &tid) && series_is_taken(seq, boots_are_of_series(boot, boot_text(own.boot)), own.first))
		mark_renew(self);
	if (retired_at != 0)
		self_mark(epoch, "retired", NULL, retired_at);
}

/*
 * look_at_earlier looks at what a heartbeat says of an earlier epoch of this region. If that is more than this database has, it is a snapshot
 * of one that has gone on. It must renew if it has taken its epoch when no other region was known. If the others are to say that it
 * lacks nothing (renew.c), it does: that is marked before the heartbeat is merged, as nothing shows it afterwards. The mark is as of when the
 * state began, as the heartbeat may be one of a copy that is to end it.
 */
static void
look_at_earlier(const DcSelfRow *self, int64 epoch, int64 seq, const char *boot)
{
	DcSeen seen = {.epoch = epoch, .seq = seq};
	DcSelfMarks marks;
	bool asks;

	self_marks(self, &marks);
	asks = marks.since != DT_NOBEGIN && epoch_time(epoch) >= marks.since;
	strlcpy(seen.boot, boot, sizeof(seen.boot));
	if ((!marks.alone && !asks) || !epoch_was_continued(self->region, &seen))
		return;
	if (marks.alone)
		mark_renew(self);
	else
		self_mark(self->epoch, "recopy", NULL, self->begun_at);
}

/*
 * epoch_was_continued returns true if another database has heard more of an earlier epoch of this region than this one has of it.
 */
bool
epoch_was_continued(const char *region, const DcSeen *seen)
{
	ItemPointerData tid;
	DcBeat own;

	if (!beat_find(region, seen->epoch, &own, &tid))
		return true;
	return series_goes_on(seen->seq, boots_are_of_series(seen->boot, boot_text(own.boot)), own.seq, own.first);
}

/*
 * mark_renew notes that another database has counted under the epoch of this one, or after it.
 */
static void
mark_renew(const DcSelfRow *self)
{
	self_mark(self->epoch, "renew", NULL, GetCurrentTimestamp());
	self_mark(self->epoch, "recopy", NULL, GetCurrentTimestamp());
	activity_note(beats_relation());
}

/*
 * await_own_beat waits for a transaction that has raised the own beat. Others may have heard of its commit before it
 * is seen here: it is sent when it is on disk here, and seen when a synchronous standby has confirmed it as well.
 */
static void
await_own_beat(void)
{
	(void) advisory_lock(REGION_LOCK_CLASS, 0, BEAT_LOCK, ShareLock, true);
	advisory_unlock(REGION_LOCK_CLASS, 0, BEAT_LOCK, ShareLock);
}

/*
 * beatmerge_better makes of two heartbeats of an epoch the one to keep; false if that is the one that is there. Says if one
 * was missed between them.
 */
static bool
beatmerge_better(const DcBeat *have, const DcBeat *come, bool copied, DcBeat *result)
{
	TimestampTz retired_at = Max(have->retired_at, come->retired_at);
	bool later = come->seq > have->seq;
	DcSelfRow self;
	bool new_boot = strcmp(boot_text(have->boot), boot_text(come->boot)) != 0;
	/* of another series, which does not follow the one that is known */
	bool conflicts = have->boot != (Datum) 0 &&
		!series_follows(have->seq, boots_are_of_series(boot_text(have->boot), boot_text(come->boot)), come->first);

	*result = later && !conflicts ? *come : *have;
	result->seq = Max(have->seq, come->seq);
	result->retired_at = retired_at;
	if (later && !conflicts && !copied && come->seq > have->seq + 1 && self_read(&self))
		self_mark(self.epoch, "recopy", NULL, GetCurrentTimestamp());
	if (later && !conflicts && new_boot)
		activity_note(beats_relation()); /* which is told soon */
	return later || retired_at != have->retired_at;
}

/*
 * look_at_retired keeps what a region tells of others that are retired.
 */
static void
look_at_retired(const DcSelfRow *self, const DcBeat *come, bool copied)
{
	ListCell *lc;

	if (!copied)
		look_for_retired(self, come);

	foreach(lc, beats_all())
	{
		DcBeat *beat = lfirst(lc);
		ItemPointerData tid;
		DcSeen seen;

		if (beat->retired_at != 0 || strcmp(beat->region, come->region) == 0 ||
			strcmp(beat->region, self->region) == 0 || !seen_get(come, beat->region, &seen) ||
			seen.retired_at == 0 || beat->epoch > seen.epoch)
			continue;
		if (beat_lock(beat->region, beat->epoch, beat, &tid) && beat->retired_at == 0)
		{
			beat->retired_at = seen.retired_at;
			beat_store(&tid, beat);
		}
	}
}

/*
 * look_for_retired marks that this database may lack what a region has counted that is retired: another one has heard more of
 * it, and there is no link by which that could still come. It comes with all that the other one knows (dc_region_refresh). While
 * that is copied nothing is marked, as the end of it would not remove the mark: the next heartbeat looks again.
 */
static void
look_for_retired(const DcSelfRow *self, const DcBeat *come)
{
	ListCell *lc;

	foreach(lc, seen_regions(come))
	{
		const char *region = lfirst(lc);
		bool known = strcmp(region, self->region) == 0;
		ListCell *lc2;
		DcSeen seen;

		if (!region_name_is_valid(region) || !seen_get(come, region, &seen) || seen.retired_at == 0)
			continue;
		foreach(lc2, beats_all())
		{
			const DcBeat *beat = lfirst(lc2);

			known |= strcmp(beat->region, region) == 0 &&
				(beat->epoch > seen.epoch || (beat->epoch == seen.epoch && beat->seq >= seen.seq));
		}
		if (!known && link_find(psprintf(LINK_PREFIX "%s", region)) == NULL && !link_refreshes())
			self_mark(self->epoch, "recopy", NULL, GetCurrentTimestamp());
	}
}

/*
 * Return true if a row of a region says more of an epoch that is this database's own than it has
 * itself, as the caller has seen it after all that were writing it (region_row_is_foreign). Then this database is a
 * copy of another one, or a copy of it has published what it
 * had not. The row must not be merged before what was counted here is folded into that slot: so
 * this marks the database as one that must renew, and, as the row will not come again, have all copied then.
 *
 * The owner of a table can write such a row by hand, elsewhere, and to renew costs all stocks of the database their
 * units. So that is marked for a row of a superuser's table only. A copy is found out by its heartbeats as well, one of which
 * comes in each transaction that publishes, after the rows. But that all must be copied is marked for each: a row that is passed
 * over does not come again.
 */
bool
slot_is_foreign(DcCounter *counter, Relation rel, const DcRegionRow *come, int64 have_inc, int64 have_dec)
{
	DcIdentity self;
	TimestampTz now;

	if ((come->inc <= have_inc && come->dec <= have_dec) || !slot_is_own(come, &self))
		return false;
	now = GetCurrentTimestamp();
	self_mark(self.epoch, "recopy", NULL, now);
	if (superuser_arg(counter->owner))
		self_mark(self.epoch, "renew", NULL, now);
	else
		(void) region_row_passed_over(rel, counter, _("It has more of this region than the region has."));
	activity_note(beats_relation());
	return true;
}

/*
 * Return true if a row is one of this database's own, and sets what that is.
 */
bool
slot_is_own(const DcRegionRow *row, DcIdentity *self)
{
	return region_self(self) && region_epoch_is_own(self, row->epoch) &&
		batch_key_equal(row->region, CStringGetTextDatum(self->region));
}

/*
 * slot_is_sealed returns true if a row that comes is of an older epoch of this database's own, under which it has sealed
 * amounts of the key that are not folded yet (seal.c). It is passed over, and all is to be copied again, as by slot_is_foreign().
 */
bool
slot_is_sealed(DcRegionRel *rel, const DcRegionRow *come)
{
	DcRegionRow wanted = *come;
	DcIdentity self;
	DcRegionRow sealed;

	if (!region_self(&self) || come->epoch >= self.epoch ||
		!batch_key_equal(come->region, CStringGetTextDatum(self.region)))
		return false;
	wanted.epoch = -come->epoch;
	if (!region_row_find_last(rel, &wanted, wanted.epoch + REGION_EPOCH_SLOTS, &sealed))
		return false;
	self_mark(self.epoch, "recopy", NULL, GetCurrentTimestamp());
	(void) region_row_passed_over(rel->heap, rel->counter, _("It is of an epoch under which this region has yet to publish."));
	activity_note(beats_relation());
	return true;
}
