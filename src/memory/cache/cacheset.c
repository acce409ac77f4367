/*
 * cacheset.c
 *		Keys that a transaction sets are forgotten by the cache when it commits.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * dc_set(), dc_reset() and dc_delete() report which keys they change. These are remembered until
 * the commit has become visible, and then forgotten. Savepoints are ignored: forgetting a key
 * needlessly costs one computation. If many keys of a table are set, all its keys are forgotten.
 *
 * A prepared transaction is committed by some other session, which knows nothing of these
 * keys. They are forgotten when it is prepared. A value that is cached after that stays
 * until it is too old for the calls that ask for it.
 *
 * All of this is private to the backend and lives in TopTransactionContext.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/xactrooms.h"
#include "memory/cache/cache.h"

/* If more keys of a table are set, all its keys are forgotten. */
#define MAX_KEYS 1000

/*
 * Up to this number of such tables are forgotten one table at a time; beyond it, the whole database
 * at once.
 */
#define MAX_FORGOTTEN 8

typedef struct DcSetKey
{
	struct DcSetKey *next;
	DcKey key;
} DcSetKey;

typedef struct DcSetTable
{
	struct DcSetTable *next;
	Oid counter;
	int nkeys; /* those above MAX_KEYS are not in the list */
	DcSetKey *keys;
} DcSetTable;

/* In TopTransactionContext; cacheset_xact_callback forgets it at each end. */
static DcSetTable *tables = NULL;

static bool cacheset_is_idle(void);
static void cacheset_xact_callback(XactEvent event, void *arg);
static DcSetTable *set_table(Oid counter);
static void forget_set_keys(void);

/*
 * cache_set_init registers the callback; called once, at preload.
 */
void
cache_set_init(void)
{
	xact_room_add(DC_XACT_CACHE, cacheset_xact_callback, NULL, cacheset_is_idle);
}

/*
 * cache_key_set remembers that this transaction sets a key.
 */
void
cache_key_set(DcCounter *counter, const DcKey *key)
{
	DcSetTable *table;

	if (!cache_enabled())
		return;
	table = set_table(counter->relid);
	if (table->nkeys > MAX_KEYS)
		return;
	if (table->nkeys < MAX_KEYS)
	{
		DcSetKey *set = MemoryContextAlloc(TopTransactionContext, sizeof(DcSetKey));
		char *data = MemoryContextAlloc(TopTransactionContext, Max(key->len, 1));

		memcpy(data, key->data, key->len);
		*set = (DcSetKey){.next = table->keys, .key = {data, key->len}};
		table->keys = set;
	}
	table->nkeys++;
}

/*
 * Return the list of keys that the transaction sets in a counter table; an empty one if it has set
 * none yet.
 */
static DcSetTable *
set_table(Oid counter)
{
	DcSetTable *table = tables;

	while (table != NULL && table->counter != counter)
		table = table->next;
	if (table == NULL)
	{
		table = MemoryContextAllocZero(TopTransactionContext,
									   sizeof(DcSetTable));
		table->counter = counter;
		table->next = tables;
		xact_mark(DC_XACT_CACHE);
		tables = table;
	}
	return table;
}

/*
 * Return true if the transaction has set no keys.
 */
static bool
cacheset_is_idle(void)
{
	return tables == NULL;
}

/*
 * cacheset_xact_callback forgets them. Runs after the commit: must not throw.
 */
static void
cacheset_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE)
		forget_set_keys();
	else if (event != XACT_EVENT_ABORT)
		return;
	tables = NULL;
}

/*
 * Make the cache forget the keys that the transaction has set. Each call for a whole table goes
 * over the whole map, so beyond MAX_FORGOTTEN tables the entire database is forgotten at once.
 */
static void
forget_set_keys(void)
{
	int nforgotten = 0;

	for (DcSetTable *table = tables; table != NULL; table = table->next)
	{
		if (table->nkeys > MAX_KEYS)
		{
			if (nforgotten++ < MAX_FORGOTTEN)
				cache_forget(MyDatabaseId, table->counter);
			continue;
		}
		for (DcSetKey *set = table->keys; set != NULL; set = set->next)
			cache_forget_key(MyDatabaseId, table->counter, &set->key);
	}
	if (nforgotten > MAX_FORGOTTEN)
		cache_forget(MyDatabaseId, InvalidOid); /* once for all the others */
}
