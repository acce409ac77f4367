/*
 * layout.h
 *		Which counter tables can be accessed without SQL (see layout.c).
 */
#ifndef DC_LAYOUT_H
#define DC_LAYOUT_H

#include "base/catalog.h"

extern void counter_layout(DcCounter *counter);

#endif /* DC_LAYOUT_H */
