/*
 * portals.h
 *		The session's portals while code of a table's owner runs (see portals.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_PORTALS_H
#define DC_PORTALS_H

extern void portals_enter(void);
extern void portals_leave(void);
extern bool portals_are_shut(void);

#endif /* DC_PORTALS_H */
