/*
 * wait.h
 *		Waiting for events (see wait.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_WAIT_H
#define DC_WAIT_H

extern void wait_init(bool preloading);
extern void wait_wake(void);

#endif /* DC_WAIT_H */
