/*
 * limitmemory_test.c
 *		Limits without a server (server.h): which keys go when a rule was altered, dropped or
 *		recreated with another algorithm, by a clock that the test sets; and the memory of a
 *		database that was dropped.
 */
#include "server.h"

#include "unit.h"

#include "base/guc.h"
#include "memory/limit/limiter.h"
#include "memory/limit/limitinit.h"

#define SECOND USECS_PER_SEC
#define LONG_PER (100 * USECS_PER_DAY)

static const char *const names[] = {"gcra", "fixed", "log", "sliding", "concurrent"};

int dc_limit_size = 0;
int dc_throttle_max_keys = 1000;

/* Sessions; each knows the rule as it has read it. */
static DcLimitUse old_session;
static DcLimitUse session;

/* there is no file, and nothing is transactional */
Size
limitfile_size(void)
{
	return 0;
}

void
limitfile_load(uint64 lsn)
{
}

void
limitfile_save(int code, Datum arg)
{
}

DcRuleKind limit_rules = {0};

void
rule_kind_add(DcRuleKind *kind, bool preloading)
{
}

static void
forget_rule(const DcLimitOwner *rule)
{
	DcLimitGone gone = {0};

	limit_gone_add(&gone, MyDatabaseId, rule);
	limit_forget(&gone);
}

static void
begin(int kilobytes)
{
	server_start();
	dc_limit_size = kilobytes;
	limiter_init(true);
	old_session = session = (DcLimitUse){0};
}

static void
set_rule(DcLimitKind kind, int64 rate, int64 per, int64 max_keys)
{
	DcLimitRule rule = {.id = 1, .version = session.rule.version + 1, .max_keys = max_keys};

	rule.numbers = (DcLimitNumbers){.kind = kind, .rate = rate, .per = per, .burst = rate};
	session = (DcLimitUse){.owner = {.catalog = session.owner.catalog, .id = 1}, .rule = rule};
	limit_use_slot(&session);
}

static DcLimitCall
call_of(DcLimitUse *use, const char *key)
{
	DcLimitCall call = {.use = use, .name = "limit", .cost = 1};

	map_key_init(limit_map, &call.key, MyDatabaseId, (Oid) use->owner.id, key, strlen(key));
	return call;
}

static bool
ask(DcLimitUse *use, const char *key)
{
	DcLimitCall call = call_of(use, key);
	bool allowed = limit_take(&call, 1, true);

	if (server_locks_held() != 0)
		abort();
	return allowed;
}

static int64
left(DcLimitUse *use, const char *key)
{
	DcLimitCall call = call_of(use, key);

	(void) limit_take(&call, 1, false);
	return call.answer.remaining + (call.answer.allowed ? 1 : 0);
}

static int
keys(void)
{
	return (int) pg_atomic_read_u64(&session.slot->keys);
}

static bool
memory_adds_up(void)
{
	return pg_atomic_read_u64(&session.slot->cells) == map_used(limit_map);
}

/* how long a key is not idle, in periods */
static int
periods(DcLimitKind kind)
{
	return kind == LIMIT_SLIDING ? 2 : 1;
}

static void
altered(DcLimitKind kind)
{
	char name[100];

	/* shorter: room is made when keys are idle by the new time */
	begin(1024);
	set_rule(kind, 1, LONG_PER, 2);
	old_session = session;
	snprintf(name, sizeof(name), "%s: two keys, which there may be", names[kind]);
	ok(ask(&session, "a") && ask(&session, "b") && !ask(&session, "a") && !ask(&session, "c") && keys() == 2, name);
	set_rule(kind, 1, SECOND, 2);
	ok(!ask(&old_session, "c") && keys() == 2, "a shorter time: they are there until it is over");
	server_now += periods(kind) * SECOND + 1;
	ok(ask(&old_session, "c") && keys() == 1, "and make room for another then, though the rule's memory was not looked at before");
	ok(ask(&session, "a") && !ask(&session, "a") && memory_adds_up(), "they are new");

	/* longer: no key goes when it would have gone by the old time; but a lease ends as it was told */
	begin(1024);
	set_rule(kind, 1, SECOND, 2);
	old_session = session;
	ok(ask(&session, "a") && ask(&session, "b") && !ask(&session, "c"), "two keys again");
	set_rule(kind, 1, LONG_PER, 2);
	server_now += 10 * SECOND;
	limit_hand(1000000);
	if (kind == LIMIT_CONCURRENT)
	{
		ok(keys() == 0 && ask(&old_session, "a"), "a longer time: leases end as they were told");
		(void) ask(&session, "b");
	}
	else
		ok(!ask(&old_session, "a") && !ask(&session, "b"), "a longer time: they are not forgotten by the old one");
	limit_hand(1000000);
	ok(!ask(&old_session, "c") && !ask(&session, "a") && !ask(&session, "b") && keys() == 2, "nor do they make room by it");
	server_now += periods(kind) * LONG_PER;
	ok(ask(&session, "c") && keys() == 1 && ask(&session, "a") && memory_adds_up(), "but by the new one");
}

/* numbers that are altered more often than sessions look */
static void
altered_often(DcLimitKind kind)
{
	char name[100];

	begin(1024);
	set_rule(kind, 5, LONG_PER, 0);
	old_session = session;
	for (int i = 0; i < 3; i++)
		(void) ask(&session, "a");
	for (int rate = 6; rate <= 10; rate++)
		set_rule(kind, rate, LONG_PER, 0);
	snprintf(name, sizeof(name), "%s: altered five times", names[kind]);
	ok(left(&old_session, "a") == 7 && old_session.rule.version == 6 && left(&old_session, "b") == 10, name);
	for (int rate = 9; rate >= 2; rate--)
		set_rule(kind, rate, LONG_PER, 0);
	ok(left(&old_session, "a") <= 0 && !ask(&old_session, "a") && left(&session, "b") == 2, "and back");
}

/* a rule that is gone; and the same id with another algorithm, of an extension that was recreated */
static void
made_anew(DcLimitKind kind, DcLimitKind then)
{
	DcLimitOwner owner;
	char name[100];
	bool right;

	begin(1024);
	session.owner.catalog = 1;
	set_rule(kind, 3, LONG_PER, 0);
	for (int i = 0; i < 3; i++)
		(void) ask(&session, "a");
	right = map_used(limit_map) == (kind == LIMIT_LOG || kind == LIMIT_CONCURRENT ? 2 : 1);
	owner = session.owner;
	old_session = session;
	session = (DcLimitUse){.owner.catalog = 2};
	set_rule(then, 3, LONG_PER, 0);
	right &= left(&session, "a") == 3 && ask(&session, "a") && left(&session, "a") == 2 && keys() == 1 && memory_adds_up();
	right &= pg_atomic_read_u64(&old_session.slot->keys) == 0 && pg_atomic_read_u64(&old_session.slot->cells) == 0;
	forget_rule(&owner);
	right &= keys() == 1;
	forget_rule(&session.owner);
	right &= keys() == 0 && map_used(limit_map) == 0 && left(&session, "a") == 3;
	snprintf(name, sizeof(name), "%s, then %s of the same id", names[kind], names[then]);
	ok(right, name);
}

/* keys of a database, as many as there is memory for */
static int
fill_from(DcLimitUse *use, const char *prefix)
{
	int n = 0;

	for (;; n++)
	{
		char key[20];

		snprintf(key, sizeof(key), "%s%d", prefix, n);
		if (!ask(use, key))
			return n;
	}
}

static int
fill(DcLimitUse *use)
{
	return fill_from(use, "");
}

static void
dropped(DcLimitKind kind)
{
	char name[100];
	int n;
	bool right;

	begin(64);
	server_tick = 1; /* else one sweep could follow the other */
	MyDatabaseId = SERVER_ANOTHER;
	set_rule(kind, 1, LONG_PER, 1000000);
	n = fill(&session);
	right = n > 50 && map_used(limit_map) + 2 > map_capacity(limit_map);
	server_dropped = MyDatabaseId;
	MyDatabaseId = SERVER_DATABASE;
	session = (DcLimitUse){0};
	set_rule(kind, 1, LONG_PER, 1000000);
	server_now += 2 * SECOND; /* they are looked for each second */
	right &= ask(&session, "a") && map_used(limit_map) <= 2 && memory_adds_up() && fill(&session) >= n - 1;
	snprintf(name, sizeof(name), "%s: %d keys of a database that was dropped make room", names[kind], n);
	ok(right, name);
	server_now += 2 * SECOND;
	ok(!ask(&session, "one more"), "those of one that is there do not");
}

/* ad hoc limits of all roles have a share, which is used again when those of one are reset, or idle */
static void
ad_hoc_share(void)
{
	DcLimitUse roles[] = {{.owner.role = 10}, {.owner.role = 11}, {.owner.role = 12}};
	DcLimitNumbers numbers = {.kind = LIMIT_GCRA, .rate = 1, .per = LONG_PER, .burst = 1};
	uint32 share;
	uint32 used;

	begin(64);
	server_tick = 1;
	share = map_capacity(limit_map) / LIMIT_AD_HOC_SHARE;
	for (int i = 0; i < 3; i++)
	{
		roles[i].rule.numbers = numbers;
		limit_use_slot(&roles[i]);
	}
	dc_throttle_max_keys = share - 5;
	used = fill_from(&roles[0], "a");
	ok(used == share - 5 && fill_from(&roles[1], "b") == 5 && map_used(limit_map) == share, "ad hoc limits of two roles have their share of the memory");
	ok(!ask(&roles[2], "c"), "and those of a third one none");
	set_rule(LIMIT_FIXED, 1, LONG_PER, 1000000);
	ok(ask(&session, "k") && fill(&session) + share + 2 >= map_capacity(limit_map), "a rule has the rest");
	forget_rule(&session.owner);
	ok(limit_forget_ad_hoc(11, NULL) == 5 && limit_forget_ad_hoc(11, NULL) == 0 && map_used(limit_map) == used, "a role's are reset");
	ok(fill_from(&roles[2], "c") == 5 && map_used(limit_map) == share, "and make room for another's");
	server_now += LONG_PER + SECOND;
	ok(ask(&roles[1], "b") && map_used(limit_map) == 1, "idle ones of any role do, too");
	ok(pg_atomic_read_u64(&limit_area->ad_hoc_cells) == 1, "the memory adds up");
	dc_throttle_max_keys = 1000;
}

/* Nobody can know which keys meet: another map has other hashes. */
static void
hashes(void)
{
	DcMapKey keys[3];

	for (int i = 0; i < 3; i++)
	{
		if (i != 1)
			begin(64);
		map_key_init(limit_map, &keys[i], 1, 2, "key", 3);
	}
	ok(keys[0].hash == keys[1].hash && keys[1].hash != keys[2].hash, "the hash of a key is another one in each map");
}

int
main(void)
{
	for (int kind = LIMIT_GCRA; kind <= LIMIT_CONCURRENT; kind++)
	{
		altered(kind);
		altered_often(kind);
		for (int then = LIMIT_GCRA; then <= LIMIT_CONCURRENT; then++)
			made_anew(kind, then);
		dropped(kind);
	}
	ad_hoc_share();
	hashes();
	server_start();
	return done_testing();
}
