/*
 * buyers_test.c
 *		Buyers who come while a database of a region starts, or takes a new epoch (rightsrenew.c): nobody sells units that it
 *		may have sold before it was set back, and nobody waits for ever.
 *
 * A database is a stock, an identity, and the two locks. Buyers, the worker, and one who calls dc_region_renew() take a step
 * each, in any order: a step is what one of them does between two moments at which others can be seen. Those who wait are
 * not asked again before something has changed; if all wait it is a deadlock.
 *
 * Each fault that the protocol might have, or has had, is built in, and must be found out.
 */
#include "unit.h"

#include <string.h>

#define BUYERS 4
#define TAKES 3
#define PATIENCE 2 /* tries of the worker */

typedef enum Fault
{
	NO_FAULT,
	REMEMBERS,	  /* a buyer who has waited continues with the epoch that it has read before */
	STOCK_FIRST,  /* a buyer waits for the identity with the stock locked */
	STOCK_BEFORE, /* it does so only if it has it locked by an earlier take */
	LOOKS_EARLY,  /* it looks before it locks the stock, and not again */
	ENTRY_KEPT,	  /* what an earlier transaction has found holds after the entry has changed */
	FAULTS
} Fault;

static const char *const fault_names[] = {
	"no fault",
	"a buyer who has waited does not look again",
	"a buyer waits with the stock locked",
	"a buyer who has taken units waits",
	"a buyer looks before the stock is locked",
	"a buyer does not see that the stock was shut",
};

typedef enum Place
{
	OUTSIDE,
	AWAITS, /* the identity, before it has the stock locked */
	LOCKS,	/* the stock */
	CHECKS, /* with the stock locked */
	ENDED
} Place;

typedef struct Buyer
{
	Place place;
	bool locked;  /* the stock */
	int takes;	  /* to do */
	int taken;	  /* not committed */
	bool asks;	  /* for another stock as well, say: it needs the identity */
	int epoch;	  /* as its entry has it, */
	int version;  /* the entry's, */
	int found_at; /* and that of which it has found that the stock is its own */
} Buyer;

/* Who takes a new epoch. */
typedef struct Renewer
{
	bool wants;	   /* to */
	bool identity; /* it has that locked */
	bool lossless;
	bool shuts; /* the stock, without a lock */
	int tries;
} Renewer;

typedef struct World
{
	uint64_t seed;
	Fault fault;
	int epoch;	 /* of the stock; below zero: shut */
	int version; /* of its row */
	int next;	 /* epoch */
	int units;
	bool starting;
	bool renew; /* it needs a new epoch */
	bool stale; /* its units may have been sold by another one */
	Buyer buyers[BUYERS];
	Renewer worker;
	Renewer caller;
	const char *wrong;
	long sold;
} World;

static int
below(World *world, int n)
{
	return (int) (unit_random(&world->seed) % (uint64_t) n);
}

static bool
any_locked(const World *world)
{
	for (int i = 0; i < BUYERS; i++)
	{
		if (world->buyers[i].locked)
			return true;
	}
	return false;
}

/* Whoever publishes, or asks whether it may sell, needs the lock on the identity, shared. */
static bool
identity_is_free(const World *world)
{
	return !world->worker.identity && !world->caller.identity;
}

static bool
has_identity(const World *world)
{
	return identity_is_free(world) && !world->starting && !world->renew;
}

static void
leave(Buyer *buyer)
{
	*buyer = (Buyer){.place = ENDED, .version = buyer->version, .epoch = buyer->epoch, .found_at = buyer->found_at};
}

/* The units are sold when the transaction commits. */
static void
commit(World *world, Buyer *buyer)
{
	world->sold += buyer->taken;
	leave(buyer);
}

static void
end(World *world, Buyer *buyer)
{
	world->units += buyer->taken;
	leave(buyer);
}

/* Return true if the buyer's finding is still valid, as its cache entry has not changed; invalidations come with a lock, and with each take. */
static bool
knows(const World *world, const Buyer *buyer)
{
	return buyer->found_at > 0 && (world->fault == ENTRY_KEPT || buyer->found_at == world->version);
}

/* Return true if the stock is open, as far as the buyer checks. */
static bool
look(const World *world, Buyer *buyer)
{
	if (world->fault != REMEMBERS)
	{
		buyer->epoch = world->epoch;
		buyer->version = world->version;
	}
	if (buyer->epoch > 0)
		buyer->found_at = buyer->version;
	return buyer->epoch > 0;
}

/* A take of one unit, with the stock locked. */
static void
take(World *world, Buyer *buyer)
{
	if (world->units == 0)
	{
		end(world, buyer);
		return;
	}
	if (world->stale)
		world->wrong = "a unit is sold again";
	else if (world->epoch < 0)
		world->wrong = "a unit of a stock that is shut is sold";
	world->units--;
	buyer->taken++;
	buyer->asks = below(world, 3) == 0;
	if (--buyer->takes == 0)
		commit(world, buyer);
}

/* The next take, with the stock locked; false if it waits. */
static bool
check(World *world, Buyer *buyer)
{
	bool waits = world->fault == STOCK_FIRST || world->fault == REMEMBERS || (world->fault == STOCK_BEFORE && buyer->taken > 0);

	if ((knows(world, buyer) && !buyer->asks) || world->fault == LOOKS_EARLY)
		take(world, buyer);
	else if (has_identity(world))
	{
		if (look(world, buyer))
			take(world, buyer);
		else
			end(world, buyer);
	}
	else if (waits)
		return false;
	else
		end(world, buyer); /* 40001 */
	return true;
}

static bool
buyer_step(World *world, Buyer *buyer)
{
	switch (buyer->place)
	{
		case OUTSIDE:
			buyer->place = world->fault == STOCK_FIRST || world->fault == REMEMBERS || knows(world, buyer) ? LOCKS : AWAITS;
			return true;
		case AWAITS:
			if (!has_identity(world))
				return false;
			buyer->place = LOCKS;
			if (world->fault == LOOKS_EARLY && !look(world, buyer))
				end(world, buyer);
			return true;
		case LOCKS:
			buyer->locked = true; /* renewals have it locked within a step */
			buyer->epoch = world->epoch;
			buyer->version = world->version;
			buyer->place = CHECKS;
			return true;
		case CHECKS:
			return check(world, buyer);
		default:
			return false;
	}
}

/* The stock is locked against all. Its units are given up, or stay. */
static void
renew_stock(World *world, bool lossless)
{
	world->epoch = ++world->next;
	world->version++;
	if (!lossless)
		world->units = 0;
	world->stale = false;
}

static void
renewed(World *world)
{
	world->starting = false;
	world->renew = false;
	world->worker = (Renewer){false};
	world->caller.identity = false;
}

/* The worker does not wait: it tries again, and then shuts what it cannot have. */
static bool
worker_step(World *world)
{
	Renewer *worker = &world->worker;

	if (!worker->wants || !identity_is_free(world))
		return false;
	if (!worker->shuts && !any_locked(world))
		renew_stock(world, worker->lossless);
	else if (!worker->shuts && worker->tries++ < PATIENCE)
		return true;
	else if (world->epoch > 0)
	{
		world->epoch = -world->epoch;
		world->version++;
	}
	renewed(world);
	return true;
}

/* The caller of dc_region_renew() has locked the identity, and waits for the stock. */
static bool
caller_step(World *world)
{
	Renewer *caller = &world->caller;

	if (!caller->wants)
		return false;
	if (!caller->identity)
	{
		if (!identity_is_free(world))
			return false;
		caller->identity = true;
		return true;
	}
	if (any_locked(world))
		return false;
	renew_stock(world, caller->lossless);
	renewed(world);
	caller->wants = false;
	return true;
}

/* The server is started, from its data or those of another time. Sessions are gone; the entries of new ones are empty. */
static void
start(World *world)
{
	for (int i = 0; i < BUYERS; i++)
	{
		end(world, &world->buyers[i]);
		world->buyers[i] = (Buyer){.place = OUTSIDE, .takes = 1 + below(world, TAKES)};
	}
	world->starting = true;
	world->worker = world->caller = (Renewer){false};
	if (below(world, 2) == 0)
	{
		world->units = 10;
		world->epoch = 1 + below(world, world->next);
		world->version = world->epoch;
		world->stale = true;
	}
}

/* Random events. */
static void
event(World *world)
{
	int what = below(world, 12);

	if (what == 0 && world->starting && !world->stale)
		world->starting = false; /* all have confirmed it */
	else if (what == 1 && world->starting)
		world->worker = (Renewer){.wants = true, .shuts = true}; /* nobody has */
	else if (what == 2 && world->starting && !world->stale)
		world->worker = (Renewer){.wants = true, .lossless = true}; /* some have */
	else if (what == 3)
	{
		world->renew = true; /* others have heard something else, or it is found so */
		world->worker = (Renewer){.wants = true};
	}
	else if (what == 4 && !world->caller.wants)
		world->caller = (Renewer){.wants = true, .lossless = !world->stale};
	else if (what == 5)
		start(world);
	else if (what >= 8)
	{
		Buyer *buyer = &world->buyers[below(world, BUYERS)];

		if (buyer->place == ENDED)
		{
			buyer->place = OUTSIDE;
			buyer->takes = 1 + below(world, TAKES);
		}
	}
}

/* Someone takes a step, if there is one who can; who it is differs. */
static bool
step(World *world)
{
	int first = below(world, BUYERS + 2);

	for (int i = 0; i < BUYERS + 2; i++)
	{
		int who = (first + i) % (BUYERS + 2);

		if (who < BUYERS ? buyer_step(world, &world->buyers[who]) : who == BUYERS ? worker_step(world)
																				  : caller_step(world))
			return true;
	}
	return false;
}

static const char *
run(World *world, uint64_t seed, Fault fault)
{
	long sold = world->sold;

	memset(world, 0, sizeof(*world));
	world->sold = sold;
	world->seed = seed;
	world->fault = fault;
	world->epoch = world->version = world->next = 1;
	world->units = 10;
	for (int i = 0; i < BUYERS; i++)
		world->buyers[i].place = ENDED;
	for (int i = 0; i < 60 && world->wrong == NULL; i++)
	{
		event(world);
		for (int n = below(world, 8); n > 0 && step(world) && world->wrong == NULL;)
			n--;
	}
	/* in the end somebody decides, and all come to their end */
	if (world->starting || world->renew)
		world->worker = (Renewer){.wants = true, .shuts = world->starting};
	for (int i = 0; i < 1000 && world->wrong == NULL && step(world);)
		i++;
	for (int i = 0; i < BUYERS && world->wrong == NULL; i++)
	{
		if (world->buyers[i].place != ENDED)
			world->wrong = "a buyer waits for ever";
	}
	if (world->wrong == NULL && (world->worker.wants || world->caller.wants))
		world->wrong = "a renewal waits for ever";
	return world->wrong;
}

/* How many of n runs are wrong; says which, if they should not be. */
static int
runs(World *world, Fault fault, int n)
{
	int wrong = 0;

	for (int seed = 0; seed < n && (fault == NO_FAULT || wrong == 0); seed++)
	{
		const char *what = run(world, (uint64_t) seed, fault);

		if (what == NULL)
			continue;
		if (wrong++ < 5)
			printf("# seed %d: %s\n", seed, what);
	}
	return wrong;
}

int
main(int argc, char **argv)
{
	static World world;
	int n = argc > 1 && strcmp(argv[1], "long") == 0 ? 1000000 : 20000;
	char name[160];

	snprintf(name, sizeof(name), "%d runs of a stock whose database starts and renews while buyers come", n);
	ok(runs(&world, NO_FAULT, n) == 0, name);
	ok(world.sold > n, "much is sold in them");
	for (Fault fault = NO_FAULT + 1; fault < FAULTS; fault++)
	{
		snprintf(name, sizeof(name), "found out: %s", fault_names[fault]);
		ok(runs(&world, fault, 20000) > 0, name);
	}
	return done_testing();
}
