/*
 * bufferinit.h
 *		The buffer room's interface to the rest of the extension.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_BUFFERINIT_H
#define DC_BUFFERINIT_H

extern void buffering_init(bool preloading);

#endif /* DC_BUFFERINIT_H */
