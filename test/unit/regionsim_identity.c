/*
 * regionsim_identity.c
 *		Under which epoch a database publishes, and when it takes a new one.
 *
 * A database that was restored, promoted or copied finds that out itself, except for one that comes
 * from a snapshot of the disk. So after each start a database publishes nothing until each other
 * one has told that it has heard of this boot, and of no later beat of another.
 *
 *	- Each transaction that publishes has a beat of its own, so that who knows more of an epoch
 *	  than a snapshot of it also knows a beat that the snapshot does not.
 *	- A beat says which was the first of its boot. Who knows a later one of another boot
 *	  does not take it, and so tells that other boot to all.
 *	- A boot that comes before the one before was confirmed is of the same series, whose first beat stays what it
 *	  was: else each start would bring a snapshot nearer to outgrowing what others know. When it is
 *	  confirmed, or given up, the series ends, so what is published is none of it.
 *	- What had been counted and not published is sealed at the start: it may be published
 *	  already, so it can only go to the old epoch. What is counted afterwards is not, and
 *	  the old epoch may have outgrown it elsewhere, so it can only go to the new one.
 *	  A second start before the handshake is over seals nothing more.
 *	- A database that knows no other region has nobody who could confirm a start. It takes a new epoch instead.
 *	- A database whose start nobody has confirmed for too long takes a new epoch, and asks the others with its beats what they have
 *	  heard of the epochs before. If each says that it has heard no more than this database knows, nothing is missing.
 *	- Beats come without gaps. Where there is one, rows that went with it are missing as well.
 */
#include "regionsim.h"

#include "region/series.h"

static void fold(Sim *sim, Database *db, bool rows);
static void renew_alone(Sim *sim, Database *db);

/* What was counted goes to the totals, as it would by compaction, but to no slot yet. */
void
seal(Database *db)
{
	for (int i = 0; i < db->nrows; i++)
	{
		db->totals[db->rows[i].key].inc += db->rows[i].slot.amounts.inc;
		db->totals[db->rows[i].key].dec += db->rows[i].slot.amounts.dec;
		slot_add(&db->sealed[db->rows[i].key], &db->rows[i].slot);
	}
	db->nrows = 0;
}

void
new_series(Sim *sim, Database *db)
{
	db->boot = ++sim->boots;
	db->series = db->boot;
	db->first = db->beats[db->epoch].heard.seq + 1;
}

/* A server starts. */
void
begin(Sim *sim, Database *db)
{
	if (db->starting && sim->fault != START_CLIMBS)
		db->boot = ++sim->boots;
	else
		new_series(sim, db);
	if (sim->fault == NO_HANDSHAKE && !db->renew)
		return;
	if (!db->knows && !db->renew)
	{
		if (sim->fault != ALONE_KEPT)
			renew_alone(sim, db);
		return;
	}
	if (!db->starting && sim->fault != NO_SEAL)
		seal(db);
	db->starting = true;
	if (!db->renew)
		beat(sim, db);
}

/* The latest epoch of a region that is among these. */
static int
latest(const Sim *sim, const Heard *heard, size_t stride, int region)
{
	int epoch = sim->epochs - 1;

	while (epoch >= 0 && (sim->region_of[epoch] != region || ((const Heard *) ((const char *) heard + epoch * stride))->seq == 0))
		epoch--;
	return epoch;
}

/* Return what a beat says about the epoch of a database: a beat has the latest epoch of each region. */
static Heard
told(const Sim *sim, const Database *db, const Beat *beat)
{
	if (latest(sim, beat->seen, sizeof(Heard), db->region) != db->epoch)
		return (Heard){0};
	return beat->seen[db->epoch];
}

/* Return true if others have heard more about an earlier epoch than a database has. */
static bool
went_on(const Database *db, int epoch, const Heard *heard)
{
	const Beat *own = &db->beats[epoch];

	return own->heard.seq == 0 || series_goes_on(heard->seq, heard->series == own->heard.series, own->heard.seq, own->first);
}

/*
 * look_at_beat looks at what a beat says of its own epoch; false if the beat is none to be taken.
 */
bool
look_at_beat(Sim *sim, Database *db, int epoch, const Beat *beat, bool copied)
{
	Heard own = epoch == db->epoch ? beat->heard : told(sim, db, beat);

	if (series_is_taken(own.seq, own.series == db->series, db->first) && sim->fault != IDENTITY_KEPT)
	{
		db->renew = true;
		miss(db);
	}
	if (db->starting && latest(sim, beat->seen, sizeof(Heard), db->region) > db->epoch)
	{
		db->renew = true;
		miss(db);
	}
	if (epoch == db->epoch)
		return false;
	if (db->since != 0 && epoch >= db->since - 1 && sim->region_of[epoch] == db->region && went_on(db, epoch, &beat->heard))
	{
		/* the row of that epoch is not what this database had when it began any more */
		db->since = 0;
		db->recopy |= !copied;
	}
	if (sim->region_of[epoch] != db->region)
		db->knows = true;
	for (int i = 0; i < sim->epochs && !copied && sim->fault != RETIRED_MISSED; i++)
	{
		if (sim->left[i] && beat->seen[i].seq > db->beats[i].heard.seq)
			miss(db);
	}
	return true;
}

/* Return true if a beat belongs to another series than the known one, and does not follow it. */
bool
beat_conflicts(const Sim *sim, const Beat *have, const Beat *beat)
{
	return have->heard.seq > 0 && !series_follows(have->heard.seq, have->heard.series == beat->heard.series, beat->first) &&
		sim->fault != BOOT_CLIMBS;
}

/* Return true if a database has heard of a region. At first all have heard of all others, except for one that joins later. */
bool
has_heard_of(const Sim *sim, const Database *db, int region)
{
	bool heard = !sim->apart || (region != 0 && db->region != 0);

	for (int epoch = 0; epoch < sim->epochs; epoch++)
		heard |= sim->region_of[epoch] == region && db->beats[epoch].heard.seq > 0;
	return heard;
}

/* The handshake is over when all others have heard of this boot. */
void
try_start(Sim *sim, Database *db)
{
	if (!db->starting || db->renew)
		return;
	for (int i = 0; i < sim->databases; i++)
	{
		const Database *other = &sim->at[i];

		if (other->alive && other != db && has_heard_of(sim, db, other->region) && told(sim, db, &db->beats[other->epoch]).boot != db->boot)
			return;
	}
	db->starting = false;
	new_series(sim, db);
	fold(sim, db, false);
}

/* What is sealed, and rows if it is those, goes to the slots of the epoch that the database has. */
static void
fold(Sim *sim, Database *db, bool rows)
{
	if (rows)
		seal(db);
	for (int key = 0; key < KEYS; key++)
	{
		Slot *own = &db->slots[key][db->epoch];
		Slot folded = db->sealed[key];

		memset(&db->sealed[key], 0, sizeof(Slot));
		if (folded.amounts.inc == 0 && folded.amounts.dec == 0)
			continue;
		if (sim->fault == NO_FOLD_AT_RENEW && db->renew)
		{
			db->totals[key].inc -= folded.amounts.inc;
			db->totals[key].dec -= folded.amounts.dec;
			continue;
		}
		if (is_only_heir(sim, db, key, &folded.all))
			unite(&folded.firm, &folded.all);
		slot_add(own, &folded);
		if (sim->fault != BEAT_AFTER_ROWS)
			beat(sim, db);
		publish(sim, db, SLOT, key, db->epoch);
	}
}

/* Return true if nobody knows, or will ever count, anything in this epoch that this database lacks. */
bool
is_only_heir(const Sim *sim, const Database *db, int key, const Events *folded)
{
	Events all = db->slots[key][db->epoch].all;

	unite(&all, folded);
	for (int i = 0; i < sim->databases; i++)
	{
		const Database *other = &sim->at[i];

		if (other->alive && other != db &&
			(other->epoch == db->epoch || !within(&other->slots[key][db->epoch].all, &all)))
			return false;
	}
	return true;
}

static int
take_epoch(Sim *sim, const Database *db)
{
	sim->region_of[sim->epochs] = db->region;
	return sim->epochs++;
}

/* For the fault that the next epoch is known beforehand, and is in the backups. */
void
prepare_epoch(Sim *sim, Database *db)
{
	if (sim->epochs < MAX_EPOCHS)
		db->next_epoch = take_epoch(sim, db);
}

static void
first_beat(Sim *sim, Database *db, int epoch)
{
	int old = db->epoch;
	int64_t first = db->first;

	db->epoch = epoch;
	db->first = 1;
	beat(sim, db);
	db->epoch = old;
	db->first = first;
}

/*
 * What it was sent has not come, and does not.
 */
void
miss(Database *db)
{
	db->recopy = true;
	db->missed = true;
}

/* Return true if reports of the others can show that a database lacks nothing. */
bool
may_heal(const Database *db)
{
	return db->recopy && !db->missed && db->since != 0;
}

/*
 * Whether a beat says that its sender has heard of the epoch of a database, and no more of those before than this one.
 */
static bool
says_well(const Sim *sim, const Database *db, const Beat *beat)
{
	if (latest(sim, beat->seen, sizeof(Heard), db->region) != db->epoch && sim->fault != HEALS_UNASKED)
		return false;
	if (beat->answers[db->epoch] == 0 && sim->fault != HEALS_UNASKED)
		return false;
	for (int epoch = db->since - 1; epoch < db->epoch && sim->fault != HEALS_ALWAYS; epoch++)
	{
		if (sim->region_of[epoch] == db->region && beat->seen[epoch].seq > 0 && went_on(db, epoch, &beat->seen[epoch]))
			return false;
	}
	return true;
}

/* A database is well again when all other regions say so. */
void
try_heal(Sim *sim, Database *db)
{
	if (db->starting || db->renew || !may_heal(db) || sim->fault == HEALS_NEVER)
		return;
	for (int i = 0; i < sim->databases; i++)
	{
		const Database *other = &sim->at[i];
		int epoch = latest(sim, &db->beats[0].heard, sizeof(Beat), other->region);

		if (other->alive && other->region != db->region && has_heard_of(sim, db, other->region) &&
			(epoch < 0 || !says_well(sim, db, &db->beats[epoch])))
			return;
	}
	db->recopy = false;
	sim->had.healed++;
	check_healed(sim, db);
}

/*
 * Since when a database whose start nobody has confirmed may lack nothing. If it is to publish what it has sealed, the beat of that
 * would take the place of one that others know, and that shows that it was set back.
 */
static int
lossless_since(const Sim *sim, const Database *db)
{
	for (int key = 0; key < KEYS; key++)
	{
		if ((db->sealed[key].amounts.inc != 0 || db->sealed[key].amounts.dec != 0) && sim->fault != HEALS_FOLDED)
			return 0;
	}
	if (db->renew || db->missed)
		return 0;
	if (db->since != 0)
		return db->since;
	return db->recopy ? 0 : db->epoch + 1;
}

/*
 * late: nobody has confirmed the start for too long.
 */
void
renew(Sim *sim, Database *db, bool late)
{
	int epoch = sim->epochs;
	int since = late ? lossless_since(sim, db) : 0;

	if (sim->fault == IDENTITY_KEPT)
	{
		db->starting = false;
		db->renew = false;
		fold(sim, db, false);
		return;
	}
	if (sim->epochs == MAX_EPOCHS)
		return;
	db->renew = true;
	if (db->starting)
		new_series(sim, db);
	if (sim->fault == EPOCH_TWICE)
		epoch = db->next_epoch;
	else
		take_epoch(sim, db);
	if (sim->fault == ROWS_TO_NEW_EPOCH)
		db->epoch = epoch;
	/* of one transaction with the fold: who misses that finds a gap */
	first_beat(sim, db, epoch);
	fold(sim, db, !db->starting || sim->fault == NO_SEAL);
	db->epoch = epoch;
	db->first = 1;
	if (sim->fault == EPOCH_TWICE)
		prepare_epoch(sim, db);
	db->renew = false;
	db->starting = false;
	db->recopy = true;
	db->missed = false;
	db->since = since;
	beat(sim, db);
	sim->had.renewals++;
	sim->had.late += since != 0;
}

/* A start of a database that knows no other: what was counted until then is the old epoch's. */
static void
renew_alone(Sim *sim, Database *db)
{
	bool recopy = db->recopy;
	bool missed = db->missed;

	if (sim->epochs == MAX_EPOCHS)
		return;
	new_series(sim, db);
	renew(sim, db, false);
	db->recopy = recopy;
	db->missed = missed;
}
