/*
 * roles.h
 *		Noticing that rights may have changed, and that roles were dropped (see roles.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ROLES_H
#define DC_ROLES_H

#include "nodes/pg_list.h"

/*
 * Grows with each change of a role, of memberships, or of the database's owner. A right
 * that was remembered with another value is to be checked again.
 */
extern uint32 role_changes;

extern void roles_init(void);
extern bool role_is_lost(Oid role);
extern List *roles_without_lost(List *roles);

#endif /* DC_ROLES_H */
