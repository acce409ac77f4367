/*
 * olderddl.h
 *		DDL while the library is older than the extension's script (see olderddl.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_OLDERDDL_H
#define DC_OLDERDDL_H

#include "core/table/ddlhooks.h"

extern bool older_passes(const DcDdl *ddl);
extern void older_prevent_index(Oid indexed);

#endif /* DC_OLDERDDL_H */
