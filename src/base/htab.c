/*
 * htab.c
 *		Hash tables in the memory of a session.
 */
#include "postgres.h"

#include "base/htab.h"
#include "utils/memutils.h"

/*
 * htab_create makes a hash table in a memory context. Its keys are compared as bytes.
 */
HTAB *
htab_create(const char *name, Size keysize, Size entrysize, MemoryContext cxt)
{
	HASHCTL ctl = {.keysize = keysize, .entrysize = entrysize, .hcxt = cxt};

	return hash_create(name, 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * htab_oid_entry returns the entry of an OID, with which it begins; all else of a new one is
 * zero. The table is made when it is needed first, and lives as long as the session. Entries
 * stay where they are.
 */
void *
htab_oid_entry(HTAB **htab, const char *name, Size entrysize, Oid oid)
{
	bool found;
	char *entry;

	if (*htab == NULL)
		*htab = htab_create(name, sizeof(Oid), entrysize, TopMemoryContext);
	entry = hash_search(*htab, &oid, HASH_ENTER, &found);
	if (!found)
		memset(entry + sizeof(Oid), 0, entrysize - sizeof(Oid));
	return entry;
}
