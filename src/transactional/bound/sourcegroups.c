/*
 * sourcegroups.c
 *		Sums of the rows of a source by the elements of their keys.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Keys of several columns are texts, and each row makes one for each grouping set and value. A scan
 * of many rows first adds them up by the bytes of the elements, and makes texts of the groups.
 * Equal bytes mean equal texts, and different bytes different ones (sourcetext_pack), so the sums
 * of the keys are those of all rows.
 *
 * There is a table for each set, and, if there are several, one of all elements that a set has: the
 * union. Rows are added to the union, and its groups to those of the sets, so a row costs one
 * look-up, however many sets there are. A set that is the union takes them as they are. That helps
 * only where groups of the union have several rows. If they have not, each row is added to the
 * tables of the sets.
 *
 * Memory is bounded. When the union is full its groups are moved on, and when the tables of the
 * sets are full these are given to the caller; each is then begun again. The same happens when a
 * sum would leave bigint.
 *
 * A table of many groups is larger than the caches of a processor, so a row would wait for memory
 * twice. So rows wait until there are a few of them: then the places of all of them are fetched
 * first, at the same time, and the rows are added afterwards.
 *
 * Nulls are part of a group of the union: such rows are in the sets that do not have these
 * elements.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/key.h"
#include "transactional/bound/sourcegroups.h"
#include "transactional/bound/sourcesets.h"

#define FIRST_GROUPS 64

/*
 * What is kept of a group, after the sums of the values: this, and the bytes of the elements. All
 * of it must be equal.
 */
typedef struct DcPacked
{
	uint32 nulls; /* elements of the union */
	uint32 len;	  /* of all of it */
} DcPacked;

/* An entry is small: a row finds one, and what is kept, at two random places of memory. */
typedef struct DcGroup
{
	const DcPacked *packed;
	uint32 hash;
	uint8 counts; /* the values of which the sum has any, as a mask */
	char status;  /* for simplehash */
} DcGroup;

StaticAssertDecl(SOURCE_MAX_VALUES <= 8, "the mask of values is a byte");

#define SH_PREFIX grouptable
#define SH_ELEMENT_TYPE DcGroup
#define SH_KEY_TYPE const DcPacked *
#define SH_KEY packed
#define SH_HASH_KEY(tb, k) key_secret_hash((const char *) (k), (k)->len)
#define SH_EQUAL(tb, a, b) ((a)->len == (b)->len && memcmp(a, b, (a)->len) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* How many rows wait: enough for what a processor fetches at the same time. */
#define WAITING_ROWS 16

/* A row that waits: its bytes are in a buffer. */
typedef struct DcWaitingRow
{
	int packed; /* offset in the buffer */
	uint32 hash;
	uint8 counts;
	int64 values[SOURCE_MAX_VALUES];
} DcWaitingRow;

/* What is kept is in blocks of this size: there are too many groups for a chunk each. */
#define BLOCK_BYTES (64 * 1024)

/* Memory of groups, which is freed at once. */
typedef struct DcGroupMemory
{
	MemoryContext cxt;
	char *block;
	Size used;
} DcGroupMemory;

typedef struct DcGroupTable
{
	uint32 set;
	grouptable_hash *table;
} DcGroupTable;

struct DcSourceGroups
{
	MemoryContext cxt;	/* of everything here */
	DcSourceEval *eval; /* which makes the texts */
	DcGroupVisit visit;
	void *arg;
	Size memory; /* of the union and the tables of the sets */
	int nvalues;
	int nsets;
	DcGroupTable sets[SOURCE_MAX_SETS];
	DcGroupMemory of_sets; /* these tables and their groups */
	DcGroupTable all;	   /* the union */
	DcGroupMemory of_all;
	bool is_set;	/* it is one of the sets */
	bool has_union; /* rows go to it; else to the sets */
	int64 rows;		/* since it was begun */
	int nwaiting;	/* rows that are not added yet, */
	DcWaitingRow waiting[WAITING_ROWS];
	StringInfoData bytes;  /* and theirs */
	StringInfoData packed; /* those of the row that is added to the tables of the sets */
};

static void groupmemory_begin(DcGroupMemory *memory);
static char *groupmemory_alloc(DcGroupMemory *memory, Size size);
static void groups_begin_union(DcSourceGroups *groups);
static void groups_begin_sets(DcSourceGroups *groups);
static bool groups_add_to_sets(DcSourceGroups *groups, const DcCountedParts *parts, bool from_union);
static bool groups_add_to_set(DcSourceGroups *groups, DcGroupTable *table, const DcCountedParts *parts);
static void groups_wait(DcSourceGroups *groups, const DcCountedParts *parts);
static void groups_prefetch(const DcSourceGroups *groups, const DcGroupTable *table);
static bool groups_add_waiting(DcSourceGroups *groups);
static bool groups_add_to_union(DcSourceGroups *groups, const DcWaitingRow *row);
static void groups_unpack_waiting(const DcSourceGroups *groups, const DcWaitingRow *row, DcCountedParts *parts);
static const DcPacked *groups_pack(DcSourceGroups *groups, StringInfo packed, const Datum *elements, uint32 set, uint32 nulls);
static bool groups_add(DcSourceGroups *groups, DcGroupTable *table, DcGroupMemory *memory, const DcPacked *packed, uint32 hash, const int64 *values, uint8 counts);
static int64 *groups_sums(const DcSourceGroups *groups, const DcGroup *group);
static void groups_unpack(const DcSourceGroups *groups, uint32 set, const DcGroup *group, DcCountedParts *parts);
static bool groups_empty_union(DcSourceGroups *groups);
static bool groups_empty_sets(DcSourceGroups *groups);
static bool groups_move_on(DcSourceGroups *groups, const DcGroup *group);
static bool groups_give(DcSourceGroups *groups, uint32 set, const DcCountedParts *parts);

/*
 * source_groups_begin prepares to add up rows in at most so much memory, in the current memory
 * context; NULL if the keys of the binding are not such that it would help.
 */
DcSourceGroups *
source_groups_begin(const DcSourceRow *row, Relation source, int64 kilobytes, DcGroupVisit visit, void *arg)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "dcounter groups", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	DcSourceGroups *groups = palloc0(sizeof(DcSourceGroups));
	uint32 sets[SOURCE_MAX_SETS];

	groups->cxt = cxt;
	groups->eval = source_eval_make(row, source, source, cxt);
	groups->visit = visit;
	groups->arg = arg;
	groups->memory = kilobytes * 1024;
	groups->nvalues = source_eval_values(groups->eval);
	groups->nsets = source_eval_sets(groups->eval, sets);
	initStringInfo(&groups->packed);
	initStringInfo(&groups->bytes);
	MemoryContextSwitchTo(old);
	if (groups->nsets == 0)
	{
		source_groups_end(groups);
		return NULL;
	}
	groups->of_sets.cxt = AllocSetContextCreate(cxt, "dcounter groups of sets", ALLOCSET_DEFAULT_SIZES);
	groups->of_all.cxt = AllocSetContextCreate(cxt, "dcounter groups of all elements", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < groups->nsets; i++)
	{
		groups->sets[i].set = sets[i];
		groups->all.set |= sets[i];
	}
	for (int i = 0; i < groups->nsets; i++)
		groups->is_set |= sets[i] == groups->all.set;
	groups_begin_sets(groups);
	groups->has_union = groups->nsets > 1;
	if (groups->has_union)
		groups_begin_union(groups);
	return groups;
}

/*
 * Free all groups, and begin again.
 */
static void
groupmemory_begin(DcGroupMemory *memory)
{
	MemoryContextReset(memory->cxt);
	memory->used = BLOCK_BYTES;
}

/*
 * Return memory of a size that is aligned.
 */
static char *
groupmemory_alloc(DcGroupMemory *memory, Size size)
{
	if (size > BLOCK_BYTES / 8)
		return MemoryContextAlloc(memory->cxt, size);
	if (memory->used + size > BLOCK_BYTES)
	{
		memory->block = MemoryContextAlloc(memory->cxt, BLOCK_BYTES);
		memory->used = 0;
	}
	memory->used += size;
	return memory->block + memory->used - size;
}

/*
 * Begin an empty table of the union.
 */
static void
groups_begin_union(DcSourceGroups *groups)
{
	groupmemory_begin(&groups->of_all);
	groups->all.table = grouptable_create(groups->of_all.cxt, FIRST_GROUPS, NULL);
	groups->rows = 0;
}

/*
 * Begin empty tables of the sets.
 */
static void
groups_begin_sets(DcSourceGroups *groups)
{
	groupmemory_begin(&groups->of_sets);
	for (int i = 0; i < groups->nsets; i++)
		groups->sets[i].table = grouptable_create(groups->of_sets.cxt, FIRST_GROUPS, NULL);
}

/*
 * source_groups_add adds a row, which `eval` evaluates; false to stop.
 */
bool
source_groups_add(DcSourceGroups *groups, DcSourceEval *eval, TupleTableSlot *slot)
{
	DcCountedParts parts;

	if (!source_eval_parts(eval, slot, &parts))
		return true;
	if (!groups->has_union)
		return groups_add_to_sets(groups, &parts, false);
	groups_wait(groups, &parts);
	return groups->nwaiting < WAITING_ROWS || groups_add_waiting(groups);
}

/*
 * Let a row wait.
 */
static void
groups_wait(DcSourceGroups *groups, const DcCountedParts *parts)
{
	DcWaitingRow *row = &groups->waiting[groups->nwaiting++];
	const DcPacked *packed;

	packed = groups_pack(groups, &groups->bytes, parts->elements, groups->all.set & ~parts->nulls, groups->all.set & parts->nulls);
	row->packed = (const char *) packed - groups->bytes.data;
	row->hash = key_secret_hash((const char *) packed, packed->len);
	row->counts = parts->counts;
	memcpy(row->values, parts->values, groups->nvalues * sizeof(int64));
}

/*
 * Fetch the groups that the waiting rows probably have: the first place where each may be in the
 * table, and then what is kept of it. It does no harm if another group is there.
 */
static void
groups_prefetch(const DcSourceGroups *groups, const DcGroupTable *table)
{
	const grouptable_hash *hash = table->table;

	for (int i = 0; i < groups->nwaiting; i++)
		__builtin_prefetch(&hash->data[groups->waiting[i].hash & hash->sizemask]);
	for (int i = 0; i < groups->nwaiting; i++)
	{
		const DcGroup *group = &hash->data[groups->waiting[i].hash & hash->sizemask];

		if (group->status != grouptable_SH_EMPTY)
			__builtin_prefetch(group->packed, 1);
	}
}

/*
 * Add the rows that wait; false to stop. The union may end meanwhile.
 */
static bool
groups_add_waiting(DcSourceGroups *groups)
{
	int n = groups->nwaiting;

	groups_prefetch(groups, &groups->all);
	groups->nwaiting = 0;
	for (int i = 0; i < n; i++)
	{
		const DcWaitingRow *row = &groups->waiting[i];

		if (!groups->has_union)
		{
			DcCountedParts parts;

			groups_unpack_waiting(groups, row, &parts);
			if (!groups_add_to_sets(groups, &parts, false))
				return false;
		}
		else if (!groups_add_to_union(groups, row))
			return false;
	}
	resetStringInfo(&groups->bytes);
	return !groups->has_union || MemoryContextMemAllocated(groups->of_all.cxt, false) < groups->memory / 4 * 3 || groups_empty_union(groups);
}

/*
 * Add a row, or a group of the union, to the tables of the sets; false to stop. A group is not
 * added to the set that is the union.
 */
static bool
groups_add_to_sets(DcSourceGroups *groups, const DcCountedParts *parts, bool from_union)
{
	for (int i = 0; i < groups->nsets; i++)
	{
		DcGroupTable *table = &groups->sets[i];

		if ((table->set & parts->nulls) == 0 && !(from_union && table->set == groups->all.set) && !groups_add_to_set(groups, table, parts))
			return false;
	}
	return MemoryContextMemAllocated(groups->of_sets.cxt, false) < (groups->has_union ? groups->memory / 4 : groups->memory) || groups_empty_sets(groups);
}

/*
 * Add a row, or a group of the union, to the table of a set; false to stop.
 */
static bool
groups_add_to_set(DcSourceGroups *groups, DcGroupTable *table, const DcCountedParts *parts)
{
	const DcPacked *packed;
	uint32 hash;

	resetStringInfo(&groups->packed);
	packed = groups_pack(groups, &groups->packed, parts->elements, table->set, 0);
	hash = key_secret_hash((const char *) packed, packed->len);
	return groups_add(groups, table, &groups->of_sets, packed, hash, parts->values, parts->counts) ||
		(groups_empty_sets(groups) && groups_add(groups, table, &groups->of_sets, packed, hash, parts->values, parts->counts));
}

/*
 * Add a row that has waited to the union, or to the sets if the union ends; false to stop.
 */
static bool
groups_add_to_union(DcSourceGroups *groups, const DcWaitingRow *row)
{
	const DcPacked *packed = (const DcPacked *) (groups->bytes.data + row->packed);

	while (!groups_add(groups, &groups->all, &groups->of_all, packed, row->hash, row->values, row->counts))
	{
		if (!groups_empty_union(groups))
			return false;
		if (!groups->has_union)
		{
			DcCountedParts parts;

			groups_unpack_waiting(groups, row, &parts);
			return groups_add_to_sets(groups, &parts, false);
		}
	}
	groups->rows++;
	return true;
}

/*
 * Set what a row that has waited counts for.
 */
static void
groups_unpack_waiting(const DcSourceGroups *groups, const DcWaitingRow *row, DcCountedParts *parts)
{
	const DcPacked *packed = (const DcPacked *) (groups->bytes.data + row->packed);

	parts->nulls = packed->nulls;
	parts->counts = row->counts;
	memcpy(parts->values, row->values, groups->nvalues * sizeof(int64));
	source_eval_unpack(groups->eval, (const char *) (packed + 1), groups->all.set & ~parts->nulls, parts->elements);
}

/*
 * Append the group that a row has in a table to a buffer, and return it.
 */
static const DcPacked *
groups_pack(DcSourceGroups *groups, StringInfo packed, const Datum *elements, uint32 set, uint32 nulls)
{
	int begin;
	DcPacked *result;

	enlargeStringInfo(packed, sizeof(DcPacked) + MAXIMUM_ALIGNOF);
	begin = MAXALIGN(packed->len);
	packed->len = begin + sizeof(DcPacked);
	source_eval_pack(groups->eval, elements, set, packed);
	result = (DcPacked *) (packed->data + begin);
	*result = (DcPacked){.nulls = nulls, .len = packed->len - begin};
	return result;
}

/*
 * Add values to a group of a table; false, and nothing is added, if a sum would leave bigint.
 */
static bool
groups_add(DcSourceGroups *groups, DcGroupTable *table, DcGroupMemory *memory, const DcPacked *packed, uint32 hash, const int64 *values, uint8 counts)
{
	Size header = groups->nvalues * sizeof(int64);
	int64 sums[SOURCE_MAX_VALUES];
	bool found;
	DcGroup *group = grouptable_insert_hash(table->table, packed, hash, &found);

	if (!found)
	{
		char *kept = groupmemory_alloc(memory, header + packed->len);

		memcpy(kept, values, header);
		group->packed = memcpy(kept + header, packed, packed->len);
		group->counts = counts;
		return true;
	}
	for (int v = 0; v < groups->nvalues; v++)
	{
		if (pg_add_s64_overflow(groups_sums(groups, group)[v], values[v], &sums[v]))
			return false;
	}
	memcpy(groups_sums(groups, group), sums, header);
	group->counts |= counts;
	return true;
}

/*
 * Return the sums of a group.
 */
static int64 *
groups_sums(const DcSourceGroups *groups, const DcGroup *group)
{
	return (int64 *) group->packed - groups->nvalues;
}

/*
 * Set what a group counts for.
 */
static void
groups_unpack(const DcSourceGroups *groups, uint32 set, const DcGroup *group, DcCountedParts *parts)
{
	parts->nulls = group->packed->nulls;
	parts->counts = group->counts;
	memcpy(parts->values, groups_sums(groups, group), groups->nvalues * sizeof(int64));
	source_eval_unpack(groups->eval, (const char *) (group->packed + 1), set & ~parts->nulls, parts->elements);
}

/*
 * Add all groups of the union to the tables of the sets, or give them to the caller; false to stop.
 * Ends the union if it saves no look-ups.
 */
static bool
groups_empty_union(DcSourceGroups *groups)
{
	int64 members = groups->all.table->members;
	grouptable_iterator i;
	DcGroup *group;

	grouptable_start_iterate(groups->all.table, &i);
	while ((group = grouptable_iterate(groups->all.table, &i)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (!groups_move_on(groups, group))
			return false;
	}
	groups->has_union = groups->rows * (groups->nsets - 1) > members * groups->nsets;
	groups_begin_union(groups);
	return true;
}

/*
 * Add a group of the union to the tables of the sets, or give it to the caller; false to stop.
 */
static bool
groups_move_on(DcSourceGroups *groups, const DcGroup *group)
{
	DcCountedParts parts;

	groups_unpack(groups, groups->all.set, group, &parts);
	return groups_add_to_sets(groups, &parts, true) &&
		(!groups->is_set || parts.nulls != 0 || groups_give(groups, groups->all.set, &parts));
}

/*
 * Give all groups of the sets to the caller; false to stop.
 */
static bool
groups_empty_sets(DcSourceGroups *groups)
{
	for (int s = 0; s < groups->nsets; s++)
	{
		grouptable_iterator i;
		DcGroup *group;

		grouptable_start_iterate(groups->sets[s].table, &i);
		while ((group = grouptable_iterate(groups->sets[s].table, &i)) != NULL)
		{
			DcCountedParts parts;

			CHECK_FOR_INTERRUPTS();
			groups_unpack(groups, groups->sets[s].set, group, &parts);
			if (!groups_give(groups, groups->sets[s].set, &parts))
				return false;
		}
	}
	groups_begin_sets(groups);
	return true;
}

/*
 * Give the sums of a group of a set to the caller, each with its key; false to stop.
 */
static bool
groups_give(DcSourceGroups *groups, uint32 set, const DcCountedParts *parts)
{
	for (int v = 0; v < groups->nvalues; v++)
	{
		DcKey key;

		if ((parts->counts & (1U << v)) == 0)
			continue;
		source_eval_key(groups->eval, parts->elements, set, v, &key);
		if (!groups->visit(groups->arg, &key, parts->values[v]))
			return false;
	}
	source_eval_reset(groups->eval);
	return true;
}

/*
 * source_groups_finish gives to the caller all that was added; false if that was stopped.
 */
bool
source_groups_finish(DcSourceGroups *groups)
{
	return groups_add_waiting(groups) && (!groups->has_union || groups_empty_union(groups)) && groups_empty_sets(groups);
}

/*
 * Free the groups, given to the caller or not.
 */
void
source_groups_end(DcSourceGroups *groups)
{
	source_eval_free(groups->eval);
	MemoryContextDelete(groups->cxt);
}
