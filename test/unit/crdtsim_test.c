/*
 * crdtsim_test.c
 *		Replicas that send states, or what is new in them, over a net that loses,
 *		repeats and delays messages and falls apart, against an oracle that knows events
 *		only: which there were, which each replica has seen, and what they mean.
 *
 * An event is one or more facts, each about one thing: a node's amounts, an addition's
 * dot, an element, or the register. A state has all facts that its replica has seen. A
 * delta has those about the things that changed since the state it is made against.
 *
 *		increment		fact about its node
 *		reset			a fact about each node: which increments it had seen
 *		add, set		a fact about its dot; it takes the place of additions seen, of which
 *						it is a fact about each
 *		remove, reset	a fact about each addition seen
 *
 * An element is there if an addition of it was seen that no seen removal had observed.
 * That additions take the place of others changes nothing of it where whole states are
 * sent. Lost deltas can show a removal an addition without those that it took the
 * place of; so there, once all has been seen, a removal has observed these, too.
 *
 * With the argument "long" there are many more runs.
 */
#include "crdt_unit.h"

#define WORDS 24
#define FACTS (64 * WORDS)
#define REPLICAS 5
#define MESSAGES 32

typedef struct Facts
{
	uint64_t bits[WORDS];
} Facts;

typedef enum FactKind
{
	INCREMENT,
	DECREMENT,
	RESET,	 /* of a node's amounts: those in `seen` */
	ADD,	 /* of an element, or a register's value */
	REPLACE, /* of an addition, by a later one */
	REMOVE,	 /* of an addition */
	WRITE	 /* to a last-writer-wins register */
} FactKind;

typedef struct Fact
{
	FactKind kind;
	int about; /* node, or the fact of the addition, or an element */
	int node;
	int element;
	int64_t number; /* amount, counter or time; of REPLACE the fact of the later addition */
	Facts seen;
} Fact;

typedef struct Replica
{
	CrdtBuf state;
	Facts seen;
	int64_t skew;			/* of its clock */
	CrdtBuf sent[REPLICAS]; /* what each other one was last sent */
	Facts sent_seen[REPLICAS];
} Replica;

typedef struct Message
{
	int to;
	CrdtBuf state;
	Facts carried;
} Message;

typedef struct Sim
{
	const CrdtType *type;
	uint64_t seed;
	int replicas;
	bool deltas;
	int64_t now;
	unsigned group; /* replicas of one side while the net is apart; 0 if it is not */
	Replica at[REPLICAS];
	Message messages[MESSAGES];
	int nmessages;
	Fact facts[FACTS];
	int nfacts;
	bool right;
} Sim;

static int
below(Sim *sim, int n)
{
	return (int) (unit_random(&sim->seed) % (uint64_t) n);
}

static bool
has(const Facts *facts, int fact)
{
	return facts->bits[fact / 64] >> (fact % 64) & 1;
}

static void
put(Facts *facts, int fact)
{
	facts->bits[fact / 64] |= UINT64_C(1) << (fact % 64);
}

static void
unite(Facts *facts, const Facts *more)
{
	for (int i = 0; i < WORDS; i++)
		facts->bits[i] |= more->bits[i];
}

static bool
of_amounts(const Sim *sim)
{
	return sim->type->kind == CRDT_GCOUNTER || sim->type->kind == CRDT_PNCOUNTER || sim->type->kind == CRDT_VCLOCK;
}

static bool
of_dots(const Sim *sim)
{
	return sim->type->kind == CRDT_ORSET || sim->type->kind == CRDT_MVREG;
}

/* Record a fact: an action of a replica's user, which the replica has then seen. */
static int
tell(Sim *sim, int replica, Fact fact)
{
	fact.node = replica;
	if (fact.kind == ADD && of_dots(sim))
		fact.about = sim->nfacts;
	sim->facts[sim->nfacts] = fact;
	put(&sim->at[replica].seen, sim->nfacts);
	return sim->nfacts++;
}

/* The meaning of facts about one thing. */
typedef struct Meaning
{
	int64_t numbers[AMOUNTS_FIELDS];
} Meaning;

/* A reset takes away the increments that it had seen, each once. */
static void
amounts_mean(const Sim *sim, const Facts *seen, Meaning *meanings)
{
	Facts covered = {{0}};

	for (int i = 0; i < sim->nfacts; i++)
	{
		if (has(seen, i) && sim->facts[i].kind == RESET)
			unite(&covered, &sim->facts[i].seen);
	}
	for (int i = 0; i < sim->nfacts; i++)
	{
		const Fact *fact = &sim->facts[i];
		int decrement = fact->kind == DECREMENT;

		if (fact->kind <= DECREMENT && has(seen, i))
			meanings[fact->about].numbers[AMOUNT_INC + decrement] += fact->number;
		if (fact->kind <= DECREMENT && has(&covered, i))
			meanings[fact->about].numbers[AMOUNT_INC_RESET + decrement] += fact->number;
	}
}

/* Find out which additions were seen, and which of them are gone. */
static void
additions_mean(const Sim *sim, const Facts *seen, FactKind least, Meaning *meanings)
{
	for (int i = 0; i < sim->nfacts; i++)
	{
		const Fact *fact = &sim->facts[i];

		if (has(seen, i) && fact->kind == ADD)
			meanings[fact->about].numbers[0] = 1;
		else if (has(seen, i) && fact->kind >= least)
			meanings[fact->about].numbers[1] = 1;
	}
}

/* The last fact of those that were seen, by time and node; or -1. */
static int
last_write(const Sim *sim, const Facts *seen)
{
	int last = -1;

	for (int i = 0; i < sim->nfacts; i++)
	{
		if (has(seen, i) && (last < 0 || sim->facts[i].number > sim->facts[last].number || (sim->facts[i].number == sim->facts[last].number && sim->facts[i].node > sim->facts[last].node)))
			last = i;
	}
	return last;
}

/* Compute the meaning of the facts for each thing that they are about. */
static void
means(const Sim *sim, const Facts *seen, Meaning *meanings)
{
	memset(meanings, 0, FACTS * sizeof(Meaning));
	if (of_amounts(sim))
		amounts_mean(sim, seen, meanings);
	else if (sim->type->kind == CRDT_LWW)
		meanings[0].numbers[0] = last_write(sim, seen);
	else
		additions_mean(sim, seen, REPLACE, meanings);
}

/* Return the facts that a delta carries: all known facts about the things whose meaning has changed. */
static Facts
news(const Sim *sim, const Facts *after, const Facts *before)
{
	static Meaning now[FACTS];
	static Meaning then[FACTS];
	Facts carried = {{0}};

	means(sim, after, now);
	means(sim, before, then);
	for (int i = 0; i < sim->nfacts; i++)
	{
		int about = sim->facts[i].about;

		if (has(after, i) && memcmp(&now[about], &then[about], sizeof(Meaning)) != 0)
			put(&carried, i);
	}
	return carried;
}

/* The state of facts, put together without any merge. */

static void
amounts_of(const Sim *sim, const Facts *seen, CrdtBuf *out)
{
	static Meaning meanings[FACTS];
	AmountsEntry entries[REPLICAS];
	size_t n = 0;

	means(sim, seen, meanings);
	for (int node = 0; node < sim->replicas; node++)
	{
		Meaning meaning = meanings[node];

		entries[n].node = unit_nodes[node];
		memcpy(entries[n].amounts, meaning.numbers, sizeof(meaning.numbers));
		n += meaning.numbers[AMOUNT_INC] > 0 || meaning.numbers[AMOUNT_DEC] > 0;
	}
	amounts_encode(out, sim->type->kind, entries, n);
}

static void
gset_of(const Sim *sim, const Facts *seen, CrdtBuf *out)
{
	static Meaning meanings[FACTS];
	CrdtString elements[UNIT_ELEMENTS];
	size_t n = 0;

	means(sim, seen, meanings);
	for (int i = 0; i < UNIT_ELEMENTS; i++)
	{
		if (meanings[i].numbers[0] != 0)
			elements[n++] = unit_elements[i];
	}
	gset_encode(out, elements, n);
}

/* Additions of a node are in order of their numbers. */
static void
context_of(const Sim *sim, const Facts *seen, DotsContext *context, size_t *numbers)
{
	for (int node = 0; node < sim->replicas; node++)
	{
		DotsNode *of = &context->nodes[context->n];

		*of = (DotsNode){unit_nodes[node], context->ranges + context->nranges, 0};
		for (int i = 0; i < sim->nfacts; i++)
		{
			int64_t counter = sim->facts[i].number;

			if (sim->facts[i].kind != ADD || sim->facts[i].node != node || !has(seen, i))
				continue;
			if (of->n > 0 && of->ranges[of->n - 1].last == counter - 1)
				of->ranges[of->n - 1].last++;
			else
				of->ranges[of->n++] = (DotsRange){counter, counter};
		}
		numbers[node] = context->n;
		context->nranges += of->n;
		context->n += of->n > 0;
	}
}

static void
dots_of(const Sim *sim, const Facts *seen, CrdtBuf *out)
{
	static Meaning meanings[FACTS];
	static DotsNode nodes[REPLICAS];
	static DotsRange ranges[FACTS];
	static Dot dots[FACTS];
	DotsContext context = {nodes, 0, ranges, 0};
	DotsWriter writer = {no_bytes, 0};
	size_t numbers[REPLICAS];

	means(sim, seen, meanings);
	context_of(sim, seen, &context, numbers);
	for (int element = 0; element < UNIT_ELEMENTS; element++)
	{
		size_t n = 0;

		for (int node = 0; node < sim->replicas; node++)
		{
			for (int i = 0; i < sim->nfacts; i++)
			{
				const Fact *fact = &sim->facts[i];

				if (fact->kind == ADD && fact->element == element && fact->node == node && has(seen, i) &&
					meanings[i].numbers[1] == 0)
					dots[n++] = (Dot){numbers[node], fact->number};
			}
		}
		dots_put(&writer, unit_elements[element], dots, n);
	}
	dots_finish(&writer, out, sim->type->kind, &context);
}

static void
lww_of(const Sim *sim, const Facts *seen, CrdtBuf *out)
{
	int last = last_write(sim, seen);
	const Fact *fact;

	if (last < 0)
	{
		lww_empty(out);
		return;
	}
	fact = &sim->facts[last];
	lww_encode(out, &(Lww){true, {fact->number, unit_nodes[fact->node]}, unit_elements[fact->element]});
}

static CrdtBuf
state_of(const Sim *sim, const Facts *seen)
{
	CrdtBuf out = no_bytes;

	if (of_amounts(sim))
		amounts_of(sim, seen, &out);
	else if (of_dots(sim))
		dots_of(sim, seen, &out);
	else if (sim->type->kind == CRDT_GSET)
		gset_of(sim, seen, &out);
	else
		lww_of(sim, seen, &out);
	return out;
}

/* What users see, from the events alone. */

static bool
counts_right(const Sim *sim, const Replica *replica)
{
	Facts taken = {{0}};
	int64_t expected = 0;
	int64_t value;

	for (int i = 0; i < sim->nfacts; i++)
	{
		if (sim->facts[i].kind == RESET && has(&replica->seen, i))
			unite(&taken, &sim->facts[i].seen);
	}
	for (int i = 0; i < sim->nfacts; i++)
	{
		if (sim->facts[i].kind <= DECREMENT && has(&replica->seen, i) && !has(&taken, i))
			expected += sim->facts[i].kind == INCREMENT ? sim->facts[i].number : -sim->facts[i].number;
	}
	return amounts_value(crdt_bytes(&replica->state), &value) && value == expected;
}

/* A removal that has observed an addition has observed those that it took the place of. */
static void
follow_removals(const Sim *sim, const Facts *seen, Meaning *meanings)
{
	for (int i = sim->nfacts - 1; i >= 0; i--)
	{
		const Fact *fact = &sim->facts[i];

		if (has(seen, i) && fact->kind == REPLACE && meanings[fact->number].numbers[1] != 0)
			meanings[fact->about].numbers[1] = 1;
	}
}

static bool
contains_right(const Sim *sim, const Replica *replica)
{
	static Meaning meanings[FACTS];
	CrdtBytes state = crdt_bytes(&replica->state);
	bool right = true;
	int64_t n = 0;

	memset(meanings, 0, sizeof(meanings));
	/* a register's values are those that no set has taken the place of */
	additions_mean(sim, &replica->seen, sim->type->kind == CRDT_ORSET ? REMOVE : REPLACE, meanings);
	if (sim->deltas)
		follow_removals(sim, &replica->seen, meanings);
	for (int element = 0; element < UNIT_ELEMENTS; element++)
	{
		bool there = false;

		for (int i = 0; i < sim->nfacts; i++)
		{
			if (sim->facts[i].kind == ADD && sim->facts[i].element == element && has(&replica->seen, i))
				there |= meanings[i].numbers[1] == 0;
		}
		right = right && there == dots_contains(state, unit_elements[element]);
		n += there;
	}
	return right && n == dots_count(state);
}

/* whole: it has seen all, or all that it has seen came in whole states. */
static void
check_replica(Sim *sim, const Replica *replica, bool whole)
{
	CrdtBuf expected = state_of(sim, &replica->seen);

	sim->right = sim->right && unit_valid(sim->type, &replica->state) && unit_same(&replica->state, &expected);
	if (of_amounts(sim))
		sim->right = sim->right && counts_right(sim, replica);
	else if (of_dots(sim) && whole)
		sim->right = sim->right && contains_right(sim, replica);
	crdt_buf_free(&expected);
}

/* Operations of a replica's user: on the state, and as facts. */

static void
operate_amounts(Sim *sim, int at)
{
	Replica *replica = &sim->at[at];
	CrdtBuf out = no_bytes;
	int what = sim->type->kind == CRDT_PNCOUNTER ? below(sim, 5) : 4;
	int64_t amount = 1 + below(sim, below(sim, 4) == 0 ? 1000000 : 5);
	Facts seen = replica->seen;

	if (what == 0)
	{
		amounts_reset(&out, crdt_bytes(&replica->state));
		for (int node = 0; node < sim->replicas; node++)
			tell(sim, at, (Fact){RESET, node, 0, 0, 0, seen});
		/* each is about the increments of its node */
		for (int i = sim->nfacts - sim->replicas; i < sim->nfacts; i++)
		{
			for (int j = 0; j < i; j++)
			{
				if (sim->facts[j].about != sim->facts[i].about)
					sim->facts[i].seen.bits[j / 64] &= ~(UINT64_C(1) << (j % 64));
			}
		}
	}
	else
	{
		sim->right = sim->right && amounts_add(&out, crdt_bytes(&replica->state), unit_nodes[at], what == 1 ? AMOUNT_DEC : AMOUNT_INC, amount);
		tell(sim, at, (Fact){what == 1 ? DECREMENT : INCREMENT, at, 0, 0, amount, {{0}}});
	}
	unit_replace(&replica->state, out);
}

/* A fact of each addition that the replica has seen: of one element, or of all. */
static void
tell_of_additions(Sim *sim, int at, FactKind kind, int element)
{
	Facts seen = sim->at[at].seen;
	int n = sim->nfacts;

	for (int i = 0; i < n; i++)
	{
		if (sim->facts[i].kind == ADD && has(&seen, i) && (element < 0 || sim->facts[i].element == element))
			tell(sim, at, (Fact){kind, i, 0, 0, 0, {{0}}});
	}
}

static void
operate_dots(Sim *sim, int at)
{
	Replica *replica = &sim->at[at];
	CrdtBytes state = crdt_bytes(&replica->state);
	CrdtBuf out = no_bytes;
	bool set = sim->type->kind == CRDT_ORSET;
	int what = below(sim, 12);
	int element = below(sim, UNIT_ELEMENTS);
	int first = sim->nfacts;
	int64_t counter = 1;

	if (what == 0)
	{
		dots_reset(&out, state);
		tell_of_additions(sim, at, REMOVE, -1);
	}
	else if (set && what < 5)
	{
		dots_remove(&out, state, unit_elements[element]);
		tell_of_additions(sim, at, REMOVE, element);
	}
	else
	{
		sim->right = sim->right && (set ? dots_add : dots_set)(&out, state, unit_elements[element], unit_nodes[at]);
		tell_of_additions(sim, at, REPLACE, set ? element : -1);
		for (int i = 0; i < sim->nfacts; i++)
			counter += sim->facts[i].kind == ADD && sim->facts[i].node == at;
		for (int i = first; i < sim->nfacts; i++)
			sim->facts[i].number = sim->nfacts;
		tell(sim, at, (Fact){ADD, 0, 0, element, counter, {{0}}});
	}
	unit_replace(&replica->state, out);
}

static void
operate_gset(Sim *sim, int at)
{
	CrdtBuf out = no_bytes;
	int element = below(sim, UNIT_ELEMENTS);

	gset_add(&out, crdt_bytes(&sim->at[at].state), unit_elements[element]);
	unit_replace(&sim->at[at].state, out);
	tell(sim, at, (Fact){ADD, element, 0, element, 0, {{0}}});
}

/* The clocks go wrong; but a write is later than all that its replica has seen. */
static void
operate_lww(Sim *sim, int at)
{
	Replica *replica = &sim->at[at];
	CrdtBuf out = no_bytes;
	Lww old = lww_decode(crdt_bytes(&replica->state));
	int element = below(sim, UNIT_ELEMENTS);
	int64_t time = stamp_next(sim->now + replica->skew, old.written ? old.stamp.time : 0, 0);
	Lww new = {true, {time, unit_nodes[at]}, unit_elements[element]};

	sim->right = sim->right && (!old.written || stamp_compare(&old.stamp, &new.stamp) < 0);
	lww_encode(&out, &new);
	unit_replace(&replica->state, out);
	tell(sim, at, (Fact){WRITE, 0, 0, element, time, {{0}}});
}

static void
operate(Sim *sim, int at)
{
	if (of_amounts(sim))
		operate_amounts(sim, at);
	else if (of_dots(sim))
		operate_dots(sim, at);
	else if (sim->type->kind == CRDT_GSET)
		operate_gset(sim, at);
	else
		operate_lww(sim, at);
	sim->now += below(sim, 3);
	if (below(sim, 10) == 0)
		sim->at[at].skew = below(sim, 40) - 20;
}

/* The net. */

static bool
apart(const Sim *sim, int a, int b)
{
	return sim->group != 0 && (sim->group >> a & 1) != (sim->group >> b & 1);
}

static void
send(Sim *sim, int from, int to)
{
	Replica *replica = &sim->at[from];
	Message *message = &sim->messages[sim->nmessages];

	if (from == to || sim->nmessages == MESSAGES)
		return;
	message->to = to;
	if (sim->deltas && below(sim, 8) > 0)
	{
		message->state = unit_delta(sim->type, &replica->state, &replica->sent[to]);
		message->carried = news(sim, &replica->seen, &replica->sent_seen[to]);
	}
	else
	{
		message->state = unit_copy(crdt_bytes(&replica->state));
		message->carried = replica->seen;
	}
	unit_replace(&replica->sent[to], unit_copy(crdt_bytes(&replica->state)));
	replica->sent_seen[to] = replica->seen;
	if (apart(sim, from, to) || below(sim, 5) == 0)
		crdt_buf_free(&message->state); /* lost */
	else
		sim->nmessages++;
}

static void
receive(Sim *sim, Replica *replica, const CrdtBuf *state, const Facts *carried, bool whole)
{
	CrdtBuf merged = below(sim, 2) ? unit_merge(sim->type, &replica->state, state) : unit_merge(sim->type, state, &replica->state);

	unit_replace(&replica->state, merged);
	unite(&replica->seen, carried);
	check_replica(sim, replica, whole);
}

/* Any message that is on its way arrives, and may do so again. */
static void
deliver(Sim *sim)
{
	int which = below(sim, sim->nmessages);
	Message message = sim->messages[which];

	receive(sim, &sim->at[message.to], &message.state, &message.carried, !sim->deltas);
	if (below(sim, 4) == 0)
		return;
	crdt_buf_free(&message.state);
	sim->messages[which] = sim->messages[--sim->nmessages];
}

static void
step(Sim *sim)
{
	int at = below(sim, sim->replicas);

	switch (below(sim, 12))
	{
		case 0:
		case 1:
		case 2:
			operate(sim, at);
			check_replica(sim, &sim->at[at], !sim->deltas);
			break;
		case 3:
			sim->group = below(sim, 2) ? 0 : (unsigned) below(sim, 1 << sim->replicas);
			break;
		case 4:
		case 5:
		case 6:
		case 7:
			send(sim, at, below(sim, sim->replicas));
			break;
		default:
			if (sim->nmessages > 0)
				deliver(sim);
	}
}

/* All replicas get all states, or what is new in them against an empty one, in turn. */
static void
exchange(Sim *sim)
{
	for (int round = 0; round < 2; round++)
	{
		for (int from = 0; from < sim->replicas; from++)
		{
			for (int to = 0; to < sim->replicas; to++)
			{
				CrdtBuf delta = unit_delta(sim->type, &sim->at[from].state, &sim->at[to].state);
				Facts carried = news(sim, &sim->at[from].seen, &sim->at[to].seen);

				if (below(sim, 2))
					receive(sim, &sim->at[to], &delta, &carried, false);
				receive(sim, &sim->at[to], &sim->at[from].state, &sim->at[from].seen, false);
				crdt_buf_free(&delta);
			}
		}
	}
}

static bool
run(const CrdtType *type, int replicas, bool deltas, int steps, uint64_t seed)
{
	static Sim sim;
	int all = 0;

	memset(&sim, 0, sizeof(sim));
	sim.type = type;
	sim.seed = seed;
	sim.replicas = replicas;
	sim.deltas = deltas;
	sim.now = 100;
	sim.right = true;
	for (int i = 0; i < replicas; i++)
	{
		sim.at[i].state = unit_empty(type);
		for (int j = 0; j < replicas; j++)
			sim.at[i].sent[j] = unit_empty(type);
	}
	for (int i = 0; i < steps && sim.nfacts < FACTS - 100 && sim.right; i++)
		step(&sim);
	exchange(&sim);
	for (int i = 0; i < sim.nfacts; i++)
		all += has(&sim.at[0].seen, i);
	sim.right = sim.right && all == sim.nfacts;
	for (int i = 0; i < replicas; i++)
	{
		check_replica(&sim, &sim.at[i], true);
		sim.right = sim.right && unit_same(&sim.at[i].state, &sim.at[0].state);
	}
	for (int i = 0; i < replicas; i++)
	{
		crdt_buf_free(&sim.at[i].state);
		for (int j = 0; j < replicas; j++)
			crdt_buf_free(&sim.at[i].sent[j]);
	}
	for (int i = 0; i < sim.nmessages; i++)
		crdt_buf_free(&sim.messages[i].state);
	return sim.right;
}

int
main(int argc, char **argv)
{
	bool whole = argc > 1 && strcmp(argv[1], "long") == 0;
	int runs = whole ? 800 : 60;
	char name[120];

	for (int i = 0; i < CRDT_TYPES; i++)
	{
		const CrdtType *type = crdt_types[i];

		for (int deltas = 0; deltas < 2 && type->delta != NULL; deltas++)
		{
			int wrong = 0;

			for (int seed = 0; seed < runs; seed++)
			{
				if (!run(type, 2 + seed % 4, deltas, 40 << seed % 4, (uint64_t) (seed * 16 + i)) && wrong++ < 5)
					printf("# %s: replicas of seed %d differ\n", type->name, seed);
			}
			snprintf(name, sizeof(name), "%s: %d runs of 2 to 5 replicas that send %s end equal, and are right on the way",
					 type->name, runs, deltas ? "deltas" : "states");
			ok(wrong == 0, name);
		}
	}
	return done_testing();
}
