/*
 * server.c
 *		Substitutes for the rest of the server that parts of it need in unit tests (see server.h).
 */
#include "server.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/s_lock.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/crcfile.h"
#include "base/shmem.h"

#define EXCLUSIVE 0x10000

int64 server_now = 1000000;
int server_tick = 0;
void (*server_other)(void) = NULL;
int server_other_in = 0;
LWLock *server_outer = NULL;
sigjmp_buf *server_on_error = NULL;

static int held = 0;
static void *areas[2];

Oid MyDatabaseId = SERVER_DATABASE;
Oid server_dropped = InvalidOid;
bool IsUnderPostmaster = false;
pg_prng_state pg_global_prng_state;

/*
 * server_start starts a server, without any room.
 */
void
server_start(void)
{
	for (int i = 0; i < 2; i++)
	{
		free(areas[i]);
		areas[i] = NULL;
	}
	held = 0;
	server_outer = NULL;
	MyDatabaseId = SERVER_DATABASE;
	server_dropped = InvalidOid;
	server_tick = 0;
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
	if (lock != server_outer)
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
	if (lock != server_outer)
		held--;
	pg_atomic_write_u32(&lock->state, state >= EXCLUSIVE ? state - EXCLUSIVE : state - 1);
}

/* Called by processes that end, which no test here has. */
void
LWLockReleaseAll(void)
{
	abort();
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

/*
 * Clocks
 */
int
server_clock(clockid_t clock, struct timespec *time)
{
	server_now += server_tick;
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

/*
 * What is of no matter here
 */
bool
SearchSysCacheExists(int cache, Datum key1, Datum key2, Datum key3, Datum key4)
{
	return key1 != ObjectIdGetDatum(server_dropped);
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

bool
pg_strong_random(void *bytes, size_t len)
{
	static int next = 7; /* the same in each run, and another one in each call */

	memset(bytes, next++, len);
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

void
on_shmem_exit(pg_on_exit_callback function, Datum arg)
{
}

bool
RecoveryInProgress(void)
{
	return false;
}

void
pg_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
#undef qsort
	qsort(base, n, size, compare);
}
