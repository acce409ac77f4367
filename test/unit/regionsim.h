/*
 * regionsim.h
 *		A simulation of counters that several regions count in: databases that do what
 *		src/region does, the links between them, what happens to both, and the truth.
 *
 * A database is a line of transactions, each done at once. What is simulated is what it may
 * know of the others, and when: rows come late, again, in another order, or not at all;
 * databases crash, come back from a backup, run twice, or are given up. Whether transactions
 * of one database get along is not simulated; isolation and TAP tests see to that.
 *
 * The truth is the events: increments, and which of them a set has observed. Each amount
 * goes with the events that it is the sum of. What is compared are the numbers that the
 * databases have computed without looking at these (regionsim_oracle.c).
 */
#ifndef REGIONSIM_H
#define REGIONSIM_H

#include <string.h>

#include "unit.h"

#define KEYS 2
#define MAX_REGIONS 5
#define MAX_DATABASES 8
#define MAX_EPOCHS 20
#define EVENT_WORDS 2
#define MAX_EVENTS (64 * EVENT_WORDS)
#define MAX_ROWS 24
#define QUEUE 48

/* What may be wrong in the protocol; each must be found out. */
typedef enum Fault
{
	NO_FAULT,
	NO_FOLD_AT_SET,	   /* a set observes what is not yet in its own slot */
	NO_FOLD_AT_RENEW,  /* what a restored database has not published is dropped */
	ROWS_TO_NEW_EPOCH, /* or published under the new epoch */
	IDENTITY_KEPT,	   /* a restored database goes on as before */
	EPOCH_TWICE,	   /* a database that is restored again takes the same epoch again */
	LAST_WINS,		   /* a row that comes replaces the one that is there */
	ADDED_WHOLE,	   /* the value grows by the row that comes, not by the difference */
	ADDED_TWICE,
	OWN_EPOCH_MERGED,	 /* what others know of its own epoch raises the own slot */
	NO_SEAL,			 /* what was there at the start is not told from what came after */
	BEAT_AFTER_ROWS,	 /* the number of the beat grows after what was published */
	NO_HANDSHAKE,		 /* a database publishes as soon as it is started */
	BOOT_CLIMBS,		 /* a new boot outgrows the beats of the one before */
	START_CLIMBS,		 /* a start that nobody has confirmed helps the next one to do so */
	GAPS_IGNORED,		 /* beats that are missing do not lead to a copy */
	SET_WITHOUT_LIFT,	 /* what a set has observed is not merged before it */
	BASE_OF_LAST_SET,	 /* only the last set takes away what it has observed */
	LAST_SET_COMES_LAST, /* the set that comes last wins, not the one with the latest time */
	WALL_CLOCK,			 /* sets go by the wall clock alone */
	SETS_TIE,			 /* of two sets at one time the one that comes first wins */
	ROWS_KEPT,			 /* what was published is published again */
	RETIRED_AT_ONCE,	 /* a region leaves without waiting for what it has sent */
	NO_REFRESH,			 /* survivors do not tell each other what a lost region has told them */
	ALONE_KEPT,			 /* a start of a database that knows no other takes no new epoch */
	RETIRED_MISSED,		 /* a region that comes later does not ask for what retired ones had counted */
	LINKS_KEPT,			 /* of a database that was set back to a snapshot, links continue, and are not made anew */
	DUMP_IS_MUTE,		 /* a dump that is restored sends no beats */
	HEALS_ALWAYS,		 /* a database that has taken new epochs is well whatever others have heard of the ones before */
	HEALS_NEVER,		 /* or never, though they have heard no more */
	HEALS_UNASKED,		 /* or before they have heard of the new one */
	HEALS_FOLDED,		 /* or though it has published under an old epoch since it began */
	STARTS_ARE_MUTE,	 /* a start that is under way does not answer those of others */
	FAULTS
} Fault;

typedef struct Events
{
	uint64_t bits[EVENT_WORDS];
} Events;

typedef struct Amounts
{
	int64_t inc;
	int64_t dec;
} Amounts;

/*
 * What a key has counted in a region, under an epoch. The events are those that someone has
 * thought to be in it, and those that certainly are: a database that does not know that
 * it was restored may publish what others will not tell from what they have.
 *
 * Of two states of a slot neither of which has all of the other, as of a clone that has published what the original had
 * not yet, the greater amount stands. What that one is the sum of are the events counted; the others come on top later.
 */
typedef struct Slot
{
	Amounts amounts;
	Events all;
	Events firm;
	Events counted;
} Slot;

typedef struct SetRow
{
	bool there;
	int64_t hlc;
	int64_t value;
	Slot upto[MAX_EPOCHS];
} SetRow;

typedef struct Heard
{
	int64_t seq;
	int boot;
	int series;
} Heard;

/* A row of dcounter.region. */
typedef struct Beat
{
	Heard heard;
	int64_t first; /* number of the first beat of the series */
	Heard seen[MAX_EPOCHS];
	int asks;				 /* what they have heard of the epochs of the sender from this one on, plus 1; or 0 */
	int answers[MAX_EPOCHS]; /* to the beats of other epochs that have asked */
} Beat;

/* A shard row. */
typedef struct Row
{
	int key;
	Slot slot;
} Row;

typedef struct Database
{
	bool alive;
	int region;
	int epoch;
	int boot;
	int series;		/* of boots that nobody has confirmed, up to this one */
	int64_t first;	/* number of their first beat */
	bool renew;		/* it knows that it needs a new epoch */
	bool starting;	/* it does not know yet whether its epoch is good */
	bool recopy;	/* it may miss what others have sent it */
	bool missed;	/* that is certain */
	int since;		/* of its epochs from this one on, plus 1, the others may say that it lacks nothing; or 0 */
	bool knows;		/* of other regions */
	bool set_back;	/* to a snapshot, so that it is to be refreshed: nothing may tell it what it had got since, of an epoch that has ended */
	bool old_links; /* since then, which are to be recreated if it finds out, and so ends the epoch that it had */
	int old_epoch;
	bool mute;		/* for a fault */
	int64_t skew;	/* of its clock */
	int next_epoch; /* for a fault */
	Row rows[MAX_ROWS];
	int nrows;
	Slot sealed[KEYS];	  /* in the totals, but in no slot yet */
	Amounts totals[KEYS]; /* with the remote shard rows */
	Slot slots[KEYS][MAX_EPOCHS];
	SetRow sets[KEYS][MAX_REGIONS];
	Beat beats[MAX_EPOCHS];
} Database;

typedef enum MessageKind
{
	SLOT,
	SET,
	BEAT
} MessageKind;

/* A row that is on its way: one of a publisher's log that the receiver has not taken yet. */
typedef struct Message
{
	MessageKind kind;
	int key;
	int of; /* epoch, or region of a set */
	union
	{
		Slot slot;
		SetRow set;
		Beat beat;
	} row;
} Message;

/* A subscription. */
typedef struct Link
{
	bool there;
	bool all;	 /* rows of all regions, not only those of the sender's */
	bool cut;	 /* for now */
	bool broken; /* it is too far behind: it has to be made again, with a copy */
	bool lossy;	 /* it has lost a row */
	int made;	 /* another number each time it is made again */
	int skip;	 /* so many transactions are passed over, as they come from before where the receiver is */
	bool passes; /* the rest of one that is */
	int written; /* rows that the publisher has ever written for it */
	int taken;	 /* how many of them the receiver knows to have taken */
	int first;
	int n; /* the last of them that are on their way */
	Message queue[QUEUE];
} Link;

typedef struct Event
{
	int key;
	int64_t amount;
} Event;

typedef struct Sim
{
	uint64_t seed;
	Fault fault;
	bool wild;	  /* rows are lost, repeated and out of order */
	bool whole;	  /* the rows of a transaction come together */
	bool trusted; /* rows, not beats alone, say that a database must renew */
	bool apart;	  /* the first region is joined by the others later on */
	bool slow;	  /* starts are often confirmed too late */
	int64_t now;
	int regions;
	int databases;
	int epochs;
	int boots;
	int region_of[MAX_EPOCHS];
	bool left[MAX_EPOCHS]; /* that of a region that was retired */
	Database at[MAX_DATABASES];
	Database backup[MAX_DATABASES];
	Database snapshot[MAX_DATABASES];
	Link links[MAX_DATABASES][MAX_DATABASES];
	Link logs[MAX_DATABASES][2][MAX_DATABASES]; /* from and to a database when its snapshot was made */
	int made;									/* links */
	Event events[MAX_EVENTS];
	int nevents;
	Events lost;   /* those that may be */
	bool forked;   /* a database was, or is, there twice */
	bool survived; /* by some, not by all */
	long delivered;
	const char *wrong;
	struct
	{
		long sets, renewals, late, healed, restores, snapshots, clones, dumps, retired, losses;
	} had;
} Sim;

/* regionsim_test.c */
extern int below(Sim *sim, int n);
extern bool chance(Sim *sim, int n);

/* regionsim_database.c */
extern bool amounts_covered(Amounts amounts, Amounts by);
extern void slot_add(Slot *to, const Slot *more);
extern void slot_raise(const Sim *sim, Slot *slot, const Slot *come);
extern int64_t formula(const Sim *sim, const Database *db, int key);
extern void count(Sim *sim, Database *db);
extern void compact(Sim *sim, Database *db, bool whole);
extern void set(Sim *sim, Database *db, int key, int64_t value);
extern void beat(Sim *sim, Database *db);
extern void merge(Sim *sim, Database *db, const Message *message, bool copied);

/* regionsim_identity.c */
extern void begin(Sim *sim, Database *db);
extern void new_series(Sim *sim, Database *db);
extern void seal(Database *db);
extern bool has_heard_of(const Sim *sim, const Database *db, int region);
extern bool is_only_heir(const Sim *sim, const Database *db, int key, const Events *folded);
extern void try_start(Sim *sim, Database *db);
extern void prepare_epoch(Sim *sim, Database *db);
extern void renew(Sim *sim, Database *db, bool late);
extern void miss(Database *db);
extern void try_heal(Sim *sim, Database *db);
extern bool may_heal(const Database *db);
extern bool look_at_beat(Sim *sim, Database *db, int epoch, const Beat *beat, bool copied);
extern bool beat_conflicts(const Sim *sim, const Beat *have, const Beat *beat);

/* regionsim_net.c */
extern void connect_all(Sim *sim, int topology);
extern void join(Sim *sim, int database);
extern void join_one(Sim *sim, int from, int to);
extern void publish(Sim *sim, const Database *db, MessageKind kind, int key, int of);
extern void deliver(Sim *sim, int from, int to);
extern void drain(Sim *sim);
extern void copy(Sim *sim, int from, int to, bool all);
extern void copy_again(Sim *sim, int from, int to);
extern void refresh(Sim *sim, int to);
extern void cut_off(Sim *sim, int database);
extern void make_links_anew(Sim *sim, int database);
extern void keep_logs(Sim *sim, int database);
extern void set_back(Sim *sim, int database);

/* regionsim_disaster.c */
extern void crash(Sim *sim, Database *db);
extern void take_snapshot(Sim *sim, int which);
extern void restore(Sim *sim, int which, bool snapshot);
extern void clone(Sim *sim, int which);
extern void lose(Sim *sim, int which);
extern void retire(Sim *sim, int which);

/* regionsim_oracle.c */
extern bool has(const Events *events, int event);
extern void put(Events *events, int event);
extern void unite(Events *events, const Events *more);
extern bool within(const Events *events, const Events *all);
extern Events known_at(const Database *db, int key);
extern Events firm_elsewhere(const Sim *sim, int but);
extern void fail(Sim *sim, const char *what);
extern void check_database(Sim *sim, const Database *db);
extern void check_healed(Sim *sim, const Database *db);
extern void check_end(Sim *sim);

#endif /* REGIONSIM_H */
