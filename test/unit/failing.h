/*
 * failing.h
 *		Lets a unit test decide that there is no memory: put before all else that the
 *		test compiles.
 */
#ifndef UNIT_FAILING_H
#define UNIT_FAILING_H

#include <stdlib.h>

/* Does not return if there is to be no memory. */
extern void *failing_malloc(size_t size);

#define malloc(size) failing_malloc(size)

#endif /* UNIT_FAILING_H */
