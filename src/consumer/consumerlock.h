/*
 * consumerlock.h
 *		Numbers in the tags of the consumers' locks.
 */
#ifndef DC_CONSUMERLOCK_H
#define DC_CONSUMERLOCK_H

#include "base/lockclass.h"

/* Numbers that are no member's */
#define CONSUMER_LOCK_SETTINGS 0
#define CONSUMER_LOCK_SELF 1 /* of the consumer itself, which has no name */

#endif /* DC_CONSUMERLOCK_H */
