/*
 * version.h
 *		Checking that library and script have the same version (see version.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_VERSION_H
#define DC_VERSION_H

extern bool version_checked;

extern void version_check(void);
extern bool version_is_older(void);

#endif /* DC_VERSION_H */
