/*
 * sequence.h
 *		Positions of events (see sequence.c).
 */
#ifndef DC_SEQUENCE_H
#define DC_SEQUENCE_H

extern int64 sequence_draw(int64 n);
extern int64 sequence_last(void);

#endif /* DC_SEQUENCE_H */
