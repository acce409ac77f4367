/*
 * ctlmain.c
 *		dc_region: the commands.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "bin/dc_region/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Command
{
	const char *name;
	void (*run)(void);
	int least; /* how many regions it names */
	int most;  /* -1: any number */
	bool changes;
} Command;

static const Command commands[] = {
	{"status", command_status, 0, 0, false},
	{"add", command_add, 1, -1, true},
	{"join", command_join, 0, -1, true},
	{"refresh", command_refresh, 0, -1, true},
	{"restore", command_restore, 1, 1, true},
	{"retire", command_retire, 1, 1, true},
	{"forget", command_forget, 1, 1, true},
	{"check", command_check, 0, 0, false},
	{"repair", command_repair, 0, 0, true},
};

static const Command *find_command(void);

/*
 * Run the command. Exit with STATUS_INCOMPLETE if something is left to do.
 */
int
main(int argc, char **argv)
{
	const Command *command;

	signals_init();
	setvbuf(stdout, NULL, _IOLBF, 0);
	ctl_options(argc, argv);
	command = find_command();
	config_read(options.config);
	mesh_connect();
	if (command->changes && !options.dry_run)
		mesh_lock();
	mesh_look();
	command->run();
	if (fflush(stdout) != 0)
		return STATUS_ERROR;
	return anything_left() ? STATUS_INCOMPLETE : STATUS_DONE;
}

/*
 * Return the command of the command line. Exits if there is none of that name, or with the wrong
 * number of arguments.
 */
static const Command *
find_command(void)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
	{
		const Command *command = &commands[i];

		if (strcmp(command->name, options.command) != 0)
			continue;
		if (options.count < command->least)
			wrong_usage("\"%s\" needs the name of a region", command->name);
		if (command->most >= 0 && options.count > command->most)
			wrong_usage("unexpected argument \"%s\"", options.names[command->most]);
		return command;
	}
	wrong_usage("there is no command \"%s\"", options.command);
}
