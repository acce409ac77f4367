/*
 * relcached.h
 *		Values that a backend remembers about relations (see relcached.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RELCACHED_H
#define DC_RELCACHED_H

#include "nodes/pg_list.h"
#include "utils/hsearch.h"

typedef struct DcRelCached
{
	const char *name;
	Size keysize; /* entries begin with their key; one longer than an OID is a string */
	Size size;	  /* of an entry */
	/*
	 * a relation has changed, or any may have (InvalidOid): must not throw; NULL: changes are
	 * ignored
	 */
	void (*changed)(void *entry, Oid relid);
	/*
	 * the function does nothing except for InvalidOid, the key, and what the entry has passed to
	 * relcached_watch() before it was valid: so it is not called for any other relation
	 */
	bool watches;
	/* set here */
	HTAB *hash; /* NULL: nothing is remembered yet */
	struct DcRelCached *next;
} DcRelCached;

extern void *relcached_find(DcRelCached *cache, const void *key);
extern void *relcached_enter(DcRelCached *cache, const void *key);
extern void *relcached_enter_relation(DcRelCached *cache, Oid relid);
extern bool relcached_fill(void *entry, bool *valid, bool (*fill)(void *entry, void *arg), void *arg);
extern void relcached_watch(Oid relid);
extern uint64 relcached_changes(void);
extern int64 relcached_made(void);
extern void relcached_changed(DcRelCached *cache, Oid relid);
extern void relcached_on_change(void (*listener)(Oid relid));
extern void relcached_set_oids(Oid **array, int *count, const List *oids);

#endif /* DC_RELCACHED_H */
