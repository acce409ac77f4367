/*
 * consumerlock.h
 *		Tags of the consumers' locks.
 */
#ifndef DC_CONSUMERLOCK_H
#define DC_CONSUMERLOCK_H

#include "base/lockclass.h"
#include "miscadmin.h"
#include "storage/lock.h"

/* Numbers that are no member's */
#define CONSUMER_LOCK_SETTINGS 0
#define CONSUMER_LOCK_SELF 1 /* of the consumer itself, which has no name */

static inline void
consumer_tag(LOCKTAG *tag, int32 consumer, uint32 number)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, (uint32) consumer, number,
						 CONSUMER_LOCK_CLASS);
}

#endif /* DC_CONSUMERLOCK_H */
