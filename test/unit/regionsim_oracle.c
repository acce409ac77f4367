/*
 * regionsim_oracle.c
 *		The expected values, computed from the events alone.
 *
 * A database knows the events in its slots and those that it has not published. A set removes
 * from these the events that it had observed, or that other sets had, even sets that it does not
 * know. So at any time
 *
 *		value = W + sum of the events known, but for those that are observed
 *
 * as long as no database exists twice. When one was restored, events that only it knew may be
 * lost ("lost"), because they were not replicated. If they are in the backup, they may be
 * counted, but then they replace as much of what the others know of that slot, and are not added
 * to it. So in the end values lie between the sums with and without these events. In most runs
 * the two are equal: a database rarely has such events.
 */
#include "regionsim.h"

static Amounts sum(const Sim *sim, const Events *events, int key);
static void check_key(Sim *sim, const Database *db, int key);
static void check_end_of_key(Sim *sim, const Database *db, int key);
static bool knows_the_same(const Sim *sim, const Database *a, const Database *b, int key);

bool
has(const Events *events, int event)
{
	return events->bits[event / 64] >> (event % 64) & 1;
}

void
put(Events *events, int event)
{
	events->bits[event / 64] |= UINT64_C(1) << (event % 64);
}

void
unite(Events *events, const Events *more)
{
	for (int i = 0; i < EVENT_WORDS; i++)
		events->bits[i] |= more->bits[i];
}

bool
within(const Events *events, const Events *all)
{
	for (int i = 0; i < EVENT_WORDS; i++)
	{
		if ((events->bits[i] & ~all->bits[i]) != 0)
			return false;
	}
	return true;
}

static Events
without(Events events, const Events *less)
{
	for (int i = 0; i < EVENT_WORDS; i++)
		events.bits[i] &= ~less->bits[i];
	return events;
}

void
fail(Sim *sim, const char *what)
{
	if (sim->wrong == NULL)
		sim->wrong = what;
}

static Amounts
sum(const Sim *sim, const Events *events, int key)
{
	Amounts amounts = {0, 0};

	for (int i = 0; i < sim->nevents; i++)
	{
		if (sim->events[i].key != key || !has(events, i))
			continue;
		if (sim->events[i].amount > 0)
			amounts.inc += sim->events[i].amount;
		else
			amounts.dec -= sim->events[i].amount;
	}
	return amounts;
}

Events
known_at(const Database *db, int key)
{
	Events known = db->sealed[key].all;

	for (int epoch = 0; epoch < MAX_EPOCHS; epoch++)
		unite(&known, &db->slots[key][epoch].all);
	for (int i = 0; i < db->nrows; i++)
	{
		if (db->rows[i].key == key)
			unite(&known, &db->rows[i].slot.all);
	}
	return known;
}

/* Return the events that any set has observed: the greatest state of each slot. */
static Events
observed_at(const Sim *sim, const Database *db, int key)
{
	Events observed = {{0}};

	for (int epoch = 0; epoch < sim->epochs; epoch++)
	{
		Slot base = {.amounts = {0, 0}};

		for (int region = 0; region < sim->regions; region++)
			slot_raise(sim, &base, &db->sets[key][region].upto[epoch]);
		unite(&observed, &base.counted);
	}
	return observed;
}

/* The value of the last set. */
static int64_t
set_to(const Database *db, int key, bool *there)
{
	const SetRow *last = NULL;

	for (int region = 0; region < MAX_REGIONS; region++)
	{
		const SetRow *row = &db->sets[key][region];

		if (row->there && (last == NULL || row->hlc >= last->hlc))
			last = row;
	}
	*there = last != NULL;
	return last == NULL ? 0 : last->value;
}

/*
 * What is certain to outlive a database. What a clone of it has not published is not: it goes to the epoch of both, which
 * the original, set back and counting on, may have outgrown by then. Nor is what a snapshot has sealed, of an epoch of which
 * others have what it lacks: of as much in one slot they keep the one or the other.
 */
Events
firm_elsewhere(const Sim *sim, int but)
{
	Events firm = {{0}};

	for (int i = 0; i < sim->databases; i++)
	{
		const Database *db = &sim->at[i];

		if (!db->alive || i == but)
			continue;
		for (int key = 0; key < KEYS; key++)
		{
			if (db->region != sim->at[but].region && is_only_heir(sim, db, key, &db->sealed[key].all))
				unite(&firm, &db->sealed[key].all);
			for (int epoch = 0; epoch < MAX_EPOCHS; epoch++)
				unite(&firm, &db->slots[key][epoch].firm);
		}
		for (int row = 0; row < db->nrows && db->region != sim->at[but].region; row++)
			unite(&firm, &db->rows[row].slot.all);
	}
	return firm;
}

/* The invariants that hold at any time. */
void
check_database(Sim *sim, const Database *db)
{
	for (int key = 0; key < KEYS && db->alive; key++)
		check_key(sim, db, key);
}

static void
check_key(Sim *sim, const Database *db, int key)
{
	Amounts totals = db->totals[key];
	Amounts sealed = db->sealed[key].amounts;
	Events known = known_at(db, key);
	Events observed = observed_at(sim, db, key);
	bool there;
	int64_t value = totals.inc - totals.dec;
	int64_t expected = set_to(db, key, &there);
	Events counted = without(known, &observed);
	Amounts truth = sum(sim, &counted, key);

	if (value != formula(sim, db, key) + sealed.inc - sealed.dec)
		fail(sim, "a value is not what the rows of regions and sets say");
	for (int i = 0; i < db->nrows; i++)
	{
		if (db->rows[i].key == key)
			value += db->rows[i].slot.amounts.inc - db->rows[i].slot.amounts.dec;
	}
	if (!sim->forked && value != expected + truth.inc - truth.dec)
		fail(sim, "a value is not what was counted");
}

/*
 * What must be true when a database finds that it lacks nothing: none of the others has more of its epochs. They may have what they
 * were sent without the beat that went with it, if rows are lost.
 */
void
check_healed(Sim *sim, const Database *db)
{
	for (int i = 0; i < sim->databases && !sim->wild; i++)
	{
		for (int epoch = db->since - 1; epoch < db->epoch && sim->at[i].alive; epoch++)
		{
			for (int key = 0; key < KEYS && sim->region_of[epoch] == db->region; key++)
			{
				if (!amounts_covered(sim->at[i].slots[key][epoch].amounts, db->slots[key][epoch].amounts))
					fail(sim, "a database lacks something, and finds that it does not");
			}
		}
	}
}

/* Return true if the last beats of all others have arrived. */
static bool
has_heard_all(const Sim *sim, const Database *db)
{
	for (int i = 0; i < sim->databases; i++)
	{
		const Database *other = &sim->at[i];

		if (other->alive && db->beats[other->epoch].heard.seq != other->beats[other->epoch].heard.seq)
			return false;
	}
	return true;
}

/* The invariants that hold when nothing is in progress. */
void
check_end(Sim *sim)
{
	const Database *first = NULL;

	for (int i = 0; i < sim->databases && sim->wrong == NULL; i++)
	{
		const Database *db = &sim->at[i];

		if (!db->alive)
			continue;
		if (first == NULL)
			first = db;
		check_database(sim, db);
		if (db->renew || db->starting || db->nrows > 0)
			fail(sim, "a database does not come to rest");
		if (!sim->survived && !has_heard_all(sim, db))
			fail(sim, "beats do not come");
		for (int key = 0; key < KEYS; key++)
		{
			check_end_of_key(sim, db, key);
			if (!knows_the_same(sim, first, db, key))
				fail(sim, "databases differ");
		}
	}
}

/*
 * If two databases have counted as much in one slot, others keep the state that came first, and neither they nor we can
 * tell which events it is the sum of. In the end all have the same amounts (knows_the_same).
 */
static Events
known_anywhere(const Sim *sim, int key)
{
	Events known = {{0}};

	for (int i = 0; i < sim->databases; i++)
	{
		Events more = known_at(&sim->at[i], key);

		if (sim->at[i].alive)
			unite(&known, &more);
	}
	return known;
}

static void
check_end_of_key(Sim *sim, const Database *db, int key)
{
	Events known = sim->forked ? known_anywhere(sim, key) : known_at(db, key);
	Events observed = observed_at(sim, db, key);
	Events must = without(known, &sim->lost);
	Events counted = without(must, &observed);
	Amounts totals = {0, 0};
	Amounts least = sum(sim, &must, key);
	Amounts most = sum(sim, &known, key);
	Amounts truth = sum(sim, &counted, key);
	Amounts loose = {most.inc - least.inc, most.dec - least.dec};
	bool there;
	int64_t more = db->totals[key].inc - db->totals[key].dec - (set_to(db, key, &there) + truth.inc - truth.dec);

	for (int i = 0; i < sim->nevents; i++)
	{
		if (sim->events[i].key == key && !has(&known, i) && !has(&sim->lost, i))
			fail(sim, "what was counted is not known");
	}
	for (int epoch = 0; epoch < sim->epochs; epoch++)
	{
		totals.inc += db->slots[key][epoch].amounts.inc;
		totals.dec += db->slots[key][epoch].amounts.dec;
	}
	if (!amounts_covered(least, totals))
		fail(sim, "less was counted than is known");
	if (!amounts_covered(totals, most))
		fail(sim, "more was counted than is known");
	if (more > loose.inc + (there ? loose.dec : 0) || -more > loose.dec + (there ? loose.inc : 0))
		fail(sim, "a value is not what was counted, in the end");
}

static bool
knows_the_same(const Sim *sim, const Database *a, const Database *b, int key)
{
	bool same = a->totals[key].inc - a->totals[key].dec == b->totals[key].inc - b->totals[key].dec;

	for (int epoch = 0; epoch < sim->epochs; epoch++)
	{
		Amounts of_a = a->slots[key][epoch].amounts;
		Amounts of_b = b->slots[key][epoch].amounts;

		same = same && of_a.inc == of_b.inc && of_a.dec == of_b.dec;
	}
	for (int region = 0; region < sim->regions; region++)
	{
		const SetRow *of_a = &a->sets[key][region];
		const SetRow *of_b = &b->sets[key][region];

		same = same && of_a->there == of_b->there && of_a->hlc == of_b->hlc && of_a->value == of_b->value;
	}
	return same;
}
