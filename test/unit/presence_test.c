/*
 * presence_test.c
 *		Presences without a server (presence_server.h): each place at which another process can come between who turns the
 *		wheel and who is heard of; rules that are altered, by a clock that the test sets; what memory takes and gives
 *		back; and that a new epoch is told of once.
 */
#include "presence_server.h"

#include <setjmp.h>
#include <unistd.h>

#include "unit.h"

#include "memory/presence/sketchring.h"

#define SECOND USECS_PER_SEC
#define TTL (10 * SECOND)

/* An action of a process. */
typedef struct Act
{
	const char *name;
	void (*run)(void);
	bool is_heard; /* the member is there when it is done, and for a ttl from then on */
} Act;

static DcPresenceRule rule;
static DcPresenceUse use;
static bool was_known;

static void
forget_rule(const DcPresenceOwner *owner)
{
	DcPresenceGone gone = {0};

	presence_gone_add(&gone, MyDatabaseId, owner);
	presence_forget(&gone);
}

static void
set_rule(int64 ttl, bool approx)
{
	rule = (DcPresenceRule){.id = 1, .version = rule.version + 1, .ttl = ttl, .events = 1, .approx = approx};
	use.rule = rule;
	use.owner = presence_row_owner(1);
	presence_use_slot(&use);
}

static void
begin(int kilobytes, bool approx)
{
	presence_server_start(kilobytes);
	rule.version = 0;
	use = (DcPresenceUse){0};
	set_rule(TTL, approx);
}

static DcPresenceCall
call_of(const char *room, const char *member, const char *conn)
{
	DcPresenceCall call = {.use = &use, .conn = conn, .conn_len = strlen(conn)};

	call.room.data = room;
	call.room.len = strlen(room);
	call.member.data = member;
	call.member.len = strlen(member);
	return call;
}

static int64
enter(const char *room, const char *member, const char *conn)
{
	DcPresenceCall call = call_of(room, member, conn);

	return presence_enter(&call);
}

static bool
beat(const char *room, const char *member, const char *conn)
{
	DcPresenceCall call = call_of(room, member, conn);

	return presence_beat(&call);
}

static int64
leave(const char *room, const char *member, bool all)
{
	DcPresenceCall call = call_of(room, member, "");

	call.all_conns = all;
	return presence_exit(&call);
}

static int64
present(const char *room)
{
	DcPresenceCall call = call_of(room, "", "");

	return presence_members(&use, &call.room);
}

/* the number in the room's entry, without looking at the time */
static int64
counted(const char *room)
{
	DcPresenceCall call = call_of(room, "", "");
	DcMapEntry *entry = presence_room_find(&use, &call.room);
	int64 members = 0;

	if (entry == NULL)
		return 0;
	members = pg_atomic_read_u32(&((DcPresenceRoom *) map_payload(entry))->members);
	map_unpin(entry);
	return members;
}

static void
turn(void)
{
	while (presence_turn(64, false))
		;
}

/* so much time passes, in which the wheel is turned each second */
static void
pass(int64 us)
{
	for (int64 end = server_now + us; server_now < end;)
	{
		server_now += Min(SECOND, end - server_now);
		turn();
	}
}

static uint64
number(pg_atomic_uint64 *value)
{
	return pg_atomic_read_u64(value);
}

/* the numbers agree with each other */
static bool
adds_up(void)
{
	DcPresenceSlot *slot = use.slot;

	return number(&slot->joined) - number(&slot->left) == (uint64) counted("r") && server_locks_held() == 0 &&
		number(&slot->cells) == map_used(presence_map);
}

/* nobody is there any more, after a ttl and what a room may stay for, and nothing is left in memory */
static bool
all_goes(void)
{
	DcPresenceSlot *slot = use.slot;

	pass(TTL + 2 * SECOND);
	if (counted("r") != 0 || number(&slot->members) != 0 || number(&slot->joined) != number(&slot->left))
		return false;
	(void) server_run_job(); /* then the rooms have nothing to tell */
	server_end(true);
	pass(2 * PRESENCE_EMPTY_ROOM_US + 2 * SECOND);
	return map_used(presence_map) == 0 && presence_area->wheel.count == 0 && number(&slot->rooms) == 0 &&
		number(&slot->cells) == 0 && number(&slot->conns) == 0 && slot->ndirty == 0;
}

/* as many joins and leaves were told of as there were */
static bool
all_is_told(void)
{
	int64 joined = 0;
	int64 left = 0;

	for (int i = 0; i < server_nevents; i++)
	{
		joined += server_events[i].joined;
		left += server_events[i].left;
	}
	return (uint64) joined == number(&use.slot->joined) && (uint64) left == number(&use.slot->left);
}

/*
 * Between the moment at which a member is taken out of the wheel and that at which it is settled, and all others
 */
static void
act_beat(void)
{
	was_known = beat("r", "ann", "");
}

static void
act_enter(void)
{
	(void) enter("r", "ann", "");
}

static void
act_phone(void)
{
	was_known = beat("r", "ann", "phone");
}

static void
act_exit(void)
{
	(void) leave("r", "ann", false);
}

static void
act_again(void)
{
	(void) leave("r", "ann", true);
	(void) enter("r", "ann", "");
}

static void
act_forget(void)
{
	forget_rule(&use.owner);
}

static const Act acts[] = {
	{"a heartbeat", act_beat, true},
	{"an enter", act_enter, true},
	{"a new connection", act_phone, true},
	{"an exit", act_exit, false},
	{"an exit and an enter", act_again, true},
	{"a drop of the rule", act_forget, false},
};

/* a member whose time is up, and one whose time is not */
static void
prepare(int64 late)
{
	static DcPresenceRow row = {.rule = {.id = 1, .name = "chat", .version = 1}, .ttl = TTL, .events = 1};

	begin(1024, false);
	row.epoch = (int64) number(&presence_area->epoch);
	server_rules(&row, 1);
	(void) enter("r", "ann", "");
	server_now += late;
	was_known = false;
}

static bool
comes_out_right(const Act *act)
{
	bool right = adds_up();

	if (act->is_heard)
	{
		right &= counted("r") == 1;
		/* one who was known has not left in between */
		right &= !was_known || number(&use.slot->left) == 0;
		pass(TTL - SECOND);
		right &= counted("r") == 1 && adds_up();
	}
	else
		right &= counted("r") == 0;
	right &= all_goes();
	return right && (act->run == act_forget || all_is_told());
}

/* whether it is right wherever the other comes; the places are counted */
static bool
wherever(const Act *act, bool turner_first, int64 late, int *places)
{
	bool right = true;

	for (*places = 0;; (*places)++)
	{
		bool reached;

		prepare(late);
		server_other = turner_first ? act->run : turn;
		server_other_in = *places;
		if (turner_first)
			turn();
		else
			act->run();
		reached = server_other == NULL;
		server_other = NULL;
		if (!reached)
			break;
		right &= comes_out_right(act);
	}
	return right;
}

static void
others_come_between(void)
{
	for (int i = 0; i < lengthof(acts); i++)
	{
		char name[100];
		int places;
		bool right;

		right = wherever(&acts[i], true, TTL + SECOND / 2, &places);
		snprintf(name, sizeof(name), "%s while the wheel is turned", acts[i].name);
		ok(right && places >= 2, name);
		right = wherever(&acts[i], false, TTL + SECOND / 2, &places) && places >= 1;
		right &= wherever(&acts[i], false, TTL - SECOND, &places) && places >= 1;
		snprintf(name, sizeof(name), "the wheel is turned during %s", acts[i].name);
		ok(right, name);
	}
}

/* as late as that calls turn the wheel themselves */
static void
calls_turn(void)
{
	prepare(TTL + 10 * SECOND);
	act_beat();
	ok(counted("r") == 1 && adds_up() && all_goes() && all_is_told(), "a heartbeat long after");
	prepare(TTL + 10 * SECOND);
	(void) enter("other", "bob", "");
	ok(counted("r") == 0, "and one of another lets who is late leave");
}

static int64
due_at(const char *room)
{
	DcPresenceCall call = call_of(room, "", "");
	DcMapEntry *entry = presence_room_find(&use, &call.room);
	int64 due = (int64) ((DcPresenceRoom *) map_payload(entry))->due * PRESENCE_TICK_US - DC_FIRST_MOMENT;

	map_unpin(entry);
	return due;
}

/* a room that is empty and due: who enters while the wheel is turned is in it */
static bool
empty_room(bool approx, bool turner_first)
{
	bool right = true;
	int places;

	for (places = 0;; places++)
	{
		bool reached;

		begin(1024, approx);
		(void) enter("r", "ann", "");
		if (approx)
			pass(TTL + 3 * SECOND);
		else
			act_exit();
		server_run_job();
		server_end(true);
		/* late, but not so late that calls turn the wheel */
		server_now = due_at("r") - SECOND;
		turn();
		server_now += SECOND + SECOND / 2;
		server_other = turner_first ? act_enter : turn;
		server_other_in = places;
		if (turner_first)
			turn();
		else
			act_enter();
		reached = server_other == NULL;
		server_other = NULL;
		if (!reached)
			break;
		right &= present("r") == 1 && number(&use.slot->cells) == map_used(presence_map);
		pass(TTL - SECOND);
		right &= present("r") == 1;
		pass(4 * SECOND);
		right &= counted("r") == 0;
		server_run_job();
		server_end(true);
		pass(2 * PRESENCE_EMPTY_ROOM_US + 2 * SECOND);
		right &= map_used(presence_map) == 0 && number(&use.slot->rooms) == 0;
	}
	return right && places >= 1;
}

/* a rule that is dropped while its rooms are told of, in a transaction that ends either way */
static void
dropped_while_told(void)
{
	for (int commits = 0; commits < 2; commits++)
	{
		prepare(SECOND);
		(void) server_run_job();
		act_forget();
		server_end(commits);
		ok(use.slot->ndirty == 0 && use.slot->dirty_first == DC_MAP_NONE && use.slot->dirty_last == DC_MAP_NONE && all_goes(),
		   commits ? "a rule that is dropped while it is told of" : "and that is rolled back");
	}
}

/*
 * Rules that are altered
 */
static void
altered(void)
{
	begin(1024, false);
	(void) enter("r", "first", "");
	(void) enter("r", "second", "");
	set_rule(10 * TTL, false);
	(void) enter("r", "third", "");
	(void) beat("r", "second", "");
	pass(TTL + SECOND);
	ok(counted("r") == 2, "a longer ttl holds for who is heard of, and for nobody else");
	pass(8 * TTL);
	ok(counted("r") == 2, "for all of it");
	pass(TTL);
	ok(counted("r") == 0, "and not longer");

	set_rule(10 * TTL, false);
	(void) enter("r", "first", "");
	set_rule(TTL, false);
	(void) enter("r", "second", "");
	(void) beat("r", "first", "");
	pass(TTL + SECOND);
	ok(counted("r") == 1, "a shorter ttl holds from then on");
	pass(9 * TTL - 2 * SECOND);
	ok(counted("r") == 1, "and takes nothing from what was promised");
	pass(2 * SECOND);
	ok(counted("r") == 0, "which ends");
}

static void
altered_approx(void)
{
	begin(1024, true);
	for (int i = 0; i < 3; i++)
		(void) enter("r", i == 0 ? "first" : i == 1 ? "second"
													: "third",
					 "");
	pass(TTL / 2);
	set_rule(10 * TTL, true);
	(void) beat("r", "first", "");
	pass(9 * TTL);
	ok(counted("r") == 3, "approximate: a longer ttl holds for all from when one is heard of");
	pass(3 * TTL);
	ok(counted("r") == 0 && number(&use.slot->cells) <= 1, "and ends, and the memory is free");

	set_rule(100 * TTL, true);
	(void) enter("r", "first", "");
	(void) enter("r", "second", "");
	set_rule(TTL, true);
	pass(2 * TTL);
	ok(counted("r") == 2, "a shorter one is not known where nobody was heard of");
	(void) beat("r", "first", "");
	pass(TTL - SECOND);
	ok(counted("r") == 2, "then it holds for all");
	pass(3 * SECOND + TTL / 9);
	ok(counted("r") == 0, "who leave though nobody looks but the wheel");
	/* one that was altered but for the ttl */
	(void) enter("r", "first", "");
	pass(TTL / 2);
	set_rule(TTL, true);
	(void) beat("r", "second", "");
	pass(TTL / 2 + 2 * SECOND);
	ok(counted("r") == 1, "a change of something else puts nothing off");
}

/*
 * Memory
 */
static void
fill(const char *room, int from, int to)
{
	for (int i = from; i < to; i++)
	{
		char member[20];

		snprintf(member, sizeof(member), "m%d", i);
		(void) enter(room, member, "");
	}
}

static void
bound_of_approx(void)
{
	uint64 most;

	begin(1024, true);
	fill("r", 0, 30000);
	most = number(&use.slot->cells);
	/* with so many, each leaf has somebody: except for one time in a million million */
	ok(most == RING_MAX_CELLS + 1 && most == map_used(presence_map), "a room with many has all of its leaves");
	ok(most * map_cell_size(presence_map) <= 150000, "which are less than 150 kB");
	fill("r", 30000, 60000);
	ok(number(&use.slot->cells) == most, "and takes no more for as many again");
	pass(TTL / 2);
	fill("r", 0, 30000);
	ok(number(&use.slot->cells) == most, "nor at another time");

	forget_rule(&use.owner);
	ok(counted("r") == 0 && number(&use.slot->members) == 0, "when the rule is dropped, the room is empty at once");
	ok(map_used(presence_map) == 0 && number(&use.slot->rooms) == 0, "and gone");
}

static bool
enters(const char *room, const char *member)
{
	sigjmp_buf error;
	volatile bool entered = false;

	server_on_error = &error;
	if (sigsetjmp(error, 0) == 0)
	{
		(void) enter(room, member, "");
		entered = true;
	}
	server_on_error = NULL;
	return entered;
}

/* rooms of a kind, as many as there is memory for */
static void
fill_all(bool approx)
{
	for (int i = 0;; i++)
	{
		char name[20];

		snprintf(name, sizeof(name), "%d", i);
		if (!enters(approx ? name : "r", name))
			break;
	}
}

/* memory that a database had which was dropped; another one has a rule of either kind */
static bool
gives_back(bool approx, bool then_approx, bool worker)
{
	bool right;

	begin(256, approx);
	MyDatabaseId = SERVER_ANOTHER;
	use.rule.max_members = 1000000;
	presence_use_slot(&use);
	fill_all(approx);
	right = map_used(presence_map) + 4 > map_capacity(presence_map);
	server_dropped = MyDatabaseId;
	MyDatabaseId = SERVER_DATABASE;
	server_now += 2 * SECOND;
	set_rule(TTL, then_approx);
	if (worker)
	{
		server_rules(NULL, 0);
		(void) server_run_job();
		server_end(true);
		/* rooms stay for a while, their members do not */
		pass(PRESENCE_EMPTY_ROOM_US + 2 * SECOND);
		return right && map_used(presence_map) == 0 && presence_area->wheel.count == 0;
	}
	right &= enters("r", "ann") || approx;
	pass(PRESENCE_EMPTY_ROOM_US - SECOND);
	right &= enters("r", "ann");
	pass(3 * SECOND);
	return right && counted("r") == 1 && map_used(presence_map) <= 5;
}

/*
 * Epochs
 */
static int
resets(void)
{
	int n = 0;

	for (int i = 0; i < server_nevents; i++)
		n += server_events[i].is_reset;
	return n;
}

static void
told_by_another(void)
{
	pg_atomic_write_u64(&use.slot->told, number(&presence_area->epoch));
}

static const ServerEvent *
last_reset(void)
{
	const ServerEvent *event = &server_events[server_nevents - 1];

	while (!event->is_reset)
		event--;
	return event;
}

static void
another_epoch(void)
{
	presence_new_epoch();
}

/* a presence from before a crash, with somebody to tell of */
static void
crashed(DcPresenceRow *row)
{
	begin(1024, false);
	*row = (DcPresenceRow){.rule = {.id = 1, .name = "chat", .version = rule.version}, .ttl = TTL, .events = 1, .epoch = 5};
	server_rules(row, 1);
	(void) enter("r", "ann", "");
	server_tells_free = true;
}

/* the job runs, late enough for another event */
static void
job(void)
{
	server_now += SECOND;
	(void) server_run_job();
}

static void
job_and_end(bool commits)
{
	job();
	server_end(commits);
}

static void
epochs(void)
{
	DcPresenceRow row;

	crashed(&row);
	job_and_end(true);
	ok(server_nevents == 2 && server_events[0].is_reset && server_events[0].epoch == (int64) number(&presence_area->epoch),
	   "a new epoch is told of, before all that is of it");
	job_and_end(true);
	(void) enter("r", "bob", "");
	job_and_end(true);
	ok(resets() == 1 && server_nevents == 3, "once");

	crashed(&row);
	job();
	job();
	ok(resets() == 1, "once in a transaction");
	server_end(true);
	job_and_end(true);
	ok(resets() == 1 && server_nevents == 2, "and not again after it");

	crashed(&row);
	job_and_end(false);
	ok(resets() == 0, "not, if that is rolled back");
	job_and_end(true);
	ok(resets() == 1 && server_events[0].is_reset && server_events[1].joined == 1, "but by the next one");

	crashed(&row);
	server_savepoint();
	job();
	server_rollback_to();
	job();
	server_end(true);
	job_and_end(true);
	ok(resets() == 1 && server_nevents == 2, "once, after a savepoint that was rolled back");

	crashed(&row);
	server_savepoint();
	server_savepoint();
	job();
	server_release();
	server_rollback_to();
	job();
	server_end(true);
	job_and_end(true);
	ok(resets() == 1 && server_nevents == 2, "or in one that was released in it");

	crashed(&row);
	server_savepoint();
	job();
	server_release();
	job();
	server_end(true);
	job_and_end(true);
	ok(resets() == 1 && server_nevents == 2, "or that was released");

	crashed(&row);
	server_savepoint();
	job();
	server_release();
	server_savepoint();
	server_rollback_to();
	job();
	server_end(true);
	job_and_end(true);
	ok(resets() == 1 && server_nevents == 2, "and is no matter of the next one");

	crashed(&row);
	server_other_tells = told_by_another;
	job_and_end(true);
	ok(resets() == 0 && server_nevents == 1, "by one process, if two want to");

	crashed(&row);
	server_tells_free = false;
	job_and_end(true);
	ok(server_nevents == 0, "not by one that would have to wait");
	server_tells_free = true;
	job_and_end(true);
	ok(resets() == 1, "but the next time");

	crashed(&row);
	job();
	another_epoch();
	job();
	server_end(true);
	job_and_end(true);
	ok(resets() == 2 && server_events[0].epoch + 1 == last_reset()->epoch,
	   "another epoch that begins meanwhile is told of, too, once");

	crashed(&row);
	row.epoch = (int64) number(&presence_area->epoch);
	job_and_end(true);
	ok(resets() == 0 && server_nevents == 1, "one in which the rule was made is not");
}

/* memory that takes more than a step to go over, while members come and go: the next one continues, and nothing is told of before */
static void
slow_epoch(void)
{
	static char names[60][20];
	DcPresenceRow row;
	int64 here = 0;
	int steps = 0;

	crashed(&row);
	for (int i = 0; i < lengthof(names); i++)
	{
		snprintf(names[i], sizeof(names[i]), "%d", i);
		(void) enter(names[i], "ann", "");
	}
	server_tick = SECOND / 100;
	server_yields = true;
	for (; server_nevents == 0 && steps < 100; steps++)
	{
		(void) leave(names[steps % lengthof(names)], "ann", true);
		(void) enter(names[2 * steps % lengthof(names)], "bob", "");
		job_and_end(true);
	}
	server_tick = 0;
	server_yields = false;
	ok(steps > 1 && steps < 30, "an epoch may take several steps");
	(void) enter(names[0], "cid", "");
	for (int i = 0; i < 3; i++)
		job_and_end(true);
	ok(resets() == 1 && server_events[0].is_reset, "is told of once, before all rooms");
	for (int i = 0; i < server_nevents; i++)
		here += server_events[i].joined - server_events[i].left;
	ok(here == (int64) number(&use.slot->joined) - (int64) number(&use.slot->left), "and all that happened is told of after it");
}

/* So many runs tell all of so many presences of an epoch: 16 in each (STEP_EPOCHS). */
static void
job_until_told(int n)
{
	for (int i = 0; i < n / 16 + 5; i++)
		job_and_end(true);
}

/* more presences than there are slots: those without rooms take them from each other */
static void
many_epochs(int n)
{
	static DcPresenceRow rows[2 * PRESENCE_SLOTS];
	static char names[2 * PRESENCE_SLOTS][20];
	char name[100];
	int before;

	begin(1024, false);
	for (int i = 0; i < n; i++)
	{
		snprintf(names[i], sizeof(names[i]), "%d", i);
		rows[i] = (DcPresenceRow){.rule = {.id = i + 1, .name = names[i], .version = 1}, .ttl = TTL, .events = 1, .epoch = 5};
	}
	server_rules(rows, n);
	server_updates = 0;
	job_until_told(n);
	snprintf(name, sizeof(name), "each of %d presences is told of an epoch once", n);
	ok(resets() == n && server_nevents == n, name);
	ok(server_updates == (n > PRESENCE_SLOTS / 2 ? n : 0), "which is kept in the rules, if slots are scarce");
	another_epoch();
	job();
	job();
	server_end(false);
	job_until_told(n);
	ok(resets() == 2 * n && server_nevents == 2 * n, "and of another one");
	before = server_nevents;
	(void) enter("r", "ann", "");
	for (int i = 0; i < 3; i++)
		job_and_end(true);
	ok(server_nevents == before + 1 && !server_events[before].is_reset, "who enters is told of");
	server_rules(NULL, 0);
}

/* slots become scarce when all have been told */
static void
scarce_later(void)
{
	static DcPresenceRow rows[PRESENCE_SLOTS];
	static char names[PRESENCE_SLOTS][20];

	begin(1024, false);
	for (int i = 0; i < PRESENCE_SLOTS; i++)
	{
		snprintf(names[i], sizeof(names[i]), "%d", i);
		rows[i] = (DcPresenceRow){.rule = {.id = i + 1, .name = names[i], .version = 1}, .ttl = TTL, .events = 1, .epoch = 5};
	}
	server_rules(rows, 100);
	server_updates = 0;
	job_until_told(100);
	ok(resets() == 100 && server_updates == 0, "a hundred presences");
	server_rules(rows, 600);
	job_until_told(600);
	ok(resets() == 600 && server_updates == 600, "and five hundred more");
	for (int i = 0; i < 2 * PRESENCE_SLOTS; i++)
	{
		/* of another database */
		DcPresenceUse other = {.owner = {2, i + 1}, .rule = rule};

		presence_use_slot(&other);
	}
	job_until_told(600);
	ok(resets() == 600 && server_updates == 600, "are told of once, though others have had their slots");
	server_rules(NULL, 0);
}

int
main(void)
{
	alarm(300); /* a wheel that is broken may be turned for ever */
	others_come_between();
	calls_turn();
	for (int i = 0; i < 2; i++)
		ok(empty_room(i, true) && empty_room(i, false), i ? "and one that is approximate" : "who enters while an empty room may go");
	dropped_while_told();
	altered();
	altered_approx();
	bound_of_approx();
	for (int i = 0; i < 8; i++)
	{
		char name[100];

		snprintf(name, sizeof(name), "the memory of a database that was dropped: %s, then %s, %s", i & 1 ? "approximate" : "exact",
				 i & 2 ? "approximate" : "exact", i & 4 ? "by the worker" : "without one");
		ok(gives_back(i & 1, i & 2, i & 4), name);
	}
	epochs();
	slow_epoch();
	many_epochs(100);
	many_epochs(PRESENCE_SLOTS + 76);
	scarce_later();
	server_start();
	return done_testing();
}
