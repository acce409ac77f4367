/*
 * errors.h
 *		Errors that many rooms raise (see errors.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ERRORS_H
#define DC_ERRORS_H

#include "base/compat.h"

pg_noreturn extern void serialization_error(void);
pg_noreturn extern void relation_missing_error(Oid relid);

#endif /* DC_ERRORS_H */
