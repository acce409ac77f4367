/*
 * sketchring.c
 *		Estimating how many distinct members have recently sent heartbeats: a ring of HyperLogLogs.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * Time is cut into slots. Each slot has a sketch of the members seen in it. The ring has the
 * sketches of the last RING_SLOTS, including the current one. The estimate is that of their union.
 * A member is in it from when it is seen until its slot is the oldest and the next one begins: for
 * RING_SLOTS - 1 slots at least, RING_SLOTS at most.
 *
 * A member has one register, the same in all sketches. So the ranks of a register in all of them,
 * of six bits each, are in one word, and words are in leaves, which exist as long as one of their
 * registers is not zero. This has three uses: few members take little memory; seeing a member again
 * takes none; and noting one means looking at one word, and perhaps changing it by one atomic
 * operation.
 *
 * The ring also knows how many registers have which rank in the union: from that the estimate is
 * made (sketch/hll), without looking at the registers. It changes only when a register of the union
 * does, which few members among many do.
 *
 * ring_beat can be called by several processes at once, and at the same time ring_time and
 * ring_estimate; everything else needs an exclusive lock.
 *
 * Cells: the head, with the time and the directories; the ranks; directories of leaves; leaves.
 */
#include "memory/presence/sketchring.h"

#include <string.h>

#include "types/sketch/hll/rankcode.h"

#ifdef DC_STANDALONE
typedef struct Word
{
	uint64_t value;
} Word;
#define word_init(word, v) ((word)->value = (v))
#define word_read(word) __atomic_load_n(&(word)->value, __ATOMIC_RELAXED)
#define word_write(word, v) __atomic_store_n(&(word)->value, (v), __ATOMIC_RELAXED)
#define word_exchange(word, old, v) \
	__atomic_compare_exchange_n(&(word)->value, (old), (v), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#else
#include "postgres.h"

#include "port/atomics.h"

typedef pg_atomic_uint64 Word;
#define word_init(word, v) pg_atomic_init_u64((word), (v))
#define word_read(word) pg_atomic_read_u64(word)
#define word_write(word, v) pg_atomic_write_u64((word), (v))
#define word_exchange(word, old, v) pg_atomic_compare_exchange_u64((word), (old), (v))
#endif

#define RANK_BITS 6
#define RANK_MASK UINT64_C(63)

typedef struct Head
{
	uint32_t link;
	uint32_t ranks;
	DcRingTime time;
	uint32_t leaves; /* that there are */
	uint32_t dirs[RING_DIRS];
} Head;

/* How many registers of the union have a rank; those without are the rest. */
typedef struct Ranks
{
	uint32_t link;
	uint16_t count[RING_MAX_RANK + 1]; /* the first is not used */
} Ranks;

typedef struct Dir
{
	uint32_t link;
	uint32_t used;
	uint32_t leaves[RING_DIR_LEAVES];
} Dir;

typedef struct Leaf
{
	uint32_t link;
	uint32_t unused;
	Word words[RING_LEAF_WORDS];
} Leaf;

typedef char head_fits[sizeof(Head) <= RING_CELL ? 1 : -1];
typedef char ranks_fit[sizeof(Ranks) <= RING_CELL && RING_REGISTERS <= UINT16_MAX ? 1 : -1];
typedef char words_fit[sizeof(Leaf) <= RING_CELL && RING_SLOTS * RANK_BITS <= 64 && RING_MAX_RANK <= RANK_MASK ? 1 : -1];

/*
 * Return the head of a ring.
 */
static inline Head *
head_of(uint32_t root, const DcRingCells *cells)
{
	return cells->cell(cells->arg, root);
}

/*
 * Return a directory of leaves, or NULL if it has none.
 */
static inline Dir *
dir_at(const Head *head, const DcRingCells *cells, uint32_t dir)
{
	return head->dirs[dir] == RING_NONE ? NULL : cells->cell(cells->arg, head->dirs[dir]);
}

/*
 * Return a leaf, or NULL if its registers are all zero.
 */
static inline Leaf *
leaf_at(const Head *head, const DcRingCells *cells, uint32_t leaf)
{
	const Dir *dir = dir_at(head, cells, leaf / RING_DIR_LEAVES);

	if (dir == NULL || dir->leaves[leaf % RING_DIR_LEAVES] == RING_NONE)
		return NULL;
	return cells->cell(cells->arg, dir->leaves[leaf % RING_DIR_LEAVES]);
}

/*
 * Return a register's rank in one slot of its word.
 */
static inline uint32_t
rank_in(uint64_t word, uint32_t slot)
{
	return (uint32_t) (word >> (slot * RANK_BITS) & RANK_MASK);
}

/*
 * Return the word with another rank in one slot.
 */
static inline uint64_t
with_rank(uint64_t word, uint32_t slot, uint32_t rank)
{
	return (word & ~(RANK_MASK << (slot * RANK_BITS))) | (uint64_t) rank << (slot * RANK_BITS);
}

/* The rank in the union. */
static inline uint32_t
union_rank(uint64_t word)
{
	uint32_t most = 0;

	for (; word != 0; word >>= RANK_BITS)
	{
		uint32_t rank = (uint32_t) (word & RANK_MASK);

		most = most < rank ? rank : most;
	}
	return most;
}

/*
 * Note that a register of the union has gone from one rank to another.
 */
static void
move_rank(const Head *head, const DcRingCells *cells, uint32_t from, uint32_t to)
{
	Ranks *ranks = cells->cell(cells->arg, head->ranks);

	ranks->count[from]--;
	ranks->count[to]++;
}

/*
 * ring_new returns a new, empty ring; RING_NONE if there is no memory.
 */
uint32_t
ring_new(const DcRingCells *cells, const DcRingTime *time)
{
	uint32_t root = cells->take(cells->arg);
	uint32_t ranks;
	Head *head;

	if (root == RING_NONE)
		return RING_NONE;
	ranks = cells->take(cells->arg);
	if (ranks == RING_NONE)
	{
		cells->give_back(cells->arg, root);
		return RING_NONE;
	}
	head = head_of(root, cells);
	head->ranks = ranks;
	head->time = *time;
	head->leaves = 0;
	for (int i = 0; i < RING_DIRS; i++)
		head->dirs[i] = RING_NONE;
	memset(((Ranks *) cells->cell(cells->arg, ranks))->count, 0, sizeof(((Ranks *) NULL)->count));
	return root;
}

/*
 * leaf_free frees a leaf, and its directory if that is empty then.
 */
static void
leaf_free(Head *head, const DcRingCells *cells, uint32_t leaf)
{
	uint32_t *link = &head->dirs[leaf / RING_DIR_LEAVES];
	Dir *dir = cells->cell(cells->arg, *link);

	cells->give_back(cells->arg, dir->leaves[leaf % RING_DIR_LEAVES]);
	dir->leaves[leaf % RING_DIR_LEAVES] = RING_NONE;
	head->leaves--;
	if (--dir->used > 0)
		return;
	cells->give_back(cells->arg, *link);
	*link = RING_NONE;
}

/*
 * leaf_new creates a missing leaf; returns NULL if there is no memory.
 */
static Leaf *
leaf_new(Head *head, const DcRingCells *cells, uint32_t leaf)
{
	uint32_t *link = &head->dirs[leaf / RING_DIR_LEAVES];
	uint32_t number = cells->take(cells->arg);
	Leaf *made;
	Dir *dir;

	if (number == RING_NONE)
		return NULL;
	if (*link == RING_NONE)
	{
		uint32_t dir_number = cells->take(cells->arg);

		if (dir_number == RING_NONE)
		{
			cells->give_back(cells->arg, number);
			return NULL;
		}
		dir = cells->cell(cells->arg, dir_number);
		dir->used = 0;
		for (int i = 0; i < RING_DIR_LEAVES; i++)
			dir->leaves[i] = RING_NONE;
		*link = dir_number;
	}
	dir = cells->cell(cells->arg, *link);
	dir->leaves[leaf % RING_DIR_LEAVES] = number;
	dir->used++;
	head->leaves++;
	made = cells->cell(cells->arg, number);
	for (int i = 0; i < RING_LEAF_WORDS; i++)
		word_init(&made->words[i], 0);
	return made;
}

/*
 * ring_free gives back all cells of a ring.
 */
void
ring_free(uint32_t root, const DcRingCells *cells)
{
	Head *head = head_of(root, cells);

	for (uint32_t i = 0; i < RING_LEAVES; i++)
	{
		if (leaf_at(head, cells, i) != NULL)
			leaf_free(head, cells, i);
	}
	cells->give_back(cells->arg, head->ranks);
	cells->give_back(cells->arg, root);
}

/*
 * Return the ring's time, which the caller may set if it has an exclusive lock.
 */
DcRingTime *
ring_time(uint32_t root, const DcRingCells *cells)
{
	return &head_of(root, cells)->time;
}

/*
 * Return true if no member has been seen in any of the ring's slots.
 */
bool
ring_is_empty(uint32_t root, const DcRingCells *cells)
{
	return head_of(root, cells)->leaves == 0;
}

/*
 * ring_beat notes a member's heartbeat, if that does not change the estimate. False if it does, or
 * the ring must be turned first: then nothing is done, and it takes an exclusive lock to turn it
 * and to add the member.
 *
 * `now` may be a little before the current slot, as the clock was read without a lock: then it
 * counts as in that slot.
 */
bool
ring_beat(uint32_t root, const DcRingCells *cells, uint64_t hash, int64_t now)
{
	Head *head = head_of(root, cells);
	uint32_t slot = head->time.slot;
	uint32_t rank;
	uint32_t index = hll_register(RING_PRECISION, hash, &rank);
	Leaf *leaf;
	Word *word;
	uint64_t old;

	if (now >= head->time.until)
		return false;
	leaf = leaf_at(head, cells, index / RING_LEAF_WORDS);
	if (leaf == NULL)
		return false;
	word = &leaf->words[index % RING_LEAF_WORDS];
	old = word_read(word);
	do
	{
		if (rank_in(old, slot) >= rank)
			return true;
		if (union_rank(old) < rank)
			return false;
	} while (!word_exchange(word, &old, with_rank(old, slot, rank)));
	return true;
}

/*
 * ring_add notes a member's heartbeat in the current slot. RING_FULL if that takes memory and there
 * is none.
 */
DcRingAdded
ring_add(uint32_t root, const DcRingCells *cells, uint64_t hash)
{
	Head *head = head_of(root, cells);
	uint32_t rank;
	uint32_t index = hll_register(RING_PRECISION, hash, &rank);
	Leaf *leaf = leaf_at(head, cells, index / RING_LEAF_WORDS);
	Word *word;
	uint64_t old;
	uint32_t before;

	if (leaf == NULL)
		leaf = leaf_new(head, cells, index / RING_LEAF_WORDS);
	if (leaf == NULL)
		return RING_FULL;
	word = &leaf->words[index % RING_LEAF_WORDS];
	old = word_read(word);
	before = union_rank(old);
	if (rank_in(old, head->time.slot) < rank)
		word_write(word, with_rank(old, head->time.slot, rank));
	if (before >= rank)
		return RING_SEEN;
	move_rank(head, cells, before, rank);
	return RING_NEW;
}

/*
 * map_words changes each word: a rank of the slots in the mask is forgotten; with_all, the rank in
 * the union is that of the current slot. Leaves that are empty then are freed. True if the union
 * has changed.
 */
static bool
map_words(Head *head, const DcRingCells *cells, uint64_t mask, bool with_all)
{
	bool changed = false;

	for (uint32_t i = 0; i < RING_LEAVES; i++)
	{
		Leaf *leaf;
		uint64_t any = 0;

		if (i % RING_DIR_LEAVES == 0 && dir_at(head, cells, i / RING_DIR_LEAVES) == NULL)
		{
			i += RING_DIR_LEAVES - 1;
			continue;
		}
		leaf = leaf_at(head, cells, i);
		if (leaf == NULL)
			continue;
		for (int j = 0; j < RING_LEAF_WORDS; j++)
		{
			uint64_t old = word_read(&leaf->words[j]);
			uint64_t word = old & ~mask;

			if (with_all && word != 0)
				word = with_rank(0, head->time.slot, union_rank(word));
			any |= word;
			if (word == old)
				continue;
			word_write(&leaf->words[j], word);
			if (!with_all && union_rank(word) != union_rank(old))
			{
				move_rank(head, cells, union_rank(old), union_rank(word));
				changed = true;
			}
		}
		if (any == 0)
			leaf_free(head, cells, i);
	}
	return changed;
}

/*
 * ring_turn forgets the slots that are too old. True if that has changed the estimate.
 */
bool
ring_turn(uint32_t root, const DcRingCells *cells, int64_t now)
{
	Head *head = head_of(root, cells);
	DcRingTime *time = &head->time;
	uint64_t mask = 0;
	int64_t slots;

	if (now < time->until)
		return false;
	slots = (now - time->until) / time->length + 1;
	time->until += slots * time->length;
	for (int64_t i = 0; i < slots && i < RING_SLOTS; i++)
	{
		time->slot = (time->slot + 1) % RING_SLOTS;
		mask |= RANK_MASK << (time->slot * RANK_BITS);
	}
	return map_words(head, cells, mask, false);
}

/*
 * ring_restart gives a ring another time. Its members stay, as if they were seen just now.
 */
void
ring_restart(uint32_t root, const DcRingCells *cells, const DcRingTime *time)
{
	Head *head = head_of(root, cells);

	head->time = *time;
	(void) map_words(head, cells, 0, true);
}

/*
 * ring_estimate returns about how many members are there.
 */
double
ring_estimate(uint32_t root, const DcRingCells *cells)
{
	const Ranks *ranks = cells->cell(cells->arg, head_of(root, cells)->ranks);
	uint32_t counts[RANK_VALUES] = {RING_REGISTERS};

	for (int i = 1; i <= RING_MAX_RANK; i++)
	{
		counts[i] = ranks->count[i];
		counts[0] -= counts[i];
	}
	return hll_estimate_counts(counts, RING_PRECISION);
}

/*
 * ring_leaf returns the words of a leaf, RING_LEAF_WORDS of them, or NULL. It is for writing them
 * to a file, when no other process is left.
 */
const uint64_t *
ring_leaf(uint32_t root, const DcRingCells *cells, uint32_t leaf)
{
	Leaf *found = leaf_at(head_of(root, cells), cells, leaf);

	return found == NULL ? NULL : (const uint64_t *) found->words;
}

/*
 * ring_put_leaf creates a leaf from such words. Returns false if it exists already, is empty or
 * invalid, or there is no memory.
 */
bool
ring_put_leaf(uint32_t root, const DcRingCells *cells, uint32_t leaf, const uint64_t *words)
{
	Head *head = head_of(root, cells);
	Leaf *made;
	uint64_t any = 0;

	if (leaf >= RING_LEAVES || leaf_at(head, cells, leaf) != NULL)
		return false;
	for (uint32_t i = 0; i < RING_LEAF_WORDS; i++)
	{
		if (words[i] >> (RING_SLOTS * RANK_BITS) != 0 || union_rank(words[i]) > RING_MAX_RANK ||
			(words[i] != 0 && leaf * RING_LEAF_WORDS + i >= RING_REGISTERS))
			return false;
		any |= words[i];
	}
	if (any == 0)
		return false;
	made = leaf_new(head, cells, leaf);
	if (made == NULL)
		return false;
	for (int i = 0; i < RING_LEAF_WORDS; i++)
	{
		word_init(&made->words[i], words[i]);
		if (words[i] != 0)
			move_rank(head, cells, 0, union_rank(words[i]));
	}
	return true;
}
