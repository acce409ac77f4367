/*
 * rankcode.c
 *		Coding of registers in less than three bits each.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * The registers of a HyperLogLog have an entropy of 2.83 bits, but no repetitions
 * that the server's own compression could find. Their distribution is known except for one
 * parameter, the number of items by the number of registers; and twice the items give the same
 * distribution, with each rank one higher. So a few fixed Huffman codes are enough, of ranks
 * relative to a base: 2.86 to 2.9 bits. There is no code to store with the registers, and no table
 * to be made for decoding: the tables of a code are created once in a process.
 *
 * That is why this file is here: a sketch of precision 14 takes at most 6,100 bytes
 * (doc/sketch-formats.md), where registers of six bits, as in Redis, take 12,288.
 *
 * Format: the number of the code, a byte; the base, a byte; the sizes of all
 * streams but the last in bytes, two bytes each in little-endian order; the
 * streams, of an equal part of the registers each, 8 of up to 4,096 registers and
 * 16 of more. Bits fill bytes from the lowest, and the last byte of a stream with
 * zeros. A register that is the base plus k is
 * the code's word for k; any other is the word for "another", and six bits of
 * value. Words are canonical: by their length, then by k, "another" last; the
 * first bit of a word is the highest of its number. Encoding takes the code and
 * the base of least total size, of equals the lowest base, then code.
 *
 * Streams, so that a single register is found without decoding all of them; and
 * since where a stream's next word begins is known only when the last one is: four
 * are read at once, and while the processor waits for one of them, it works on
 * the others. For the same reason a look-up of eleven bits gives all words that
 * are whole in them, three or four as a rule.
 */
#include "types/sketch/hll/rankcode.h"

#include <string.h>

#include "types/sketch/hll/bits.h"

#define CODES 9
#define MAX_WORDS 15 /* of a code, "another" included */
#define VALUE_BITS 6 /* of which there are RANK_VALUES */
#define MAX_STREAMS 16
#define LANES 4			   /* streams that are read at once */
#define BASES_BELOW_MODE 5 /* the most frequent rank is k = 0 to 5 in all codes */
#define MAX_BASE (RANK_VALUES - MAX_WORDS)

#define WINDOW_BITS 11
#define WINDOW (1 << WINDOW_BITS)
#define BATCH 5		   /* look-ups in one load of a stream */
#define LOOKUP_BYTES 3 /* that one may take, with a value and a begun byte */
#define MAX_LOG2_RANKS 18
#define ENTRY_WORDS 5 /* at most, in one look-up */

/*
 * The lengths of the words of each code. They are the optimal ones for registers
 * with n / m items each, from less than 1 (the first) to 6.7 by quarters of an
 * octave where that makes a difference; from the sixth on they serve all higher
 * numbers, with a base above 0.
 */
typedef struct Code
{
	uint8_t words;
	uint8_t lengths[MAX_WORDS];
} Code;

static const Code codes[CODES] = {
	{12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11}},
	{12, {2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10}},
	{13, {3, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 10}},
	{13, {4, 3, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 9}},
	{14, {5, 3, 2, 2, 3, 3, 5, 5, 6, 7, 8, 9, 10, 10}},
	{14, {6, 3, 2, 2, 3, 3, 4, 6, 6, 7, 8, 9, 10, 10}},
	{14, {8, 3, 2, 2, 3, 3, 4, 5, 6, 8, 8, 9, 10, 10}},
	{14, {8, 4, 3, 2, 2, 3, 4, 4, 5, 6, 8, 8, 9, 9}},
	{15, {10, 5, 3, 2, 2, 3, 3, 5, 5, 6, 7, 8, 10, 10, 10}}};

/*
 * The result of a look-up: in the low bytes the k of the words that are whole in the
 * window, up to five; in byte 5 their number, in byte 6 their total length. If the
 * first word is "another", their number is 0, and the length is that word's.
 */
typedef uint64_t Entry;

typedef struct Table
{
	bool made;
	uint16_t words[MAX_WORDS]; /* the words, first bit lowest */
	Entry entries[WINDOW];
} Table;

static Table tables[CODES];

/*
 * A stream that is read. Reading may go beyond the stream's end, but not beyond
 * that of the data; where it came to is checked in the end.
 */
typedef struct Lane
{
	const uint8_t *next; /* byte that bits began with */
	const uint8_t *end;	 /* of the data */
	uint64_t bits;		 /* above the highest one that is set, bits were taken */
	int skip;			 /* bits of the first byte that were taken before */
	uint8_t *out;
	uint8_t *out_end;
} Lane;

static void make_words(const Code *code, uint16_t *words);
static Entry rankcode_make_entry(const Code *code, const uint16_t *words, uint32_t window);
static void choose_code(const uint8_t *ranks, uint32_t n, int *code, int *base);
static uint64_t total_bits(const Code *code, const uint32_t *counts, int base);
static uint8_t *put_stream(uint8_t *out, int code, int base, const uint8_t *ranks,
						   uint32_t n);
static void get_batches(Lane *lanes, const Entry *entries, int base);
static void get_some(Lane *lane, const Entry *entries, int base);
static bool get_rest(Lane *lane, int code, int base, const uint8_t *stream_end);
static const uint8_t *find_stream(const uint8_t *data, size_t len, uint32_t n, int stream, size_t *size);

/* How many streams n ranks are in. */
static inline int
streams_of(uint32_t n)
{
	return n <= 4096 ? MAX_STREAMS / 2 : MAX_STREAMS;
}

/* The bytes before the first stream. */
static inline size_t
head_bytes(uint32_t n)
{
	return 2 + 2 * (size_t) (streams_of(n) - 1);
}

/* The tables of a code, made when they are first asked for. */
static const Table *
table_of(int code)
{
	Table *table = &tables[code];

	if (!table->made)
	{
		make_words(&codes[code], table->words);
		for (uint32_t window = 0; window < WINDOW; window++)
			table->entries[window] = rankcode_make_entry(&codes[code], table->words, window);
		table->made = true;
	}
	return table;
}

/*
 * Make the words of a code from their lengths, with the first bit lowest.
 */
static void
make_words(const Code *code, uint16_t *words)
{
	uint32_t next = 0;

	for (int length = 1; length <= WINDOW_BITS; length++)
	{
		next <<= 1;
		for (int k = 0; k < code->words; k++)
		{
			if (code->lengths[k] != length)
				continue;
			words[k] = 0;
			for (int bit = 0; bit < length; bit++)
				words[k] |= (uint16_t) ((next >> bit & 1) << (length - 1 - bit));
			next++;
		}
	}
}

/*
 * Return the result of a look-up: all words that are whole in the bits of `window`.
 */
static Entry
rankcode_make_entry(const Code *code, const uint16_t *words, uint32_t window)
{
	Entry entry = 0;
	int another = code->words - 1;
	int length = 0;
	int n = 0;

	while (n < ENTRY_WORDS)
	{
		int k = 0;

		/* Each window begins with one word; beyond its end there is none. */
		while (k < code->words && (length + code->lengths[k] > WINDOW_BITS || (window >> length & ((1 << code->lengths[k]) - 1)) != words[k]))
			k++;
		if (k == code->words || (k == another && n > 0))
			break;
		length += code->lengths[k];
		if (k == another)
			break;
		entry |= (Entry) k << (8 * n++);
	}
	return entry | (Entry) n << 40 | (Entry) length << 48;
}

/*
 * rankcode_max_size is how many bytes rankcode_encode may need for n ranks.
 */
size_t
rankcode_max_size(uint32_t n)
{
	return head_bytes(n) + MAX_STREAMS + 8 + (size_t) n * (WINDOW_BITS + VALUE_BITS) / 8;
}

/*
 * rankcode_encode writes n ranks below 64 and returns the size. n is a multiple
 * of 32, and at most 2^18, so that a stream's size is below 2^16.
 */
size_t
rankcode_encode(const uint8_t *ranks, uint32_t n, uint8_t *out)
{
	int streams = streams_of(n);
	uint32_t part = n / streams;
	uint8_t *size = out + 2;
	uint8_t *next = out + head_bytes(n);
	int code;
	int base;

	choose_code(ranks, n, &code, &base);
	out[0] = (uint8_t) code;
	out[1] = (uint8_t) base;
	for (int i = 0; i < streams; i++)
	{
		uint8_t *start = next;

		next = put_stream(start, code, base, ranks + i * part, part);
		if (i < streams - 1)
		{
			*size++ = (uint8_t) (next - start);
			*size++ = (uint8_t) ((next - start) >> 8);
		}
	}
	return (size_t) (next - out);
}

/*
 * rankcode_count counts how many of n ranks, a multiple of four, have each value.
 */
void
rankcode_count(const uint8_t *ranks, uint32_t n, uint32_t counts[RANK_VALUES])
{
	uint32_t of_each[4][RANK_VALUES];

	/* Four counters, so that equal neighbours do not wait for each other. */
	memset(of_each, 0, sizeof(of_each));
	for (uint32_t i = 0; i < n; i += 4)
	{
		of_each[0][ranks[i]]++;
		of_each[1][ranks[i + 1]]++;
		of_each[2][ranks[i + 2]]++;
		of_each[3][ranks[i + 3]]++;
	}
	for (int v = 0; v < RANK_VALUES; v++)
		counts[v] = of_each[0][v] + of_each[1][v] + of_each[2][v] + of_each[3][v];
}

/*
 * Find the code and the base that write n ranks in the fewest bits.
 */
static void
choose_code(const uint8_t *ranks, uint32_t n, int *code, int *base)
{
	uint32_t counts[RANK_VALUES];
	uint64_t least = UINT64_MAX;
	int mode = 0;
	int lowest;

	rankcode_count(ranks, n, counts);
	for (int v = 0; v < RANK_VALUES; v++)
	{
		if (counts[v] > counts[mode])
			mode = v;
	}
	lowest = mode < BASES_BELOW_MODE ? 0 : mode - BASES_BELOW_MODE;
	if (lowest > MAX_BASE)
		lowest = MAX_BASE;
	for (int b = lowest; b <= mode && b <= MAX_BASE; b++)
	{
		for (int c = 0; c < CODES; c++)
		{
			uint64_t bits = total_bits(&codes[c], counts, b);

			if (bits >= least)
				continue;
			least = bits;
			*code = c;
			*base = b;
		}
	}
}

/*
 * Return how many bits the ranks take in a code with a base. counts are those of each rank.
 */
static uint64_t
total_bits(const Code *code, const uint32_t *counts, int base)
{
	int another = code->words - 1;
	uint64_t bits = 0;

	for (int v = 0; v < RANK_VALUES; v++)
	{
		int k = v - base;

		if (k >= 0 && k < another)
			bits += (uint64_t) counts[v] * code->lengths[k];
		else
			bits += (uint64_t) counts[v] * (code->lengths[another] + VALUE_BITS);
	}
	return bits;
}

/* Writes up to 8 bytes more than it returns. */
static uint8_t *
put_stream(uint8_t *out, int code, int base, const uint8_t *ranks, uint32_t n)
{
	const uint16_t *words = table_of(code)->words;
	int another = codes[code].words - 1;
	uint32_t bits_of[RANK_VALUES];
	uint8_t length_of[RANK_VALUES];
	uint64_t bits = 0;
	int nbits = 0;

	for (int v = 0; v < RANK_VALUES; v++)
	{
		int k = v - base;

		if (k < 0 || k >= another)
		{
			bits_of[v] = words[another] | (uint32_t) v << codes[code].lengths[another];
			length_of[v] = codes[code].lengths[another] + VALUE_BITS;
		}
		else
		{
			bits_of[v] = words[k];
			length_of[v] = codes[code].lengths[k];
		}
	}
	for (uint32_t i = 0; i < n; i += 2)
	{
		uint64_t two = bits_of[ranks[i]] | (uint64_t) bits_of[ranks[i + 1]] << length_of[ranks[i]];

		bits |= two << nbits;
		nbits += length_of[ranks[i]] + length_of[ranks[i + 1]];
		bytes_store64(out, bits);
		out += nbits >> 3;
		bits >>= nbits & ~7;
		nbits &= 7;
	}
	bytes_store64(out, bits);
	return out + (nbits + 7) / 8;
}

/*
 * rankcode_decode reads n ranks from exactly len bytes that are not trusted; false
 * if they are not the code of n ranks. It may take bytes that rankcode_encode
 * would not have made.
 */
bool
rankcode_decode(const uint8_t *data, size_t len, uint8_t *ranks, uint32_t n)
{
	const uint8_t *end = data + len;
	int streams = streams_of(n);
	uint32_t part = n / streams;
	const uint8_t *next;
	const uint8_t *stream_ends[LANES];
	Lane lanes[LANES];
	size_t size;

	next = find_stream(data, len, n, 0, &size);
	for (int i = 0; i < streams; i++)
	{
		int l = i % LANES;

		if (next == NULL)
			return false;
		lanes[l].next = next;
		lanes[l].end = end;
		lanes[l].bits = 0;
		lanes[l].skip = 0;
		lanes[l].out = ranks + i * part;
		lanes[l].out_end = lanes[l].out + part;
		stream_ends[l] = next + size;
		if (i < streams - 1)
			next = find_stream(data, len, n, i + 1, &size);
		if (l < LANES - 1)
			continue;
		get_batches(lanes, table_of(data[0])->entries, data[1]);
		for (l = 0; l < LANES; l++)
		{
			get_some(&lanes[l], table_of(data[0])->entries, data[1]);
			if (!get_rest(&lanes[l], data[0], data[1], stream_ends[l]))
				return false;
		}
	}
	return true;
}

/*
 * rankcode_get is one of the n ranks that rankcode_encode wrote.
 */
int
rankcode_get(const uint8_t *data, size_t len, uint32_t n, uint32_t index)
{
	int streams = streams_of(n);
	uint32_t part = n / streams;
	uint8_t ranks[(1 << MAX_LOG2_RANKS) / MAX_STREAMS];
	size_t size;
	Lane lane;

	lane.next = find_stream(data, len, n, (int) (index / part), &size);
	if (lane.next == NULL)
		return 0; /* damaged */
	lane.end = data + len;
	lane.skip = 0;
	lane.out = ranks;
	lane.out_end = ranks + index % part + 1;
	get_some(&lane, table_of(data[0])->entries, data[1]);
	(void) get_rest(&lane, data[0], data[1], data + len);
	return ranks[index % part];
}

/* NULL if there is no such stream. */
static const uint8_t *
find_stream(const uint8_t *data, size_t len, uint32_t n, int stream, size_t *size)
{
	size_t start = head_bytes(n);

	if (len < start || data[0] >= CODES || data[1] > MAX_BASE)
		return NULL;
	for (int i = 0; i < stream; i++)
		start += data[2 + 2 * i] | (size_t) data[3 + 2 * i] << 8;
	if (start > len)
		return NULL;
	*size = len - start;
	if (stream < streams_of(n) - 1)
		*size = data[2 + 2 * stream] | (size_t) data[3 + 2 * stream] << 8;
	return *size <= len - start ? data + start : NULL;
}

/* Return true if this many look-ups can be made without checking for the ends. */
static inline bool
lane_ready(const Lane *lane, int lookups)
{
	return lane->end - lane->next >= lookups * LOOKUP_BYTES + 8 &&
		lane->out_end - lane->out >= (lookups - 1) * ENTRY_WORDS + 8;
}

/*
 * Load eight bytes of a stream. The highest bit becomes a one, as a mark by which lane_advance()
 * sees how many bits were taken; so 63 bits less lane->skip are of use.
 */
static inline void
lane_load(Lane *lane)
{
	lane->bits = (bytes_load64(lane->next) | UINT64_C(1) << 63) >> lane->skip;
}

/*
 * Move on by the bits that were taken since lane_load().
 */
static inline void
lane_advance(Lane *lane)
{
	int taken = __builtin_clzll(lane->bits);

	lane->next += taken >> 3;
	lane->skip = taken & 7;
}

/*
 * Make one look-up, and write its ranks, or a value after the word "another". Eight bytes are
 * stored at lane->out, whatever their number.
 */
static inline void
lane_take(Lane *lane, const Entry *entries, uint64_t bases)
{
	Entry entry = entries[lane->bits & (WINDOW - 1)];

	bytes_store64(lane->out, entry + bases);
	lane->out += entry >> 40 & 255;
	lane->bits >>= entry >> 48;
	if (__builtin_expect((entry >> 40 & 255) == 0, 0))
	{
		/* The value's bits may not be loaded yet. */
		lane_advance(lane);
		lane_load(lane);
		*lane->out++ = lane->bits & (RANK_VALUES - 1);
		lane->bits >>= VALUE_BITS;
	}
}

/*
 * Return a number with the base in each of its five low bytes, to be added to an entry's words.
 */
static inline uint64_t
five_times(int base)
{
	return UINT64_C(0x0101010101) * (uint64_t) base;
}

/*
 * get_batches reads from four streams at once, as long as none of them is near
 * its end.
 */
static void
get_batches(Lane *lanes, const Entry *entries, int base)
{
	const uint64_t bases = five_times(base);
	Lane a = lanes[0];
	Lane b = lanes[1];
	Lane c = lanes[2];
	Lane d = lanes[3];

	while (lane_ready(&a, BATCH) && lane_ready(&b, BATCH) && lane_ready(&c, BATCH) && lane_ready(&d, BATCH))
	{
		lane_load(&a);
		lane_load(&b);
		lane_load(&c);
		lane_load(&d);
		for (int i = 0; i < BATCH; i++)
		{
			lane_take(&a, entries, bases);
			lane_take(&b, entries, bases);
			lane_take(&c, entries, bases);
			lane_take(&d, entries, bases);
		}
		lane_advance(&a);
		lane_advance(&b);
		lane_advance(&c);
		lane_advance(&d);
	}
	lanes[0] = a;
	lanes[1] = b;
	lanes[2] = c;
	lanes[3] = d;
}

/*
 * get_some reads from one stream, up to its last few registers.
 */
static void
get_some(Lane *lane, const Entry *entries, int base)
{
	const uint64_t bases = five_times(base);

	while (lane_ready(lane, BATCH))
	{
		lane_load(lane);
		for (int i = 0; i < BATCH; i++)
			lane_take(lane, entries, bases);
		lane_advance(lane);
	}
	while (lane_ready(lane, 1))
	{
		lane_load(lane);
		lane_take(lane, entries, bases);
		lane_advance(lane);
	}
}

/*
 * get_rest reads the rest of a stream, word by word; false if the stream does
 * not end with its last word.
 */
static bool
get_rest(Lane *lane, int code, int base, const uint8_t *stream_end)
{
	const Entry *entries = table_of(code)->entries;
	const uint8_t *lengths = codes[code].lengths;
	BitReader reader;
	int64_t left;

	bits_open(&reader, lane->next, (size_t) (lane->end - lane->next));
	bits_refill(&reader);
	(void) bits_take(&reader, lane->skip);
	while (lane->out < lane->out_end)
	{
		Entry entry;

		bits_refill(&reader);
		entry = entries[reader.bits & (WINDOW - 1)];
		if ((entry >> 40 & 255) == 0)
		{
			(void) bits_take(&reader, (int) (entry >> 48));
			*lane->out++ = (uint8_t) bits_take(&reader, VALUE_BITS);
		}
		else
		{
			(void) bits_take(&reader, lengths[entry & 255]);
			*lane->out++ = (uint8_t) (base + (int) (entry & 255));
		}
	}
	left = bits_left(&reader) - (int64_t) (lane->end - stream_end) * 8;
	return left >= 0 && left < 8 && (left == 0 || stream_end[-1] >> (8 - left) == 0);
}
