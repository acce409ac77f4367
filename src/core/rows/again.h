/*
 * again.h
 *		Inserting a row in place of another one (see again.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_AGAIN_H
#define DC_AGAIN_H

#include "core/rows/direct.h"

extern bool inserts_again(DcCounter *counter);
extern void direct_insert_in_place(DcDirectRel *rel, const DcDelta *delta);

#endif /* DC_AGAIN_H */
