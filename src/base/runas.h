/*
 * runas.h
 *		Running SQL as a table's owner, safely.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RUNAS_H
#define DC_RUNAS_H

typedef struct DcRunAs
{
	Oid saved_userid;
	int saved_sec_context;
	int guc_level;
} DcRunAs;

extern void runas_init(void);
extern void runas_begin(DcRunAs *state, Oid roleid);
extern void runas_end(DcRunAs *state);
extern int search_path_pin(void);
extern void run_ddl(const char *sql);
extern void run_ddl_done(bool done, const char *name);

#endif /* DC_RUNAS_H */
