/*
 * relcached.c
 *		Values that a backend remembers about relations, until they change.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Each kind is a hash table in TopMemoryContext, made at its first use. Entries begin as zeros.
 * Only the file that uses the kind removes them, so they stay where they are: a pointer to an
 * entry can be kept, and it is enough to check that the entry is still valid, by a flag in it
 * that the same file looks after.
 *
 * A relcache invalidation may come at any moment, even while an entry is being filled. A kind's
 * function for changes knows only what the entry depended on before, not what is just being found.
 * So all invalidations are counted, and an entry during whose fill any has come is filled again. An
 * error may come as well, and would leave an entry that is half filled: relcached_fill() resets the
 * flag then. All kinds share one callback, and so do other files that need to know of changes
 * (relcached_on_change): a backend has ten slots for callbacks, of which the server takes some, and
 * Citus five.
 *
 * A worker may have entries for tens of thousands of counters, and any role can create and drop
 * temporary tables as fast as the server lets it. So a kind with an entry for each counter says
 * which relations its entries depend on (relcached_watch). They are kept in one set, which only
 * grows, as the entries do: a message about any other relation costs one look-up, and goes to the
 * few kinds that say nothing.
 */
#include "postgres.h"

#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/relcached.h"

/* Entries that were created: most are never removed. */
static int64 nmade = 0;

/* Invalidations that have come, of any relation. */
static uint64 nchanges = 0;

/* Fills of an entry that invalidations may undo before it is used anyway. */
#define RELCACHED_TRIES 8

static DcRelCached *caches = NULL; /* those with a function for changes */

/* The relations that entries of kinds that say so depend on (Oid), or once did. */
static HTAB *watched = NULL;

/* Functions of others that are told of changes. */
#define MAX_LISTENERS 8
static void (*listeners[MAX_LISTENERS])(Oid relid);
static int nlisteners = 0;

static void relcached_make(DcRelCached *cache);
static void register_once(void);
static void relcached_relcache_callback(Datum arg, Oid relid);

/*
 * relcached_find returns an entry, or NULL.
 */
void *
relcached_find(DcRelCached *cache, const void *key)
{
	return cache->hash != NULL ? hash_search(cache->hash, key, HASH_FIND, NULL) : NULL;
}

/*
 * relcached_enter returns an entry, a new one of zeros if there was none.
 */
void *
relcached_enter(DcRelCached *cache, const void *key)
{
	bool found;
	void *entry;

	if (cache->hash == NULL)
		relcached_make(cache);
	if (cache->watches && hash_search(cache->hash, key, HASH_FIND, NULL) == NULL)
		relcached_watch(*(const Oid *) key);
	entry = hash_search(cache->hash, key, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) entry + cache->keysize, 0, cache->size - cache->keysize);
		nmade++;
	}
	return entry;
}

/*
 * relcached_enter_relation does the same for the OID of a relation that a caller has named; NULL if
 * there is neither an entry nor a relation, so that a session's memory does not grow with OIDs that
 * belong to nothing.
 */
void *
relcached_enter_relation(DcRelCached *cache, Oid relid)
{
	void *entry = relcached_find(cache, &relid);

	if (entry != NULL || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return entry;
	return relcached_enter(cache, &relid);
}

/*
 * relcached_fill fills an entry by calling a function. Both return false if there is nothing to
 * fill it with. The entry is not valid afterwards in that case, after an error, or if an
 * invalidation has come in each of several tries (with debug_discard_caches one always comes): then
 * it is fresh enough to be used once.
 */
bool
relcached_fill(void *entry, bool *valid, bool (*fill)(void *entry, void *arg), void *arg)
{
	bool filled = true;
	bool quiet = false;

	register_once();
	*valid = false;
	for (int tries = 0; filled && !quiet && tries < RELCACHED_TRIES; tries++)
	{
		uint64 before = nchanges;

		filled = fill(entry, arg);
		quiet = before == nchanges;
	}
	*valid = filled && quiet;
	return filled;
}

/*
 * relcached_watch adds a relation to those whose changes concern entries of a kind that watches.
 * It is called before the entry that depends on it is valid.
 */
void
relcached_watch(Oid relid)
{
	if (watched == NULL)
	{
		HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(Oid), .hcxt = TopMemoryContext};

		watched = hash_create("dcounter watched relations", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	if (OidIsValid(relid))
		(void) hash_search(watched, &relid, HASH_ENTER, NULL);
}

/*
 * relcached_changes returns the number of invalidations that have come, of any relation. If it has
 * not changed while an entry was filled in another way, the entry is valid.
 */
uint64
relcached_changes(void)
{
	register_once();
	return nchanges;
}

/*
 * Return how many entries this process has made.
 */
int64
relcached_made(void)
{
	return nmade;
}

/*
 * Create the hash table of a kind, and add the kind to those that are notified of changes, if it
 * has a function for them.
 */
static void
relcached_make(DcRelCached *cache)
{
	HASHCTL ctl = {0};
	int kind = cache->keysize > sizeof(Oid) ? HASH_STRINGS : HASH_BLOBS;

	ctl.keysize = cache->keysize;
	ctl.entrysize = cache->size;
	ctl.hcxt = TopMemoryContext;
	cache->hash = hash_create(cache->name, 32, &ctl, HASH_ELEM | HASH_CONTEXT | kind);
	if (cache->changed == NULL)
		return;
	register_once();
	cache->next = caches;
	caches = cache;
}

/*
 * relcached_on_change has a function called for each change of a relation, or of any (InvalidOid).
 * It must not throw.
 */
void
relcached_on_change(void (*listener)(Oid relid))
{
	if (nlisteners == MAX_LISTENERS)
		elog(ERROR, "too many functions for changes of relations");
	register_once();
	listeners[nlisteners++] = listener;
}

/*
 * Register the relcache callback, once in a session.
 */
static void
register_once(void)
{
	static bool registered = false;

	if (!registered)
		CacheRegisterRelcacheCallback(relcached_relcache_callback, (Datum) 0);
	registered = true;
}

/*
 * Tell all kinds and listeners that a relation has changed, or any may have (InvalidOid). Must
 * not throw.
 */
static void
relcached_relcache_callback(Datum arg, Oid relid)
{
	bool all = !OidIsValid(relid) ||
		(watched != NULL && hash_search(watched, &relid, HASH_FIND, NULL) != NULL);

	nchanges++;
	for (DcRelCached *cache = caches; cache != NULL; cache = cache->next)
	{
		if (all || !cache->watches)
			relcached_changed(cache, relid);
	}
	for (int i = 0; i < nlisteners; i++)
		listeners[i](relid);
}

/*
 * relcached_changed tells all entries that a relation has changed, or any may have.
 */
void
relcached_changed(DcRelCached *cache, Oid relid)
{
	HASH_SEQ_STATUS status;
	void *entry;

	nchanges++;
	if (cache->hash == NULL)
		return;
	hash_seq_init(&status, cache->hash);
	while ((entry = hash_seq_search(&status)) != NULL)
		cache->changed(entry, relid);
}

/*
 * relcached_set_oids replaces an array of an entry. It is in TopMemoryContext, or NULL if
 * it is empty.
 */
void
relcached_set_oids(Oid **array, int *count, const List *oids)
{
	Oid *old = *array;
	int n = list_length(oids);

	*count = 0; /* the callback may look at it */
	*array = NULL;
	if (old != NULL)
		pfree(old);
	if (n == 0)
		return;
	*array = MemoryContextAlloc(TopMemoryContext, n * sizeof(Oid));
	for (int i = 0; i < n; i++)
		(*array)[i] = list_nth_oid(oids, i);
	*count = n;
}
