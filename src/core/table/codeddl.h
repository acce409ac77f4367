/*
 * codeddl.h
 *		DDL that attaches an owner's code to a counter's tables (see codeddl.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_CODEDDL_H
#define DC_CODEDDL_H

#include "nodes/parsenodes.h"

#include "core/table/ddlhooks.h"

extern void code_changed(const DcDdl *ddl);
extern bool makes_relatives(Node *parsetree);
extern void code_ddl_init(void);

#endif /* DC_CODEDDL_H */
