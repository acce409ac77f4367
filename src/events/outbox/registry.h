/*
 * registry.h
 *		Transactions that are writing events (see registry.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_REGISTRY_H
#define DC_REGISTRY_H

extern void registry_init(bool preloading);
extern void registry_enter(bool prepare);
extern bool registry_is_entered(void);
extern bool registry_leave(void);

#endif /* DC_REGISTRY_H */
