/*
 * ctlstep.c
 *		Steps: statements that change something. They are printed, and executed unless --dry-run was given. The
 *		output of --dry-run can be given to psql, server by server.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "bin/dc_region/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int steps;
static const Region *printed_for;

static const char *ctlstep_hidden(const char *statement, const Region *from);
static const char *with_slot(const char *statement, const char *slot);
static char *ctlstep_slot_of(const char *statement);

/*
 * step runs a statement.
 */
void
step(Region *region, const char *format, ...)
{
	va_list args;
	const char *sql;

	va_start(args, format);
	sql = text_args(format, args);
	va_end(args);
	step_shown(region, sql, sql);
}

/*
 * step_shown runs a statement that is printed in another form.
 */
void
step_shown(Region *region, const char *sql, const char *shown)
{
	step_print(region, shown);
	if (options.dry_run)
		return;
	PQclear(run(region, sql, NULL));
	step_done();
}

/*
 * step_of_counter runs a statement about one counter; if that fails, something is left to do.
 */
void
step_of_counter(Region *region, const char *sql, const char *counter)
{
	step_print(region, sql);
	if (options.dry_run)
		return;
	PQclear(ask_of_counter(region, sql, counter, 3));
	step_done();
}

/*
 * Print a statement for psql, after the region's name if the last one was for another region.
 */
void
step_print(const Region *region, const char *shown)
{
	if (printed_for != region)
		note("%s", region->name);
	printed_for = region;
	print_line(text("%s%s", shown, strstr(shown, "\\gexec") != NULL ? "" : ";"));
}

/*
 * step_done counts the steps. Tests end the program after one of them, as if it had been killed.
 */
void
step_done(void)
{
	steps++;
	if (options.stop_after > 0 && steps >= options.stop_after)
	{
		fflush(stdout);
		_Exit(STATUS_INCOMPLETE);
	}
}

/*
 * step_statements runs the statements that dc_region_join() or dc_region_refresh() returns for a
 * link from another region. They are unchanged, except that a link within one server uses a slot
 * that exists already.
 */
void
step_statements(Region *at, Region *from, const char *function, const char *name)
{
	const char *schema = at->state.schema != NULL ? at->state.schema : "public";
	const char *trust = options.trust_owners ? ", trust_owners => true" : "";
	const char *sql = text("%s.%s(%s, %s%s)", schema, function, quoted(from->name), quoted(from->link), trust);
	const char *shown = text("SELECT %s.%s(%s, %s%s) \\gexec", schema, function, quoted(from->name), quoted(from->shown), trust);
	PGresult *statements;

	if (options.dry_run)
	{
		if (same_server(at, from))
			note("two databases of one server: the slot of %s is created first, in %s", name, from->name);
		step_shown(at, "", shown);
		return;
	}
	statements = ask(at, text("SELECT %s", sql), 0, NULL);
	for (int i = 0; i < PQntuples(statements); i++)
	{
		const char *statement = PQgetvalue(statements, i, 0);
		char *slot = strncmp(statement, "CREATE SUBSCRIPTION ", 20) == 0 ? ctlstep_slot_of(statement) : NULL;

		if (slot != NULL && same_server(at, from))
		{
			step(from, "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", quoted(slot));
			statement = with_slot(statement, slot);
		}
		step_shown(at, statement, ctlstep_hidden(statement, from));
	}
}

/*
 * ctlstep_hidden returns a statement with the conninfo in the form in which it is printed.
 */
static const char *
ctlstep_hidden(const char *statement, const Region *from)
{
	const char *begin = strstr(statement, " CONNECTION ");
	const char *end = statement;
	const char *next;

	if (begin == NULL)
		return statement;
	while ((next = strstr(end + 1, " PUBLICATION dcounter_")) != NULL)
		end = next;
	return text("%.*s CONNECTION %s%s", (int) (begin - statement), statement, quoted(from->shown), end == statement ? "" : end);
}

/*
 * ctlstep_slot_of returns the name of the slot that a statement makes.
 */
static char *
ctlstep_slot_of(const char *statement)
{
	const char *begin = NULL;
	const char *next = statement;

	while ((next = strstr(next, "slot_name = ")) != NULL)
	{
		next += strlen("slot_name = ");
		begin = next;
	}
	return begin == NULL ? NULL : text("%.*s", (int) strcspn(begin, ",) "), begin);
}

/*
 * Return the CREATE SUBSCRIPTION statement with the option not to create the slot, which is there
 * already. It goes behind the slot's name, whose last occurrence is the option.
 */
static const char *
with_slot(const char *statement, const char *slot)
{
	const char *end = strstr(statement, slot);

	for (const char *next = end; next != NULL; next = strstr(next + 1, slot))
		end = next;
	end += strlen(slot);
	return text("%.*s, create_slot = false%s", (int) (end - statement), statement, end);
}
