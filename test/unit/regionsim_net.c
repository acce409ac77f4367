/*
 * regionsim_net.c
 *		Links between databases: which there are, what is on its way, what is copied.
 *
 * A link keeps the order of rows and loses none, as a subscription does, until it is too long
 * behind: then it must be made again. In a wild run rows come in any order, some again and
 * some never; a link that has lost one is made again at the end.
 *
 * The rows of a transaction may come apart, which is harder than what a subscription does. Not where there are
 * snapshots of the disk: none has half of a transaction of others, and whoever has the beat has the rows.
 *
 * A database that is set back to a snapshot has the log of then, and sends what the others have not taken of it. A row
 * that is updated, and not there, is inserted here; a server passes over it, until its links are made again.
 */
#include "regionsim.h"

static void set_publisher_back(Link *link, const Link *then, int skip);

/* Nothing is on its way: what was written before is copied, or known. */
static void
begin_link(Sim *sim, Link *link)
{
	link->made = ++sim->made;
	link->broken = false;
	link->lossy = false;
	link->n = 0;
	link->skip = 0;
	link->passes = false;
	link->written = 0;
	link->taken = 0;
}

static void
make_link(Sim *sim, int from, int to, bool all)
{
	Link *link = &sim->links[from][to];

	if (from == to)
		return;
	link->there = true;
	link->all = link->all || all;
	link->cut = false;
	begin_link(sim, link);
}

/* mesh, star, one-way ring, two-way ring, tree */
void
connect_all(Sim *sim, int topology)
{
	int n = sim->databases;

	for (int i = 0; i < n; i++)
	{
		int next = (i + 1) % n;
		int parent = i > 0 ? below(sim, i) : 0;

		switch (topology)
		{
			case 0:
				if (i > 0 || !sim->apart)
					join(sim, i);
				break;
			case 1:
				make_link(sim, i, 0, false);
				make_link(sim, 0, i, true);
				break;
			case 2:
				make_link(sim, i, next, true);
				break;
			case 3:
				make_link(sim, i, next, true);
				make_link(sim, next, i, true);
				break;
			default:
				make_link(sim, i, parent, true);
				make_link(sim, parent, i, true);
		}
	}
}

/* Links of a mesh for a database. */
void
join(Sim *sim, int database)
{
	for (int i = 0; i < sim->databases; i++)
	{
		if (i == database || !sim->at[i].alive || (sim->apart && i == 0))
			continue;
		make_link(sim, i, database, false);
		make_link(sim, database, i, false);
	}
}

/*
 * A link that is not there is made. A database that knows no other gets all that the first one knows before, also of regions that
 * were retired.
 */
void
join_one(Sim *sim, int from, int to)
{
	if (from == to || sim->links[from][to].there || !sim->at[from].alive || !sim->at[to].alive)
		return;
	if (!sim->at[to].knows && sim->fault != RETIRED_MISSED)
		copy(sim, from, to, true);
	make_link(sim, from, to, false);
	copy(sim, from, to, false);
}

static Message
row_of(const Database *db, MessageKind kind, int key, int of)
{
	Message message = {.kind = kind, .key = key, .of = of};

	switch (kind)
	{
		case SLOT:
			message.row.slot = db->slots[key][of];
			break;
		case SET:
			message.row.set = db->sets[key][of];
			break;
		case BEAT:
			message.row.beat = db->beats[of];
	}
	return message;
}

static bool
passes(const Sim *sim, const Database *db, bool all, MessageKind kind, int of)
{
	return all || (kind == SET ? of : sim->region_of[of]) == db->region;
}

/*
 * Whether a row comes from before where the receiver is. That goes by transactions, and these begin with a beat.
 */
static bool
is_passed_over(Link *link, MessageKind kind)
{
	if (kind == BEAT)
	{
		link->passes = link->skip > 0;
		link->skip -= link->passes;
	}
	return link->passes;
}

/* A row was written: it goes to the links that it is for. */
void
publish(Sim *sim, const Database *db, MessageKind kind, int key, int of)
{
	int from = (int) (db - sim->at);

	for (int to = 0; to < sim->databases; to++)
	{
		Link *link = &sim->links[from][to];

		if (db->mute && kind == BEAT)
			return;
		if (!link->there || link->broken || !passes(sim, db, link->all, kind, of))
			continue;
		if (is_passed_over(link, kind))
			continue;
		if (link->n == QUEUE)
		{
			link->broken = true;
			link->n = 0;
			continue;
		}
		link->queue[(link->first + link->n++) % QUEUE] = row_of(db, kind, key, of);
		link->written++;
	}
}

/* One row comes: the next one, or any. */
static void
deliver_row(Sim *sim, int from, int to)
{
	Link *link = &sim->links[from][to];
	static Message message;
	int which;

	if (!link->there || link->cut || link->broken || link->n == 0)
		return;
	which = (link->first + (sim->wild ? below(sim, link->n) : 0)) % QUEUE;
	message = link->queue[which];
	if (!sim->wild || !chance(sim, 4))
	{
		link->queue[which] = link->queue[link->first];
		link->first = (link->first + 1) % QUEUE;
		link->n--;
		link->taken = link->written - link->n;
	}
	if (sim->wild && chance(sim, 10))
	{
		link->lossy = true;
		return;
	}
	sim->delivered++;
	merge(sim, &sim->at[to], &message, false);
}

/* One row, and where transactions are whole the others of it: each begins with a beat. */
void
deliver(Sim *sim, int from, int to)
{
	const Link *link = &sim->links[from][to];

	do
		deliver_row(sim, from, to);
	while (sim->whole && link->there && !link->cut && link->n > 0 && link->queue[link->first].kind != BEAT);
}

/* All that is on its way comes, and what follows from that. It ends, however links go round. */
void
drain(Sim *sim)
{
	long limit = sim->delivered + 50000;
	bool more = true;

	while (more && sim->delivered < limit)
	{
		more = false;
		for (int from = 0; from < sim->databases; from++)
		{
			for (int to = 0; to < sim->databases; to++)
			{
				Link *link = &sim->links[from][to];

				while (link->there && !link->cut && !link->broken && link->n > 0 && sim->delivered < limit)
				{
					deliver(sim, from, to);
					more = true;
				}
			}
		}
	}
	if (more)
		fail(sim, "rows go round for ever");
}

/* The rows of a table, which come in any order. */
static void
copy_table(Sim *sim, int from, int to, bool all, MessageKind kind)
{
	const Database *db = &sim->at[from];
	int ofs = kind == SET ? sim->regions : sim->epochs;
	int n = ofs * (kind == BEAT ? 1 : KEYS);
	int first = below(sim, n);
	static Message message;

	for (int i = 0; i < n; i++)
	{
		int row = (first + i) % n;
		int of = row % ofs;

		if (!passes(sim, db, all, kind, of))
			continue;
		message = row_of(db, kind, row / ofs, of);
		merge(sim, &sim->at[to], &message, true);
	}
}

void
copy(Sim *sim, int from, int to, bool all)
{
	int first = below(sim, 3);

	for (int i = 0; i < 3; i++)
		copy_table(sim, from, to, all, (MessageKind) ((first + i) % 3));
}

/* A link is made again. */
void
copy_again(Sim *sim, int from, int to)
{
	Link *link = &sim->links[from][to];

	if (!link->there || link->cut)
		return;
	begin_link(sim, link);
	copy(sim, from, to, link->all);
}

/* All that the others have. What cannot be merged meanwhile is to be copied again. */
void
refresh(Sim *sim, int to)
{
	Database before = sim->at[to];
	bool all = true;

	sim->at[to].recopy = false;
	sim->at[to].missed = false;

	for (int from = 0; from < sim->databases; from++)
	{
		if (from == to || !sim->at[from].alive)
			continue;
		if (sim->links[from][to].cut)
			all = false;
		else
			copy(sim, from, to, true);
	}
	if (all && !sim->at[to].renew)
	{
		sim->at[to].set_back = false;
		sim->at[to].since = 0;
	}
	else
	{
		sim->at[to].recopy |= before.recopy;
		sim->at[to].missed |= before.missed;
	}
}

/* A database comes back from a backup: its links are to be made again. */
void
cut_off(Sim *sim, int database)
{
	for (int i = 0; i < sim->databases; i++)
	{
		Link *in = &sim->links[i][database];
		Link *out = &sim->links[database][i];

		in->n = 0;
		out->n = 0;
		in->broken = true;
		out->broken = true;
		in->made = ++sim->made;
		out->made = ++sim->made;
	}
}

/*
 * The links of a database that was set back to a snapshot, and has found out, are recreated in both
 * directions: nobody can tell what they pass over. Where that is not done, gaps between beats tell
 * of nearly all of it.
 */
void
make_links_anew(Sim *sim, int database)
{
	Database *db = &sim->at[database];

	if (!db->old_links || db->epoch == db->old_epoch || sim->fault == LINKS_KEPT || sim->fault == GAPS_IGNORED)
		return;
	db->old_links = false;
	for (int i = 0; i < sim->databases; i++)
	{
		copy_again(sim, i, database);
		copy_again(sim, database, i);
	}
}

/* The log of a database, and how far it has taken those of the others. */
void
keep_logs(Sim *sim, int database)
{
	for (int i = 0; i < MAX_DATABASES; i++)
	{
		sim->logs[database][0][i] = sim->links[database][i];
		sim->logs[database][1][i] = sim->links[i][database];
	}
}

/*
 * A database is set back to a snapshot of its disk, and its links continue as they can. One that
 * was made since then cannot: there is no slot, or no subscription, for the other end of it.
 *
 * What the others have sent since then, and this one has taken, does not come again: their logs begin where it had
 * told them to be.
 */
void
set_back(Sim *sim, int database)
{
	for (int i = 0; i < sim->databases; i++)
	{
		const Link *out_then = &sim->logs[database][0][i];
		const Link *in_then = &sim->logs[database][1][i];
		Link *in = &sim->links[i][database];
		Link *out = &sim->links[database][i];

		in->broken |= in->made != in_then->made;
		in->taken = in_then->taken;
		if (out->made == out_then->made)
			set_publisher_back(out, out_then, below(sim, 6));
		else
			out->broken = true;
		if (in->broken)
			in->n = 0;
		if (out->broken)
			out->n = 0;
	}
}

/*
 * The publisher of a link has the log of then. The receiver asks for what comes after that which it has taken: the rest of that
 * log, or, if it was farther, what is written later on. Positions are bytes of the log, so nobody can tell how many
 * transactions it passes over until then.
 */
static void
set_publisher_back(Link *link, const Link *then, int skip)
{
	int rest = then->written - link->taken;

	link->broken = then->broken;
	link->n = 0;
	link->skip = rest < 0 ? skip : 0;
	link->passes = false;
	link->written = rest < 0 ? link->taken : then->written;
	if (rest > 0)
		link->n = rest < then->n ? rest : then->n;
	link->first = (then->first + then->n - link->n) % QUEUE;
	for (int i = 0; i < link->n; i++)
		link->queue[(link->first + i) % QUEUE] = then->queue[(link->first + i) % QUEUE];
}
