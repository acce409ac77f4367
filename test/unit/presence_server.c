/*
 * presence_server.c
 *		What presences ask of the server, for a unit test (see presence_server.h).
 */
#include "presence_server.h"

#include <setjmp.h>

#include "access/xact.h"
#include "base/guc.h"
#include "base/shmem.h"
#include "commands/async.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "outbox/outbox.h"
#include "outbox/payload.h"
#include "presence/presenceinit.h"
#include "storage/ipc.h"
#include "storage/s_lock.h"
#include "table/subscription.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#define EXCLUSIVE 0x10000
#define EVENTS 10000
#define RULES 3000

int64 server_now = 1000000;
void (*server_other)(void) = NULL;
int server_other_in = 0;
void (*server_other_tells)(void) = NULL;
bool server_tells_free = true;
sigjmp_buf *server_on_error = NULL;
ServerEvent server_events[EVENTS];
int server_nevents = 0;

static int held = 0;
static int nest = 1;
static DcJob job;
static XactCallback xact_callback;
static SubXactCallback subxact_callback;
static int64 numbers[8];
static int nnumbers;
static ListCell cells[RULES];
static List rules = {.type = T_List, .elements = cells};
static void *areas[2];

Oid MyDatabaseId = SERVER_DATABASE;
bool IsUnderPostmaster = false;
volatile sig_atomic_t InterruptPending = 0;
MemoryContext TopMemoryContext = NULL;
pg_prng_state pg_global_prng_state;
int dc_presence_size = 0;
int dc_presence_interval = 1000;

/*
 * server_start starts a server with so much memory.
 */
void
server_start(int kilobytes)
{
	for (int i = 0; i < 2; i++)
		free(areas[i]);
	dc_presence_size = kilobytes;
	server_nevents = held = 0;
	nest = 1;
	presence_init(true);
}

void
shmem_add(const char *name, Size size, void **area, DcShmemInit init)
{
	*area = areas[0] = calloc(1, size);
	init(*area);
}

void
shmem_add_raw(const char *name, Size (*size)(void), void **area, DcShmemInit init)
{
	Size bytes = size();

	*area = areas[1] = malloc(bytes);
	memset(*area, 0xAA, bytes);
	init(*area);
}

/*
 * Locks
 */
void
shmem_init_lock(LWLock *lock)
{
	pg_atomic_init_u32(&lock->state, 0);
}

static bool
is_free(LWLock *lock, LWLockMode mode)
{
	uint32 state = pg_atomic_read_u32(&lock->state);

	return mode == LW_EXCLUSIVE ? state == 0 : state < EXCLUSIVE;
}

static void
lock_take(LWLock *lock, LWLockMode mode)
{
	if (lock != &presence_area->turn_lock)
		held++;
	pg_atomic_fetch_add_u32(&lock->state, mode == LW_EXCLUSIVE ? EXCLUSIVE : 1);
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	if (held == 0 && server_other != NULL && server_other_in-- == 0)
	{
		void (*other)(void) = server_other;

		server_other = NULL;
		other();
		if (held != 0)
			abort();
	}
	if (!is_free(lock, mode))
		abort(); /* it would wait for itself */
	lock_take(lock, mode);
	return true;
}

bool
LWLockConditionalAcquire(LWLock *lock, LWLockMode mode)
{
	if (!is_free(lock, mode))
		return false;
	lock_take(lock, mode);
	return true;
}

void
LWLockRelease(LWLock *lock)
{
	uint32 state = pg_atomic_read_u32(&lock->state);

	if (state == 0)
		abort();
	if (lock != &presence_area->turn_lock)
		held--;
	pg_atomic_write_u32(&lock->state, state >= EXCLUSIVE ? state - EXCLUSIVE : state - 1);
}

int
server_locks_held(void)
{
	return held;
}

int
s_lock(volatile slock_t *lock, const char *file, int line, const char *func)
{
	abort();
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

/*
 * Clocks
 */
int
server_clock(clockid_t clock, struct timespec *time)
{
	*time = (struct timespec){.tv_sec = server_now / 1000000, .tv_nsec = server_now % 1000000 * 1000};
	return 0;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 1000;
}

/*
 * Errors
 */
static bool
is_error(int elevel)
{
	if (elevel < ERROR)
		return false;
	if (held != 0 || server_on_error == NULL)
		abort();
	siglongjmp(*server_on_error, 1);
}

bool
errstart(int elevel, const char *domain)
{
	return is_error(elevel);
}

bool
errstart_cold(int elevel, const char *domain)
{
	return is_error(elevel);
}

void
errfinish(const char *file, int line, const char *function)
{
}

int
errcode(int sqlstate)
{
	return 0;
}

int
errmsg(const char *format, ...)
{
	return 0;
}

int
errdetail(const char *format, ...)
{
	return 0;
}

int
errhint(const char *format, ...)
{
	return 0;
}

#ifdef USE_ASSERT_CHECKING
#if PG_VERSION_NUM >= 160000
void
ExceptionalCondition(const char *condition, const char *file, int line)
#else
void
ExceptionalCondition(const char *condition, const char *type, const char *file, int line)
#endif
{
	abort();
}
#endif

void
ProcessInterrupts(void)
{
}

/*
 * Transactions, and the job
 */
void
RegisterXactCallback(XactCallback callback, void *arg)
{
	xact_callback = callback;
}

void
RegisterSubXactCallback(SubXactCallback callback, void *arg)
{
	subxact_callback = callback;
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

/*
 * server_run_job runs the job in the transaction.
 */
bool
server_run_job(void)
{
	DcJobRun run = {.step = run_step, .all_owners = true, .deadline = DC_NEVER};

	return job.run(&run);
}

void
server_rules(DcPresenceRow *rows, int n)
{
	for (int i = 0; i < n; i++)
		lfirst(&cells[i]) = &rows[i];
	rules.length = rules.max_length = n;
}

List *
presence_row_read_all(void)
{
	return rules.length > 0 ? &rules : NIL;
}

DcPresenceOwner
presence_row_owner(int32 id)
{
	return (DcPresenceOwner){.catalog = 1, .id = id};
}

DcPresenceRule
presence_rule_of(const DcPresenceRow *row)
{
	return (DcPresenceRule){row->id, row->version, row->ttl, row->events, row->max_members, row->approx};
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
json_begin_object(DcJsonWriter *writer, StringInfo buf, const DcJsonKeys *keys)
{
	nnumbers = 0;
}

void
json_add_numeric(DcJsonWriter *writer, Numeric value)
{
	numbers[nnumbers++] = (int64) (intptr_t) value;
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
		*new = (ServerEvent){.nest = nest, .left = numbers[0], .count = numbers[1], .epoch = numbers[2], .joined = numbers[3], .version = numbers[4]};
}

/*
 * What is of no matter here
 */
bool
SearchSysCacheExists(int cache, Datum key1, Datum key2, Datum key3, Datum key4)
{
	return key1 != ObjectIdGetDatum(SERVER_DROPPED);
}

uint32
hash_bytes(const unsigned char *bytes, int len)
{
	uint32 hash = 2166136261u;

	for (int i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * 16777619;
	return murmurhash32(hash);
}

int
bytes_compare(const char *a, uint32 a_len, const char *b, uint32 b_len)
{
	int order = memcmp(a, b, Min(a_len, b_len));

	return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return calloc(1, size);
}

bool
pg_strong_random(void *bytes, size_t len)
{
	memset(bytes, 7, len);
	return true;
}

uint32
pg_prng_uint32(pg_prng_state *state)
{
	return 7;
}

uint64
pg_prng_uint64(pg_prng_state *state)
{
	return 7;
}

bool
server_was_shut_down(uint64 *lsn)
{
	return false;
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
on_shmem_exit(pg_on_exit_callback function, Datum arg)
{
}

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
}

bool
RecoveryInProgress(void)
{
	return false;
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

bool
presence_any_rule(void)
{
	return true;
}

void
presence_ddl_init(void)
{
}

void
event_id(pg_uuid_t *id)
{
}

void
json_keys_keep(DcJsonKeys *keys, const char *const *names, int n)
{
}

void
json_begin(StringInfo buf)
{
}

void
json_add_string(DcJsonWriter *writer, const char *data, uint32 len)
{
}

Jsonb *
json_end(StringInfo buf)
{
	return NULL;
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
