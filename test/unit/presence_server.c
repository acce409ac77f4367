/*
 * presence_server.c
 *		The parts of the server that presences need, for a unit test (see presence_server.h).
 */
#include "presence_server.h"

#include "access/xact.h"
#include "commands/async.h"
#include "storage/ipc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/numeric.h"

#include "base/guc.h"
#include "base/xactrooms.h"
#include "core/table/subscription.h"
#include "core/table/tablejob.h"
#include "events/outbox/outbox.h"
#include "events/outbox/payload.h"
#include "memory/presence/presenceinit.h"

#define EVENTS 10000
#define RULES 3000

void (*server_other_tells)(void) = NULL;
bool server_tells_free = true;
bool server_yields = false;
ServerEvent server_events[EVENTS];
int server_nevents = 0;
int server_updates = 0;

static int nest = 1;
static DcJob job;
static XactCallback xact_callback;
static SubXactCallback subxact_callback;
static int64 numbers[8];
static int nnumbers;
static ListCell cells[RULES];
static DcPresenceRow committed[RULES];
static List rules = {.type = T_List, .elements = cells};

volatile sig_atomic_t InterruptPending = 0;
MemoryContext TopMemoryContext = NULL;
int dc_presence_size = 0;
int dc_presence_interval = 1000;

/*
 * presence_server_start starts a server with so much memory.
 */
void
presence_server_start(int kilobytes)
{
	server_start();
	dc_presence_size = kilobytes;
	server_nevents = 0;
	nest = 1;
	presence_init(true);
	server_outer = &presence_area->turn_lock;
}

LockAcquireResult
LockAcquire(const LOCKTAG *tag, LOCKMODE mode, bool session, bool dont_wait)
{
	if (server_other_tells != NULL)
	{
		void (*other)(void) = server_other_tells;

		server_other_tells = NULL;
		other();
	}
	return server_tells_free ? LOCKACQUIRE_OK : LOCKACQUIRE_NOT_AVAIL;
}

void
ProcessInterrupts(void)
{
}

/*
 * Transactions, and the job
 */
uint32 dc_xact_busy = 0;

void
xact_room_add(DcXactRoom room, XactCallback xact, SubXactCallback subxact, DcXactIdle idle)
{
	xact_callback = xact;
	subxact_callback = subxact;
}

int
GetCurrentTransactionNestLevel(void)
{
	return nest;
}

static void
forget_events(void)
{
	while (server_nevents > 0 && server_events[server_nevents - 1].nest >= nest)
		server_nevents--;
}

void
server_savepoint(void)
{
	nest++;
}

void
server_release(void)
{
	subxact_callback(SUBXACT_EVENT_COMMIT_SUB, 0, 0, NULL);
	nest--;
	for (int i = 0; i < server_nevents; i++)
		server_events[i].nest = Min(server_events[i].nest, nest);
}

void
server_rollback_to(void)
{
	subxact_callback(SUBXACT_EVENT_ABORT_SUB, 0, 0, NULL);
	forget_events();
	nest--;
}

/*
 * server_end ends the transaction.
 */
void
server_end(bool commits)
{
	xact_callback(commits ? XACT_EVENT_COMMIT : XACT_EVENT_ABORT, NULL);
	nest = 1;
	if (!commits)
		forget_events();
	for (int i = 0; i < server_nevents; i++)
		server_events[i].nest = 0;
	for (int i = 0; i < rules.length; i++)
	{
		DcPresenceRow *row = lfirst(&cells[i]);

		*(commits ? &committed[i] : row) = *(commits ? row : &committed[i]);
	}
}

void
job_register(DcJob new_job)
{
	job = new_job;
}

static bool
run_step(DcJobRun *run, DcJobStep step, void *arg, Oid table)
{
	step(arg);
	return true;
}

bool
shared_step_run(DcSharedStep *shared, DcJobRun *run, DcJobStep step, void *arg)
{
	return run->step(run, step, arg, InvalidOid);
}

/*
 * server_run_job runs the job in the transaction.
 */
bool
server_run_job(void)
{
	DcJobRun run = {.step = run_step, .all_owners = true, .deadline = server_yields ? DC_LONG_AGO : DC_NEVER};

	return job.run(&run);
}

void
server_rules(DcPresenceRow *rows, int n)
{
	for (int i = 0; i < n; i++)
	{
		lfirst(&cells[i]) = &rows[i];
		committed[i] = rows[i];
	}
	rules.length = rules.max_length = n;
}

DcRuleKind presence_rules = {0};

List *
rule_read_all(const DcRuleKind *kind)
{
	return rules.length > 0 ? &rules : NIL;
}

/* a copy of the row */
void *
rule_read(const DcRuleKind *kind, const char *name)
{
	static DcPresenceRow row;

	for (int i = 0; i < rules.length; i++)
	{
		row = *(DcPresenceRow *) lfirst(&cells[i]);
		if (strcmp(row.rule.name, name) == 0)
			return &row;
	}
	return NULL;
}

void
rule_update(const DcRuleKind *kind, DcRuleRow *row)
{
	server_updates++;
	for (int i = 0; i < rules.length; i++)
	{
		DcPresenceRow *old = lfirst(&cells[i]);

		if (old->rule.id == row->id)
			*old = *(DcPresenceRow *) row;
	}
}

bool
ItemPointerEquals(ItemPointer a, ItemPointer b)
{
	return memcmp(a, b, sizeof(ItemPointerData)) == 0;
}

DcPresenceOwner
presence_row_owner(int32 id)
{
	return (DcPresenceOwner){.catalog = 1, .id = id};
}

/* Nobody's share: the bound is of the server's tests. */
Oid
presence_row_holder(const DcPresenceRow *row)
{
	return InvalidOid;
}

DcPresenceRule
presence_rule_of(const DcPresenceRow *row)
{
	return (DcPresenceRule){row->rule.id, row->rule.version, row->ttl, row->events, row->max_members, row->approx};
}

/*
 * The outbox. Texts are not copied; of the numbers in a payload we know the order.
 */
text *
cstring_to_text(const char *s)
{
	return (text *) s;
}

text *
cstring_to_text_with_len(const char *s, int len)
{
	return (text *) s;
}

Numeric
int64_to_numeric(int64 value)
{
	return (Numeric) (intptr_t) value;
}

void
json_begin(DcJsonWriter *writer)
{
	nnumbers = 0;
}

void
json_add_int(DcJsonWriter *writer, const char *name, int64 value)
{
	numbers[nnumbers++] = value;
}

void
outbox_append(const DcEvent *event, const char *function)
{
	ServerEvent *new = &server_events[server_nevents++];

	if (server_nevents > EVENTS)
		abort();
	*new = (ServerEvent){.nest = nest, .epoch = numbers[0]};
	if (strcmp((const char *) event->type, "presence.reset") == 0)
		new->is_reset = true;
	else if (nnumbers == 3)
		*new = (ServerEvent){.nest = nest, .count = numbers[0], .epoch = numbers[1], .version = numbers[2]};
	else
		*new = (ServerEvent){.nest = nest, .count = numbers[0], .joined = numbers[1], .left = numbers[2], .epoch = numbers[3], .version = numbers[4]};
}

/*
 * What is of no matter here
 */
void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return calloc(1, size);
}

Size
presencefile_memory(void)
{
	return 0;
}

void
presencefile_load(uint64 lsn)
{
}

void
presencefile_save(int code, Datum arg)
{
}

void
crcfile_put(DcCrcFile *file, const void *data, Size size)
{
}

bool
crcfile_get(DcCrcFile *file, void *data, Size size)
{
	return false;
}

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
}

bool
extension_is_fed(void)
{
	return false;
}

Oid
GetUserId(void)
{
	return 10;
}

bool
has_privs_of_role(Oid member, Oid role)
{
	return true;
}

void
table_jobs_know_owner(Oid owner)
{
}

bool
presence_any_rule(void)
{
	return true;
}

void
rule_kind_add(DcRuleKind *kind, bool preloading)
{
}

void
event_id(pg_uuid_t *id)
{
}

void
json_add_string(DcJsonWriter *writer, const char *name, const char *data, int len)
{
}

Jsonb *
json_end(DcJsonWriter *writer)
{
	return NULL;
}

/* One table, of entries with a key of 8 bytes */
#define HASH_ENTRIES 4096
#define HASH_BYTES 64

HTAB *
hash_create(const char *name, long nelem, const HASHCTL *info, int flags)
{
	if (info->keysize != sizeof(uint64) || info->entrysize > HASH_BYTES)
		abort();
	return (HTAB *) &rules; /* anything that is not NULL */
}

/* It has as many rules as there are, so nobody destroys it. */
long
hash_get_num_entries(HTAB *table)
{
	return 0;
}

void
hash_destroy(HTAB *table)
{
	abort();
}

void *
hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	static uint64 entries[HASH_ENTRIES][HASH_BYTES / sizeof(uint64)];
	static int n = 0;

	for (int i = 0; i < n; i++)
	{
		if ((*found = entries[i][0] == *(const uint64 *) key))
			return entries[i];
	}
	if (n == HASH_ENTRIES)
		abort();
	*found = false;
	entries[n][0] = *(const uint64 *) key;
	return entries[n++];
}

void
list_sort(List *list, list_sort_comparator compare)
{
	if (list != NULL)
		qsort(list->elements, list->length, sizeof(ListCell), (int (*)(const void *, const void *)) compare);
}

char *
JsonbToCString(StringInfo out, JsonbContainer *in, int len)
{
	abort();
}

void
Async_Notify(const char *channel, const char *payload)
{
	abort();
}
