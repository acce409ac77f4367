/*
 * extras.h
 *		Objects on a table besides its columns and its key (see extras.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_EXTRAS_H
#define DC_EXTRAS_H

#include "access/htup.h"
#include "utils/relcache.h"
#include "utils/reltrigger.h"

/*
 * Disabled triggers do not count. Ours are those of this extension whose condition, if any, is
 * harmless.
 */
#define EXTRA_RULES 0x0001
#define EXTRA_RLS 0x0002
#define EXTRA_PART 0x0004			  /* it is a partition */
#define EXTRA_CHECK 0x0008			  /* a check constraint */
#define EXTRA_TRIGGER_WRITE 0x0010	  /* a trigger or a foreign key of the owner's, for INSERT or UPDATE, */
#define EXTRA_TRIGGER_DELETE 0x0020	  /* for DELETE and not for these, */
#define EXTRA_TRIGGER_TRUNCATE 0x0040 /* or for TRUNCATE alone */
#define EXTRA_REFERENCED 0x0080		  /* another table's foreign key */
#define EXTRA_OURS_WRITE 0x0100		  /* a trigger of ours, for INSERT or UPDATE, */
#define EXTRA_OURS_OTHER 0x0200		  /* or for neither */
#define EXTRA_REFUSES_WRITE 0x0400	  /* one of ours that refuses what others write; those for neither are no extras */
#define EXTRA_DEFERRED 0x0800		  /* any trigger for INSERT or UPDATE that waits for the commit */
#define EXTRA_INDEX 0x1000			  /* an index of expressions, with a condition, deferrable or of an exclusion constraint */
#define EXTRA_INDEX_KIND 0x2000		  /* an index that is not a btree */

#define EXTRA_OWNER_TRIGGERS \
	(EXTRA_TRIGGER_WRITE | EXTRA_TRIGGER_DELETE | EXTRA_TRIGGER_TRUNCATE | EXTRA_REFERENCED)
#define EXTRA_TRIGGERS (EXTRA_OWNER_TRIGGERS | EXTRA_OURS_WRITE | EXTRA_OURS_OTHER)

#define EXTRA_OF_TRIGGERS (EXTRA_TRIGGERS | EXTRA_REFUSES_WRITE | EXTRA_DEFERRED)

/* The extras that keep rows of a table from being written without SQL: */
/* shard rows, which are also deleted. Their indexes are checked more closely (layout.c) */
#define EXTRAS_OF_SHARDS \
	(EXTRA_RULES | EXTRA_PART | EXTRA_CHECK | (EXTRA_TRIGGERS & ~EXTRA_TRIGGER_TRUNCATE))
/* rows of totals, the same (directtotals.c) */
#define EXTRAS_OF_TOTALS \
	(EXTRA_RULES | EXTRA_CHECK | EXTRA_TRIGGER_WRITE | EXTRA_OURS_WRITE | EXTRA_REFUSES_WRITE)
/* rows that are inserted, */
#define EXTRAS_OF_INSERT (EXTRA_RULES | EXTRA_CHECK | EXTRA_TRIGGERS | EXTRA_INDEX)
/*
 * and updated. An index that summarizes pages needs to be told of updates that leave the others
 * alone
 */
#define EXTRAS_OF_UPDATE (EXTRAS_OF_INSERT | EXTRA_PART | EXTRA_INDEX_KIND)
/* rows of regions, except for triggers (region/regiontable.c) */
#define EXTRAS_OF_REGIONS (EXTRA_RULES | EXTRA_RLS | EXTRA_CHECK | EXTRA_INDEX)

extern int relation_extras(Relation rel, int mask);
extern const char *extras_problem(Relation rel, int mask);
extern const Trigger *relation_trigger(Relation rel, int mask);
extern bool index_is_plain(HeapTuple tuple);

#endif /* DC_EXTRAS_H */
