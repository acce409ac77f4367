/*
 * sequence.h
 *		Numbers from a sequence (see sequence.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_SEQUENCE_H
#define DC_SEQUENCE_H

extern int64 sequence_draw(Oid sequence, int64 n);
extern int64 sequence_raise(Oid sequence, int64 least, int64 ahead);
extern int64 sequence_last(Oid sequence);

#endif /* DC_SEQUENCE_H */
