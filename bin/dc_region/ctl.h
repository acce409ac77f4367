/*
 * ctl.h
 *		dc_region: makes and repairs the links between regions.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A command looks at all regions, takes the steps that are left to do, and looks again. It keeps
 * nothing between two calls: the steps left follow from the state of the servers. So it can be
 * stopped at any point, and called again.
 *
 * The program ends soon, so it does not free its memory.
 */
#ifndef DC_CTL_H
#define DC_CTL_H

#include "bin/client/client.h"

#include <libpq-fe.h>

/* Exit statuses; doc/dc_region.1 has the same */
enum
{
	STATUS_DONE = 0,
	STATUS_ERROR = 1,	   /* a server refused something, or was lost */
	STATUS_USAGE = 2,	   /* command line, configuration */
	STATUS_INCOMPLETE = 3, /* something is left to do */
	STATUS_DIFFERENT = 4,  /* regions do not have the same */
	STATUS_TIMEOUT = 5
};

/* ---------- ctloptions.c ---------- */

typedef struct CtlOptions
{
	const char *command;
	const char *config;
	char **names; /* regions */
	int count;
	int timeout;	/* seconds of each wait; 0: none */
	int stop_after; /* steps; 0: never */
	bool dry_run;
	bool force;
	bool lossless;
	bool renew;
	bool trust_owners;
} CtlOptions;

extern CtlOptions options;

extern void ctl_options(int argc, char **argv);
extern void wrong_usage(const char *format, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));
extern void note(const char *format, ...) PRINTF_LIKE(1, 2);
extern void left_to_do(const char *format, ...) PRINTF_LIKE(1, 2);
extern bool anything_left(void);
extern void print_line(const char *line);
extern void give_up(int status, const char *format, ...) PRINTF_LIKE(2, 3) __attribute__((noreturn));
extern char *text(const char *format, ...) PRINTF_LIKE(1, 2);
extern char *text_args(const char *format, va_list args) PRINTF_LIKE(1, 0);

/* ---------- ctlconfig.c ---------- */

/* The state of a database (ctlstate.c) */
typedef struct State
{
	const char *schema;	  /* of the extension, or NULL */
	const char *name;	  /* of its region, or NULL */
	const char *epoch;	  /* that of the region */
	const char *epochs;	  /* all of them, as an array */
	const char *lossless; /* " EPOCH " of each since which nothing is missing */
	const char *state;	  /* as dc_regions() has it */
	bool renewed;		  /* it has a new epoch, and may still lack rows of the others */
	bool shut;			  /* it has stocks that sell nothing until an operator says whether units were lost */
	const char *server;	  /* where the database is, to compare */
	const char *encoding;
	const char *published; /* tables of dcounter_own */
	const char *lacks;	   /* the settings of the server that have to be changed, or NULL */
	bool superuser;
	bool workers; /* of logical replication may run */
	PGresult *regions;
	PGresult *links;
	PGresult *slots;
	PGresult *counters;
} State;

typedef struct Region
{
	const char *name;
	const char *conninfo; /* of this program */
	const char *link;	  /* of the other regions */
	const char *shown;	  /* likewise, to be printed */
	const char *why;	  /* it is not reached, or NULL */
	PGconn *connection;
	State state;
} Region;

typedef struct Mesh
{
	Region *regions;
	int count;
} Mesh;

extern Mesh mesh;

extern void config_read(const char *path);
extern bool config_parse(char *content, Mesh *into, int *line, const char **error);
extern Region *mesh_find(const char *name);

#define each_region(region) for (Region *region = mesh.regions; region < mesh.regions + mesh.count; region++)

/* ---------- ctlserver.c ---------- */

extern void mesh_connect(void);
extern void mesh_lock(void);
extern PGresult *ask(Region *region, const char *sql, int count, const char *const *arguments);
extern PGresult *ask_of_counter(Region *region, const char *sql, const char *counter, int part);
extern PGresult *run(Region *region, const char *sql, const char *sqlstate);
extern const char *answer(Region *region, const char *sql, int count, const char *const *arguments);
extern bool says(Region *region, const char *sql, int count, const char *const *arguments, const char *expected);
extern const char *quoted(const char *literal);
extern const char *field(const PGresult *result, int row, const char *column);
extern bool is_true(const PGresult *result, int row, const char *column);

/* A wait, which prints now and then what it waits for */
typedef struct Patience
{
	int64_t end;
	int64_t began;
	int64_t told;
} Patience;

extern bool same_server(const Region *one, const Region *other);
extern void patience_begin(Patience *patience);
extern void patience_next(Patience *patience, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---------- ctlstate.c ---------- */

extern void region_look(Region *region);
extern void mesh_look(void);
extern bool is_member(const Region *region);
extern bool is_gone(const Region *region);
extern bool is_reached(const Region *region);
extern bool is_in(const Region *region, const char *state);
extern const char *region_knows(const Region *region, const char *other, const char *column);
extern Region *region_wanted(const char *name);
extern bool is_stock(const Region *region, int counter);

/* ---------- ctlstep.c ---------- */

extern void step(Region *region, const char *format, ...) PRINTF_LIKE(2, 3);
extern void step_shown(Region *region, const char *sql, const char *shown);
extern void step_of_counter(Region *region, const char *sql, const char *counter);
extern void step_print(const Region *region, const char *shown);
extern void step_done(void);
extern void step_statements(Region *at, Region *from, const char *function, const char *name);

/* ---------- ctllink.c ---------- */

typedef enum LinkCondition
{
	LINK_NONE,
	LINK_FOREIGN,	  /* of a star, a ring or a tree */
	LINK_STALE,		  /* made for another epoch of one of them */
	LINK_CUT,		  /* without its slot */
	LINK_OUT_OF_DATE, /* disabled, without some tables, or with another conninfo */
	LINK_CURRENT
} LinkCondition;

extern LinkCondition link_condition(const Region *at, const Region *from, const char **why);
extern bool link_exists(const Region *at, const char *from);
extern bool link_is_known(const Region *at, const Region *from);
extern bool link_is_refreshed(const Region *at, const Region *from);
extern void link_disable(Region *at, const char *from);
extern void link_drop(Region *at, const char *from_name, Region *from);
extern void link_make(Region *at, Region *from);
extern void link_wait(Region *at, const Region *from);
extern void link_refresh(Region *at, Region *from);
extern void slots_drop(Region *at, const char *of, const Region *region);
extern bool lacks_counters(const Region *at, const Region *from, bool tell);

/* ---------- the commands ---------- */

extern void command_status(void);
extern void command_add(void);
extern void command_join(void);
extern void command_refresh(void);
extern void command_restore(void);
extern void command_retire(void);
extern void command_forget(void);
extern void command_check(void);
extern void command_repair(void);
extern void mesh_check(void);
extern bool region_advice(const Region *region, Buffer *advice);

#endif /* DC_CTL_H */
