/*
 * ctloptions.c
 *		The command line of dc_region, and its messages.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "bin/dc_region/ctl.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CONFIG "regions.conf"
#define DEFAULT_TIMEOUT 600
#define MAX_NUMBER 1000000

const char program[] = "dc_region";

/* How many things are left to do. */
static int left;

CtlOptions options = {.config = DEFAULT_CONFIG, .timeout = DEFAULT_TIMEOUT};

enum
{
	OPTION_DRY_RUN = 256,
	OPTION_FORCE,
	OPTION_LOSSLESS,
	OPTION_RENEW,
	OPTION_TRUST_OWNERS,
	OPTION_TIMEOUT,
	OPTION_STOP_AFTER,
	OPTION_HELP
};

static const struct option long_options[] = {
	{"config", required_argument, NULL, 'c'},
	{"dry-run", no_argument, NULL, OPTION_DRY_RUN},
	{"timeout", required_argument, NULL, OPTION_TIMEOUT},
	{"force", no_argument, NULL, OPTION_FORCE},
	{"lossless", no_argument, NULL, OPTION_LOSSLESS},
	{"renew", no_argument, NULL, OPTION_RENEW},
	{"trust-owners", no_argument, NULL, OPTION_TRUST_OWNERS},
	{"stop-after", required_argument, NULL, OPTION_STOP_AFTER}, /* for tests */
	{"help", no_argument, NULL, OPTION_HELP},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0}};

static void take_option(int option, char **argv);
static void ctloptions_print_and_exit(const char *what) __attribute__((noreturn));
static int ctloptions_number(const char *name, const char *value);

static const char help[] =
	"dc_region makes and mends the links between the regions of dcounter.\n"
	"\n"
	"Usage:\n"
	"  dc_region COMMAND [REGION]... [OPTION]...\n"
	"\n"
	"Commands:\n"
	"  status           show each region, what is wrong with it, and what to call\n"
	"  add REGION...    make a database one of a region, with the counters of the\n"
	"                   others and links to and from all of them\n"
	"  join [REGION]... make the links that are missing, and mend those that are not\n"
	"                   as they should be; by default between all regions\n"
	"  refresh [REGION]...  bring all that the others know to a region\n"
	"  restore REGION   after its database was restored, promoted or upgraded: make its\n"
	"                   links anew, and bring back what the others know\n"
	"  retire REGION    take a region out for good; with --force, one that is lost\n"
	"  forget REGION    drop what was kept for links to and from a retired region\n"
	"  check            compare what the regions have\n"
	"  repair           mend values, links, and regions that lack something\n"
	"\n"
	"Options:\n"
	"  -c, --config=FILE  how each region is reached (default regions.conf)\n"
	"  --dry-run          print the statements for each server, change nothing\n"
	"  --timeout=SECONDS  how long each wait may take (default 600; 0: any time)\n"
	"  --force            retire a region that is lost\n"
	"  --renew            restore: give it a new epoch, although it has not noticed\n"
	"                     that it was set back\n"
	"  --lossless         restore: nothing was lost, so its stocks keep their units\n"
	"  --trust-owners     trust all owners of tables as a superuser is trusted;\n"
	"                     PostgreSQL 15 makes no links without\n"
	"  -V, --version      show the version, then exit\n"
	"  -?, --help         show this help, then exit\n";

/*
 * ctl_options fills in the options, or ends the program.
 */
void
ctl_options(int argc, char **argv)
{
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":c:V?", long_options, NULL)) != -1)
		take_option(option, argv);
	if (optind == argc)
		wrong_usage("a command is missing");
	options.command = argv[optind];
	options.names = argv + optind + 1;
	options.count = argc - optind - 1;
}

/*
 * Take an option that getopt has found. Exits with --help, --version, and for one that is wrong.
 */
static void
take_option(int option, char **argv)
{
	switch (option)
	{
		case 'c':
			options.config = optarg;
			break;
		case OPTION_DRY_RUN:
			options.dry_run = true;
			break;
		case OPTION_FORCE:
			options.force = true;
			break;
		case OPTION_LOSSLESS:
			options.lossless = true;
			break;
		case OPTION_RENEW:
			options.renew = true;
			break;
		case OPTION_TRUST_OWNERS:
			options.trust_owners = true;
			break;
		case OPTION_TIMEOUT:
			options.timeout = ctloptions_number("--timeout", optarg);
			break;
		case OPTION_STOP_AFTER:
			options.stop_after = ctloptions_number("--stop-after", optarg);
			break;
		case 'V':
			ctloptions_print_and_exit("dc_region (dcounter) " DCOUNTER_VERSION "\n");
		case OPTION_HELP:
			ctloptions_print_and_exit(help);
		case ':':
			wrong_usage("option \"%s\" needs a value", argv[optind - 1]);
		default:
			/* getopt returns the same for an option that it does not know */
			if (strcmp(argv[optind - 1], "-?") == 0)
				ctloptions_print_and_exit(help);
			wrong_usage("unknown option \"%s\"", argv[optind - 1]);
	}
}

/*
 * Print a text to standard output and exit.
 */
static void
ctloptions_print_and_exit(const char *what)
{
	fputs(what, stdout);
	exit(fflush(stdout) == 0 ? STATUS_DONE : STATUS_ERROR);
}

/*
 * Return the number that an option was given, or exit.
 */
static int
ctloptions_number(const char *name, const char *value)
{
	char *end;
	long parsed;

	errno = 0;
	parsed = strtol(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || parsed < 0 || parsed > MAX_NUMBER)
		wrong_usage("%s must be a number from 0 to %d, not \"%s\"", name, MAX_NUMBER, value);
	return (int) parsed;
}

/*
 * Print a message and a hint at --help, and exit with STATUS_USAGE.
 */
void
wrong_usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_args(format, args);
	va_end(args);
	give_up(STATUS_USAGE, "try \"dc_region --help\" for more information");
}

/*
 * give_up ends the program.
 */
void
give_up(int status, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	va_start(args, format);
	say_args(format, args);
	va_end(args);
	exit(status);
}

/*
 * text returns a string, formatted as by printf().
 */
char *
text(const char *format, ...)
{
	va_list args;
	char *result;

	va_start(args, format);
	result = text_args(format, args);
	va_end(args);
	return result;
}

/*
 * Return a formatted string in memory of its own, or exit.
 */
char *
text_args(const char *format, va_list args)
{
	va_list first;
	int length;
	char *result;

	va_copy(first, args);
	length = vsnprintf(NULL, 0, format, first);
	va_end(first);
	if (length < 0)
		fail("out of memory");
	result = get_memory((size_t) length + 1);
	vsnprintf(result, (size_t) length + 1, format, args);
	return result;
}

/*
 * note prints a line that is not a statement, as a comment.
 */
void
note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(text("-- %s", text_args(format, args)));
	va_end(args);
}

/*
 * left_to_do prints something that this call cannot do. The program then exits with
 * STATUS_INCOMPLETE.
 */
void
left_to_do(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(text("-- left to do: %s", text_args(format, args)));
	va_end(args);
	left++;
}

/*
 * Return true if left_to_do has been called.
 */
bool
anything_left(void)
{
	return left > 0;
}

/*
 * print_line prints a line, with control characters made visible.
 */
void
print_line(const char *line)
{
	Buffer visible = {0};

	add_visible(&visible, line, strlen(line));
	buffer_add(&visible, "\n", 2);
	fputs(visible.data, stdout);
	free(visible.data);
}
