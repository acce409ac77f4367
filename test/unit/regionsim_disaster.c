/*
 * regionsim_disaster.c
 *		Databases that crash, come back from a backup, are there twice, or go.
 *
 * Each says which events may be lost by it: those that no other database is certain to keep.
 */
#include "regionsim.h"

static void may_lose(Sim *sim, int which, const Database *backup);
static bool outgrows(const Sim *sim, int which, const Database *backup, int key);
static void leave(Sim *sim, int which);
static bool is_only_witness(const Sim *sim, int which);
static bool knows_fewer(const Sim *sim, const Database *snapshot);

/* A crash takes nothing that was committed. */
void
crash(Sim *sim, Database *db)
{
	begin(sim, db);
}

/*
 * may_lose notes what a database takes with it: what only that one has, and what is in its
 * backup, not published, if others know of later states of that slot.
 */
static void
may_lose(Sim *sim, int which, const Database *backup)
{
	Events firm = firm_elsewhere(sim, which);

	for (int key = 0; key < KEYS; key++)
	{
		Events gone = known_at(&sim->at[which], key);
		Events kept = firm;

		for (int epoch = 0; epoch < MAX_EPOCHS && backup != NULL; epoch++)
			unite(&kept, &backup->slots[key][epoch].firm);
		if (backup != NULL)
		{
			Events unpublished = known_at(backup, key);

			if (!outgrows(sim, which, backup, key))
				unite(&kept, &unpublished);
			unite(&gone, &unpublished);
		}
		for (int i = 0; i < EVENT_WORDS; i++)
			gone.bits[i] &= ~kept.bits[i];
		unite(&sim->lost, &gone);
	}
}

/* Return true if others know events of a slot that the backup lacks. */
static bool
outgrows(const Sim *sim, int which, const Database *backup, int key)
{
	Events all = known_at(backup, key);

	for (int i = 0; i < sim->databases; i++)
	{
		if (sim->at[i].alive && i != which && !within(&sim->at[i].slots[key][backup->epoch].all, &all))
			return true;
	}
	return false;
}

/* A snapshot of the disk has the log as well, and where the subscriptions were. */
void
take_snapshot(Sim *sim, int which)
{
	sim->snapshot[which] = sim->at[which];
	keep_logs(sim, which);
}

/*
 * Whether a snapshot knows of some other regions, but not of all that have heard of its own. Those that it knows may find out that
 * it is a snapshot, but not if they were cut off from what it is one of. That is not simulated.
 */
static bool
knows_fewer(const Sim *sim, const Database *snapshot)
{
	bool fewer = false;

	for (int i = 0; i < sim->databases; i++)
		fewer |= sim->at[i].alive && has_heard_of(sim, &sim->at[i], snapshot->region) &&
			!has_heard_of(sim, snapshot, sim->at[i].region);
	return snapshot->knows && fewer;
}

/*
 * A database comes back as it was once: from a backup, so that it knows, and its links
 * are made again; or from a snapshot of its disk.
 */
void
restore(Sim *sim, int which, bool snapshot)
{
	const Database *backup = snapshot ? &sim->snapshot[which] : &sim->backup[which];
	Database *db = &sim->at[which];

	if (!backup->alive || !db->alive || (snapshot && knows_fewer(sim, backup)))
		return;
	may_lose(sim, which, backup);
	sim->forked = true;
	*db = *backup;
	if (snapshot)
		set_back(sim, which);
	else
		cut_off(sim, which);
	if (!snapshot)
	{
		db->renew = true;
		miss(db);
		sim->had.restores++;
	}
	else
	{
		db->set_back = true;
		db->old_links = true;
		db->old_epoch = db->epoch;
		sim->had.snapshots++;
	}
	begin(sim, db);
	db->starting = db->starting || db->renew;
}

/* Another database that begins as a copy, or is a dump that is restored beside the original. */
void
clone(Sim *sim, int which)
{
	Database *db = &sim->at[sim->databases];
	bool dump = sim->backup[which].alive && sim->epochs % 2 == 0; /* no draw, so other runs stay what they are */

	if (sim->databases == MAX_DATABASES || !sim->at[which].alive)
		return;
	*db = dump ? sim->backup[which] : sim->at[which];
	db->mute = dump && sim->fault == DUMP_IS_MUTE;
	memset(&sim->backup[sim->databases], 0, sizeof(Database));
	memset(&sim->snapshot[sim->databases], 0, sizeof(Database));
	for (int i = 0; i < MAX_DATABASES; i++)
	{
		sim->links[i][sim->databases].there = false;
		sim->links[sim->databases][i].there = false;
	}
	sim->databases++;
	db->renew = true;
	begin(sim, db);
	db->starting = true;
	miss(db);
	join(sim, sim->databases - 1);
	sim->forked = true;
	sim->had.clones++;
	sim->had.dumps += dump;
}

static void
leave(Sim *sim, int which)
{
	sim->at[which].alive = false;
	sim->backup[which].alive = false;
	sim->snapshot[which].alive = false;
	for (int i = 0; i < sim->databases; i++)
	{
		sim->links[i][which].there = false;
		sim->links[which][i].there = false;
	}
}

/*
 * Whether a database alone knows that another one was set back to a snapshot, which has not heard of it yet. If it is lost, and nobody
 * says dc_region_renew(), that one goes on under its old epoch. That is not simulated.
 */
static bool
is_only_witness(const Sim *sim, int which)
{
	for (int i = 0; i < sim->databases; i++)
	{
		const Database *db = &sim->at[i];
		const Heard *heard = &sim->at[which].beats[db->epoch].heard;

		if (db->alive && i != which && db->old_links && db->epoch == db->old_epoch && heard->seq >= db->first && heard->series != db->series)
			return true;
	}
	return false;
}

/* A database is lost permanently; of the others each knows what it had got. */
void
lose(Sim *sim, int which)
{
	if (!sim->at[which].alive || is_only_witness(sim, which))
		return;
	may_lose(sim, which, NULL);
	leave(sim, which);
	sim->survived = true;
	sim->had.losses++;
}

/* A database leaves when all others have what it has. */
void
retire(Sim *sim, int which)
{
	Database *db = &sim->at[which];
	Events firm;

	if (!db->alive)
		return;
	compact(sim, db, true);
	if (db->starting || db->renew || db->nrows > 0)
		return;
	if (sim->fault != RETIRED_AT_ONCE)
	{
		drain(sim);
		for (int i = 0; i < sim->databases; i++)
		{
			Link *link = &sim->links[which][i];

			if (link->there && (link->cut || link->broken || link->lossy))
				return;
		}
	}
	firm = firm_elsewhere(sim, which);
	for (int key = 0; key < KEYS && sim->fault != RETIRED_AT_ONCE; key++)
	{
		Events known = known_at(db, key);

		for (int i = 0; i < EVENT_WORDS; i++)
			known.bits[i] &= ~(firm.bits[i] | sim->lost.bits[i]);
		if (!within(&known, &firm))
			return;
	}
	leave(sim, which);
	sim->survived |= !sim->apart; /* in a mesh all others have all of it */
	for (int epoch = 0; epoch < sim->epochs; epoch++)
		sim->left[epoch] |= sim->region_of[epoch] == db->region;
	sim->had.retired++;
}
