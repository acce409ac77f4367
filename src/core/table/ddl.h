/*
 * ddl.h
 *		DDL in a transaction with increments (see ddl.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_DDL_H
#define DC_DDL_H

extern void counter_ddl_init(void);

#endif /* DC_DDL_H */
