/*
 * stock.h
 *		The stock room's entry.
 */
#ifndef DC_STOCK_H
#define DC_STOCK_H

extern void stock_init(bool preloaded);

#endif /* DC_STOCK_H */
