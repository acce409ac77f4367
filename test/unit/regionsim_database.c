/*
 * regionsim_database.c
 *		The work of a database on its tables: counting, compaction, sets, merging rows.
 *
 * As in src/region: totals (here with the remote shard rows) change in the transaction that
 * changes the rows of regions and sets, by the same amount, so that
 *
 *		totals = W + sum over slots of (slot - base) + what is sealed
 *
 * where W is the value of the last set, and the base of a slot the greatest state of it that a
 * set has observed.
 */
#include "regionsim.h"

#include "types/crdt/stamp.h"

static void add(Amounts *to, Amounts amounts);
static void take_row(Sim *sim, Database *db, int row);
static Slot unpublished(const Database *db, int key);
static bool set_wins(const Sim *sim, const SetRow *come, const SetRow *have);
static bool slot_is_foreign(const Sim *sim, Database *db, int epoch, const Slot *have, const Slot *come);
static void merge_slot(Sim *sim, Database *db, int key, int epoch, const Slot *come);
static void merge_set(Sim *sim, Database *db, int key, int region, const SetRow *come);
static void merge_beat(Sim *sim, Database *db, int epoch, const Beat *come, bool copied);

static void
add(Amounts *to, Amounts amounts)
{
	to->inc += amounts.inc;
	to->dec += amounts.dec;
}

bool
amounts_covered(Amounts amounts, Amounts by)
{
	return amounts.inc <= by.inc && amounts.dec <= by.dec;
}

static int64_t
greater(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void
slot_add(Slot *to, const Slot *more)
{
	add(&to->amounts, more->amounts);
	unite(&to->all, &more->all);
	unite(&to->firm, &more->firm);
	unite(&to->counted, &more->counted);
}

/* Which events the greater amounts are the sum of. */
static Events
counted_in_greater(const Sim *sim, const Slot *slot, const Slot *come)
{
	Events events = {{0}};

	for (int i = 0; i < sim->nevents; i++)
	{
		bool later = sim->events[i].amount > 0 ? come->amounts.inc > slot->amounts.inc
											   : come->amounts.dec > slot->amounts.dec;

		if (has(later ? &come->counted : &slot->counted, i))
			put(&events, i);
	}
	return events;
}

void
slot_raise(const Sim *sim, Slot *slot, const Slot *come)
{
	slot->counted = counted_in_greater(sim, slot, come);
	slot->amounts.inc = greater(slot->amounts.inc, come->amounts.inc);
	slot->amounts.dec = greater(slot->amounts.dec, come->amounts.dec);
	unite(&slot->all, &come->all);
	unite(&slot->firm, &come->firm);
}

/* The row of the last set of a key, or NULL. */
static const SetRow *
last_set(const Database *db, int key)
{
	const SetRow *last = NULL;

	for (int region = 0; region < MAX_REGIONS; region++)
	{
		const SetRow *row = &db->sets[key][region];

		if (row->there && (last == NULL || row->hlc >= last->hlc))
			last = row;
	}
	return last;
}

int64_t
formula(const Sim *sim, const Database *db, int key)
{
	const SetRow *last = last_set(db, key);
	int64_t value = last == NULL ? 0 : last->value;

	for (int epoch = 0; epoch < sim->epochs; epoch++)
	{
		Amounts base = {0, 0};

		for (int region = 0; region < sim->regions; region++)
		{
			const SetRow *row = &db->sets[key][region];

			if (row->there && (sim->fault != BASE_OF_LAST_SET || row == last))
			{
				base.inc = greater(base.inc, row->upto[epoch].amounts.inc);
				base.dec = greater(base.dec, row->upto[epoch].amounts.dec);
			}
		}
		value += (db->slots[key][epoch].amounts.inc - base.inc) - (db->slots[key][epoch].amounts.dec - base.dec);
	}
	return value;
}

/* A user counts: into a shard row that is there, or another one. */
void
count(Sim *sim, Database *db)
{
	int key = below(sim, KEYS);
	int64_t amount = chance(sim, 3) ? -1 - below(sim, 3) : 1 + below(sim, 7);
	int row = below(sim, db->nrows + 1);

	if (sim->nevents == MAX_EVENTS || row == MAX_ROWS)
		return;
	if (row < db->nrows && db->rows[row].key != key)
		row = db->nrows;
	if (row == MAX_ROWS)
		return;
	if (row == db->nrows)
		db->rows[db->nrows++] = (Row){.key = key};
	sim->events[sim->nevents] = (Event){key, amount};
	put(&db->rows[row].slot.counted, sim->nevents);
	put(&db->rows[row].slot.all, sim->nevents++);
	add(&db->rows[row].slot.amounts, amount > 0 ? (Amounts){amount, 0} : (Amounts){0, -amount});
}

/* One shard row goes to the totals and its own slot. */
static void
take_row(Sim *sim, Database *db, int row)
{
	Row taken = db->rows[row];
	Slot *own = &db->slots[taken.key][db->epoch];

	add(&db->totals[taken.key], taken.slot.amounts);
	taken.slot.firm = taken.slot.all;
	slot_add(own, &taken.slot);
	if (sim->fault != ROWS_KEPT || !chance(sim, 8))
		db->rows[row] = db->rows[--db->nrows];
}

/*
 * compact publishes what was counted here: all, or some rows of some keys. The beat is of the
 * same transaction, and so are its rows, though here they may come apart.
 */
void
compact(Sim *sim, Database *db, bool whole)
{
	bool of[KEYS] = {false};
	int skip = whole ? -1 : below(sim, KEYS + 1);

	if (db->renew)
		renew(sim, db, false);
	if (db->starting)
		return;
	for (int i = db->nrows - 1; i >= 0; i--)
	{
		if (db->rows[i].key == skip || (!whole && chance(sim, 3)))
			continue;
		of[db->rows[i].key] = true;
		take_row(sim, db, i);
	}
	for (int key = 0; key < KEYS; key++)
	{
		if (of[key] && sim->fault != BEAT_AFTER_ROWS)
			beat(sim, db);
		if (of[key])
			publish(sim, db, SLOT, key, db->epoch);
	}
}

static Slot
unpublished(const Database *db, int key)
{
	Slot slot = {.amounts = {0, 0}};

	for (int i = 0; i < db->nrows; i++)
	{
		if (db->rows[i].key == key)
			slot_add(&slot, &db->rows[i].slot);
	}
	return slot;
}

/* What was counted here is folded into its own slot; then all slots are observed. */
void
set(Sim *sim, Database *db, int key, int64_t value)
{
	SetRow *row = &db->sets[key][db->region];
	const SetRow *last = last_set(db, key);
	int64_t now = sim->now + db->skew;
	int64_t before;
	Slot rest;

	if (db->renew)
		renew(sim, db, false);
	if (db->starting)
		return;
	for (int i = db->nrows - 1; i >= 0 && sim->fault != NO_FOLD_AT_SET; i--)
	{
		if (db->rows[i].key == key)
			take_row(sim, db, i);
	}
	rest = unpublished(db, key);
	before = formula(sim, db, key);
	row->there = true;
	row->hlc = sim->fault == WALL_CLOCK ? now : stamp_next(now, row->hlc, last == NULL ? 0 : last->hlc);
	row->value = value;
	for (int epoch = 0; epoch < sim->epochs; epoch++)
	{
		Slot slot = db->slots[key][epoch];

		if (epoch == db->epoch && sim->fault == NO_FOLD_AT_SET)
			slot_add(&slot, &rest);
		slot_raise(sim, &row->upto[epoch], &slot);
	}
	db->totals[key].inc += formula(sim, db, key) - before;
	sim->had.sets++;
	if (db->totals[key].inc - db->totals[key].dec + rest.amounts.inc - rest.amounts.dec != value &&
		sim->fault != ROWS_KEPT)
		fail(sim, "a value is not what it was set to");
	beat(sim, db);
	publish(sim, db, SLOT, key, db->epoch);
	publish(sim, db, SET, key, db->region);
}

/* Later than all beats of this boot, and those before. */
void
beat(Sim *sim, Database *db)
{
	Beat *own = &db->beats[db->epoch];

	own->heard = (Heard){own->heard.seq + 1, db->boot, db->series};
	own->first = db->first;
	for (int epoch = 0; epoch < sim->epochs; epoch++)
	{
		own->seen[epoch] = db->beats[epoch].heard;
		own->answers[epoch] = db->beats[epoch].asks;
	}
	own->asks = may_heal(db) ? db->since : 0;
	publish(sim, db, BEAT, 0, db->epoch);
}

/* What the trigger functions do. A row that brings nothing is not sent on. */
void
merge(Sim *sim, Database *db, const Message *message, bool copied)
{
	switch (message->kind)
	{
		case SLOT:
			merge_slot(sim, db, message->key, message->of, &message->row.slot);
			break;
		case SET:
			merge_set(sim, db, message->key, message->of, &message->row.set);
			break;
		case BEAT:
			merge_beat(sim, db, message->of, &message->row.beat, copied);
	}
}

/*
 * slot_is_foreign tells whether a row says more of its own epoch than the database itself has. Then
 * this database is a copy of another one, or a copy of it has published what it had not. It must
 * not be merged before what was counted here is folded into that slot. In a table of an owner who
 * may have written the row by hand it does not make the database renew: beats do.
 */
static bool
slot_is_foreign(const Sim *sim, Database *db, int epoch, const Slot *have, const Slot *come)
{
	if (epoch != db->epoch || amounts_covered(come->amounts, have->amounts) ||
		sim->fault == OWN_EPOCH_MERGED || sim->fault == IDENTITY_KEPT)
		return false;
	db->renew |= sim->trusted;
	miss(db);
	return true;
}

static void
merge_slot(Sim *sim, Database *db, int key, int epoch, const Slot *come)
{
	Slot *have = &db->slots[key][epoch];
	Slot before = *have;
	Amounts grown;

	if (slot_is_foreign(sim, db, epoch, have, come))
		return;
	slot_raise(sim, have, come);
	if (sim->fault == LAST_WINS && epoch != db->epoch)
		have->amounts = come->amounts;
	grown = (Amounts){have->amounts.inc - before.amounts.inc, have->amounts.dec - before.amounts.dec};
	if (grown.inc == 0 && grown.dec == 0)
		return;
	add(&db->totals[key], sim->fault == ADDED_WHOLE ? come->amounts : grown);
	if (sim->fault == ADDED_TWICE)
		add(&db->totals[key], grown);
	publish(sim, db, SLOT, key, epoch);
}

/*
 * Of the rows of one region the later one is right. If a region's name has two databases, there may be
 * two at the same time, of which all must take the same one.
 */
static bool
set_wins(const Sim *sim, const SetRow *come, const SetRow *have)
{
	if (!have->there || sim->fault == LAST_SET_COMES_LAST)
		return true;
	if (come->hlc != have->hlc)
		return come->hlc > have->hlc;
	return come->value > have->value && sim->fault != SETS_TIE;
}

static void
merge_set(Sim *sim, Database *db, int key, int region, const SetRow *come)
{
	SetRow *have = &db->sets[key][region];
	bool news = !have->there || come->hlc != have->hlc || come->value != have->value;
	int64_t before;

	for (int epoch = 0; epoch < sim->epochs; epoch++)
	{
		if (slot_is_foreign(sim, db, epoch, &db->slots[key][epoch], &come->upto[epoch]))
			return;
		news |= !amounts_covered(come->upto[epoch].amounts, have->upto[epoch].amounts);
	}
	if (!come->there || !news)
		return;
	for (int epoch = 0; epoch < sim->epochs && sim->fault != SET_WITHOUT_LIFT; epoch++)
		merge_slot(sim, db, key, epoch, &come->upto[epoch]);
	before = formula(sim, db, key);
	news = set_wins(sim, come, have);
	if (news)
	{
		have->hlc = come->hlc;
		have->value = come->value;
	}
	have->there = true;
	for (int epoch = 0; epoch < sim->epochs; epoch++)
	{
		news |= !amounts_covered(come->upto[epoch].amounts, have->upto[epoch].amounts);
		slot_raise(sim, &have->upto[epoch], &come->upto[epoch]);
	}
	db->totals[key].inc += formula(sim, db, key) - before;
	if (news)
		publish(sim, db, SET, key, region);
}

static void
merge_beat(Sim *sim, Database *db, int epoch, const Beat *come, bool copied)
{
	Beat *have = &db->beats[epoch];
	bool conflicts = beat_conflicts(sim, have, come);

	if (!look_at_beat(sim, db, epoch, come, copied) || come->heard.seq <= have->heard.seq)
		return;
	if (!copied && come->heard.seq > have->heard.seq + 1 && !conflicts && sim->fault != GAPS_IGNORED)
		miss(db);
	/* what others have heard of a later epoch shows as much here, where that is taken in one transaction with the fold */
	if (conflicts)
		have->heard.seq = come->heard.seq;
	else
		*have = *come;
	publish(sim, db, BEAT, 0, epoch);
}
