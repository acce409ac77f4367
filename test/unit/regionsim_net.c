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
 */
#include "regionsim.h"

static void
make_link(Sim *sim, int from, int to, bool all)
{
	Link *link = &sim->links[from][to];

	if (from == to)
		return;
	link->there = true;
	link->all = link->all || all;
	link->cut = false;
	link->broken = false;
	link->n = 0;
	link->skip = 0;
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
		if (i == database || !sim->at[i].alive)
			continue;
		make_link(sim, i, database, false);
		make_link(sim, database, i, false);
	}
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

/* A row was written: it goes to the links that it is for. */
void
publish(Sim *sim, const Database *db, MessageKind kind, int key, int of)
{
	int from = (int) (db - sim->at);

	for (int to = 0; to < sim->databases; to++)
	{
		Link *link = &sim->links[from][to];

		if (!link->there || link->broken || !passes(sim, db, link->all, kind, of))
			continue;
		if (link->skip > 0)
		{
			link->skip--;
			continue;
		}
		if (link->n == QUEUE)
		{
			link->broken = true;
			link->n = 0;
			continue;
		}
		link->queue[(link->first + link->n++) % QUEUE] = row_of(db, kind, key, of);
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
	link->n = 0;
	link->skip = 0;
	link->broken = false;
	link->lossy = false;
	copy(sim, from, to, link->all);
}

/* All that the others have. */
void
refresh(Sim *sim, int to)
{
	bool all = true;

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
		sim->at[to].recopy = false;
}

/*
 * What was on its way from or to a database is not any more. Its links are to be made again, or go
 * on: then the receivers, which know a later position in the log, pass over some of what comes.
 */
void
cut_off(Sim *sim, int database, bool again)
{
	for (int i = 0; i < sim->databases; i++)
	{
		Link *in = &sim->links[i][database];
		Link *out = &sim->links[database][i];

		in->n = 0;
		out->n = 0;
		in->broken |= again;
		out->broken |= again;
		out->skip = again ? 0 : below(sim, 6);
	}
}
