/*
 * beatmerge.c
 *		The trigger for heartbeats that come from other regions; and finding out, from heartbeats and rows, that
 *		this database is not the only one of its epoch.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Of two heartbeats of an epoch the one with the greater number is kept. A heartbeat of another
 * series of boots (life.h) is taken only if all that is known of the previous series is older than
 * the first heartbeat of the new one. If two databases count under one epoch, each region keeps to
 * the one that it knows, and its heartbeats say which one that is. It also keeps the other one's
 * number, if that is greater: it has the rows that were published until then, and a snapshot that
 * begins with an earlier number lacks them.
 *
 * A heartbeat of this database's own epoch is not taken. If it, or its sender's column `seen`, has
 * a number at or after this series' under another series, there is, or was, another database: this
 * one must renew. It must also renew if it is starting and the sender knows a later epoch of this
 * region: then this database was set back to a time before it took that epoch.
 *
 * Heartbeats come without gaps. Where there is one, rows that went with it are missing as well
 * (recopy). That holds only for updates: a row that is inserted is the first one, or one that is
 * copied.
 *
 * Locks. The row that an update is about is locked by the caller. A row that is inserted may come
 * by another link at the same moment, so it is searched for under an advisory lock of its region
 * and epoch; an existing one is locked afterwards. Updates take no such lock, so there is no
 * deadlock.
 *
 * If either heartbeat says that a region is retired, that is kept, and only a later epoch undoes
 * it. A database that knows less of a retired region than another one, as it came later, lacks rows
 * of that region (recopy). That is also checked only in updates: a copy may bring the heartbeats of
 * others before those of the retired region, which come with it.
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

/*
 * Of the year 2200: a renewal takes an epoch that is later than all that are known of the region.
 */
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
static void note_retired(const List *beats, const DcSeen *seen);
static void look_for_retired(const DcSelfRow *self, const char *region, const DcSeen *seen, const List *beats);

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
		problem = _("It would become the row of another region or epoch.");
	if (problem != NULL)
		return region_row_passed_over(rel, NULL, problem);
	return PointerGetDatum(update ? merge_changed_beat(rel, tuple, &have, &come) : merge_new_beat(rel, tuple, &come));
}

/*
 * beat_problem returns why a heartbeat must not be taken, as a sentence, or NULL: it would stand in
 * the way of others, or end waits that must continue.
 */
static const char *
beat_problem(const DcBeat *come)
{
	if (!region_name_is_valid(come->region))
		return _("The name of the region is not valid.");
	if (come->epoch <= 0 || come->epoch > MAX_EPOCH)
		return _("The epoch is out of range.");
	if (TIMESTAMP_NOT_FINITE(come->beat_at) || TIMESTAMP_NOT_FINITE(come->retired_at))
		return _("A time is out of range.");
	return NULL;
}

/*
 * Return true if a heartbeat is of this database's epoch, whose row only this database writes, and
 * may have locked for a renewal.
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
 * look_at_beat checks what a heartbeat says about this database's epoch; false if the heartbeat
 * must not be taken.
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
				(errmsg("another database also counts in region \"%s\"", self.region)));
	return true;
}

/*
 * Check what another region knows of this one: if it knows another database of the same epoch, or
 * this one was set back, mark that this database must renew. Also note that it was retired.
 */
static void
look_at_own(const DcSelfRow *self, int64 epoch, int64 seq, const char *boot, TimestampTz retired_at)
{
	ItemPointerData tid;
	DcSelfRow now;
	DcBeat own;

	if (epoch < self->epoch)
		look_at_earlier(self, epoch, seq, boot);
	/* a start from before a renewal: no region that knows of the renewal confirms it */
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
		self_mark(epoch, "retired", retired_at);
}

/*
 * look_at_earlier checks what a heartbeat says of an earlier epoch of this region. If that is more
 * than this database has, this is a snapshot of a database that has gone on. It must renew if it
 * has taken its epoch when no other region was known. If it is waiting for the others to say that
 * it lacks nothing (renew.c), then it does lack something: that is marked before the heartbeat is
 * merged, as nothing shows it afterwards. The mark has the time at which the state began, as the
 * heartbeat may come with the copy that will end it.
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
		self_mark(self->epoch, "recopy", self->begun_at);
}

/*
 * epoch_was_continued returns true if another region knows more of an earlier epoch of this region
 * than this database has.
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
	self_mark(self->epoch, "renew", GetCurrentTimestamp());
	self_mark(self->epoch, "recopy", GetCurrentTimestamp());
	activity_note(beats_relation());
}

/*
 * await_own_beat waits for a transaction that has raised this database's heartbeat. Others may know
 * of its commit before it is visible here: it is sent when it is on disk here, but visible only
 * when a synchronous standby has confirmed it, too.
 */
static void
await_own_beat(void)
{
	(void) advisory_lock(REGION_LOCK_CLASS, 0, BEAT_LOCK, ShareLock, true);
	advisory_unlock(REGION_LOCK_CLASS, 0, BEAT_LOCK, ShareLock);
}

/*
 * beatmerge_better combines two heartbeats of an epoch into the one to keep; false if that is the
 * existing one. Notes if one was missed between them.
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
		self_mark(self.epoch, "recopy", GetCurrentTimestamp());
	if (later && !conflicts && new_boot)
		activity_note(beats_relation()); /* which will be sent soon */
	return later || retired_at != have->retired_at;
}

/*
 * look_at_retired marks regions as retired that a heartbeat says are. Only rows of these are read,
 * so usually none.
 */
static void
look_at_retired(const DcSelfRow *self, const DcBeat *come, bool copied)
{
	ListCell *lc;

	foreach(lc, seen_regions(come))
	{
		const char *region = lfirst(lc);
		List *beats;
		DcSeen seen;

		if (!region_name_is_valid(region) || !seen_get(come, region, &seen) || seen.retired_at == 0)
			continue;
		beats = beats_of(region);
		if (!copied)
			look_for_retired(self, region, &seen, beats);
		if (strcmp(region, come->region) != 0 && strcmp(region, self->region) != 0)
			note_retired(beats, &seen);
	}
}

/*
 * Mark the epochs of a region as retired that another one says are.
 */
static void
note_retired(const List *beats, const DcSeen *seen)
{
	ListCell *lc;

	foreach(lc, beats)
	{
		DcBeat *beat = lfirst(lc);
		ItemPointerData tid;

		if (beat->retired_at != 0 || beat->epoch > seen->epoch)
			continue;
		if (beat_lock(beat->region, beat->epoch, beat, &tid) && beat->retired_at == 0)
		{
			beat->retired_at = seen->retired_at;
			beat_store(&tid, beat);
		}
	}
}

/*
 * look_for_retired marks that this database may lack rows of a retired region: another region knows
 * more of it, and there is no link by which the rows could still come. A refresh from the other
 * region (dc_region_refresh) brings them. During a refresh nothing is marked, as its end would not
 * remove the mark: the next heartbeat checks again.
 */
static void
look_for_retired(const DcSelfRow *self, const char *region, const DcSeen *seen, const List *beats)
{
	bool known = strcmp(region, self->region) == 0;
	ListCell *lc;

	foreach(lc, beats)
	{
		const DcBeat *beat = lfirst(lc);

		known |= beat->epoch > seen->epoch || (beat->epoch == seen->epoch && beat->seq >= seen->seq);
	}
	if (!known && link_find(psprintf(LINK_PREFIX "%s", region)) == NULL && !link_refreshes())
		self_mark(self->epoch, "recopy", GetCurrentTimestamp());
}

/*
 * Return true if a row has more of this database's own epoch than the database itself, as the
 * caller has found after waiting for its writers (region_row_is_foreign). Then this database is a
 * copy of another one, or a copy of it has published amounts that it has not. The row must not be
 * merged before local amounts are folded into that slot: so this marks the database as one that
 * must renew and, as the row will not come again, must then copy everything.
 *
 * The owner of a table can write such a row directly in another region, and a renewal costs all
 * stocks of the database their units. So a renewal is marked only for rows of a superuser's table.
 * Heartbeats, one of which comes after the rows of each transaction that publishes, reveal a copy
 * as well. But each such row marks that everything must be copied, as a row that is passed over
 * does not come again.
 */
bool
slot_is_foreign(DcCounter *counter, Relation rel, const DcRegionRow *come, int64 have_inc, int64 have_dec)
{
	DcIdentity self;
	TimestampTz now;

	if ((come->inc <= have_inc && come->dec <= have_dec) || !slot_is_own(come, &self))
		return false;
	now = GetCurrentTimestamp();
	self_mark(self.epoch, "recopy", now);
	if (superuser_arg(counter->owner))
		self_mark(self.epoch, "renew", now);
	else
		(void) region_row_passed_over(rel, counter, _("It has larger amounts of this region than the region itself."));
	activity_note(beats_relation());
	return true;
}

/*
 * Return true if a row is of a slot of this database, and set *self to its region and epoch.
 */
bool
slot_is_own(const DcRegionRow *row, DcIdentity *self)
{
	return region_self(self) && region_epoch_is_own(self, row->epoch) &&
		batch_key_equal(row->region, CStringGetTextDatum(self->region));
}

/*
 * slot_is_sealed returns true if a row is of an older epoch of this database, under which it has
 * sealed amounts of the key that are not folded yet (seal.c). The row is passed over, and
 * everything must be copied again, as with slot_is_foreign().
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
	self_mark(self.epoch, "recopy", GetCurrentTimestamp());
	(void) region_row_passed_over(rel->heap, rel->counter, _("It is of an epoch under which this region has not published everything yet."));
	activity_note(beats_relation());
	return true;
}
