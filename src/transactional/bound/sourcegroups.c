/*
 * sourcegroups.c
 *		Sums of the rows of a source by the elements of their keys.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Keys of several columns are texts, and each row makes one for each grouping set and value. A scan of many rows first adds them up by the bytes of
 * the elements, and makes texts of the groups. Equal bytes mean equal texts, and different bytes different ones (sourcetext_pack), so the sums of the
 * keys are those of all rows.
 *
 * There is a table for each set, and, if there are several, one of all elements that a set has: the union. Rows are added to the union, and its
 * groups to those of the sets, so a row costs one look-up, however many sets there are. That helps only where its groups have several
 * rows. If they have not, each row is added to the tables of the sets.
 *
 * Memory is bounded: the union has half of it. When that is full its groups are moved on, and when the tables of the sets have taken the other half,
 * these are given to the caller, and begun again. The same happens when a sum would leave bigint.
 *
 * Nulls are part of a group of the union: such rows are in the sets that do not have these elements.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/key.h"
#include "transactional/bound/sourcegroups.h"
#include "transactional/bound/sourcesets.h"

/* A union goes on if its groups have this many rows, on average. */
#define WORTHWHILE_ROWS 3

#define FIRST_GROUPS 64

/* The bytes of elements, after those of the sums of the values. */
typedef struct DcPacked
{
	const char *data;
	uint32 len;
} DcPacked;

typedef struct DcGroup
{
	DcPacked packed;
	uint32 counts; /* the values of which the sum has any, as a mask */
	uint32 hash;
	char status; /* for simplehash */
} DcGroup;

#define SH_PREFIX grouptable
#define SH_ELEMENT_TYPE DcGroup
#define SH_KEY_TYPE DcPacked
#define SH_KEY packed
#define SH_HASH_KEY(tb, k) key_secret_hash((k).data, (k).len)
#define SH_EQUAL(tb, a, b) ((a).len == (b).len && memcmp((a).data, (b).data, (a).len) == 0)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

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
	Size memory; /* of the union, and of the tables of the sets together */
	int nvalues;
	int nsets;
	DcGroupTable sets[SOURCE_MAX_SETS];
	MemoryContext sets_cxt; /* these tables and their groups */
	DcGroupTable all;		/* the union */
	MemoryContext all_cxt;
	bool has_union; /* rows go to it; else to the sets */
	int64 rows;		/* since it was begun */
	StringInfoData packed;
};

static void groups_begin_union(DcSourceGroups *groups);
static void groups_begin_sets(DcSourceGroups *groups);
static bool groups_add_to_sets(DcSourceGroups *groups, const DcCountedParts *parts);
static bool groups_add_to_set(DcSourceGroups *groups, DcGroupTable *table, const DcCountedParts *parts);
static bool groups_add_to_union(DcSourceGroups *groups, const DcCountedParts *parts);
static bool groups_add(DcSourceGroups *groups, DcGroupTable *table, MemoryContext cxt, const DcCountedParts *parts);
static int64 *groups_sums(const DcSourceGroups *groups, const DcGroup *group);
static bool groups_empty_union(DcSourceGroups *groups);
static bool groups_empty_sets(DcSourceGroups *groups);
static bool groups_give(DcSourceGroups *groups, uint32 set, const DcGroup *group);

/*
 * source_groups_begin prepares to add up rows in at most so much memory, in the current memory context; NULL if the keys of the binding are not
 * such that it would help.
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
	groups->memory = kilobytes * 1024 / 2;
	groups->nvalues = source_eval_values(groups->eval);
	groups->nsets = source_eval_sets(groups->eval, sets);
	initStringInfo(&groups->packed);
	MemoryContextSwitchTo(old);
	if (groups->nsets == 0)
	{
		source_groups_end(groups);
		return NULL;
	}
	groups->sets_cxt = GenerationContextCreate(cxt, "dcounter groups of sets", ALLOCSET_DEFAULT_SIZES);
	groups->all_cxt = GenerationContextCreate(cxt, "dcounter groups of all elements", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < groups->nsets; i++)
	{
		groups->sets[i].set = sets[i];
		groups->all.set |= sets[i];
	}
	groups_begin_sets(groups);
	groups->has_union = groups->nsets > 1;
	if (groups->has_union)
		groups_begin_union(groups);
	return groups;
}

/*
 * Begin an empty table of the union.
 */
static void
groups_begin_union(DcSourceGroups *groups)
{
	MemoryContextReset(groups->all_cxt);
	groups->all.table = grouptable_create(groups->all_cxt, FIRST_GROUPS, NULL);
	groups->rows = 0;
}

/*
 * Begin empty tables of the sets.
 */
static void
groups_begin_sets(DcSourceGroups *groups)
{
	MemoryContextReset(groups->sets_cxt);
	for (int i = 0; i < groups->nsets; i++)
		groups->sets[i].table = grouptable_create(groups->sets_cxt, FIRST_GROUPS, NULL);
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
	return groups->has_union ? groups_add_to_union(groups, &parts) : groups_add_to_sets(groups, &parts);
}

/*
 * Add a row, or a group of the union, to the tables of the sets; false to stop.
 */
static bool
groups_add_to_sets(DcSourceGroups *groups, const DcCountedParts *parts)
{
	for (int i = 0; i < groups->nsets; i++)
	{
		DcGroupTable *table = &groups->sets[i];

		if ((table->set & parts->nulls) == 0 && !groups_add_to_set(groups, table, parts))
			return false;
	}
	return MemoryContextMemAllocated(groups->sets_cxt, false) < groups->memory || groups_empty_sets(groups);
}

/*
 * Add a row, or a group of the union, to the table of a set; false to stop.
 */
static bool
groups_add_to_set(DcSourceGroups *groups, DcGroupTable *table, const DcCountedParts *parts)
{
	resetStringInfo(&groups->packed);
	source_eval_pack(groups->eval, parts->elements, table->set, &groups->packed);
	if (groups_add(groups, table, groups->sets_cxt, parts))
		return true;
	return groups_empty_sets(groups) && groups_add(groups, table, groups->sets_cxt, parts);
}

/*
 * Add a row to the union; false to stop.
 */
static bool
groups_add_to_union(DcSourceGroups *groups, const DcCountedParts *parts)
{
	uint64 nulls = parts->nulls & groups->all.set;

	for (;;)
	{
		resetStringInfo(&groups->packed);
		appendBinaryStringInfo(&groups->packed, (const char *) &nulls, sizeof(nulls));
		source_eval_pack(groups->eval, parts->elements, groups->all.set & ~parts->nulls, &groups->packed);
		if (groups_add(groups, &groups->all, groups->all_cxt, parts))
			break;
		if (!groups_empty_union(groups))
			return false;
		if (!groups->has_union)
			return groups_add_to_sets(groups, parts);
	}
	groups->rows++;
	return MemoryContextMemAllocated(groups->all_cxt, false) < groups->memory || groups_empty_union(groups);
}

/*
 * Add values to the group of a table whose bytes are in groups->packed; false, and nothing is added, if a sum would leave bigint.
 */
static bool
groups_add(DcSourceGroups *groups, DcGroupTable *table, MemoryContext cxt, const DcCountedParts *parts)
{
	DcPacked packed = {groups->packed.data, groups->packed.len};
	Size header = groups->nvalues * sizeof(int64);
	int64 sums[SOURCE_MAX_VALUES];
	bool found;
	DcGroup *group = grouptable_insert(table->table, packed, &found);

	if (!found)
	{
		char *kept = MemoryContextAlloc(cxt, header + packed.len);

		group->packed.data = memcpy(kept + header, packed.data, packed.len);
		group->counts = parts->counts;
		memcpy(kept, parts->values, header);
		return true;
	}
	for (int v = 0; v < groups->nvalues; v++)
	{
		if (pg_add_s64_overflow(groups_sums(groups, group)[v], parts->values[v], &sums[v]))
			return false;
	}
	memcpy(groups_sums(groups, group), sums, header);
	group->counts |= parts->counts;
	return true;
}

/*
 * Return the sums of a group.
 */
static int64 *
groups_sums(const DcSourceGroups *groups, const DcGroup *group)
{
	return (int64 *) group->packed.data - groups->nvalues;
}

/*
 * Add all groups of the union to the tables of the sets; false to stop. Ends the union if it has not saved much.
 */
static bool
groups_empty_union(DcSourceGroups *groups)
{
	grouptable_iterator i;
	DcGroup *group;

	grouptable_start_iterate(groups->all.table, &i);
	while ((group = grouptable_iterate(groups->all.table, &i)) != NULL)
	{
		const char *elements = group->packed.data + sizeof(uint64);
		DcCountedParts parts;

		CHECK_FOR_INTERRUPTS();
		parts.nulls = *(const uint64 *) group->packed.data;
		parts.counts = group->counts;
		memcpy(parts.values, groups_sums(groups, group), groups->nvalues * sizeof(int64));
		source_eval_unpack(groups->eval, elements, groups->all.set & ~parts.nulls, parts.elements);
		if (!groups_add_to_sets(groups, &parts))
			return false;
	}
	groups->has_union = groups->rows / WORTHWHILE_ROWS >= groups->all.table->members;
	groups_begin_union(groups);
	return true;
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
			CHECK_FOR_INTERRUPTS();
			if (!groups_give(groups, groups->sets[s].set, group))
				return false;
		}
	}
	groups_begin_sets(groups);
	return true;
}

/*
 * Give the sums of a group to the caller, each with its key; false to stop.
 */
static bool
groups_give(DcSourceGroups *groups, uint32 set, const DcGroup *group)
{
	Datum elements[SOURCE_MAX_ELEMENTS];

	source_eval_unpack(groups->eval, group->packed.data, set, elements);
	for (int v = 0; v < groups->nvalues; v++)
	{
		DcKey key;

		if ((group->counts & (1U << v)) == 0)
			continue;
		source_eval_key(groups->eval, elements, set, v, &key);
		if (!groups->visit(groups->arg, &key, groups_sums(groups, group)[v]))
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
	return (!groups->has_union || groups_empty_union(groups)) && groups_empty_sets(groups);
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
