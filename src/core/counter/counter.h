/*
 * counter.h
 *		The counter room's interface to the rest of the extension.
 */
#ifndef DC_COUNTER_H
#define DC_COUNTER_H

extern void counter_xact_init(void);

#endif /* DC_COUNTER_H */
