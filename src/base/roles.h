/*
 * roles.h
 *		When what was found out about roles may have become wrong (see roles.c).
 */
#ifndef DC_ROLES_H
#define DC_ROLES_H

/*
 * Grows with each change of a role, of who is a member of which, or of who owns the
 * database. What was remembered with another value is to be found out again.
 */
extern uint32 role_changes;

extern void roles_init(void);

#endif /* DC_ROLES_H */
