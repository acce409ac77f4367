/*
 * keyexpiry.h
 *		Keys that expire (see keyexpiry.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_KEYEXPIRY_H
#define DC_KEYEXPIRY_H

extern void keyexpiry_init(bool preloading);

#endif /* DC_KEYEXPIRY_H */
