/*
 * unit.h
 *		Shared parts of the unit tests: TAP, and reproducible random numbers.
 */
#ifndef UNIT_H
#define UNIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static int unit_tests = 0;
static int unit_failures = 0;

static inline void
ok(bool passed, const char *name)
{
	printf("%sok %d - %s\n", passed ? "" : "not ", ++unit_tests, name);
	if (!passed)
		unit_failures++;
}

static inline int
done_testing(void)
{
	printf("1..%d\n", unit_tests);
	return unit_failures == 0 ? 0 : 1;
}

/* splitmix64 */
static inline uint64_t
unit_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

#endif /* UNIT_H */
