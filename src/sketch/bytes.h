/*
 * bytes.h
 *		Words of memory in little-endian order, at any address, on any machine.
 */
#ifndef DC_SKETCH_BYTES_H
#define DC_SKETCH_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BYTES_LITTLE64(word) __builtin_bswap64(word)
#define BYTES_LITTLE32(word) __builtin_bswap32(word)
#else
#define BYTES_LITTLE64(word) (word)
#define BYTES_LITTLE32(word) (word)
#endif

static inline uint64_t
bytes_load64(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return BYTES_LITTLE64(word);
}

static inline uint32_t
bytes_load32(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return BYTES_LITTLE32(word);
}

static inline void
bytes_store64(uint8_t *bytes, uint64_t word)
{
	word = BYTES_LITTLE64(word);
	memcpy(bytes, &word, sizeof(word));
}

#endif /* DC_SKETCH_BYTES_H */
