/*
 * presenceinit.h
 *		The room's entry point.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_PRESENCEINIT_H
#define DC_PRESENCEINIT_H

extern void presence_init(bool preloading);

#endif /* DC_PRESENCEINIT_H */
